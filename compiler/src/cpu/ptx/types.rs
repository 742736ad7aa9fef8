//! PTX's fundamental types.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Unsigned,
    Signed,
    Bits,
    Float,
    /// `bf16`.
    Brain,
    /// `e4m3` and `e5m2`, floats of eight bits, which only conversions have.
    E4m3,
    E5m2,
    Predicate,
}

/// A type: `lanes` elements of `bits` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    pub kind: TypeKind,
    pub bits: u32,
    pub lanes: u32,
}

impl Type {
    pub fn parse(name: &str) -> Option<Type> {
        let scalar = |kind, bits| Some(Type { kind, bits, lanes: 1 });
        match name {
            "pred" => return scalar(TypeKind::Predicate, 1),
            "f16x2" => return Some(Type { kind: TypeKind::Float, bits: 16, lanes: 2 }),
            "bf16x2" => return Some(Type { kind: TypeKind::Brain, bits: 16, lanes: 2 }),
            "bf16" => return scalar(TypeKind::Brain, 16),
            "e4m3x2" => return Some(Type { kind: TypeKind::E4m3, bits: 8, lanes: 2 }),
            "e5m2x2" => return Some(Type { kind: TypeKind::E5m2, bits: 8, lanes: 2 }),
            "u16x2" => return Some(Type { kind: TypeKind::Unsigned, bits: 16, lanes: 2 }),
            "s16x2" => return Some(Type { kind: TypeKind::Signed, bits: 16, lanes: 2 }),
            _ => {}
        }
        let digits = name.get(1..)?;
        let bits = ["8", "16", "32", "64", "128"].contains(&digits).then(|| digits.parse().ok())??;
        match name.as_bytes()[0] {
            b'u' => scalar(TypeKind::Unsigned, bits),
            b's' => scalar(TypeKind::Signed, bits),
            b'b' => scalar(TypeKind::Bits, bits),
            b'f' if (16..=64).contains(&bits) => scalar(TypeKind::Float, bits),
            _ => None,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self.kind, TypeKind::Float | TypeKind::Brain)
    }

    /// Whether it is a float of eight bits, which no arithmetic has.
    pub fn is_quarter(self) -> bool {
        matches!(self.kind, TypeKind::E4m3 | TypeKind::E5m2)
    }

    pub fn is_signed(self) -> bool {
        self.kind == TypeKind::Signed
    }

    /// Bits of all lanes.
    pub fn whole(self) -> u32 {
        self.bits * self.lanes
    }

    pub fn element(self) -> Type {
        Type { lanes: 1, ..self }
    }
}

//! The types of virtual registers.
//!
//! PTX registers are untyped bits. The instructions that use a register show whether it holds an integer, a float or an
//! address, and in which state space. A wrong guess between integer and float costs conversions but does not change
//! values; addresses are proved.

use super::provenance::Provenance;
use super::resolve::{Body, RegisterId, Resolved};
use super::syntax::{Kind, Scalar, Variable};

/// The type of a value in the lifted code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Int(u32),
    /// Two integers of 16 bits.
    Pair,
    Half,
    Brain,
    F32,
    F64,
    /// A pointer into LLVM's address space.
    Ptr(u32),
}

impl Ty {
    pub fn text(self) -> &'static str {
        match self {
            Self::Int(1) => "i1",
            Self::Int(8) => "i8",
            Self::Int(16) => "i16",
            Self::Int(32) => "i32",
            Self::Int(64) => "i64",
            Self::Int(_) => "i128",
            Self::Pair => "<2 x i16>",
            Self::Half => "half",
            Self::Brain => "bfloat",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Ptr(1) => "ptr addrspace(1)",
            Self::Ptr(3) => "ptr addrspace(3)",
            Self::Ptr(4) => "ptr addrspace(4)",
            Self::Ptr(_) => "ptr",
        }
    }

    pub fn bits(self) -> u32 {
        match self {
            Self::Int(bits) => bits,
            Self::Half | Self::Brain => 16,
            Self::Pair | Self::F32 => 32,
            Self::F64 | Self::Ptr(_) => 64,
        }
    }

    /// The name in the names of intrinsics for all types.
    pub fn mangled(self) -> &'static str {
        match self {
            Self::Pair => "v2i16",
            Self::Half => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            other => other.text(),
        }
    }

    /// The type of values in an instruction with this type.
    pub fn of(scalar: Scalar) -> Self {
        match (scalar.kind, scalar.bits) {
            (Kind::Float, 16) => Self::Half,
            (Kind::Brain, _) => Self::Brain,
            (Kind::Float, 32) => Self::F32,
            (Kind::Float, 64) => Self::F64,
            (_, bits) => Self::Int(bits),
        }
    }

    /// The type in memory and registers: 16-bit floats stay bits.
    pub fn stored(scalar: Scalar) -> Self {
        match Self::of(scalar) {
            Self::Half | Self::Brain => Self::Int(16),
            ty => ty,
        }
    }
}

/// The items of a list in LLVM's assembly.
pub fn joined<T>(items: impl IntoIterator<Item = T>, text: impl FnMut(T) -> String) -> String {
    items.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Known facts about a body's registers.
pub struct Registers {
    pub types: Vec<Ty>,
    pub provenance: Provenance,
}

impl Registers {
    pub fn of(body: &Body<'_>, variables: &[Variable<'_>]) -> Self {
        let provenance = Provenance::of(body, variables);
        let floats = floats(body);
        let types = body
            .registers
            .iter()
            .enumerate()
            .map(|(index, scalar)| match (provenance.spaces[index], scalar.kind, scalar.bits) {
                (Some(space), ..) => Ty::Ptr(space),
                (_, Kind::Bits, 32) if floats[index] > 0 => Ty::F32,
                (_, Kind::Bits, 64) if floats[index] > 0 => Ty::F64,
                _ => Ty::stored(*scalar),
            })
            .collect();
        Self { types, provenance }
    }

    /// Registers as plain bits.
    pub fn bits(body: &Body<'_>) -> Self {
        let types = body.registers.iter().map(|scalar| Ty::Int(scalar.bits)).collect();
        Self { types, provenance: Provenance::of(body, &[]) }
    }
}

/// How much more often each register is used as a float than as bits.
fn floats(body: &Body<'_>) -> Vec<i32> {
    let mut votes = vec![0; body.registers.len()];
    for op in body.ops() {
        for (index, operand) in op.operands.iter().enumerate() {
            let scalar = match op.name {
                "cvt" | "set" if index == 0 => op.first_scalar(),
                "mov" if op.has("b32") || op.has("b64") => None,
                _ => op.scalar(),
            };
            let Some(scalar) = scalar else { continue };
            if matches!(operand, Resolved::Bracket(_)) {
                continue;
            }
            operand.registers(&mut |register: RegisterId| {
                if body.registers[register as usize].bits == scalar.bits {
                    votes[register as usize] += if scalar.is_float() { 2 } else { -1 };
                }
            });
        }
    }
    votes
}

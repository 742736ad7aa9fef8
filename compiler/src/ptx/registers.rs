//! The types of virtual registers.
//!
//! PTX's registers are bits. What instructions do with a register says whether it holds an integer, a number with a
//! fraction or an address, and in which state space. A wrong guess costs conversions, and changes no value.

use super::resolve::{Body, Item, Op, Place, RegisterId, Resolved};
use super::syntax::{Kind, Scalar, Space, Variable};

/// The type of a value in the lifted code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Int(u32),
    Half,
    F32,
    F64,
    /// In LLVM's address space.
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
            Self::Half => "half",
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
            Self::Half => 16,
            Self::F32 => 32,
            Self::F64 | Self::Ptr(_) => 64,
        }
    }

    /// Of the values that an instruction of a type works on.
    pub fn of(scalar: Scalar) -> Self {
        match (scalar.kind, scalar.bits) {
            (Kind::Float, 16) => Self::Half,
            (Kind::Float, 32) => Self::F32,
            (Kind::Float, 64) => Self::F64,
            (_, bits) => Self::Int(bits),
        }
    }

    /// Of what memory holds and registers keep: halves stay bits.
    pub fn stored(scalar: Scalar) -> Self {
        match Self::of(scalar) {
            Self::Half => Self::Int(16),
            ty => ty,
        }
    }
}

/// LLVM's address space. Addresses of local memory and of parameters are generic ones here.
pub fn address_space(space: Space) -> u32 {
    match space {
        Space::Generic | Space::Local | Space::Param => 0,
        Space::Global => 1,
        Space::Shared => 3,
        Space::Const => 4,
    }
}

/// The space that a memory instruction names.
pub fn space_of(op: &Op<'_>) -> Space {
    op.modifiers.iter().find_map(|word| Space::of(word)).unwrap_or(Space::Generic)
}

/// The types of a body's registers.
pub fn types(body: &Body<'_>, variables: &[Variable<'_>]) -> Vec<Ty> {
    let mut pointers = Pointers::of(body, variables);
    pointers.spread(body);
    let floats = floats(body);
    body.registers
        .iter()
        .enumerate()
        .map(|(index, scalar)| match (scalar.kind, scalar.bits) {
            (_, 64) if pointers.spaces[index].is_some() => Ty::Ptr(pointers.spaces[index].unwrap_or(0)),
            (Kind::Bits, 32) if floats[index] > 0 => Ty::F32,
            (Kind::Bits, 64) if floats[index] > 0 => Ty::F64,
            _ => Ty::stored(*scalar),
        })
        .collect()
}

/// How much more often registers are used as numbers with fractions than as bits.
fn floats(body: &Body<'_>) -> Vec<i32> {
    let mut votes = vec![0; body.registers.len()];
    for item in &body.items {
        let Item::Op(op) = item else { continue };
        for (index, operand) in op.operands.iter().enumerate() {
            let scalar = match op.name {
                "cvt" | "set" if index == 0 => op.first_scalar(),
                "mov" if op.has("b32") || op.has("b64") => None,
                _ => op.scalar(),
            };
            let Some(scalar) = scalar else { continue };
            let mut count = |register: RegisterId| {
                if body.registers[register as usize].bits == scalar.bits {
                    votes[register as usize] += if scalar.is_float() { 2 } else { -1 };
                }
            };
            if !matches!(operand, Resolved::Bracket(_)) {
                operand.registers(&mut count);
            }
        }
    }
    votes
}

struct Pointers {
    /// LLVM's address space, of registers that hold addresses.
    spaces: Vec<Option<u32>>,
    /// Registers that are only set by loads, copies and sums: what addresses come from.
    sources: Vec<bool>,
}

impl Pointers {
    fn of(body: &Body<'_>, variables: &[Variable<'_>]) -> Self {
        let count = body.registers.len();
        let mut this = Self { spaces: vec![None; count], sources: vec![true; count] };
        for item in &body.items {
            let Item::Op(op) = item else { continue };
            if let (true, Some(Resolved::Register(register))) = (op.writes_first(), op.operands.first())
                && !matches!(op.name, "ld" | "ldu" | "mov" | "cvta" | "add" | "sub" | "selp" | "mad")
            {
                this.sources[*register as usize] = false;
            }
            match op.name {
                "ld" | "ldu" | "st" | "atom" | "red" | "prefetch" => {
                    let bracket = op.operands.iter().find_map(|operand| match operand {
                        Resolved::Bracket(items) => items.first(),
                        _ => None,
                    });
                    if let Some(Resolved::Register(register) | Resolved::Sum(register, _)) = bracket {
                        this.mark(body, *register, address_space(space_of(op)));
                    }
                }
                "cvta" => {
                    let space = address_space(space_of(op));
                    let (first, second) = if op.has("to") { (space, 0) } else { (0, space) };
                    for (operand, space) in op.operands.iter().zip([first, second]) {
                        if let Resolved::Register(register) = operand {
                            this.mark(body, *register, space);
                        }
                    }
                }
                "mov" => {
                    if let [Resolved::Register(register), Resolved::Place(place, _)] = &op.operands[..] {
                        let space = match place {
                            Place::Global(index) => variables.get(*index).map_or(0, |it| address_space(it.space)),
                            Place::Function(_) => continue,
                            _ => 0,
                        };
                        this.mark(body, *register, space);
                    }
                }
                _ => {}
            }
        }
        this
    }

    fn mark(&mut self, body: &Body<'_>, register: RegisterId, space: u32) -> bool {
        let index = register as usize;
        let scalar = body.registers[index];
        let new = scalar.bits == 64 && !scalar.is_float() && self.spaces[index].is_none();
        if new {
            self.spaces[index] = Some(space);
        }
        new
    }

    fn space(&self, operand: &Resolved<'_>) -> Option<u32> {
        match operand {
            Resolved::Register(register) => self.spaces[*register as usize],
            _ => None,
        }
    }

    /// Carries spaces over copies and sums until nothing changes.
    fn spread(&mut self, body: &Body<'_>) {
        let is_copy = |op: &&Op<'_>| {
            matches!(op.name, "mov" | "add" | "sub" | "selp" | "mad") && op.scalar().is_some_and(|it| it.bits == 64)
        };
        let ops: Vec<&Op<'_>> = body
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Op(op) => Some(op),
                Item::Label(_) => None,
            })
            .filter(is_copy)
            .collect();
        for round in 0..16 {
            let mut changed = false;
            let (forwards, backwards) = (ops.iter(), ops.iter().rev());
            let in_order: Box<dyn Iterator<Item = &&Op<'_>>> =
                if round % 2 == 0 { Box::new(backwards) } else { Box::new(forwards) };
            for op in in_order {
                changed |= self.step(body, op);
            }
            if !changed {
                break;
            }
        }
    }

    fn step(&mut self, body: &Body<'_>, op: &Op<'_>) -> bool {
        let mut changed = false;
        let mut same = |this: &mut Self, first: &Resolved<'_>, second: &Resolved<'_>| {
            for (from, to) in [(first, second), (second, first)] {
                if let (Some(space), Resolved::Register(register)) = (this.space(from), to) {
                    changed |= this.mark(body, *register, space);
                }
            }
        };
        match (op.name, &op.operands[..]) {
            ("mov", [to, from @ Resolved::Register(_)]) => same(self, to, from),
            ("selp", [to, first, second, _]) => {
                same(self, to, first);
                same(self, to, second);
            }
            ("sub", [to, first, second @ Resolved::Int(_)]) if self.space(second).is_none() => same(self, to, first),
            ("mad", [to, _, _, base]) if self.is_source(base) => same(self, to, base),
            ("add", [to, first, second]) => {
                let base = match (self.space(first), self.space(second)) {
                    (Some(_), None) => Some(first),
                    (None, Some(_)) => Some(second),
                    (None, None) if self.space(to).is_some() => match (self.is_source(first), self.is_source(second)) {
                        (true, false) => Some(first),
                        (false, true) => Some(second),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some(base) = base {
                    same(self, to, base);
                }
            }
            _ => {}
        }
        changed
    }

    fn is_source(&self, operand: &Resolved<'_>) -> bool {
        matches!(operand, Resolved::Register(register) if self.sources[*register as usize])
    }
}

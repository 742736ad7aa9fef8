//! The syntax tree of a PTX module.

use std::collections::HashMap;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Signed,
    Unsigned,
    Bits,
    Float,
    /// `bf16`.
    Brain,
    /// `e4m3` and `e5m2`, floats of eight bits, which only conversions support.
    E4m3,
    E5m2,
    Predicate,
}

/// The type of an instruction; some instructions work on several numbers in one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type of each number.
    pub scalar: Scalar,
    pub lanes: u32,
}

impl Type {
    /// Parses a modifier without its dot.
    pub fn of(word: &str) -> Option<Self> {
        if let Some(lanes) = word.strip_suffix("x2") {
            let scalar = match lanes {
                "e4m3" => Scalar { kind: Kind::E4m3, bits: 8 },
                "e5m2" => Scalar { kind: Kind::E5m2, bits: 8 },
                "f16" | "bf16" | "u16" | "s16" => Self::of(lanes)?.scalar,
                _ => return None,
            };
            return Some(Self { scalar, lanes: 2 });
        }
        let (kind, digits) = match word.split_at_checked(word.find(|c: char| c.is_ascii_digit()).unwrap_or(0))? {
            ("", "pred") => return Some(Scalar { kind: Kind::Predicate, bits: 1 }.into()),
            ("s", digits) => (Kind::Signed, digits),
            ("u", digits) => (Kind::Unsigned, digits),
            ("b", digits) => (Kind::Bits, digits),
            ("f", digits @ ("16" | "32" | "64")) => (Kind::Float, digits),
            ("bf", digits @ "16") => (Kind::Brain, digits),
            _ => return None,
        };
        let known = matches!((digits, kind), ("8" | "16" | "32" | "64", _) | ("128", Kind::Bits));
        known.then(|| digits.parse().map(|bits| Scalar { kind, bits }.into()).ok())?
    }

    /// The total number of bits of all lanes.
    pub fn bits(self) -> u32 {
        self.scalar.bits * self.lanes
    }
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Self {
        Self { scalar, lanes: 1 }
    }
}

/// `.u32`, `.f64`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    pub kind: Kind,
    pub bits: u32,
}

impl Scalar {
    /// Parses a modifier without its dot. `None` for types other than plain numbers (`f16x2`, `bf16`, `e4m3x2`).
    pub fn of(word: &str) -> Option<Self> {
        let Type { scalar, lanes } = Type::of(word)?;
        (lanes == 1 && scalar.kind != Kind::Brain).then_some(scalar)
    }

    /// Parses the type of a declaration, including types that hold packed or narrow floats.
    pub fn of_declaration(word: &str) -> Option<Self> {
        let ty = Type::of(if word == "tf32" { "b32" } else { word })?;
        Some(Self::of(word).unwrap_or(Self { kind: Kind::Bits, bits: ty.bits() }))
    }

    pub fn bytes(self) -> u64 {
        u64::from(self.bits / 8).max(1)
    }

    pub fn is_float(self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Brain)
    }

    /// Whether this is a float of eight bits, which arithmetic does not support.
    pub fn is_quarter(self) -> bool {
        matches!(self.kind, Kind::E4m3 | Kind::E5m2)
    }

    pub fn is_signed(self) -> bool {
        self.kind == Kind::Signed
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Const,
    Local,
    Param,
}

impl Space {
    /// Parses a modifier without its dot.
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "global" => Self::Global,
            "shared" | "shared::cta" => Self::Shared,
            "const" => Self::Const,
            "local" => Self::Local,
            "param" | "param::entry" | "param::func" => Self::Param,
            _ => return None,
        })
    }

    /// LLVM's address space. Addresses of local memory and of parameters are generic here.
    pub fn number(self) -> u32 {
        match self {
            Self::Generic | Self::Local | Self::Param => 0,
            Self::Global => 1,
            Self::Shared => 3,
            Self::Const => 4,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linkage {
    pub external: bool,
    pub visible: bool,
    pub weak: bool,
}

/// A declared place in memory.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    pub linkage: Linkage,
    pub space: Space,
    pub align: Option<u64>,
    pub scalar: Scalar,
    /// The number of elements, over all dimensions and the vector; `None` for an array without a size.
    pub count: Option<u64>,
    /// Sizes of all dimensions except the first, outermost first.
    pub inner: Vec<u64>,
    pub is_array: bool,
    pub name: &'a str,
    pub initial: Option<Initializer<'a>>,
    pub line: u32,
}

impl Variable<'_> {
    pub fn bytes(&self) -> u64 {
        self.scalar.bytes().saturating_mul(self.count.unwrap_or(0))
    }

    /// In bytes; the natural alignment if none is declared.
    pub fn alignment(&self) -> u64 {
        self.align.unwrap_or(self.scalar.bytes())
    }
}

#[derive(Clone, Debug)]
pub enum Initializer<'a> {
    Value(Constant<'a>),
    List(Vec<Initializer<'a>>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant<'a> {
    Int(i128),
    F32(u32),
    F64(u64),
    /// The address of a symbol, in its own space or converted to generic. A mask selects one byte: `0xff00(symbol)`
    /// is the second.
    Address {
        name: &'a str,
        offset: i64,
        generic: bool,
        mask: Option<i128>,
    },
}

#[derive(Clone, Debug)]
pub struct Param<'a> {
    /// Passed in a register (`.reg`), as in old PTX.
    pub in_register: bool,
    pub align: Option<u64>,
    pub scalar: Scalar,
    /// Bytes of an array or vector.
    pub bytes: Option<u64>,
    /// Known to be an address.
    pub pointer: bool,
    pub name: &'a str,
}

impl Param<'_> {
    pub fn size(&self) -> u64 {
        self.bytes.unwrap_or(self.scalar.bytes())
    }

    pub fn alignment(&self) -> u64 {
        self.align.unwrap_or(self.scalar.bytes())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Signature<'a> {
    pub returns: Vec<Param<'a>>,
    pub params: Vec<Param<'a>>,
}

#[derive(Clone, Debug, Default)]
pub struct Function<'a> {
    pub linkage: Linkage,
    pub entry: bool,
    pub noreturn: bool,
    pub name: &'a str,
    pub signature: Signature<'a>,
    /// For example `maxntid` with its numbers.
    pub directives: Vec<(&'a str, Vec<u64>)>,
    pub body: Option<Vec<Statement<'a>>>,
    pub line: u32,
}

#[derive(Clone, Debug)]
pub enum Statement<'a> {
    Open,
    Close,
    Label {
        name: &'a str,
        line: u32,
    },
    /// `count` is set for `%r<10>`.
    Registers {
        scalar: Scalar,
        names: Vec<(&'a str, Option<u64>)>,
    },
    Variable(Variable<'a>),
    /// A list of labels or functions (`.branchtargets`, `.calltargets`).
    Targets {
        label: &'a str,
        names: Vec<&'a str>,
        line: u32,
    },
    Prototype {
        label: &'a str,
        signature: Signature<'a>,
    },
    Instruction(Instruction<'a>),
}

#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// The predicate, and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    /// The instruction with its modifiers, as written.
    pub text: &'a str,
    pub operands: Vec<Operand<'a>>,
    pub line: u32,
    /// The number of the `.loc` directive in force.
    pub location: Option<usize>,
}

/// A place in the source that PTX was compiled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The file's number in the `.file` directive.
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// A directive `.loc`.
#[derive(Clone, Debug)]
pub struct Location<'a> {
    pub place: SourceLine,
    /// For inlined code: a label in the section `.debug_str` and an offset, which give the function's name.
    pub function: Option<(&'a str, i64)>,
    /// For inlined code: the call.
    pub inlined_at: Option<SourceLine>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    Name(&'a str),
    Int(i128),
    F32(u32),
    F64(u64),
    /// A name and an offset (`buffer+4`), outside brackets.
    Sum(&'a str, i64),
    Not(&'a str),
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    Vector(Vec<Operand<'a>>),
    /// Operands in brackets.
    Bracket(Vec<Operand<'a>>),
    /// Operands in parentheses.
    List(Vec<Operand<'a>>),
    Sink,
}

#[derive(Clone, Debug, Default)]
pub struct Module<'a> {
    /// Ten times the version: 78 for 7.8.
    pub version: u32,
    /// The first word of `.target`.
    pub target: &'a str,
    pub variables: Vec<Variable<'a>>,
    pub functions: Vec<Function<'a>>,
    /// Aliases: the name, its target, and the line.
    pub aliases: Vec<(&'a str, &'a str, u32)>,
    /// The source files by number: folder and name, or the name alone.
    pub files: HashMap<u32, Vec<&'a str>>,
    pub locations: Vec<Location<'a>>,
    /// The bytes of the section `.debug_str`, and its labels.
    pub names: Vec<u8>,
    pub name_labels: HashMap<&'a str, usize>,
}

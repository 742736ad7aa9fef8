//! The observations of an instrumented replay.
//!
//! They are invalid accesses of a kernel, the last writer of an address, and touched memory.

use serde::{Deserialize, Serialize};

use crate::launch::Dim3;

/// The kind of observation in a replay. The kernel is instrumented for it, so its times are meaningless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observe {
    /// Accesses out of bounds or to uninitialised memory, and unordered or misaligned accesses.
    Faults,
    /// Writes that cover any of `bytes` (1 to 8) bytes from `address`.
    Writes { address: u64, bytes: u32 },
    /// Recorded memory that is read, and that is written.
    Touched,
}

/// The effect of an instruction on memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    #[default]
    Read,
    Write,
    /// Both at once, or ordered with other threads' accesses (`volatile`).
    Atomic,
}

impl Access {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic or volatile access",
        }
    }
}

/// A line of the program's source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file as the compiler received it, made absolute with the compiler's working folder.
    pub file: String,
    pub line: u32,
    /// 0 if unknown.
    pub column: u32,
    /// The function that contains the line, as the source names it.
    pub function: String,
}

/// An instrumented instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// The function that contains it, demangled.
    pub function: String,
    /// The instruction as LLVM writes it.
    pub instruction: String,
    pub access: Access,
    /// Size of the access; 0 if it is only known at run time.
    pub bytes: u64,
    /// Its source lines: its own line, then the calls through which it was inlined. Empty without debug information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<SourceLine>,
    /// The accessed variable, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// A kind of fault of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The access is not within one allocation, device variable, shared or local variable.
    OutOfBounds,
    /// The access reads uninitialised memory.
    Uninitialised,
    /// Another thread of the block accesses the same shared memory without ordering, and at least one of the two
    /// writes.
    Race,
    /// The address is not a multiple of the access's alignment.
    Misaligned,
}

impl Fault {
    pub const ALL: [Self; 4] = [Self::OutOfBounds, Self::Uninitialised, Self::Race, Self::Misaligned];
}

/// A fault of one instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub fault: Fault,
    #[serde(flatten)]
    pub site: Site,
    /// The number of occurrences.
    pub count: u64,
    /// The first observed occurrences, at most four.
    pub examples: Vec<Example>,
}

/// One occurrence of a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    pub block: Index,
    pub thread: Index,
    /// Hexadecimal. Addresses of shared and local memory are those in the replay.
    pub address: String,
    pub bytes: u64,
    /// Description of the address: "4 bytes after the allocation at 0x100000000000 (400 bytes)".
    pub place: String,
    /// The other access of a race.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Other>,
}

/// The earlier access of a race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    pub thread: Index,
    #[serde(flatten)]
    pub site: Site,
}

/// Indices of a block in its grid, or of a thread in its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Index {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl Index {
    /// The index at position `linear`, with x varying fastest.
    pub fn of(linear: u64, extent: Dim3) -> Self {
        let (x, y) = (u64::from(extent.x.max(1)), u64::from(extent.y.max(1)));
        Self { x: (linear % x) as u32, y: (linear / x % y) as u32, z: (linear / x / y) as u32 }
    }
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

/// The findings of the fault checker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// In code order.
    pub findings: Vec<Finding>,
    /// Instrumented instructions.
    pub watched: u64,
    /// Accesses that cannot be instrumented, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwatched: Vec<String>,
    /// Whether the code has debug information, so sites have source lines.
    pub has_source: bool,
}

/// The last write that covered an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastWrite {
    pub block: Index,
    pub thread: Index,
    #[serde(flatten)]
    pub site: Site,
    /// Start of the write, hexadecimal, and its length in bytes.
    pub address: String,
    pub written_bytes: u64,
    /// The watched bytes right after the write, in memory order.
    pub value: Vec<u8>,
    /// Writes that covered any of the watched bytes, including this one.
    pub writes: u64,
}

/// The recorded memory that a launch read and wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Touched {
    /// Bytes in a unit of tracking, counted from the start of each allocation or variable.
    pub granule: u64,
    /// Ascending; adjacent ranges with the same accesses are merged.
    pub ranges: Vec<TouchedRange>,
    /// `null` if the recorded memory is too large to count sectors, or if the device cannot copy as much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<Arithmetic>,
    /// Accesses that cannot be instrumented, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwatched: Vec<String>,
}

/// The least memory traffic of a launch: every sector is read and written at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Bytes that the launch reads before it writes them, and that it writes, in sectors of 32 bytes.
    pub read: u64,
    pub written: u64,
    /// The shortest time in which the device copied memory with as many bytes read and written, ns.
    pub copy_time: f64,
}

/// The floating-point operations of a launch, by the width of the numbers. A fused multiply-add counts as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Arithmetic {
    /// `bf16` included.
    pub f16: u64,
    pub f32: u64,
    pub f64: u64,
    /// The shortest time in which the device performed as many by fused multiply-adds, one width after the other, ns;
    /// `null` if its rate cannot be measured.
    pub fma_time: Option<f64>,
}

impl Arithmetic {
    pub fn flops(&self) -> u64 {
        self.f16.saturating_add(self.f32).saturating_add(self.f64)
    }
}

/// A touched range of recorded memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TouchedRange {
    /// Hexadecimal.
    pub address: String,
    pub bytes: u64,
    pub read: bool,
    pub written: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_counted_along_x_first() {
        let extent = Dim3::new(4, 3, 2);
        assert_eq!(Index::of(0, extent), Index::default());
        assert_eq!(Index::of(23, extent), Index { x: 3, y: 2, z: 1 });
        assert_eq!(Index::of(5, extent).to_string(), "(1, 1, 0)");
    }

    #[test]
    fn a_finding_is_one_flat_object() {
        let site = Site {
            function: "k".into(),
            instruction: "store".into(),
            access: Access::Write,
            bytes: 4,
            ..Site::default()
        };
        let finding = Finding { fault: Fault::OutOfBounds, site, count: 2, examples: Vec::new() };
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!(
            (&json["fault"], &json["access"], &json["function"]),
            (&"out-of-bounds".into(), &"write".into(), &"k".into())
        );
        assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
    }
}

//! The code that a recorded kernel is compiled from.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The forms that code is recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CodeKind {
    /// LLVM IR: `RecordedIR_<static>.bc` (`.ll` where a sidecar was text).
    Bitcode,
    /// `RecordedPTX_<static>.ptx`.
    Ptx,
    /// `RecordedCubin_<static>.cubin`.
    Cubin,
    /// A code object of an AMD GPU: `RecordedCodeObject_<static>.hsaco`.
    CodeObject,
    /// A code object of the CPU device, `.o`; only as an application's own code.
    CpuObject,
}

/// Start of the names of files with an application's own code; what follows is the XXH3-64 of its contents, in 16
/// hexadecimal digits.
pub const ORIGINAL: &str = "RecordedOriginal_";

impl CodeKind {
    /// The name of the file for an application's own code, by its contents: kernels that share an image share it.
    pub fn original(self, checksum: u64) -> String {
        let extension = match self {
            Self::Bitcode => "bc",
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
            Self::CodeObject => "hsaco",
            Self::CpuObject => "o",
        };
        format!("{ORIGINAL}{checksum:016x}.{extension}")
    }

    /// By the name of a database's first module, or of an application's own code.
    pub fn of(file: &str) -> Self {
        match Path::new(file).extension().and_then(|extension| extension.to_str()) {
            Some("ptx") => Self::Ptx,
            Some("cubin") => Self::Cubin,
            Some("hsaco") => Self::CodeObject,
            Some("o") => Self::CpuObject,
            _ => Self::Bitcode,
        }
    }
}

//! What a recorded kernel is compiled from.

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
}

impl CodeKind {
    /// By the name of a database's first module.
    pub fn of(file: &str) -> Self {
        match Path::new(file).extension().and_then(|extension| extension.to_str()) {
            Some("ptx") => Self::Ptx,
            Some("cubin") => Self::Cubin,
            _ => Self::Bitcode,
        }
    }
}

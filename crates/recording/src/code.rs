//! The code that a recorded kernel is compiled from.

use std::path::Path;

use mneme_image::{code_object, cpu_object, cubin, ptx};
use serde::{Deserialize, Serialize};

use super::manifest::{RecordedArgument, RecordedVariable};

/// The forms that code is recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CodeKind {
    /// LLVM IR: `RecordedIR_<static>.bc` (`.ll` for a sidecar in text form).
    Bitcode,
    /// `RecordedPTX_<static>.ptx`.
    Ptx,
    /// `RecordedCubin_<static>.cubin`.
    Cubin,
    /// A code object of an AMD GPU: `RecordedCodeObject_<static>.hsaco`.
    CodeObject,
    /// A code object of the CPU device, `.o`; only as an application's own code.
    CpuObject,
    /// Triton's LLVM IR of a kernel, text `.llir`; only beside an application's own code.
    Llir,
}

/// Prefix of files with an application's own code; the XXH3-64 of the contents follows, in 16 hexadecimal digits.
pub const ORIGINAL: &str = "RecordedOriginal_";

impl CodeKind {
    /// The name of the file for an application's own code, by its contents, so kernels that share an image share the
    /// file.
    pub fn original(self, checksum: u64) -> String {
        let extension = match self {
            Self::Bitcode => "bc",
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
            Self::CodeObject => "hsaco",
            Self::CpuObject => "o",
            Self::Llir => "llir",
        };
        format!("{ORIGINAL}{checksum:016x}.{extension}")
    }

    /// The form of a database's first module, or of an application's own code, by its file name.
    pub fn of(file: &str) -> Self {
        match Path::new(file).extension().and_then(|extension| extension.to_str()) {
            Some("ptx") => Self::Ptx,
            Some("cubin") => Self::Cubin,
            Some("hsaco") => Self::CodeObject,
            Some("o") => Self::CpuObject,
            Some("llir") => Self::Llir,
            _ => Self::Bitcode,
        }
    }
}

/// The reason why a variable must keep its address: memory points into it, or it points into the code's own module.
pub fn immovable(
    variables: &[RecordedVariable],
    arguments: &[RecordedArgument],
    code: &[u8],
    kind: CodeKind,
    kernel: &str,
) -> Option<String> {
    let own = || variables.iter().filter(|variable| !variable.code);
    let words = || {
        arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word))
    };
    let points_into = |start: u64, size: u64| words().any(|word| (start..start.saturating_add(size)).contains(&word));
    if let Some(variable) = own().find(|variable| points_into(variable.address, variable.size)) {
        return Some(format!("an argument holds the address of its variable {}", variable.name));
    }
    let holding: Vec<String> = match kind {
        CodeKind::Cubin => {
            let variables = cubin::parse(code).map(|cubin| cubin.variables).unwrap_or_default();
            variables.into_iter().filter(|variable| variable.holds_addresses).map(|variable| variable.name).collect()
        }
        CodeKind::Ptx => {
            let text = String::from_utf8_lossy(code);
            let closure = ptx::PtxModule::parse(&text).closure(kernel);
            let variables = closure.map(|closure| closure.variables).unwrap_or_default();
            variables.into_iter().filter(|variable| variable.holds_addresses).map(|variable| variable.name).collect()
        }
        CodeKind::CpuObject => cpu_object::holding_addresses(code),
        CodeKind::CodeObject => code_object::holding_addresses(code),
        CodeKind::Bitcode | CodeKind::Llir => Vec::new(),
    };
    let found = own().find(|variable| holding.contains(&variable.name))?;
    Some(format!("its variable {} holds addresses of its own module", found.name))
}

//! Links relocatable objects of AMD GPUs to code objects, with lld as a library.
//!
//! `ld.lld-19` as a separate process takes 38 ms for a small kernel, lld as a library 1 ms. Machines that replay also
//! need no LLVM installation.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;

use mneme_sandbox::tools::TransientFile;

use crate::error::BuildError;
use crate::llvm::{self, LlvmError};

/// The name and version of the tool that makes code objects.
pub fn name() -> String {
    let version = crate::version::llvm_version();
    format!("LLVM {version}, lld {version}")
}

/// Links a relocatable object to a code object.
pub fn link(object: &[u8]) -> Result<Vec<u8>, BuildError> {
    let failed = |message: String| BuildError::LinkCode { message };
    let passing = |error: std::io::Error| failed(format!("data cannot be passed to the linker: {error}"));
    let input = TransientFile::new(object).map_err(passing)?;
    // lld writes a file by way of a temporary one beside it, but writes to a pipe directly.
    let (mut reader, writer) = std::io::pipe().map_err(passing)?;
    // Paths that are valid in this process even after a fork.
    let path = |descriptor| format!("/proc/self/fd/{descriptor}");
    let (from, to) = (path(input.descriptor()), path(writer.as_raw_fd()));
    // The options that clang uses for HIP.
    let words =
        ["ld.lld", "-m", "elf64_amdgpu", "--no-undefined", "-shared", "--threads=1", "-o", to.as_str(), from.as_str()];
    let (linked, code) = std::thread::scope(|scope| {
        let code = scope.spawn(move || {
            let mut code = Vec::new();
            reader.read_to_end(&mut code).map(|_| code)
        });
        let linked = llvm::link(&words);
        drop(writer);
        (linked, code.join())
    });
    linked.map_err(|LlvmError(said)| failed(complaint(&said)))?;
    match code {
        Ok(Ok(code)) if !code.is_empty() => Ok(code),
        Ok(Err(error)) => Err(failed(format!("the code object cannot be read: {error}"))),
        _ => Err(failed("the linker wrote no code object".into())),
    }
}

/// lld's errors in one line, without its name and the lines about temporary files.
fn complaint(said: &str) -> String {
    let lines = said.lines().map(|line| line.trim().trim_start_matches("ld.lld: ").trim_start_matches("error: "));
    let telling = lines.filter(|line| !line.is_empty() && !line.starts_with(">>>"));
    let all: Vec<&str> = telling.collect();
    if all.is_empty() { "lld gives no reason".into() } else { all.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_linked_is_told() {
        let error = link(b"no object").unwrap_err().to_string();
        assert!(error.contains("cannot be linked"), "{error}");
        assert_eq!(
            complaint("ld.lld: error: undefined hidden symbol: f\n>>> referenced by a.o\n"),
            "undefined hidden symbol: f"
        );
    }
}

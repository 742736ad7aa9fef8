//! Linking of AMD GPUs' relocatable objects to code objects, by lld in this process.
//!
//! In a process of its own `ld.lld-19` takes 38 ms for a small kernel, and lld as a library 1 ms; and machines that
//! replay need no LLVM of their own.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;

use mneme_builds::programs::TransientFile;

use crate::error::BuildError;
use crate::llvm;

/// Name and version of what makes code objects.
pub fn name() -> String {
    let version = crate::llvm_version();
    format!("LLVM {version}, lld {version}")
}

/// The code object of a relocatable object.
pub fn link(object: &[u8]) -> Result<Vec<u8>, BuildError> {
    let failed = |message: String| BuildError::LinkCode { message };
    let passing = |error: std::io::Error| failed(format!("nothing can be passed to the linker: {error}"));
    let input = TransientFile::new(object).map_err(passing)?;
    // lld makes a file beside the one that it is to write, but writes a pipe in place.
    let (mut reader, writer) = std::io::pipe().map_err(passing)?;
    // Names that hold in this process, whoever it has been forked from.
    let path = |descriptor| format!("/proc/self/fd/{descriptor}");
    let (from, to) = (path(input.descriptor()), path(writer.as_raw_fd()));
    // As clang has it for HIP.
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
    linked.map_err(|said| failed(complaint(&said)))?;
    match code {
        Ok(Ok(code)) if !code.is_empty() => Ok(code),
        Ok(Err(error)) => Err(failed(format!("the code object cannot be read: {error}"))),
        _ => Err(failed("the linker wrote nothing".into())),
    }
}

/// lld's errors as one line, without its name and those of our files.
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

//! Linking of AMD GPUs' relocatable objects to code objects, by lld in this process.
//!
//! In a process of its own `ld.lld-19` takes 38 ms for a small kernel, and lld as a library 1 ms; and machines that
//! replay need no LLVM of their own.

use crate::error::BuildError;
use crate::llvm;
use crate::programs::TransientFile;

/// Name and version of what makes code objects.
pub fn name() -> String {
    let version = crate::llvm_version();
    format!("LLVM {version}, lld {version}")
}

/// The code object of a relocatable object.
pub fn link(object: &[u8]) -> Result<Vec<u8>, BuildError> {
    let failed = |message: String| BuildError::LinkCode { message };
    let pass = |contents: &[u8]| {
        TransientFile::new(contents).map_err(|error| failed(format!("nothing can be passed to the linker: {error}")))
    };
    let (input, mut output) = (pass(object)?, pass(&[])?);
    // As clang has it for HIP. A file that has no name on disk can be written in place only.
    let words = [
        "ld.lld",
        "-m",
        "elf64_amdgpu",
        "--no-undefined",
        "-shared",
        "--threads=1",
        "--no-mmap-output-file",
        "-o",
        &path(&output),
        &path(&input),
    ];
    llvm::link(&words).map_err(|said| failed(complaint(&said)))?;
    let code = output.read().map_err(|error| failed(format!("the code object cannot be read: {error}")))?;
    if code.is_empty() { Err(failed("the linker wrote nothing".into())) } else { Ok(code) }
}

/// By a name that holds in this process, whoever it has been forked from.
fn path(file: &TransientFile) -> String {
    format!("/proc/self/fd/{}", file.descriptor())
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

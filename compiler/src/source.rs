//! CUDA source in a recorded kernel's place: compiled as `mneme-cc` compiles what is recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::assembler::places;

/// The compiler that is looked for when none is named.
pub const DEFAULT_COMPILER: &str = "clang++-19";

/// How to compile a source file.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    pub file: &'a Path,
    pub compiler: &'a Path,
    /// The application's own flags (`-I`, `-D`, `-std=`, …).
    pub flags: &'a [String],
    /// Architecture, as the recorded IR's ("sm_90").
    pub arch: &'a str,
}

impl Source<'_> {
    /// The device's bitcode, libdevice linked in, before any pass. The error is the compiler's own text.
    pub fn bitcode(&self) -> Result<Vec<u8>, String> {
        let output = tempfile::Builder::new()
            .prefix("mneme-source-")
            .suffix(".bc")
            .tempfile()
            .map_err(|error| format!("there is no temporary folder: {error}"))?;
        let run = self
            .command(output.path())
            .output()
            .map_err(|error| format!("{} cannot be run ({error}); --clang names a clang", self.compiler.display()))?;
        if !run.status.success() {
            return Err(format!("{} cannot be compiled:\n{}", self.file.display(), String::from_utf8_lossy(&run.stderr).trim_end()));
        }
        std::fs::read(output.path()).map_err(|error| format!("the IR of {} cannot be read: {error}", self.file.display()))
    }

    fn command(&self, output: &Path) -> Command {
        let mut command = Command::new(self.compiler);
        if let Some(toolkit) = toolkit().filter(|_| !self.flags.iter().any(|flag| flag.starts_with("--cuda-path"))) {
            command.arg(format!("--cuda-path={}", toolkit.display()));
        }
        command.args(self.flags).arg("--cuda-device-only").arg(format!("--offload-arch={}", self.arch));
        // As for mneme-cc: without `-O3` the front end would forbid optimisation.
        command.args(["-emit-llvm", "-c", "-O3", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names"]);
        command.args(["-Wno-unknown-cuda-version", "-Qunused-arguments", "-x", "cuda"]).arg(self.file).arg("-o").arg(output);
        command.stdin(Stdio::null());
        command
    }
}

/// The first toolkit that has CUDA's headers.
fn toolkit() -> Option<PathBuf> {
    places::toolkits().into_iter().find(|root| root.join("include/cuda_runtime.h").is_file())
}

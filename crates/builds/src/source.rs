//! CUDA source in a recorded kernel's place.
//!
//! It is compiled as `mneme-cc` compiles what is recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mneme_sandbox::tools::{self, TransientFile};
use mneme_system::toolkits;
use thiserror::Error;

/// The compiler where none is named, nor known of the recorded code.
pub const DEFAULT_COMPILER: &str = "clang++-19";

/// Options with which clang gives the IR that its front end makes, before any pass. `-O3` keeps the front end from
/// marking functions `optnone` and makes it emit what optimisations need (lifetimes, alias information).
pub const IR_OPTIONS: [&str; 6] =
    ["-emit-llvm", "-c", "-O3", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names"];

/// How to compile a source file.
#[derive(Clone, Debug)]
pub struct CudaSource<'a> {
    pub file: &'a Path,
    pub compiler: &'a Path,
    /// The application's own flags (`-I`, `-D`, `-std=`, …).
    pub flags: &'a [String],
    /// Architecture, as the recorded IR's ("sm_90").
    pub arch: &'a str,
    /// The compiler's time.
    pub limit: Duration,
}

/// Why there is no bitcode; each message is for the user.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The compiler's own text is part of it.
    #[error("{0}")]
    Rejected(String),
    #[error(
        "{file} took longer than {seconds} s to compile and was stopped; --timeout (mneme-tune: --trial-timeout) raises the limit"
    )]
    Late { file: String, seconds: f64 },
}

impl From<String> for SourceError {
    fn from(message: String) -> Self {
        Self::Rejected(message)
    }
}

impl CudaSource<'_> {
    /// The device's bitcode, libdevice linked in, before any pass.
    ///
    /// # Errors
    /// The compiler refuses the source, cannot be run, or takes too long.
    pub fn bitcode(&self) -> Result<Vec<u8>, SourceError> {
        let pass = || {
            TransientFile::new(&[])
                .map_err(|error| format!("nothing can be passed to {}: {error}", self.compiler.display()))
        };
        let (mut output, mut words) = (pass()?, pass()?);
        let status = words
            .for_writing()
            .and_then(|words| tools::run(self.command(output.path()).stdout(Stdio::null()).stderr(words), self.limit))
            .map_err(|error| format!("{} cannot be run ({error}); --clang names a clang", self.compiler.display()))?;
        let file = self.file.display().to_string();
        let Some(status) = status else { return Err(SourceError::Late { file, seconds: self.limit.as_secs_f64() }) };
        if !status.success() {
            let words = words.read().unwrap_or_default();
            return Err(format!("{file} cannot be compiled:\n{}", String::from_utf8_lossy(&words).trim_end()).into());
        }
        match output.read() {
            Ok(bitcode) if bitcode.is_empty() => {
                Err(format!("{} wrote no IR of {file}", self.compiler.display()).into())
            }
            bitcode => bitcode.map_err(|error| format!("the IR of {file} cannot be read: {error}").into()),
        }
    }

    fn command(&self, output: &Path) -> Command {
        let mut command = Command::new(self.compiler);
        if let Some(toolkit) = toolkit().filter(|_| !self.flags.iter().any(|flag| flag.starts_with("--cuda-path"))) {
            command.arg(format!("--cuda-path={}", toolkit.display()));
        }
        // The optimised code is the same; what is found in it is told by line. The application's flags may say
        // otherwise.
        command
            .arg("-gline-tables-only")
            .args(self.flags)
            .arg("--cuda-device-only")
            .arg(format!("--offload-arch={}", self.arch));
        command
            .args(IR_OPTIONS)
            .args(["-Wno-unknown-cuda-version", "-Qunused-arguments", "-x", "cuda"])
            .arg(self.file)
            .arg("-o")
            .arg(output);
        command.stdin(Stdio::null());
        command
    }
}

/// The first toolkit that has CUDA's headers.
fn toolkit() -> Option<PathBuf> {
    toolkits::toolkits().into_iter().find(|root| root.join("include/cuda_runtime.h").is_file())
}

//! CUDA source that replaces a recorded kernel.
//!
//! It is compiled in the same way as `mneme-cc` compiles the recorded code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mneme_sandbox::tools::{self, TransientFile};
use mneme_system::toolkits;
use thiserror::Error;

/// The compiler if neither the command line nor the recorded code names one.
pub const DEFAULT_COMPILER: &str = "clang++-19";

/// Options that make clang write the IR from its front end, before any pass. `-O3` keeps the front end from marking
/// functions `optnone`, and makes it emit information for optimisations (lifetimes, alias information).
pub const IR_OPTIONS: [&str; 6] =
    ["-emit-llvm", "-c", "-O3", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names"];

/// How to compile a source file.
#[derive(Clone, Debug)]
pub struct CudaSource<'a> {
    pub file: &'a Path,
    pub compiler: &'a Path,
    /// The application's own flags (`-I`, `-D`, `-std=`, …).
    pub flags: &'a [String],
    /// Architecture in the form of the recorded IR ("sm_90").
    pub arch: &'a str,
    /// The compiler's time limit.
    pub limit: Duration,
}

/// The reason for missing bitcode; each message is for the user.
#[derive(Debug, Error)]
pub enum SourceError {
    #[error("cannot pass the source to {compiler}: {source}")]
    NoFile { compiler: String, source: io::Error },
    #[error("{compiler} cannot be run ({source}); --clang names a clang")]
    NotRun { compiler: String, source: io::Error },
    /// Includes the compiler's own text.
    #[error("{file} cannot be compiled:\n{text}")]
    Rejected { file: String, text: String },
    #[error("{compiler} wrote no IR of {file}")]
    NoIr { compiler: String, file: String },
    #[error("the IR of {file} cannot be read: {source}")]
    Unread { file: String, source: io::Error },
    #[error(
        "{file} took longer than {seconds} s to compile and was stopped; --timeout (mneme-tune: --trial-timeout) raises the limit"
    )]
    Late { file: String, seconds: f64 },
}

impl CudaSource<'_> {
    /// The device's bitcode with libdevice linked in, before any pass.
    ///
    /// # Errors
    /// The compiler refuses the source, cannot be run, or takes too long.
    pub fn bitcode(&self) -> Result<Vec<u8>, SourceError> {
        let (file, compiler) = (self.file.display().to_string(), self.compiler.display().to_string());
        let pass =
            || TransientFile::new(&[]).map_err(|source| SourceError::NoFile { compiler: compiler.clone(), source });
        let (mut output, mut words) = (pass()?, pass()?);
        let status = words
            .for_writing()
            .and_then(|words| tools::run(self.command(output.path()).stdout(Stdio::null()).stderr(words), self.limit))
            .map_err(|source| SourceError::NotRun { compiler: compiler.clone(), source })?;
        let Some(status) = status else { return Err(SourceError::Late { file, seconds: self.limit.as_secs_f64() }) };
        if !status.success() {
            let words = words.read().unwrap_or_default();
            return Err(SourceError::Rejected { file, text: String::from_utf8_lossy(&words).trim_end().to_owned() });
        }
        match output.read() {
            Ok(bitcode) if bitcode.is_empty() => Err(SourceError::NoIr { compiler, file }),
            bitcode => bitcode.map_err(|source| SourceError::Unread { file, source }),
        }
    }

    fn command(&self, output: &Path) -> Command {
        let mut command = Command::new(self.compiler);
        if let Some(toolkit) = toolkit().filter(|_| !self.flags.iter().any(|flag| flag.starts_with("--cuda-path"))) {
            command.arg(format!("--cuda-path={}", toolkit.display()));
        }
        // Debug information does not change optimised code, and lets findings name lines. The application's flags may
        // override it.
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

/// The first toolkit that contains CUDA's headers.
fn toolkit() -> Option<PathBuf> {
    toolkits::toolkits().into_iter().find(|root| root.join("include/cuda_runtime.h").is_file())
}

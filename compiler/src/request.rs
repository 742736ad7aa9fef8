//! What a build is asked for, what it returns and how it fails: plain data, no LLVM types.

use mneme_core::configuration::Configuration;
use mneme_core::recording::manifest::{Argument, Variable};
use thiserror::Error;

/// A build: recorded IR, and what to make of it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Bitcode modules; the first holds the kernel, the others what it needs of other units.
    pub modules: &'a [&'a [u8]],
    /// Mangled name.
    pub kernel: &'a str,
    pub target: &'a Target,
    pub configuration: &'a Configuration,
    /// The recorded parameter buffer, by argument; read only where the configuration specialises.
    pub arguments: &'a [Argument],
    /// The recorded device variables; those that the modules do not define are ignored.
    pub variables: &'a [Variable],
    /// Return the IR after the pipeline in [`Artifact::ir`].
    pub keep_ir: bool,
}

/// What to generate code for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An NVIDIA GPU; `arch` is the *device's* architecture ("sm_90"), which may be newer than the IR's.
    Nvptx { arch: String },
    /// The CPU device; pipelines run as for the NVIDIA GPU `arch`.
    Cpu { arch: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Machine code of an NVIDIA GPU, an ELF object.
    Cubin,
    /// PTX text, NUL-terminated, for the driver to compile: no assembler was found on this machine.
    Ptx,
    /// An object for the CPU device, see docs/cpu-device.md.
    CpuObject,
}

/// Where a build spent its time, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Reading, linking and specialising the IR.
    pub preprocess: f64,
    /// The pass pipeline.
    pub optimise: f64,
    /// The back end and the assembler.
    pub codegen: f64,
}

/// A finished build.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// What to load on the device.
    pub image: Vec<u8>,
    pub kind: ImageKind,
    /// The kernel's name in the image.
    pub entry: String,
    /// PTX text the image was assembled from; `None` for the CPU device.
    pub ptx: Option<String>,
    /// IR text after the pipeline, where asked for.
    pub ir: Option<String>,
    pub times: Times,
    /// Name and version of what made the image, e.g. "nvJitLink 12.9".
    pub assembler: String,
}

/// Why a build failed; each message is one sentence for the user.
#[derive(Debug, Error)]
pub enum BuildError {
    #[error("the recorded IR has no kernel named {kernel}")]
    NoKernel { kernel: String },
    #[error("the recorded IR cannot be read: {message}")]
    Bitcode { message: String },
    #[error(
        "the IR was written by LLVM {found}, newer than the LLVM {supported} of this build; compile the program with clang {supported} or older"
    )]
    NewerBitcode { found: String, supported: String },
    #[error("the recorded IR modules cannot be linked: {message}")]
    Link { message: String },
    /// LLVM's own message on the pass pipeline.
    #[error("the pass pipeline '{pipeline}' failed: {message}")]
    Pipeline { pipeline: String, message: String },
    #[error("the configuration cannot be built: {message}")]
    Configuration { message: String },
    #[error("LLVM produced no code for {target}: {message}")]
    Codegen { target: String, message: String },
    #[error("{assembler} rejected the PTX: {message}")]
    Assemble { assembler: String, message: String },
    #[error("the kernel cannot run on the CPU device: {0}")]
    Cpu(#[from] crate::cpu::LowerError),
}

impl BuildError {
    /// Whether the request itself is wrong (an unknown pass, an impossible configuration) and not its compilation.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Configuration { .. })
    }
}

//! What a build is asked for, what it returns and how it fails: plain data, no LLVM types.

use mneme_core::configuration::Configuration;
use mneme_core::recording::database::ArgumentLayout;
use mneme_core::recording::manifest::{Allocation, Argument, Variable};
use thiserror::Error;

use crate::assembler::Spills;
use crate::instrument::{Instrument, Instrumented};
use crate::pipeline::External;
use crate::progress::Progress;
use crate::warm::Preloaded;

/// A build: a kernel's code, and what to make of it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub code: Code<'a>,
    /// Mangled name.
    pub kernel: &'a str,
    pub target: &'a Target,
    pub configuration: &'a Configuration,
    /// What the recording knows; read only where the configuration asks for it.
    pub recorded: Recorded<'a>,
    /// What else to return.
    pub keep: Keep,
    /// A program that runs the pipeline, in place of this process.
    pub external: Option<&'a External>,
    /// What to instrument the code for; it must be IR.
    pub instrument: Option<Instrument>,
    /// Where to note what the build is at.
    pub progress: Option<&'a Progress>,
}

impl<'a> Request<'a> {
    /// A build that uses nothing of a recording.
    pub fn new(code: Code<'a>, kernel: &'a str, target: &'a Target, configuration: &'a Configuration) -> Self {
        Self {
            code,
            kernel,
            target,
            configuration,
            recorded: Recorded::default(),
            keep: Keep::default(),
            external: None,
            instrument: None,
            progress: None,
        }
    }
}

/// The code of a kernel.
#[derive(Clone, Copy)]
pub enum Code<'a> {
    /// Bitcode or assembly of LLVM; the first module holds the kernel, the others what it needs of other units.
    Ir(&'a [&'a [u8]]),
    /// The same, read already; it is used up, which a process forked for one build can afford.
    Loaded(&'a Preloaded),
    /// PTX text.
    Ptx(&'a str),
    /// Machine code of an NVIDIA GPU, an ELF object.
    Cubin(&'a [u8]),
}

/// What a recording knows of the launch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded<'a> {
    /// The parameter buffer, by argument.
    pub arguments: &'a [Argument],
    /// The device variables; those that the code does not define are ignored.
    pub variables: &'a [Variable],
    /// The other memory.
    pub allocations: &'a [Allocation],
    /// The arguments of all recorded launches of the kernel, by argument: little-endian values of at most 8 bytes.
    pub launches: &'a [&'a [u64]],
    /// The layout that the parameters of code from elsewhere must have; empty where it need not be checked.
    pub signature: &'a [ArgumentLayout],
}

/// What a build returns besides its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The IR that the pipeline starts from, in [`Artifact::ir_before`].
    pub before: bool,
    /// The IR after it, in [`Artifact::ir`].
    pub after: bool,
    /// What stands behind the pipeline's name, in [`Artifact::pipeline`].
    pub pipeline: bool,
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
    /// Reading and linking the IR.
    pub read: f64,
    /// Specialising it.
    pub specialise: f64,
    /// The pass pipeline.
    pub optimise: f64,
    /// The back end.
    pub codegen: f64,
    /// The assembler.
    pub assemble: f64,
}

/// A finished build.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// What to load on the device.
    pub image: Vec<u8>,
    pub kind: ImageKind,
    /// The kernel's name in the image.
    pub entry: String,
    /// Whether the dynamic shared memory of the launch is part of the code, so that a launch must ask for none.
    pub shared_is_static: bool,
    /// PTX text the image was assembled from; `None` for the CPU device and for code that was machine code already.
    pub ptx: Option<String>,
    /// IR text before and after the pipeline, where asked for.
    pub ir_before: Option<String>,
    pub ir: Option<String>,
    /// The pipeline with every pass and its parameters, where asked for.
    pub pipeline: Option<String>,
    pub times: Times,
    /// Registers spilled to local memory, where the assembler has told.
    pub spills: Option<Spills>,
    /// Name and version of what made the image, e.g. "nvJitLink 12.9".
    pub assembler: String,
    /// What the instrumentation says of itself, where there is one.
    pub instrumented: Option<Instrumented>,
    /// What the build has to say, a line each: what was specialised, what facts were stated, remarks of the assembler.
    pub log: Vec<String>,
}

/// Why a build failed; each message is one sentence for the user.
#[derive(Debug, Error)]
pub enum BuildError {
    #[error("the {code} has no kernel named {kernel}{}", others(found))]
    NoKernel { code: &'static str, kernel: String, found: Vec<String> },
    #[error("the IR cannot be read: {message}")]
    Bitcode { message: String },
    #[error(
        "the IR was written by LLVM {found}, newer than the LLVM {supported} of this build; compile the program with clang {supported} or older"
    )]
    NewerBitcode { found: String, supported: String },
    #[error("the IR modules cannot be linked: {message}")]
    Link { message: String },
    /// LLVM's own message on the pass pipeline.
    #[error("the pass pipeline '{pipeline}' failed: {message}")]
    Pipeline { pipeline: String, message: String },
    #[error("the pass pipeline failed in {program}: {message}")]
    External { program: String, message: String },
    #[error("LLVM refused llvm_options: {message}")]
    Options { message: String },
    #[error("the configuration cannot be built: {message}")]
    Configuration { message: String },
    /// The configuration asks for what only IR can give.
    #[error(
        "the kernel's code is {code}, and {field} needs LLVM IR; build the program with mneme-cc to record its IR, or leave {field} out"
    )]
    NeedsIr { code: &'static str, field: &'static str },
    #[error("the kernel {kernel} takes other arguments than the recorded one: {difference}")]
    Signature { kernel: String, difference: String },
    #[error("LLVM produced no code for {target}: {message}")]
    Codegen { target: String, message: String },
    #[error("the kernel cannot be instrumented (a defect of Mneme): {message}")]
    Instrument { message: String },
    #[error("{assembler} rejected the PTX: {message}")]
    Assemble { assembler: String, message: String },
    #[error("the kernel cannot run on the CPU device: {0}")]
    Cpu(#[from] crate::cpu::LowerError),
}

fn others(found: &[String]) -> String {
    const SHOWN: usize = 8;
    match found.len() {
        0 => String::new(),
        count if count <= SHOWN => format!("; it has {}", found.join(", ")),
        count => format!("; it has {} and {} others", found[..SHOWN].join(", "), count - SHOWN),
    }
}

impl BuildError {
    /// Whether the request itself is wrong (an impossible configuration) and not its compilation.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Configuration { .. } | Self::NeedsIr { .. })
    }
}

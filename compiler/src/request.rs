//! Requests for builds and their results, as plain data without LLVM types.

use mneme_builds::instrument::{Instrument, Instrumented};
use mneme_builds::plan::External;
use mneme_builds::progress::BuildProgress;
use mneme_builds::{ImageKind, Keep, Spills, Target};
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_recording::database::ArgumentLayout;
use mneme_recording::manifest::{Allocation, RecordedArgument, RecordedVariable};

use crate::assembler::AssemblerOptions;
use crate::preloaded::Preloaded;

/// A build: a kernel's code, and how to compile it.
#[derive(Clone, Copy)]
pub struct BuildRequest<'a> {
    pub code: InputCode<'a>,
    /// Mangled name.
    pub kernel: &'a str,
    pub target: &'a Target,
    pub configuration: &'a Configuration,
    /// Data from the recording, for the fields of the configuration that need it.
    pub recorded: RecordedLaunch<'a>,
    /// Additional results to return.
    pub keep: Keep,
    /// A program that runs the pipeline instead of this process.
    pub external: Option<&'a External>,
    /// The instrumentation to add. The code must be IR.
    pub instrument: Option<Instrument>,
    /// Read the lines of the source with the code.
    pub lines: bool,
    /// Where to record the build's progress.
    pub progress: Option<&'a BuildProgress>,
}

impl<'a> BuildRequest<'a> {
    /// A request that uses nothing of a recording.
    pub fn new(code: InputCode<'a>, kernel: &'a str, target: &'a Target, configuration: &'a Configuration) -> Self {
        Self {
            code,
            kernel,
            target,
            configuration,
            recorded: RecordedLaunch::default(),
            keep: Keep::default(),
            external: None,
            instrument: None,
            lines: false,
            progress: None,
        }
    }
}

impl BuildRequest<'_> {
    /// Whether the lines of the source are read with the code.
    pub(crate) fn has_lines(&self) -> bool {
        self.lines || self.instrument.is_some()
    }

    /// The options for the assembler. `registers` is the limit, if it is an option.
    pub(crate) fn assembler_options(&self, registers: u32) -> AssemblerOptions<'_> {
        let Configuration { ptx_opt, ptxas_options, .. } = self.configuration;
        let (level, others) = self.recorded.compiled.map_or((3, &[][..]), |own| (own.ptx_opt, &own.ptxas_options[..]));
        let requested = ptx_opt.is_some() || ptxas_options.is_some() || registers > 0;
        AssemblerOptions {
            level: ptx_opt.unwrap_or(level),
            registers,
            others: ptxas_options.as_deref().unwrap_or(others),
            requested,
        }
    }

    /// The configuration of the recorded launch, compiled like the application.
    pub(crate) fn as_recorded(&self) -> Configuration {
        let plain = Configuration::recorded(self.configuration.grid, self.configuration.block, 0);
        self.recorded.compiled.map_or(plain.clone(), |application| plain.compiled_as(application))
    }
}

/// The code of a kernel.
#[derive(Clone, Copy)]
pub enum InputCode<'a> {
    /// LLVM bitcode or assembly. The first module contains the kernel, the others what it needs from other units.
    Ir(&'a [&'a [u8]]),
    /// The same, already read. The build consumes it, which a process forked for one build can afford.
    Loaded(&'a Preloaded),
    /// PTX text.
    Ptx(&'a str),
    /// Machine code of a GPU, as an ELF object.
    Cubin(&'a [u8]),
}

/// Data from the recording about the launch.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedLaunch<'a> {
    /// The parameter buffer, by argument.
    pub arguments: &'a [RecordedArgument],
    /// The device variables. Those that the code does not define are ignored.
    pub variables: &'a [RecordedVariable],
    /// The other memory.
    pub allocations: &'a [Allocation],
    /// The arguments of all recorded launches of the kernel, by argument: little-endian values of at most 8 bytes.
    pub launches: &'a [&'a [u64]],
    /// The layout that the parameters of code from elsewhere must have; empty if no check is needed.
    pub signature: &'a [ArgumentLayout],
    /// How the application's own code was compiled.
    pub compiled: Option<&'a CompileOptions>,
}

/// Where a build spent its time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BuildTimes {
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
    /// The code to load on the device.
    pub image: Vec<u8>,
    pub kind: ImageKind,
    /// The kernel's name in the image.
    pub entry: String,
    /// Whether the launch's dynamic shared memory is part of the code, so a launch must request none.
    pub shared_is_static: bool,
    /// Whether the code was compiled from LLVM IR lifted from PTX.
    pub lifted: bool,
    /// The PTX text from which the image was assembled; `None` for targets without PTX and for code that was machine
    /// code already.
    pub ptx: Option<String>,
    /// The instructions of an AMD GPU as text, if requested.
    pub isa: Option<String>,
    /// IR text before and after the pipeline, if requested.
    pub ir_before: Option<String>,
    pub ir: Option<String>,
    /// The pipeline with every pass and its parameters, if requested.
    pub pipeline: Option<String>,
    pub times: BuildTimes,
    /// Registers spilled to local memory, if the assembler reported them.
    pub spills: Option<Spills>,
    /// Name and version of the tool that made the image, e.g. "nvPTXCompiler 13.0, whole programs".
    pub assembler: String,
    /// The instrumentation's own description, if there is one.
    pub instrumented: Option<Instrumented>,
    /// Messages of the build, one per line: specialisations, stated facts, remarks of the assembler.
    pub log: Vec<String>,
}

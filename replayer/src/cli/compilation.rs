//! Options for compiling the kernel, beyond those of the existing Mneme.

use clap::Args;
use mneme_model::configuration::{Configuration, Specialize};
use mneme_system::arguments::ValueError;

#[derive(Args, Debug)]
#[command(next_help_heading = "Compilation")]
pub struct CompilationOptions {
    /// Fold the recorded arguments into the code: all (scalars, by-value structs, the size of dynamic shared memory),
    /// or those in a list of indices, as in --specialize=0,2
    #[arg(
        long,
        value_name = "LIST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_parser = specialize
    )]
    specialize: Option<Specialize>,
    /// Tell the compiler what the recording proves: pointers that do not alias, alignment, ranges of arguments
    #[arg(long)]
    facts: bool,
    /// Registers that a thread may use at most, 1 to 255 [default: the application's limit, if any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    maxnreg: Option<u32>,
    /// Optimisation level of the assembler (ptxas), 0 to 3 [default: the application's]
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    ptx_opt: Option<u8>,
    /// An option of the assembler in ptxas's spelling, e.g. --ptxas-option=--fmad=false; may be repeated; the first one
    /// replaces all options of the application's assembler, and a single empty one removes them
    #[arg(long = "ptxas-option", value_name = "OPTION", allow_hyphen_values = true)]
    ptxas_options: Option<Vec<String>>,
    /// Compile PTX through LLVM IR even if no option needs IR; naming a pipeline does that too
    #[arg(long)]
    lift: bool,
    /// Compile floating point as -ffast-math does; combine it with --rtol
    #[arg(long)]
    fast_math: bool,
    /// The major version of the LLVM that compiles; its builder (mneme-build-NN) must be installed; all compares all
    /// installed versions [default: the one that wrote the IR, else the next newer one]
    #[arg(long, value_name = "NN", value_parser = LlvmChoice::parse)]
    pub llvm: Option<LlvmChoice>,
    /// An option of LLVM's command line, e.g. --llvm-option=-unroll-threshold=400; may be repeated
    #[arg(long = "llvm-option", alias = "llvm-options", value_name = "-NAME[=VALUE]", allow_hyphen_values = true)]
    llvm_options: Vec<String>,
}

/// The value of `--llvm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlvmChoice {
    Version(u32),
    /// Every version with an installed builder, one after the other.
    All,
}

impl LlvmChoice {
    fn parse(text: &str) -> Result<Self, ValueError> {
        match text.parse() {
            _ if text == "all" => Ok(Self::All),
            Ok(version) => Ok(Self::Version(version)),
            Err(_) => Err("it must be a version, as in 22, or all".into()),
        }
    }

    /// The version, unless it is `All`.
    pub fn version(self) -> Option<u32> {
        match self {
            Self::Version(version) => Some(version),
            Self::All => None,
        }
    }
}

fn specialize(text: &str) -> Result<Specialize, ValueError> {
    if text == "all" {
        return Ok(Specialize::All);
    }
    let indices: Result<Vec<u32>, _> = text.split(',').map(|index| index.trim().parse()).collect();
    indices.map(Specialize::Arguments).map_err(|_| "it must be argument indices, counted from 0, as in 0,2".into())
}

impl CompilationOptions {
    /// The configuration with the changes of these options.
    pub fn apply(&self, configuration: Configuration) -> Configuration {
        Configuration {
            specialize: self.specialize.clone().unwrap_or_default(),
            facts: self.facts,
            maxnreg: self.maxnreg.unwrap_or(0),
            ptx_opt: self.ptx_opt,
            ptxas_options: self
                .ptxas_options
                .as_ref()
                .map(|words| words.iter().filter(|word| !word.is_empty()).cloned().collect()),
            lift: self.lift,
            fast_math: self.fast_math,
            llvm_options: self.llvm_options.clone(),
            llvm: self.llvm.and_then(LlvmChoice::version),
            ..configuration
        }
    }
}

//! The options of `mneme-tune`, on the command line or in a file, and the settings that they come to.
//!
//! Both are one structure: the fields' names are the options' with underscores, and the keys of a configuration file.
//! Every field is empty until somebody says something, so that `merge` can tell what was said from what is the default,
//! and `settle` fills in the defaults last, which makes them plain [`TuningSettings`].

mod check;
mod choices;
mod merge;
mod settings;
mod settle;

use std::path::PathBuf;

use clap::Parser;
use serde::{Deserialize, Serialize};

pub use self::check::Contradiction;
pub use self::choices::{BaselineCode, FoldedArguments, MaxThreadsPolicy, Pruner, Range, RunsKind, Switch};
pub use self::merge::MergeError;
pub use self::settings::{
    CandidateSettings, ConfirmationSettings, ProteusOutput, SearchSettings, SessionMode, SpaceSettings, StudySettings,
    TuningSettings,
};
use crate::measured::Measured;
use crate::metric::Metric;
use crate::sampler::SamplerKind;
use crate::space::{BlockAxes, LaunchSafety, Preset};

/// Find the fastest configuration of a recorded kernel
///
/// Replays the kernel under configurations of a search space, verifies each against the recording, and ranks those that
/// verify by their time.
#[derive(Clone, Debug, Default, PartialEq, Parser, Serialize, Deserialize)]
#[command(name = "mneme-tune", version, after_help = EXAMPLES, max_term_width = 120)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The recording's folder, where --kernel, -rid or its only kernel says which one; or a kernel's .json file (also
    /// -rdb). Several are tuned one after the other [default: recording]
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "PATH", num_args = 1.., help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub record_database: Vec<PathBuf>,
    /// Instance of the kernel (dynamic hash); may be left out where there is one (also -rid). Several instances are
    /// tuned together, each weighing as often as it was launched
    #[arg(long, alias = "rid", value_name = "ID", num_args = 1.., value_delimiter = ',', help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub record_id: Vec<String>,
    /// The kernel of a folder: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME", help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Tune each kernel for all its recorded instances together
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_instances: Option<bool>,
    /// Tune every kernel of the folders named
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_kernels: Option<bool>,

    /// The built-in search space [default: standard]
    #[arg(long, value_enum, help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_preset: Option<Preset>,
    /// A search space from a file (YAML, TOML or JSON)
    #[arg(long, value_name = "FILE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<PathBuf>,
    /// A search space written in Python: a class derived from mneme.tuning.search_space.SearchSpace, in a module or a
    /// file
    #[arg(long, value_name = "MODULE_OR_PATH:CLASS", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_module: Option<String>,
    /// An argument for the class's constructor, beside the recorded kernel; JSON where it can be read as that; may be
    /// repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::pairs")]
    pub space_arg: Vec<String>,
    /// Axes along which the block's shape varies [default: none for compiler, else auto]
    #[arg(long, value_enum, help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_dim: Option<BlockAxes>,
    /// Threads that a candidate block may have, beside usual shapes of 32 to 256 [default: conservative for quick,
    /// aggressive for full, else balanced]
    #[arg(long, value_enum, help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_safety: Option<LaunchSafety>,
    /// Keep the recorded grid while blocks vary, for kernels that rely on it (grid-stride loops, a result for each block);
    /// on-off tries both [default: on-off if the kernel reads gridDim, else off]
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "on", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_grid: Option<Switch>,
    /// Try no more configurations with a block shape whose launches were refused twice and never accepted (the default)
    #[arg(long, num_args = 0, default_missing_value = "true", conflicts_with = "no_adaptive_invalid_ban", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_invalid_ban: Option<bool>,
    /// Try them
    #[arg(long, help_heading = SPACE)]
    #[serde(skip)]
    pub no_adaptive_invalid_ban: bool,
    /// Pass pipelines in the syntax of `opt -passes`, in place of the preset's; the first is the baseline's
    #[arg(long, num_args = 1.., value_name = "PIPELINE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub passes: Vec<String>,
    /// One pass pipeline
    #[arg(long, value_name = "PIPELINE", conflicts_with_all = ["passes", "pipeline_file"], help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_passes: Option<String>,
    /// A file with one pipeline a line (empty lines and those that start with # do not count); they follow those of
    /// --passes
    #[arg(long, value_name = "FILE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_file: Option<PathBuf>,
    /// Code generation levels, in place of the preset's; the baseline takes the highest
    #[arg(long, value_name = "LOW:HIGH[:STEP]", conflicts_with = "fixed_codegen_opt", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codegen_opt_range: Option<Range>,
    /// One code generation level, 0 to 3
    #[arg(long, value_name = "LEVEL", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_codegen_opt: Option<u32>,
    /// The existing Mneme's code generator (serial, parallel or rtc): written to results, without effect [default:
    /// serial]
    #[arg(long, value_name = "METHOD", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codegen_method: Option<String>,
    /// Whether the recorded arguments are folded into the code; fixed is as recorded, that is off [default: on-off for
    /// full, else fixed]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialize_space: Option<Switch>,
    /// Which arguments those are. Code is for launches alone that have what is folded into it: with common it is for
    /// more, where an argument counts launches [default: all]
    #[arg(long, value_enum, value_name = "WHICH", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialize_arguments: Option<FoldedArguments>,
    /// Whether the launch's dimensions are folded into the code [default: likewise]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialize_dims_space: Option<Switch>,
    /// Whether the compiler is told launch bounds [default: likewise]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_bounds_space: Option<Switch>,
    /// Whether all but the kernel is hidden, so that passes know every caller of a function [default: likewise]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internalize_space: Option<Switch>,
    /// Blocks that should fit on one multiprocessor, where launch bounds are on [default: 1:8 for full, else 1]
    #[arg(long, value_name = "LOW:HIGH[:STEP]", conflicts_with = "fixed_min_blocks_per_sm", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_blocks_per_sm_range: Option<Range>,
    /// One number of such blocks
    #[arg(long, value_name = "N", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_min_blocks_per_sm: Option<u32>,
    /// Threads of a block that launch bounds promise at most; smaller than the block is no candidate
    #[arg(long, value_name = "LOW:HIGH[:STEP]", conflicts_with = "max_threads_policy", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads_range: Option<Range>,
    /// The same by a rule [default: block-threads]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads_policy: Option<MaxThreadsPolicy>,

    /// How candidates are chosen [default: auto with --trials, else exhaustive]
    #[arg(long, value_enum, help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerKind>,
    /// Configurations to evaluate at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<u64>,
    /// Seed of the random numbers; the same one gives the same candidates [default: another one each time]
    #[arg(long, value_name = "N", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Where the samplers greedy and annealing start: best.json, or a line of trials.jsonl, of a session over the same
    /// space
    #[arg(long, value_name = "FILE", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_from: Option<PathBuf>,
    /// Begin with what other sessions found: their results folders, of other instances, kernels or devices. Their best
    /// are tried by turns with the sampler's own choices, as long as they are better than those
    #[arg(long, value_name = "RESULTS", num_args = 1.., help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub learn_from: Vec<PathBuf>,
    /// Submit no more candidates after so many seconds
    #[arg(long, value_name = "SECONDS", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// What is optimised: time, speedup, or an expression over a result's fields and hardware counters
    /// (dram__bytes.sum); several make a Pareto front [default: time]
    #[arg(long, value_name = "OBJECTIVE", num_args = 1.., help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub objective: Vec<String>,
    /// How measured times become the number that is ranked [default: mean]
    #[arg(long, value_enum, help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Optuna's study; its samplers are then used in place of ours (needs Python with optuna)
    #[arg(long, value_name = "NAME", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study_name: Option<String>,
    /// Where Optuna keeps the study: a URL (sqlite:///…, postgresql://…) or a journal file (*.log, *.journal). Several
    /// tuners, also on several nodes, may share one
    #[arg(long, value_name = "URL|FILE", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optuna_storage: Option<String>,
    /// Optuna's rule that gives up candidates after their first runs
    #[arg(long, value_enum, value_name = "PRUNER", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruner: Option<Pruner>,
    /// The Python for --space-module and Optuna [default: MNEME_PYTHON, else python3]
    #[arg(long, value_name = "PROGRAM", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,

    /// Start from the PTX that the program had beside the recorded machine code, as `mneme-replay --from-ptx` does: it
    /// is lifted to IR for candidates that need IR
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ptx: Option<bool>,
    /// What speedups are over [default: original, where the recording has it]
    #[arg(long, value_enum, value_name = "CODE", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineCode>,
    /// Measured runs of each candidate [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Runs before them, which are not measured [default: 2]
    #[arg(long, value_name = "N", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// How many of them each candidate has [default: needed; all where --iterations, --warmup or --racing is said, or
    /// the objective is not the time]
    #[arg(long, value_enum, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunsKind>,
    /// Candidates that run at a time; more than one on a device disturb each other's times [default: one on each
    /// device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Device to replay on: cpu, cuda, hip, or the numbers of GPUs, as in 0,1 [default: as recorded]
    #[arg(long, value_parser = choices::device, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "merge::text")]
    pub device: Option<String>,
    /// Let float and double values differ by this much, relative to the recorded value
    #[arg(long, value_name = "R", value_parser = choices::tolerance, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtol: Option<f64>,
    /// Let float and double values differ by this much, absolutely
    #[arg(long, value_name = "A", value_parser = choices::tolerance, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atol: Option<f64>,
    /// What all memory holds, for --rtol and --atol: f16, f32 or f64 [default: by the kernel's parameter types]
    #[arg(long, value_name = "TYPE", value_parser = choices::float_type, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Let a buffer, or all, differ: `[BUFFER=]TYPE:THRESHOLD[:KIND[:NORM]]`, as `mneme-replay --help` has it; may be
    /// repeated
    #[arg(long, value_name = "TOLERANCE", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub tolerance: Vec<String>,
    /// Tune a recording of which verification shows too little, such as a launch that changes no memory: candidates
    /// that leave out work may win
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_unproven: Option<bool>,
    /// What times kernels: auto, events, cupti or rocprofiler, as `mneme-replay --help` has them [default: auto]
    #[arg(long, value_name = "TIMER", value_parser = choices::TIMERS, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
    /// Time limit for the build of a candidate, and for all its runs, seconds [default: 60]
    #[arg(long, value_name = "SECONDS", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_timeout: Option<f64>,
    /// End at the first candidate that does not verify, with status 2
    #[arg(long, num_args = 0, default_missing_value = "true", conflicts_with = "keep_going", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_fast: Option<bool>,
    /// Go on whatever candidates do (the default)
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_going: Option<bool>,
    /// Give up a candidate whose first measured run takes longer than the fastest first run so far, multiplied by this
    /// [default: every candidate has all its runs]
    #[arg(long, value_name = "FACTOR", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub racing: Option<f64>,
    /// The best candidates that are measured again, in turns with the baseline, before one is reported; 0 reports the
    /// first measurements [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100), help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalists: Option<u32>,
    /// Seconds that this may take [default: 20]
    #[arg(long, value_name = "SECONDS", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_time: Option<f64>,
    /// Replay nothing: take results from the results folder of a session that has tried all of the space; or from a
    /// Kernel Tuner cache or T4 file, which has its own space and needs no recording. For comparing samplers
    #[arg(long, value_name = "PATH", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<PathBuf>,
    /// Before it is reported, verify the best on these recorded instances too; without ID on all of the kernel's
    #[arg(
        long,
        value_name = "ID",
        num_args = 0..,
        value_delimiter = ',',
        default_missing_value = "all",
        help_heading = EVALUATION
    )]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub verify_all: Vec<String>,
    /// Remember results in this file or folder (cache/), and measure nothing again that it has from an equal device
    #[arg(long, value_name = "PLACE", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,

    /// Folder for the results [default: a new one in mneme-tune-results]
    #[arg(long, value_name = "FOLDER", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results_dir: Option<PathBuf>,
    /// Go on with the session of --results-dir; what is not said again is as it was there
    #[arg(long, help_heading = RESULTS)]
    #[serde(skip)]
    pub resume: bool,
    /// Measure the baseline again when resuming
    #[arg(long, requires = "resume", help_heading = RESULTS)]
    #[serde(skip)]
    pub rerun_baseline: bool,
    /// Where the best goes for Proteus [default: proteus_tuned_kernels.json in the results]
    #[arg(long, value_name = "FILE", conflicts_with = "no_proteus_output", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proteus_output: Option<PathBuf>,
    /// Write nothing for Proteus
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proteus_output: Option<bool>,
    /// Print no candidates and no progress, only baseline and best
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<bool>,

    /// Take options from a JSON or YAML file, whose keys are the options' names with underscores; the command line wins
    #[arg(long, value_name = "FILE", help_heading = MODES)]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Write all options as they are resolved to a file that --config takes, and exit
    #[arg(long, value_name = "FILE", group = "mode", help_heading = MODES)]
    #[serde(skip)]
    pub dump_config: Option<PathBuf>,
    /// Print the search space as JSON and exit
    #[arg(long, group = "mode", help_heading = MODES)]
    #[serde(skip)]
    pub print_space: bool,
    /// Print the baseline's configuration and the search space, and exit
    #[arg(long, group = "mode", help_heading = MODES)]
    #[serde(skip)]
    pub dry_run: bool,
    /// Replay the baseline only
    #[arg(long, group = "mode", help_heading = MODES)]
    #[serde(skip)]
    pub baseline_only: bool,

    /// Trust this folder with all that is in it, whoever owns it; may be repeated [default: MNEME_TRUST]
    #[arg(long, value_name = "FOLDER", help_heading = MODES)]
    #[serde(skip)]
    pub trust: Vec<PathBuf>,

    /// No option: what the session measured, for those that go on with it.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

const RECORDING: &str = "Recording";
const SPACE: &str = "Search space";
const SAMPLING: &str = "Sampling";
const EVALUATION: &str = "Evaluation";
const RESULTS: &str = "Results";
const MODES: &str = "Modes and configuration files";

/// Prints help, or what is wrong with a command line; gives the exit status.
pub fn refuse(error: &clap::Error) -> i32 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    mneme_core::remark!("mneme-tune: {}", sentence(error));
    mneme_core::exit::BAD_USAGE
}

/// A mistake in a command line as one sentence: clap's own words, without the usage that it prints below them.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let told =
        text.split("\n\n").take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"));
    let part = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    told.map(part).collect::<Vec<_>>().join("; ")
}

const EXAMPLES: &str = "Examples:
  mneme-tune -rdb recording/7312.json -rid 1631 --space-preset quick
  mneme-tune -rdb recording/7312.json -rid 1631 --space-preset launch --launch-dim x \\
      --launch-safety aggressive --passes 'default<O1>' 'default<O3>' \\
      --iterations 5 --warmup 2 --results-dir results
  mneme-tune -rdb recording/7312.json --space-module examples/tuning.py:EntireSpace
  mneme-tune -rdb recording --sampler tpe --trials 200 --seed 1 --space-preset full
  mneme-tune -rdb recording --space space.yaml --sampler nsga2 --trials 500 --objective time registers
  mneme-tune -rdb recording --all-kernels --all-instances --space-preset compiler
  mneme-tune -rdb recording --space-preset full --print-space
  mneme-tune --config tune.yml --trials 50
  mneme-tune --resume --results-dir results
  mneme-tune report results --csv trials.csv      (see mneme-tune report --help)

Exit status: 0 done, 1 the baseline failed, 2 nothing verified, 6 unproven, 64 bad usage, 65 bad recording,
66 a file or folder that is named is missing, 69 no such device, 70 something of ours broke, or cannot be
written (a full disk), 75 another session is writing to the results folder.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}

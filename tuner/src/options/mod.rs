//! The options of `mneme-tune`, on the command line or in a file, and the settings made from them.
//!
//! One structure serves both: field names are option names with underscores, and the keys of a configuration file. A
//! field is empty unless the user sets it, so `merge` can tell a choice from a default. `settle` fills in the defaults
//! last, which gives plain [`TuningSettings`].

mod choices;
mod merge;
mod refusals;
mod settings;
mod settle;

use std::path::PathBuf;

use clap::Parser;
use mneme_system::arguments::non_negative;
use serde::{Deserialize, Serialize};

pub use self::choices::{BaselineCode, FoldedArguments, MaxThreadsPolicy, Pruner, Range, RunsKind, Switch};
pub use self::merge::MergeError;
pub use self::refusals::Contradiction;
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
/// Replays the kernel under the configurations of a search space, verifies each against the recording, and ranks those
/// that verify by their time.
#[derive(Clone, Debug, Default, PartialEq, Parser, Serialize, Deserialize)]
#[command(name = "mneme-tune", version, after_help = EXAMPLES, max_term_width = 120)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The recording's folder, or a kernel's .json file in it (also -rdb). In a folder with several kernels, choose one
    /// with --kernel or -rid. Several paths are tuned one after the other [default: recording]
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "PATH", num_args = 1.., help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub record_database: Vec<PathBuf>,
    /// Instance of the kernel (dynamic hash; also -rid); not needed if there is only one. Several instances are tuned
    /// together, each weighted by its number of launches
    #[arg(long, alias = "rid", value_name = "ID", num_args = 1.., value_delimiter = ',', help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub record_id: Vec<String>,
    /// The kernel to tune in a folder: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME", help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Tune each kernel for all its recorded instances together
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RECORDING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_instances: Option<bool>,
    /// Tune every kernel in the named folders
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
    /// An argument for the class's constructor, besides the recorded kernel; read as JSON if possible; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::pairs")]
    pub space_arg: Vec<String>,
    /// Axes along which the block's shape varies [default: none with --space-preset compiler, otherwise auto]
    #[arg(long, value_enum, help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_dim: Option<BlockAxes>,
    /// How many threads a candidate block may have, besides the usual shapes of 32 to 256 [default: conservative with
    /// --space-preset quick, aggressive with full, otherwise balanced]
    #[arg(long, value_enum, help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_safety: Option<LaunchSafety>,
    /// Keep the recorded grid while blocks vary, for kernels that rely on it (grid-stride loops, one result per block);
    /// on-off tries both [default: on-off if the kernel reads gridDim, otherwise off]
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "on", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_grid: Option<Switch>,
    /// Skip block shapes whose launches were refused twice and never accepted (the default)
    #[arg(long, num_args = 0, default_missing_value = "true", conflicts_with = "no_adaptive_invalid_ban", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_invalid_ban: Option<bool>,
    /// Try such block shapes anyway
    #[arg(long, help_heading = SPACE)]
    #[serde(skip)]
    pub no_adaptive_invalid_ban: bool,
    /// Pass pipelines in the syntax of `opt -passes`, in place of the preset's; the first one is the baseline's
    #[arg(long, num_args = 1.., value_name = "PIPELINE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub passes: Vec<String>,
    /// A single pass pipeline
    #[arg(long, value_name = "PIPELINE", conflicts_with_all = ["passes", "pipeline_file"], help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_passes: Option<String>,
    /// A file with one pipeline per line, added to --passes; empty lines and lines that start with # are ignored
    #[arg(long, value_name = "FILE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_file: Option<PathBuf>,
    /// Code generation levels, in place of the preset's; the baseline uses the highest
    #[arg(long, value_name = "LOW:HIGH[:STEP]", conflicts_with = "fixed_codegen_opt", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codegen_opt_range: Option<Range>,
    /// A single code generation level, 0 to 3
    #[arg(long, value_name = "LEVEL", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_codegen_opt: Option<u32>,
    /// The existing Mneme's code generator (serial, parallel or rtc): written to results, without effect [default:
    /// serial]
    #[arg(long, value_name = "METHOD", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codegen_method: Option<String>,
    /// Fold the recorded arguments into the code; fixed means as recorded, that is off [default: on-off with
    /// --space-preset full, otherwise fixed]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialize_space: Option<Switch>,
    /// Which arguments to fold. Specialised code is used only for launches with the same folded values, so common
    /// covers more launches if, for example, an argument counts launches [default: all]
    #[arg(long, value_enum, value_name = "WHICH", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialize_arguments: Option<FoldedArguments>,
    /// Fold the launch's dimensions into the code [default: on-off with --space-preset full, otherwise fixed]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialize_dims_space: Option<Switch>,
    /// Give the compiler launch bounds [default: on-off with --space-preset full, otherwise fixed]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_bounds_space: Option<Switch>,
    /// Hide all functions except the kernel, so that passes know every caller [default: on-off with --space-preset
    /// full, otherwise fixed]
    #[arg(long, value_enum, value_name = "MODE", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internalize_space: Option<Switch>,
    /// Minimum blocks per multiprocessor in launch bounds [default: 1:8 with --space-preset full, otherwise 1]
    #[arg(long, value_name = "LOW:HIGH[:STEP]", conflicts_with = "fixed_min_blocks_per_sm", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_blocks_per_sm_range: Option<Range>,
    /// A single value for them
    #[arg(long, value_name = "N", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_min_blocks_per_sm: Option<u32>,
    /// Maximum threads per block in launch bounds; skips values below the candidate's block
    #[arg(long, value_name = "LOW:HIGH[:STEP]", conflicts_with = "max_threads_policy", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads_range: Option<Range>,
    /// The same by a rule [default: block-threads]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = SPACE)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_threads_policy: Option<MaxThreadsPolicy>,

    /// How candidates are chosen [default: auto with --trials, otherwise exhaustive]
    #[arg(long, value_enum, help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerKind>,
    /// Maximum number of configurations to evaluate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<u64>,
    /// Seed of the random numbers; the same seed gives the same candidates [default: a random number]
    #[arg(long, value_name = "N", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Where the samplers greedy and annealing start: best.json, or a line of trials.jsonl, from a session over the
    /// same space
    #[arg(long, value_name = "FILE", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_from: Option<PathBuf>,
    /// Results folders of other sessions to learn from, of any instances, kernels or devices. Their best configurations
    /// are tried in turn with the sampler's own, as long as they do better
    #[arg(long, value_name = "RESULTS", num_args = 1.., help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub learn_from: Vec<PathBuf>,
    /// Submit no more candidates after this many seconds
    #[arg(long, value_name = "SECONDS", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// What to optimise: time, speedup, or an expression over a result's fields and hardware counters
    /// (dram__bytes.sum); several make a Pareto front [default: time]
    #[arg(long, value_name = "OBJECTIVE", num_args = 1.., help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub objective: Vec<String>,
    /// How the measured times become the number that is ranked [default: mean]
    #[arg(long, value_enum, help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Name of an Optuna study. Uses Optuna's samplers (needs Python with optuna)
    #[arg(long, value_name = "NAME", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study_name: Option<String>,
    /// Where Optuna keeps the study: a URL (sqlite:///…, postgresql://…) or a journal file (*.log, *.journal). Several
    /// tuners may share one, also across nodes
    #[arg(long, value_name = "URL|FILE", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optuna_storage: Option<String>,
    /// Optuna's rule for giving up candidates after their first runs
    #[arg(long, value_enum, value_name = "PRUNER", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruner: Option<Pruner>,
    /// The Python for --space-module and Optuna [default: MNEME_PYTHON, otherwise python3]
    #[arg(long, value_name = "PROGRAM", help_heading = SAMPLING)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,

    /// Start from the PTX that the program had beside the recorded machine code, like `mneme-replay --from-ptx`;
    /// candidates that need IR are lifted from it
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ptx: Option<bool>,
    /// The code that speedups compare with [default: original if the recording has it, otherwise pipeline]
    #[arg(long, value_enum, value_name = "CODE", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineCode>,
    /// Measured runs of each candidate [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Warm-up runs before them [default: 2]
    #[arg(long, value_name = "N", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// How many of these runs each candidate gets [default: all with --iterations, --warmup, --racing, --pruner,
    /// --metric min or max, or another objective than time; otherwise needed]
    #[arg(long, value_enum, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<RunsKind>,
    /// Candidates that run at the same time; several on one device disturb each other's times [default: one on each
    /// device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Device to replay on: cpu, cuda, hip, or the numbers of GPUs, such as 0,1 [default: as recorded]
    #[arg(long, value_parser = choices::device, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "merge::text")]
    pub device: Option<String>,
    /// Relative tolerance for float and double values
    #[arg(long, value_name = "R", value_parser = non_negative, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtol: Option<f64>,
    /// Absolute tolerance for float and double values
    #[arg(long, value_name = "A", value_parser = non_negative, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atol: Option<f64>,
    /// Type of all memory, for --rtol and --atol: f16, f32 or f64 [default: by the kernel's parameter types]
    #[arg(long, value_name = "TYPE", value_parser = choices::float_type, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Tolerance for one buffer or all, `[BUFFER=]TYPE:THRESHOLD[:KIND[:NORM]]`; see `mneme-replay --help`; may be
    /// repeated
    #[arg(long, value_name = "TOLERANCE", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Vec::is_empty", with = "merge::one_or_many")]
    pub tolerance: Vec<String>,
    /// Tune even if verification shows too little, for example if the launch changes no memory: candidates that skip
    /// work may win
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_unproven: Option<bool>,
    /// How to time kernels: auto, events, cupti or rocprofiler; see `mneme-replay --help` [default: auto]
    #[arg(long, value_name = "TIMER", value_parser = choices::TIMERS, help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
    /// Time limit for the build of a candidate, and for all its runs together, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_timeout: Option<f64>,
    /// Stop at the first candidate that does not verify, with status 2
    #[arg(long, num_args = 0, default_missing_value = "true", conflicts_with = "keep_going", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_fast: Option<bool>,
    /// Continue after candidates that fail (the default)
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_going: Option<bool>,
    /// Give up a candidate whose first measured run takes longer than the fastest first run so far, times this factor
    /// [default: no limit]
    #[arg(long, value_name = "FACTOR", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub racing: Option<f64>,
    /// How many of the best candidates are measured again, in turns with the baseline, before one is reported; 0
    /// reports the first measurements [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100), help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalists: Option<u32>,
    /// Time for these measurements in seconds [default: 20]
    #[arg(long, value_name = "SECONDS", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_time: Option<f64>,
    /// Replay nothing, to compare samplers: take results from the results folder of a session that tried its whole
    /// space, or from a Kernel Tuner cache or T4 file, which has its own space and needs no recording
    #[arg(long, value_name = "PATH", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulate: Option<PathBuf>,
    /// Verify the best on these recorded instances too before reporting it; without an ID, on all of the kernel's
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
    /// Keep results in this file or folder (cache/), and reuse those from an equal device
    #[arg(long, value_name = "PLACE", help_heading = EVALUATION)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,

    /// Folder for the results [default: a new one in mneme-tune-results]
    #[arg(long, value_name = "FOLDER", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results_dir: Option<PathBuf>,
    /// Resume the session of --results-dir; options that you don't pass keep their values
    #[arg(long, help_heading = RESULTS)]
    #[serde(skip)]
    pub resume: bool,
    /// Measure the baseline again when resuming
    #[arg(long, requires = "resume", help_heading = RESULTS)]
    #[serde(skip)]
    pub rerun_baseline: bool,
    /// File for Proteus with the best configuration [default: proteus_tuned_kernels.json in the results folder]
    #[arg(long, value_name = "FILE", conflicts_with = "no_proteus_output", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proteus_output: Option<PathBuf>,
    /// Write no file for Proteus
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proteus_output: Option<bool>,
    /// Print only the baseline and the best, no candidates or progress
    #[arg(long, num_args = 0, default_missing_value = "true", help_heading = RESULTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<bool>,

    /// Take options from a JSON or YAML file with the options' names as keys; the command line overrides it
    #[arg(long, value_name = "FILE", help_heading = MODES)]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Write all options with their defaults to a file for --config, and exit
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
    /// Replay only the baseline
    #[arg(long, group = "mode", help_heading = MODES)]
    #[serde(skip)]
    pub baseline_only: bool,

    /// Trust this folder and everything in it, whoever owns it; may be repeated [default: MNEME_TRUST]
    #[arg(long, value_name = "FOLDER", help_heading = MODES)]
    #[serde(skip)]
    pub trust: Vec<PathBuf>,

    /// Not an option: what the session measured, for sessions that resume it.
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

/// Prints help, or the error in a command line. Returns the exit status.
pub fn refuse(error: &clap::Error) -> i32 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    mneme_system::remark!("mneme-tune: {}", sentence(error));
    mneme_system::exit::BAD_USAGE
}

/// An error in a command line as one sentence: clap's own words, without the usage that follows them.
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

Exit status: 0 done, 1 the baseline failed, 2 no configuration verified, 6 unproven, 64 bad usage, 65 bad recording, \
66 a named file or folder is missing, 69 no such device, 70 internal error or full disk, 75 another session is \
writing to the results folder.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}

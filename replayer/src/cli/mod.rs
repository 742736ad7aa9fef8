//! The command line of `mneme-replay`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use mneme_builds::Keep;
use mneme_model::configuration::{Configuration, MAX_RUNS};
use serde_json::json;

use crate::context::settings::ReplaySettings;
use crate::error::Fatal;

mod bisect;
mod code;
mod common;
mod fields;
mod observation;

pub use bisect::{Bisect, ColorChoice, FailureKind};
pub use code::CodeOptions;
pub use common::{CommonOptions, Timers};
pub use fields::{FieldOptions, suggest_axis};
pub use observation::ObservationOptions;

/// Long options that users write with one dash.
fn with_one_dash() -> Vec<String> {
    ["rdb", "rid", "record-id", "ol"].map(String::from).into_iter().chain(fields::with_one_dash()).collect()
}

const USAGE: &str = "mneme-replay [-rdb FOLDER] [--kernel NAME] [-rid ID] [OPTIONS] [PIPELINE]\n       \
                     mneme-replay sweep [-rdb FOLDER] [--kernel NAME] [-rid ID] [OPTIONS] CONFIGURATIONS\n       \
                     mneme-replay serve [-rdb FOLDER] [--kernel NAME] [-rid ID] [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  mneme-replay -rdb recording/1234.json -rid 5678 \"default<O3>\"
      replays the recorded launch, compiled with LLVM's O3 pipeline, and verifies all memory
  mneme-replay -rdb recording/1234.json \"default<O2>\" -bidx 128 -gidx 80000 --iterations 10
      another launch shape, measured ten times (you can leave out -rid if the recording has one instance)
  mneme-replay -rdb recording/1234.json \"function(sroa,early-cse)\" --output-ll kernel.ll
      any pipeline that opt -passes accepts; the optimised IR is written to kernel.ll
  mneme-replay -rdb recording/1234.json \"default<O3>\" --rtol 1e-5 --atol 1e-8
      float and double buffers pass within a tolerance
  mneme-replay -rdb recording/1234.json --tolerance argument:1=f32:2:ulp --dump-diff diff
      the buffer of the second argument may differ by 2 units in the last place; buffers that differ are written to diff/
  mneme-replay -rdb recording/1234.json --repeat 20 --write-tolerances
      finds buffers that differ from run to run (atomics add up in any order), and tolerates the difference from now on
  mneme-replay -rdb recording/1234.json --check
      looks for errors in the kernel: accesses out of bounds, to uninitialised memory, unordered and misaligned ones
  mneme-replay -rdb recording/1234.json \"default<O3>\" --wrote 0x100000013a80:4
      shows which thread, instruction and line wrote these four bytes last
  mneme-replay -rdb recording/1234.json --facts --specialize=2,3 --llvm-option=-unroll-threshold=400 --output-dir out
      states what the recording proves, folds two arguments, sets an option of LLVM, and keeps IR, PTX, SASS and the log
  mneme-replay -rdb recording/1234.json --original --iterations 10
      runs the application's own code unchanged
  mneme-replay -rdb recording/1234.json --source kernel.cu --source-flag -Iinclude
      compiles an edited kernel, and replays and verifies it in place of the recorded one (also --ir, --ptx, --cubin)
  mneme-replay -rdb recording/1234.json --load-pass-plugin ./libMine.so \"function(mine),default<O3>\"
      runs your own pass, in opt-19
  mneme-replay sweep -rdb recording/1234.json configurations.jsonl
      replays one configuration a line, and prints one result a line (see mneme-replay sweep --help)
  mneme-replay serve -rdb recording/1234.json -rid 5678
      the same for programs, as a protocol of JSON lines (docs/reference/protocol.md; mneme-tune uses it)

Exit status:
  0 verified            64 bad usage
  1 not verified        65 bad recording
  2 build failed        66 a named file or folder is missing
  3 launch failed       69 no such device
  4 timed out           70 internal error
  6 unproven";

// A command line in one of three modes. Not a doc comment: its text would replace the description of the one-shot
// replay in the help.
#[derive(Debug, Subcommand)]
pub enum Arguments {
    Sweep(Sweep),
    Serve(Serve),
    /// A command line without a subcommand, as in the existing Mneme.
    #[command(skip)]
    OneShot(Box<OneShot>),
}

/// Replays configurations that come as JSON lines on standard input; one reply a line on standard output.
#[derive(Args, Debug)]
#[command(version, after_help = SERVE_EXAMPLES)]
pub struct Serve {
    #[command(flatten)]
    pub common: CommonOptions,
    #[command(flatten)]
    pub runs: RunOptions,
    /// Compile configurations that name no LLVM with this version [default: the one that wrote the IR, or the nearest
    /// newer one]
    #[arg(long, value_name = "VERSION")]
    pub llvm: Option<u32>,
}

/// Parses a number of runs: at least `least`, and at most the limit of a configuration.
fn runs(least: i64) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(least..=MAX_RUNS.into())
}

/// The numbers of runs of a configuration that does not set its own.
#[derive(Args, Debug)]
pub struct RunOptions {
    /// Measured runs, also -it
    #[arg(long, alias = "it", value_name = "N", default_value_t = 3, value_parser = runs(1))]
    pub iterations: u32,
    /// Runs before them, also -wu
    #[arg(long, alias = "wu", value_name = "N", default_value_t = 2, value_parser = runs(0))]
    pub warmup: u32,
}

const SWEEP_EXAMPLES: &str = "\
A line of the input is a JSON object with the fields of a configuration. Missing fields have their recorded values, so {} is the recorded \
launch. A line of the output is {\"id\": …, \"Replay-config\": …, \"Result\": …}, where id is the number of the input's line, from 1.

Examples:
  mneme-replay sweep -rdb recording/1234.json -rid 5678 configurations.jsonl > results.jsonl
  jq -nc '(1, 2, 3) | {passes: \"default<O\\(.)>\"}' | mneme-replay sweep -rdb recording/1234.json -
      three pipelines; examples/sweep-blocks.sh, sweep-pipelines.sh and sweep-random.sh are longer examples

Exit status:
  0  every line has a result, and at least one verified
  1  every line has a result, and none verified
  64 bad usage    65 bad recording    66 a named file is missing    69 no such device    70 internal error";

const SERVE_EXAMPLES: &str = "\
Requests and replies are described in docs/reference/protocol.md. The first line out is a greeting; the end of input finishes what was \
submitted.

Examples:
  echo '{\"type\": \"submit\", \"id\": 1, \"config\": {\"passes\": \"default<O2>\"}}' | mneme-replay serve -rdb recording/1234.json
      one configuration; a program keeps the input open, and submits the next one after a result

Exit status:
  0  the input has ended (or a shutdown was requested), and every request has its answer
  64 bad usage    65 bad recording    66 a named file is missing    69 no such device    70 internal error, or the reader of the replies is gone";

/// Replays one configuration a line, and prints one result a line, as they come.
#[derive(Args, Debug)]
#[command(version, after_help = SWEEP_EXAMPLES)]
pub struct Sweep {
    #[command(flatten)]
    pub common: CommonOptions,
    #[command(flatten)]
    pub runs: RunOptions,

    /// Configurations, one JSON object a line; - for standard input
    #[arg(value_name = "CONFIGURATIONS", default_value = "-")]
    pub configurations: PathBuf,

    /// Run every configuration, even if one with the same code and the same launch has run
    #[arg(long)]
    pub no_reuse: bool,
    /// Also run each on N inputs that differ from the recorded one, and compare with the application's own code
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub fresh: u32,
    /// The seed of the first of these inputs, as in fresh_inputs of a result [default: random]
    #[arg(long, value_name = "SEED")]
    pub fresh_seed: Option<u64>,
}

/// Replays one recorded GPU kernel under any compilation and launch shape, and verifies every byte that it writes.
///
/// Prints a summary on a terminal, else one JSON object {"Replay-config": …, "Result": …}; messages go to standard error.
#[derive(Parser, Debug)]
#[command(name = "mneme-replay", version, after_help = EXAMPLES, override_usage = USAGE)]
pub struct OneShot {
    #[command(flatten)]
    pub common: CommonOptions,

    /// LLVM pass pipeline, in the syntax of opt -passes [default: that of the application's level, else that of O3]
    #[arg(value_name = "PIPELINE")]
    pub passes: Option<String>,

    #[command(flatten)]
    pub fields: FieldOptions,

    #[command(flatten)]
    pub runs: RunOptions,

    /// Also count a launch on the hardware, with NVIDIA's names of counters, as in
    /// dram__bytes.sum,smsp__inst_executed.sum; CUPTI (CUDA 12.6 or later) must be installed
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["check", "wrote", "touched"])]
    pub counters: Vec<String>,
    /// Also run on N inputs that differ from the recorded one, and compare with the application's own code [default: 3
    /// with --source, --ir and --ptx]
    #[arg(long, value_name = "N", conflicts_with_all = ["check", "wrote", "touched", "repeat"])]
    pub fresh: Option<u32>,
    /// The seed of the first of these inputs, as in fresh_inputs of a result [default: random]
    #[arg(long, value_name = "SEED", conflicts_with_all = ["check", "wrote", "touched", "repeat"])]
    pub fresh_seed: Option<u64>,
    /// Run N times without changes and report which buffers differ from run to run
    #[arg(long, value_name = "N", value_parser = runs(2), conflicts_with = "iterations")]
    pub repeat: Option<u32>,
    /// Write the tolerances that --repeat finds necessary beside the recording
    #[arg(long, requires = "repeat")]
    pub write_tolerances: bool,
    /// Write the buffers that differ from the recording to this folder, with an index.json
    #[arg(long, value_name = "FOLDER")]
    pub dump_diff: Option<PathBuf>,

    /// Print the JSON object on a terminal too
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub observation: ObservationOptions,
    #[command(flatten)]
    pub code: CodeOptions,

    /// Write all results of the build to this folder: IR before and after, PTX, machine code, SASS, the build's log
    #[arg(long, value_name = "FOLDER")]
    pub output_dir: Option<PathBuf>,
    /// Write the IR after the pipeline here, also -ol
    #[arg(long, alias = "ol", value_name = "FILE")]
    pub output_ll: Option<PathBuf>,
    /// Write the PTX, which the assembler reads, to this file
    #[arg(long, value_name = "FILE")]
    pub output_ptx: Option<PathBuf>,
}

impl Arguments {
    /// The command line of all modes.
    pub fn command() -> clap::Command {
        // A pipeline stands in the place of a subcommand: only the first word can be a subcommand, and `help` is not
        // one.
        Self::augment_subcommands(OneShot::command())
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .disable_help_subcommand(true)
    }

    /// Reads a command line, whose first word is the program.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches =
            Self::command().try_get_matches_from(mneme_system::arguments::normalise(words, &with_one_dash()))?;
        match matches.subcommand_name() {
            Some(_) => Self::from_arg_matches(&matches),
            None => OneShot::from_arg_matches(&matches).map(|one_shot| Self::OneShot(Box::new(one_shot))),
        }
    }

    pub fn common(&self) -> &CommonOptions {
        match self {
            Self::Serve(serve) => &serve.common,
            Self::Sweep(sweep) => &sweep.common,
            Self::OneShot(one_shot) => &one_shot.common,
        }
    }

    /// The settings from the command line.
    pub fn settings(&self) -> ReplaySettings {
        let default_llvm = if let Self::Serve(serve) = self { serve.llvm } else { None };
        let Self::OneShot(options) = self else {
            return ReplaySettings { standby: true, default_llvm, ..self.common().settings() };
        };
        let OneShot { code, output_dir, output_ll, output_ptx, repeat, dump_diff, .. } = &**options;
        let all = output_dir.is_some();
        let common = self.common().settings();
        let timing = if options.counters.is_empty() { common.timing } else { common.timing.without_cupti() };
        ReplaySettings {
            timing,
            code: code.file(),
            external: code.external(),
            keep: Keep { before: all, after: all || output_ll.is_some(), isa: all, ..Keep::default() },
            texts: all || output_ll.is_some() || output_ptx.is_some(),
            survey: repeat.is_some(),
            dump: dump_diff.clone(),
            llvm: options.fields.llvm(),
            original: code.original,
            ..common
        }
    }
}

impl OneShot {
    /// The recorded configuration with the changes of the options.
    ///
    /// # Errors
    /// A value that the field cannot have.
    pub fn configuration(&self, recorded: &Configuration) -> Result<Configuration, Fatal> {
        let passes = self.passes.iter().map(|passes| ("passes", json!(passes)));
        let original = self.code.original.then_some(("original", json!(true)));
        self.fields.configuration(passes.chain(original), recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::configuration::Specialize;
    use mneme_model::launch::Dim3;

    fn read(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::read(std::iter::once("mneme-replay").chain(line.split_whitespace()).map(OsString::from))
    }

    fn one_shot(line: &str) -> OneShot {
        match read(line).unwrap() {
            Arguments::OneShot(one_shot) => *one_shot,
            other => panic!("'{line}' is a one-shot replay, not {other:?}"),
        }
    }

    fn configuration(line: &str) -> Configuration {
        one_shot(line).configuration(&Configuration::recorded(Dim3::new(10, 2, 3), Dim3::new(32, 4, 1), 16)).unwrap()
    }

    #[test]
    fn the_declaration_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_spelling_means_the_same() {
        let long = "--record-db a.json --record-id 7 default<O1> --grid-dim-x 1 --grid-dim-y 2 --grid-dim-z 3 --block-dim-x 4 \
                    --block-dim-y 5 --block-dim-z 6 --shared-mem 7 --specialize-dims --set-launch-bounds --codegen-opt 1";
        let short =
            "-rdb a.json -rid=7 default<O1> -gidx 1 -gidy 2 -gidz 3 -bidx 4 -bidy 5 -bidz=6 -shem 7 -sdims -slb -co 1";
        assert_eq!(configuration(long), configuration(short));
        let found = configuration(short);
        assert_eq!((found.grid, found.block, found.shared_mem), (Dim3::new(1, 2, 3), Dim3::new(4, 5, 6), 7));
        assert_eq!((found.specialize_dims, found.set_launch_bounds, found.codegen_opt), (true, true, 1));
        let arguments = one_shot("-rdb a.json -rid 7 x -it 9 -ol out.ll");
        assert_eq!((arguments.runs.iterations, arguments.output_ll), (9, Some("out.ll".into())));
        assert_eq!(arguments.common.id.as_deref(), Some("7"));
    }

    #[test]
    fn what_is_beyond_the_existing_mneme_has_options_too() {
        let found = configuration(
            "-rdb a.json x --specialize=0,2 --facts --maxnreg 64 --ptx-opt 1 --fast-math --llvm-option -a --llvm-option=-b=1",
        );
        assert_eq!(found.specialize, Specialize::Arguments(vec![0, 2]));
        assert_eq!((found.facts, found.maxnreg, found.ptx_opt, found.fast_math), (true, 64, Some(1), true));
        assert_eq!(found.llvm_options, ["-a", "-b=1"]);
        // A pipeline may follow the bare option.
        let found = configuration("-rdb a.json --specialize default<O1>");
        assert_eq!((found.specialize, found.passes.as_str()), (Specialize::All, "default<O1>"));
        let external = one_shot("-rdb a.json --load-pass-plugin /x.so").code.external().unwrap();
        assert_eq!((external.program, external.plugins), (None, vec!["/x.so".into()]));
        assert!(one_shot("-rdb a.json").code.external().is_none());
    }

    #[test]
    fn defaults_are_the_recorded_launch_and_upstreams() {
        let arguments = one_shot("-rdb a.json");
        assert_eq!((arguments.runs.iterations, arguments.runs.warmup), (3, 2));
        assert_eq!(arguments.common.verification.options(), crate::verify::tolerances::ToleranceOptions::default());
        let recorded = Configuration::recorded(Dim3::new(10, 2, 3), Dim3::new(32, 4, 1), 16);
        assert_eq!(configuration("-rdb a.json default<O3>"), recorded);
        let changed =
            configuration("-rdb a.json --no-prune --internalize --specialize --max-threads 64 --min-blocks-per-sm 2");
        assert_eq!((changed.prune, changed.internalize, changed.specialize), (false, true, true.into()));
        assert_eq!((changed.max_threads, changed.min_blocks_per_sm), (Some(64), 2));
    }

    #[test]
    fn tolerances_come_in_order() {
        let options = |line: &str| read(line).unwrap().common().verification.options();
        assert_eq!(options("-rdb a --rtol 1e-3").rtol, Some(1e-3));
        assert_eq!(options("serve -rdb a --atol 2").atol, Some(2.0));
        let both = options("-rdb a --tolerance f32:1e-5 --tolerance argument:0=ignore").tolerances;
        assert!(both[0].memory.is_none() && both[1].tolerance.ignore);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "-rdb a.json --no-such-option", "-rdb a.json x y", "-rdb a.json --iterations many",
            "-rdb a.json --iterations 0", "-rdb a.json --rtol -1", "-rdb a.json --rtol nan",
            "-rdb a.json --tolerance f80:1", "-rdb a.json --write-tolerances", "-rdb a.json --repeat 1",
            "-rdb a.json --repeat 3 --iterations 4", "-rdb a.json --timeout 0", "-rdb a.json --timeout inf",
            "-rdb a.json --timeout 1e19", "-rdb a.json --device gpu", "-rdb a.json --device 0,gpu",
            "-rdb a.json --isolation chroot", "-rdb a.json --memory-limit 0", "sweep -rdb a.json one.jsonl two.jsonl",
            "-rdb a.json -co 4", "-rdb a.json --ptx-opt 4", "-rdb a.json --maxnreg 256", "-rdb a.json --specialize=x",
            "-rdb a.json --ir a.ll --ptx a.ptx", "-rdb a.json --source-flag -DX",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}

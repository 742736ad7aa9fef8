//! The command line of `mneme-bisect`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use mneme_model::configuration::{Configuration, DEFAULT_PASSES};
use mneme_system::arguments::ValueError;
use serde_json::json;

use super::{CodeOptions, CommonOptions, FieldOptions, with_one_dash};
use crate::error::Fatal;

const EXAMPLES: &str = "\
Examples:
  mneme-bisect -rdb recording/1234.json -rid 5678 \"default<O3>\"
      the kernel does not verify with default<O3>: finds the pass, the function and the change
  mneme-bisect -rdb recording/1234.json \"default<O3>\" --reference \"default<O1>\" --rtol 1e-5
      default<O1> is known to be good; floats may differ slightly
  mneme-bisect -rdb recording/1234.json \"function(instcombine,gvn)\" --failing crash
      LLVM crashes
  mneme-bisect -rdb recording/1234.json \"default<O3>\" --reference \"default<O2>\" --failing slow --threshold 1.1
      finds the pass that makes it more than 1.1 times as slow as default<O2> does
  mneme-bisect -rdb recording/1234.json \"default<O3>\" --reference \"default<O1>\" --failing regs
      finds the pass that makes it use more registers than default<O1> does
  mneme-bisect -rdb recording/1234.json \"default<O3>\" --good-llvm 19 --bad-llvm 22
      right with LLVM 19 and wrong with LLVM 22: finds the pass of LLVM 22
  mneme-bisect -rdb recording/1234.json --source kernel.cu --json
      bisects an edited kernel; prints the finding as JSON

Exit status, as git bisect run takes it:
  0 the pipeline is good                  5 found: a field of the configuration, such as --fast-math
  1 found: an IR pass                     125 cannot be judged: the reference fails too
  2 found: LLVM's code generation         64 bad usage
  3 found: the assembler                  65 bad recording
  4 found: undefined behaviour or a race  66 a named file or folder is missing
    in the kernel itself                  69 no such device";

/// Finds the reason why a recorded kernel is right with one pipeline and wrong with another: the pass, the back end,
/// the assembler or the kernel itself.
///
/// Prints the finding on standard error, and writes the IR before and after the pass, their difference and a reproducer
/// to a folder.
#[derive(Parser, Debug)]
#[command(name = "mneme-bisect", version, after_help = EXAMPLES)]
pub struct Bisect {
    #[command(flatten)]
    pub common: CommonOptions,

    /// The pipeline that fails, in the syntax of opt -passes
    #[arg(value_name = "PIPELINE", default_value = DEFAULT_PASSES)]
    pub passes: String,

    /// A pipeline that is known to be good
    #[arg(long, value_name = "PIPELINE", default_value = "default<O0>")]
    pub reference: String,

    /// A version of LLVM with which the pipeline is good; the reference is then this configuration compiled with it
    #[arg(long, value_name = "NN", requires = "bad_llvm", conflicts_with_all = ["reference", "llvm"])]
    pub good_llvm: Option<u32>,

    /// The version of LLVM with which it fails; the reported pass is one of its passes
    #[arg(long, value_name = "NN", requires = "good_llvm")]
    pub bad_llvm: Option<u32>,

    /// The kind of failure to look for
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub failing: FailureKind,

    /// The factor from which the reference's time (slow) or registers (regs) count as exceeded [default: 1.2 for slow,
    /// 1 for regs]
    #[arg(long, value_name = "X", value_parser = threshold)]
    pub threshold: Option<f64>,

    /// Runs of each candidate; the reference has at least five
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: u32,

    /// Folder for the finding [default: bisect-ID]
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,

    /// Time for making the reproducer smaller, seconds; 0 skips that
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub reduce: Duration,

    /// Print the finding as JSON on standard output
    #[arg(long)]
    pub json: bool,

    /// Colours on standard error
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorChoice,

    #[command(flatten)]
    pub fields: FieldOptions,
    #[command(flatten)]
    pub code: CodeOptions,
}

/// The kind of failure of a bad configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It runs and does not verify, faults or hangs
    #[default]
    Wrong,
    /// It cannot be built: LLVM or the assembler crashes, hangs or gives up
    Crash,
    /// It is slower than the reference by more than the threshold
    Slow,
    /// It takes more registers than the reference, by more than the threshold
    Regs,
}

/// Whether to write colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Bisect {
    /// Reads a command line, whose first word is the program.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(mneme_system::arguments::normalise(words, &with_one_dash()))
    }

    /// The configuration that fails.
    ///
    /// # Errors
    /// A value that the field cannot have.
    pub fn configuration(&self, recorded: &Configuration) -> Result<Configuration, Fatal> {
        let bad_llvm = self.bad_llvm.map(|version| ("llvm", json!(version)));
        self.fields.configuration([("passes", json!(self.passes))].into_iter().chain(bad_llvm), recorded)
    }

    /// The factor for the reference's figure.
    pub fn threshold(&self) -> f64 {
        self.threshold.unwrap_or(if self.failing == FailureKind::Slow { 1.2 } else { 1.0 })
    }
}

fn threshold(text: &str) -> Result<f64, ValueError> {
    text.parse()
        .ok()
        .filter(|value: &f64| (1.0..=1e6).contains(value))
        .ok_or_else(|| "it must be a number of at least 1".into())
}

fn seconds(text: &str) -> Result<Duration, ValueError> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.0..=1e6).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it must be a number of seconds".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn read(line: &str) -> Result<Bisect, clap::Error> {
        Bisect::read(std::iter::once("mneme-bisect").chain(line.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn a_command_line_is_a_replays_and_more() {
        Bisect::command().debug_assert();
        let options = read("-rdb a.json -rid 7 default<O2> -bidx 64 --failing slow --codegen-opt 1").unwrap();
        assert_eq!(
            (options.failing, options.threshold(), options.reference.as_str()),
            (FailureKind::Slow, 1.2, "default<O0>")
        );
        let found = options.configuration(&Configuration::default()).unwrap();
        assert_eq!((found.block.x, found.codegen_opt, found.passes.as_str()), (64, 1, "default<O2>"));
        assert_eq!(read("-rdb a.json --failing regs").unwrap().threshold(), 1.0);
        let options = read("-rdb a.json default<O3> --good-llvm 19 --bad-llvm 22").unwrap();
        let found = options.configuration(&Configuration::default()).unwrap();
        assert_eq!((options.good_llvm, found.llvm), (Some(19), Some(22)));
        assert!(read("-rdb a.json --good-llvm 19").is_err() && read("-rdb a.json --bad-llvm 22").is_err());
        assert!(read("-rdb a.json --threshold 0.5").is_err());
        assert!(read("-rdb a.json --failing often").is_err());
    }
}

//! The commands `mneme test` and `mneme compare`: recorded kernels as a regression suite.
//!
//! [`replays`] runs every recorded launch, [`stored`] keeps the results in a file, [`verdict`] compares two such files,
//! and [`output`] writes the comparison for people and for continuous integration.

mod output;
mod replays;
mod stored;
mod verdict;

use std::path::PathBuf;

use clap::Args;
use mneme_system::arguments::ValueError;
use mneme_system::exit;

use self::stored::ResultsFile;
use self::verdict::{CaseVerdict, compare as compared};
use crate::device;
use crate::error::CommandError;
use crate::output::print;

#[derive(Debug, Args)]
pub struct TestOptions {
    /// Folders with recordings, or files of single kernels [default: recording]
    #[arg(value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// The same as RECORDING (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "RECORDING", conflicts_with = "recordings")]
    record_database: Option<PathBuf>,
    /// Only kernels with this in their name, mangled or demangled
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Replay under this pipeline, in the syntax of opt -passes, or "original" for the application's own code; may be
    /// repeated [default: each launch as recorded]
    #[arg(long = "passes", value_name = "PIPELINE", value_parser = pipeline, allow_hyphen_values = true)]
    pipelines: Vec<String>,
    /// Measured runs of each launch in each start of the replayer
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Starts of the replayer for each launch; times are compared from 4 starts on
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Replay on this device (cuda, hip, cpu, or a number)
    #[arg(long, value_name = "DEVICE", value_parser = device::of_replays)]
    device: Option<String>,
    /// Compare with the results in this file
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Write the results to this file, for --against and mneme compare
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOptions,
}

#[derive(Debug, Args)]
pub struct CompareOptions {
    /// Earlier results of mneme test --save
    before: PathBuf,
    /// Results to compare with them
    after: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
}

#[derive(Debug, Args)]
struct ReportOptions {
    /// Differences in time below this many percent count as the same
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    threshold: f64,
    /// Write the comparison as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the comparison as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Append the comparison as a Markdown table to this file, such as $GITHUB_STEP_SUMMARY
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn percent(text: &str) -> Result<f64, ValueError> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("use a number of percent from 0 to 1000".into()),
    }
}

/// Rejects texts that begin like an option: a mistyped option must not pass as a pipeline.
fn pipeline(text: &str) -> Result<String, ValueError> {
    if text.starts_with('-') { Err("a pipeline must not begin with -".into()) } else { Ok(text.to_owned()) }
}

/// Replays everything. Ends with 1 if a case is broken or slower, with 6 if one is unproven or inconclusive, and with 70
/// if one is untested.
pub fn test(options: &TestOptions) -> Result<(), CommandError> {
    // Unreadable or unwritable files must fail before hours of replays, not after.
    let before = options.against.as_deref().map(ResultsFile::load).transpose()?;
    let cases = replays::find(options)?;
    options.save.as_deref().map_or(Ok(()), ResultsFile::probe)?;
    output::probe(&options.report)?;
    let after = replays::run(&cases, options)?;
    let unsaved = options.save.as_deref().and_then(|path| after.save(path).err());
    report(before.as_ref(), &after, &options.report, unsaved)
}

/// Compares two files of results. Ends with 1 if a case is broken or slower in the second, with 6 if one is unproven or
/// inconclusive, and with 70 if one is untested.
pub fn compare(options: &CompareOptions) -> Result<(), CommandError> {
    let (before, after) = (ResultsFile::load(&options.before)?, ResultsFile::load(&options.after)?);
    output::probe(&options.report)?;
    report(Some(&before), &after, &options.report, None)
}

/// Shows the comparison and writes its files, even if some fail. A failing verdict decides the status, because it is
/// the purpose of the command; write errors are always reported.
fn report(
    before: Option<&ResultsFile>,
    after: &ResultsFile,
    options: &ReportOptions,
    unsaved: Option<CommandError>,
) -> Result<(), CommandError> {
    let compared = compared(before, after, options.threshold / 100.0);
    let text = output::text(before, after, &compared);
    let mut errors = Vec::from_iter(unsaved);
    // Standard output is either for people or for programs.
    if options.json.as_deref().is_some_and(output::is_standard_output) {
        mneme_system::remark!("{}", text.trim_end_matches('\n'));
    } else {
        errors.extend(print(&text).err());
    }
    errors.extend(output::write(options, before, after, &compared));
    let failing = || compared.iter().map(|compared| compared.verdict).filter(|verdict| verdict.fails());
    let fails = failing().next().is_some();
    let last = errors.pop_if(|_| !fails);
    for error in errors {
        mneme_system::remark!("mneme: {error}");
    }
    if fails {
        let has = |wanted: CaseVerdict| failing().any(|verdict| verdict == wanted);
        use CaseVerdict::{Inconclusive, Unproven, Untested};
        let is_wrong = failing().any(|it| !matches!(it, Unproven | Inconclusive | Untested));
        std::process::exit(match () {
            () if is_wrong => exit::NOT_VERIFIED,
            () if has(Unproven) || has(Inconclusive) => exit::UNPROVEN,
            () => exit::INTERNAL,
        });
    }
    last.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_no_pipeline() {
        assert_eq!(pipeline("default<O2>").as_deref(), Ok("default<O2>"));
        assert!(pipeline("--check").is_err() && pipeline("-").is_err());
    }
}

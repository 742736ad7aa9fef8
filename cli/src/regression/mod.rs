//! The commands `mneme test` and `mneme compare`: recorded kernels as a regression suite.
//!
//! [`replays`] runs every recorded launch, [`stored`] keeps what came of it in a file, [`verdict`] compares two such
//! files, and [`output`] writes the comparison for people and for continuous integration.

mod output;
mod replays;
mod stored;
mod verdict;

use std::path::PathBuf;

use clap::Args;
use mneme_core::exit;

use crate::device;
use crate::error::CommandError;
use crate::print;

use self::stored::ResultsFile;
use self::verdict::{CaseVerdict, compare as compared};

#[derive(Debug, Args)]
pub struct TestOptions {
    /// Folders with recordings, or files of single kernels
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Replay under this pipeline, in the syntax of opt -passes; repeat it for more, "original" is the application's
    /// own code [default: each launch as it was recorded]
    #[arg(long = "passes", value_name = "PIPELINE", value_parser = pipeline, allow_hyphen_values = true)]
    pipelines: Vec<String>,
    /// Measured runs of each launch in each start of the replayer
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Starts of the replayer for each launch; times of fewer than 4 are not compared
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
    /// Results of mneme test --save, of before
    before: PathBuf,
    /// Results to compare with them
    after: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
}

#[derive(Debug, Args)]
struct ReportOptions {
    /// Slower and faster by less than this are the same, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    threshold: f64,
    /// Write the comparison as JSON to this file, - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write it as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Append it as a table of Markdown, to $GITHUB_STEP_SUMMARY for example
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("a number of percent from 0 to 1000".into()),
    }
}

/// No pipeline begins like an option, and one that is an option by mistake is to change nothing.
fn pipeline(text: &str) -> Result<String, String> {
    if text.starts_with('-') { Err("a pipeline does not begin with -".into()) } else { Ok(text.to_owned()) }
}

/// Replays everything; ends with 1 if something is broken or slower, with 6 if something is unproven, and with 70 if
/// something is untested.
pub fn test(options: &TestOptions) -> Result<(), CommandError> {
    // What cannot be read or written ends this before hours of replays, not after them.
    let before = options.against.as_deref().map(ResultsFile::load).transpose()?;
    let cases = replays::find(&options.recordings, &options.pipelines)?;
    options.save.as_deref().map_or(Ok(()), ResultsFile::probe)?;
    output::probe(&options.report)?;
    let after = replays::run(&cases, options)?;
    let unsaved = options.save.as_deref().and_then(|path| after.save(path).err());
    report(before.as_ref(), &after, &options.report, unsaved)
}

/// Compares two files of results; ends with 1 if something is broken or slower in the second, with 6 if something is
/// unproven, and with 70 if something is untested.
pub fn compare(options: &CompareOptions) -> Result<(), CommandError> {
    let (before, after) = (ResultsFile::load(&options.before)?, ResultsFile::load(&options.after)?);
    output::probe(&options.report)?;
    report(Some(&before), &after, &options.report, None)
}

/// Shows the comparison and writes its files, each whatever becomes of the others. A verdict that fails decides the
/// status, because it is what the command is run for; files that could not be written are told in any case.
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
        mneme_core::remark!("{}", text.trim_end_matches('\n'));
    } else {
        errors.extend(print(&text).err());
    }
    errors.extend(output::write(options, before, after, &compared));
    let failing = || compared.iter().map(|compared| compared.verdict).filter(|verdict| verdict.fails());
    let fails = failing().next().is_some();
    let last = errors.pop_if(|_| !fails);
    for error in errors {
        mneme_core::remark!("mneme: {error}");
    }
    if fails {
        let has = |wanted: CaseVerdict| failing().any(|verdict| verdict == wanted);
        let is_wrong = failing().any(|it| !matches!(it, CaseVerdict::Unproven | CaseVerdict::Untested));
        std::process::exit(match () {
            () if is_wrong => exit::NOT_VERIFIED,
            () if has(CaseVerdict::Unproven) => exit::UNPROVEN,
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

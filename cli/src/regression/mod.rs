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

use crate::error::CommandError;
use crate::print;

use self::stored::ResultsFile;
use self::verdict::{Compared, compare as compared};

#[derive(Debug, Args)]
pub struct TestOptions {
    /// Folders with recordings, or files of single kernels
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Replay under this pipeline, in the syntax of opt -passes; repeat it for more, "original" is the application's own
    /// code [default: each launch as it was recorded]
    #[arg(long = "passes", value_name = "PIPELINE")]
    pipelines: Vec<String>,
    /// Measured runs of each
    #[arg(long, value_name = "COUNT", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Replay on this device (cuda, hip, cpu, or a number)
    #[arg(long, value_name = "DEVICE")]
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

/// Replays everything; ends with 1 where something is broken or slower.
pub fn test(options: &TestOptions) -> Result<(), CommandError> {
    // What cannot be read ends this before hours of replays, not after them.
    let before = options.against.as_deref().map(ResultsFile::load).transpose()?;
    let cases = replays::find(&options.recordings, &options.pipelines)?;
    let after = replays::run(&cases, options.iterations, options.device.as_deref())?;
    if let Some(path) = &options.save {
        after.save(path)?;
    }
    report(
        compared(before.as_ref(), &after, options.report.threshold / 100.0),
        before.as_ref(),
        &after,
        &options.report,
    )
}

/// Compares two files of results; ends with 1 where something is broken or slower in the second.
pub fn compare(options: &CompareOptions) -> Result<(), CommandError> {
    let (before, after) = (ResultsFile::load(&options.before)?, ResultsFile::load(&options.after)?);
    report(compared(Some(&before), &after, options.report.threshold / 100.0), Some(&before), &after, &options.report)
}

fn report(
    compared: Vec<Compared>,
    before: Option<&ResultsFile>,
    after: &ResultsFile,
    options: &ReportOptions,
) -> Result<(), CommandError> {
    output::write(options, before, after, &compared)?;
    let text = output::text(before, after, &compared);
    // Standard output is either for people or for programs.
    if options.json.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        eprint!("{text}");
    } else {
        print(&text)?;
    }
    if compared.iter().any(|compared| compared.verdict.fails()) {
        std::process::exit(exit::NOT_VERIFIED);
    }
    Ok(())
}

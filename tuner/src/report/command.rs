//! `mneme-tune report`: writes a session's report, and exports its trials.

use std::path::PathBuf;

use mneme_system::exit;

use crate::archive::Archive;
use crate::export;

const EXAMPLES: &str = "Examples:
  mneme-tune report mneme-tune-results/vecadd
      writes mneme-tune-results/vecadd/report.html
  mneme-tune report results --output for-the-wiki.html --csv trials.csv
  mneme-tune report results --t4 results.json
  mneme-tune report results --optuna-journal study.log
      optuna-dashboard study.log then opens the trials; Optuna does with
      JournalStorage(JournalFileBackend('study.log'))

Exit status: 0 done, 64 bad usage, 66 the folder has no results, 70 a file cannot be written.";

/// Write the report of a tuning session, from its results folder
#[derive(Debug, clap::Args)]
#[command(version, after_help = EXAMPLES)]
pub struct ReportOptions {
    /// The folder with the session's results (its --results-dir)
    results: PathBuf,
    /// File for the report [default: report.html in the folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the trials as a table, one row each
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write the trials as a results file of T4, Kernel Tuner's format
    #[arg(long, value_name = "FILE")]
    t4: Option<PathBuf>,
    /// Also write the trials as a study in Optuna's journal storage
    #[arg(long, value_name = "FILE")]
    optuna_journal: Option<PathBuf>,
    /// Name of that study [default: the folder's name]
    #[arg(long, value_name = "NAME", requires = "optuna_journal")]
    study_name: Option<String>,
}

/// Runs the command, and returns the exit status.
pub fn run(options: &ReportOptions) -> i32 {
    match write(options) {
        Ok(()) => 0,
        Err((status, sentence)) => {
            mneme_system::remark!("mneme-tune: {sentence}");
            status
        }
    }
}

fn write(options: &ReportOptions) -> Result<(), (i32, String)> {
    let archive = Archive::read(&options.results).map_err(|error| (error.exit_status(), error.to_string()))?;
    let unwritable = |error: &dyn std::fmt::Display| (exit::INTERNAL, error.to_string());
    let path = super::write_archive(&archive, options.output.as_deref()).map_err(|error| unwritable(&error))?;
    if archive.torn > 0 {
        let lines = if archive.torn == 1 { "1 line".into() } else { format!("{} lines", archive.torn) };
        mneme_system::remark!("mneme-tune: {lines} of trials.jsonl could not be read and are not in the report");
    }
    mneme_system::remark!("The report is in {}", path.display());
    if let Some(path) = &options.csv {
        export::table::write(&archive, path).map_err(|error| unwritable(&error))?;
        mneme_system::remark!("The trials are in {}", path.display());
    }
    if let Some(path) = &options.t4 {
        export::t4::write(&archive, path).map_err(|error| unwritable(&error))?;
        mneme_system::remark!("The T4 file is in {}", path.display());
    }
    if let Some(path) = &options.optuna_journal {
        let name =
            options.results.file_name().map_or_else(|| "mneme".into(), |name| name.to_string_lossy().into_owned());
        export::optuna::write(&archive, options.study_name.as_ref().unwrap_or(&name), path)
            .map_err(|error| unwritable(&error))?;
        mneme_system::remark!("The study is in {}", path.display());
    }
    Ok(())
}

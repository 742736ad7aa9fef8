//! The command `mneme profile`, which ranks kernels by GPU time.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use mneme_model::summary::RecorderMode;

use crate::application::{Application, end_like};
use crate::error::CommandError;
use crate::report::{self, SummaryFile};
use crate::variables;

#[derive(Debug, Args)]
pub struct ProfileOptions {
    /// Only kernels whose mangled or demangled name matches this regular expression
    #[arg(long, alias = "record-regex", value_parser = variables::regular_expression, value_name = "REGEX")]
    kernels: Option<String>,
    /// Time every Nth launch of each kernel [default: chosen to cost little, at least one in 64]
    #[arg(long, value_name = "EVERY", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Write the table as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    pub application: Application,
}

/// Runs the application. Returns only if that fails.
pub fn run(options: &ProfileOptions) -> Result<std::convert::Infallible, CommandError> {
    report::check_places(options.json.as_deref())?;
    let summaries_file = SummaryFile::open()?;
    let mut settings: Vec<(&str, OsString)> = Vec::new();
    settings.extend(options.kernels.iter().map(|kernels| ("MNEME_RR_KERNELS", kernels.into())));
    settings.extend(options.sample.iter().map(|every| ("MNEME_SAMPLE", every.to_string().into())));
    let status = options.application.run(RecorderMode::Profile, &settings, &summaries_file)?;
    let summaries = summaries_file.read();
    let name = options.application.name();
    report::publish(RecorderMode::Profile, &name, status, &summaries, options.json.as_deref(), true);
    end_like(status)
}

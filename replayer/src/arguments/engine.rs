//! Options of the engine, which a single replay, a sweep and a server share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::target::Choice;

/// What all modes are told.
#[derive(Args, Debug)]
pub struct Common {
    /// The .json file of the recorded kernel, also -rdb; or the recording's folder, where --kernel, -rid or its only kernel says
    /// which one
    #[arg(long = "record-db", alias = "rdb", alias = "record-database", alias = "record-db-dir", value_name = "FILE|FOLDER")]
    pub database: PathBuf,

    /// The dynamic hash of the recorded instance; may be left out where there is one, also -rid
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    pub id: Option<String>,

    /// The kernel of a folder: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,

    /// Where to replay: cpu, cuda, or the number of a GPU [default: as recorded]
    #[arg(long, value_name = "DEVICE", value_parser = Choice::parse)]
    pub device: Option<Choice>,

    #[command(flatten)]
    pub verification: super::verification::Verification,

    /// Time limit for a build, and for all runs of a configuration, seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,

    /// Configurations that are compiled at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub builders: Option<u32>,

    /// Messages on standard error: error, warn, info, debug or trace
    #[arg(short = 'v', long = "verbose", visible_alias = "log-level", value_name = "LEVEL", default_value = "warn")]
    pub level: tracing::Level,
}

/// The longest limit, seconds: thirty years, which is still a point in time that can be waited for.
const LONGEST: f64 = 1e9;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= LONGEST);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("it must be a number of seconds above 0, at most {LONGEST:e}"))
}

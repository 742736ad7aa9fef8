//! Options of the engine, which a single replay, a sweep and a server share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::elements::DataType;
use crate::target::Choice;
use crate::verify::Tolerance;

/// What all modes are told.
#[derive(Args, Debug)]
pub struct Common {
    /// The .json file of the recorded kernel, also -rdb
    #[arg(long = "record-db", alias = "rdb", alias = "record-database", alias = "record-db-dir", value_name = "FILE")]
    pub database: PathBuf,

    /// The dynamic hash of the recorded instance; may be left out where there is one, also -rid
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    pub id: Option<String>,

    /// Where to replay: cpu, cuda, or the number of a GPU [default: as recorded]
    #[arg(long, value_name = "DEVICE", value_parser = Choice::parse)]
    pub device: Option<Choice>,

    /// Let float and double values differ by this much, relative to the recorded value
    #[arg(long, value_name = "R", value_parser = tolerance)]
    pub rtol: Option<f64>,

    /// Let float and double values differ by this much, absolutely
    #[arg(long, value_name = "A", value_parser = tolerance)]
    pub atol: Option<f64>,

    /// What memory holds, for --rtol and --atol; auto goes by the kernel's parameter types
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub dtype: DataType,

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

impl Common {
    /// `None` asks for equal bits.
    pub fn tolerance(&self) -> Option<Tolerance> {
        (self.rtol.is_some() || self.atol.is_some())
            .then(|| Tolerance { absolute: self.atol.unwrap_or(0.0), relative: self.rtol.unwrap_or(0.0) })
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0).ok_or_else(|| "it must be a number of at least 0".into())
}

/// The longest limit, seconds: thirty years, which is still a point in time that can be waited for.
const LONGEST: f64 = 1e9;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= LONGEST);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("it must be a number of seconds above 0, at most {LONGEST:e}"))
}

//! Options that a single replay, a sweep and a server share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mneme_builds::Keep;
use mneme_model::configuration::MAX_TIMEOUT;
use mneme_model::device::Timer;
use mneme_model::tolerance::DataType;
use mneme_recording::USUAL;
use mneme_system::arguments::{ValueError, non_negative};

use crate::build::replacement::CodeBeside;
use crate::context::device::Choice;
use crate::context::settings::{Isolation, ReplaySettings};
use crate::context::timing::Timing;
use crate::verify::tolerances::{ToleranceOption, ToleranceOptions};

/// The method of timing kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Timers {
    /// The device's own clock if its library is installed and no other profiler uses it, else events: CUPTI for kernels
    /// of less than 0.2 ms on NVIDIA's GPUs, rocprofiler on AMD's
    #[default]
    Auto,
    /// Events before and after the launch, which add about 5 µs
    Events,
    /// NVIDIA's CUPTI, or an error if it cannot be used
    Cupti,
    /// AMD's rocprofiler-sdk, or an error if it cannot be used
    Rocprofiler,
}

impl From<Timers> for Timing {
    fn from(timer: Timers) -> Self {
        match timer {
            Timers::Auto => Self::Best,
            Timers::Events => Self::Only(Timer::Events),
            Timers::Cupti => Self::Only(Timer::Cupti),
            Timers::Rocprofiler => Self::Only(Timer::Rocprofiler),
        }
    }
}

/// The options of all modes.
#[derive(Args, Debug)]
pub struct CommonOptions {
    /// The recording's folder, if --kernel, -rid or its only kernel identifies the kernel; or the .json file of the
    /// recorded kernel (also -rdb)
    #[arg(
        long = "record-db",
        alias = "rdb",
        alias = "record-database",
        alias = "record-db-dir",
        value_name = "FOLDER|FILE",
        default_value = USUAL
    )]
    pub database: PathBuf,

    /// Trust this folder and its contents, whoever owns it; may be repeated [default: MNEME_TRUST]
    #[arg(long, value_name = "FOLDER")]
    pub trust: Vec<PathBuf>,

    /// The dynamic hash of the recorded instance, or its first digits; not needed if there is only one (also -rid)
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    pub id: Option<String>,

    /// The kernel of a folder: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,

    /// Start from the PTX that the program had beside the recorded machine code, even if it is for another GPU; it is
    /// lifted to IR if you name a pipeline or an option needs IR
    #[arg(long, group = "code")]
    pub from_ptx: bool,

    /// Start from the LLVM IR that Triton kept beside the recorded code
    #[arg(long, group = "code")]
    pub from_llir: bool,

    /// Where to replay: cpu, cuda, hip, or the numbers of GPUs, as in 0,1 [default: as recorded]
    #[arg(long, value_name = "DEVICE", value_parser = Choice::parse, value_delimiter = ',')]
    pub device: Vec<Choice>,

    /// Configurations to run at a time; more than one on a device disturb each other's times [default: one on each
    /// device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: Option<u32>,

    /// How much a failing configuration can take down with it
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub isolation: Isolation,

    /// The method of timing kernels
    #[arg(long, value_name = "TIMER", value_enum, default_value_t)]
    pub timer: Timers,

    #[command(flatten)]
    pub verification: VerificationOptions,

    /// Time limit for a build, and for all runs of a configuration, seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,

    /// Configurations to compile at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub builders: Option<u32>,

    /// Memory that a build may use, GiB [default: half of the machine's]
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    pub memory_limit: Option<u64>,

    /// Messages on standard error: error (or critical), warn, info, debug or trace
    #[arg(
        short = 'v',
        long = "verbose",
        visible_alias = "log-level",
        value_name = "LEVEL",
        default_value = "warn",
        value_parser = level,
        overrides_with = "level"
    )]
    pub level: tracing::Level,
}

/// A level by its name, or by another name that recorders know.
fn level(text: &str) -> Result<tracing::Level, ValueError> {
    let name = match text.to_ascii_lowercase().as_str() {
        "critical" => "error",
        "warning" => "warn",
        _ => text,
    };
    name.parse().map_err(|_| "it must be error, warn, info, debug or trace".into())
}

impl CommonOptions {
    /// The settings from these options; each mode adds those for code and results.
    pub fn settings(&self) -> ReplaySettings {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        ReplaySettings {
            database: self.database.clone(),
            id: self.id.clone(),
            kernel: self.kernel.clone(),
            devices: self.device.clone(),
            workers: self.workers.map(|count| count as usize),
            isolation: self.isolation,
            timing: self.timer.into(),
            verification: self.verification.options(),
            limit: self.timeout,
            builders: self.builders.map_or_else(cores, |count| count as usize),
            builder_memory: self.memory_limit.or_else(half_of_memory),
            code: None,
            beside: match (self.from_ptx, self.from_llir) {
                (true, _) => Some(CodeBeside::Ptx),
                (_, true) => Some(CodeBeside::Llir),
                _ => None,
            },
            llvm: None,
            default_llvm: None,
            original: false,
            external: None,
            keep: Keep::default(),
            texts: false,
            standby: false,
            survey: false,
            dump: None,
            quiet: false,
        }
    }
}

/// Half of the machine's memory, bytes.
fn half_of_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 512)
}

fn gibibytes(text: &str) -> Result<u64, ValueError> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number <= 1e6);
    number.map(|number| (number * f64::from(1 << 30)) as u64).ok_or_else(|| "it must be a number of GiB above 0".into())
}

fn seconds(text: &str) -> Result<Duration, ValueError> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= MAX_TIMEOUT);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("it must be a number of seconds above 0, at most {MAX_TIMEOUT:e}").into())
}

/// How much replayed memory may differ.
#[derive(Args, Debug)]
pub struct VerificationOptions {
    /// Let a buffer, or all, differ: [BUFFER=]TYPE:THRESHOLD[:KIND[:NORM]], e.g. f32:1e-5:relative or
    /// argument:1=f64:1e-9:absolute:l2
    ///
    /// BUFFER is argument:N (the buffer that the N-th argument, from 0, points to), tag:NAME, variable:NAME or
    /// address:0x…; BUFFER@OFFSET+BYTES is a range there. Without BUFFER the tolerance is for all buffers that may hold
    /// TYPE. TYPE is u8, i8, … u64, i64, f16, f32 or f64; KIND absolute, relative or ulp (units in the last place); NORM none (every element by itself), l1,
    /// l2 or linf. BUFFER=exact requires equal bits, and BUFFER=ignore disables the comparison. May be given several
    /// times; a tolerance for one buffer overrides one for all.
    #[arg(long = "tolerance", value_name = "TOLERANCE", value_parser = ToleranceOption::parse)]
    pub tolerances: Vec<ToleranceOption>,

    /// Let float and double values differ by this much, relative to the recorded value
    #[arg(long, value_name = "R", value_parser = non_negative)]
    pub rtol: Option<f64>,

    /// Let float and double values differ by this much, absolutely
    #[arg(long, value_name = "A", value_parser = non_negative)]
    pub atol: Option<f64>,

    /// The type of all memory, for --rtol and --atol [default: by the kernel's parameter types]
    #[arg(long, value_name = "TYPE", value_parser = data_type)]
    pub dtype: Option<DataType>,
}

impl VerificationOptions {
    pub fn options(&self) -> ToleranceOptions {
        ToleranceOptions { tolerances: self.tolerances.clone(), rtol: self.rtol, atol: self.atol, dtype: self.dtype }
    }
}

fn data_type(text: &str) -> Result<DataType, ValueError> {
    let floats = [DataType::F16, DataType::F32, DataType::F64];
    floats.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| "it must be f16, f32 or f64".into())
}

//! `mneme-tune`: finds the fastest configuration of a recorded kernel.

use std::path::{Path, PathBuf};
use std::process::exit;

use clap::{Parser, ValueEnum};
use mneme_core::install;
use mneme_core::recording::database::{KernelRecord, kernels};
use mneme_core::recording::{CodeKind, RecordingError};
use mneme_tuner::metric::Metric;
use mneme_tuner::output;
use mneme_tuner::results::default_folder;
use mneme_tuner::server::ServerCommand;
use mneme_tuner::session::{self, Plan, SessionError, status};
use mneme_tuner::space::{CodegenRange, LaunchDimensions, LaunchSafety, Preset, PresetSpace, Recorded, Space, SpaceOptions};
use serde_json::json;

/// Options that may be written with one dash.
const ONE_DASH: [&str; 2] = ["rdb", "rid"];

/// Find the fastest configuration of a recorded kernel
///
/// Replays the kernel under every configuration of a search space, verifies each against the recording, and ranks those that
/// verify by their time.
#[derive(Debug, Parser)]
#[command(name = "mneme-tune", version, after_help = EXAMPLES)]
struct Options {
    /// Recorded kernel: STATIC-HASH.json, or a folder that holds one kernel (also -rdb)
    #[arg(long = "record-database", aliases = ["record-db", "rdb"], value_name = "PATH")]
    record_database: PathBuf,
    /// Instance of the kernel (dynamic hash); may be left out where there is one (also -rid)
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    record_id: Option<String>,
    /// How candidates are chosen
    #[arg(long, value_enum, default_value = "exhaustive")]
    sampler: Sampler,
    /// The built-in search space
    #[arg(long, value_enum, default_value = "standard")]
    space_preset: Preset,
    /// Axes along which the block's shape varies [default: none for compiler, else auto]
    #[arg(long, value_enum)]
    launch_dim: Option<LaunchDimensions>,
    /// Threads that a candidate block may have [default: conservative for quick, aggressive for full, else balanced]
    #[arg(long, value_enum)]
    launch_safety: Option<LaunchSafety>,
    /// Pass pipelines in the syntax of `opt -passes`, in place of the preset's; the first is the baseline's
    #[arg(long, num_args = 1.., value_name = "PIPELINE")]
    passes: Vec<String>,
    /// Code generation levels LOW:HIGH or LOW:HIGH:STEP, in place of the preset's; the baseline takes the highest
    #[arg(long, value_name = "RANGE", conflicts_with = "fixed_codegen_opt")]
    codegen_opt_range: Option<CodegenRange>,
    /// One code generation level, 0 to 3
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    fixed_codegen_opt: Option<u8>,
    /// Measured runs of each candidate
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Runs before them, which are not measured
    #[arg(long, default_value_t = 2)]
    warmup: u32,
    /// How measured times become the number that is ranked
    #[arg(long, value_enum, default_value = "mean")]
    metric: Metric,
    /// Device to replay on: cpu, cuda or the number of a GPU [default: as recorded]
    #[arg(long, value_parser = device)]
    device: Option<String>,
    /// Let float and double values differ by this much, relative to the recorded value
    #[arg(long, value_name = "R", value_parser = tolerance)]
    rtol: Option<f64>,
    /// Let float and double values differ by this much, absolutely
    #[arg(long, value_name = "A", value_parser = tolerance)]
    atol: Option<f64>,
    /// Folder for the results [default: a new one in mneme-tune-results]
    #[arg(long, value_name = "FOLDER")]
    results_dir: Option<PathBuf>,
    /// Print the search space as JSON and exit
    #[arg(long)]
    print_space: bool,
    /// Print no candidates and no progress, only baseline and best
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sampler {
    /// Every configuration of the space
    #[value(alias = "grid")]
    Exhaustive,
}

/// Accepts what `mneme-replay --device` accepts.
fn device(text: &str) -> Result<String, String> {
    let number = text.strip_prefix("cuda:").unwrap_or(text);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || ["cpu", "cuda"].contains(&text) { Ok(text.into()) } else { Err("use cpu, cuda or the number of a GPU".into()) }
}

const EXAMPLES: &str = "Examples:
  mneme-tune -rdb recording/7312.json -rid 1631 --space-preset quick
  mneme-tune -rdb recording/7312.json -rid 1631 --space-preset launch --launch-dim x \\
      --launch-safety aggressive --passes 'default<O1>' 'default<O3>' \\
      --iterations 5 --warmup 2 --results-dir results
  mneme-tune -rdb recording --space-preset full --print-space

Exit status: 0 done, 1 the baseline failed, 2 nothing verified, 3 invalid configuration,
4 the recording cannot be loaded, 5 internal error, 64 bad usage, 69 no such device,
70 the output cannot be written.";

fn tolerance(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0).ok_or_else(|| "use a number that is not negative".into())
}

fn main() {
    let arguments = mneme_core::arguments::normalise(std::env::args_os(), &ONE_DASH);
    let options = Options::try_parse_from(arguments).unwrap_or_else(|error| {
        let _ = error.print();
        exit(if error.use_stderr() { mneme_core::exit::BAD_USAGE } else { 0 })
    });
    exit(tune(options).unwrap_or_else(|(status, sentence)| {
        eprintln!("mneme-tune: {sentence}");
        status
    }));
}

fn tune(options: Options) -> Result<i32, (i32, String)> {
    let load = |error: RecordingError| (status::BAD_RECORD, error.to_string());
    let database = database(&options.record_database).map_err(|sentence| (status::BAD_RECORD, sentence))?;
    let kernel = KernelRecord::load(&database).map_err(load)?;
    let (id, instance) = kernel.instance(&database, options.record_id.as_deref()).map_err(load)?;
    if options.passes.iter().any(|passes| passes.trim().is_empty()) {
        return Err((status::INVALID_CONFIGURATION, "--passes has an empty pipeline; name one, such as 'default<O3>'".into()));
    }
    let codegen = options.fixed_codegen_opt.map(|level| CodegenRange { low: level, high: level, step: 1 }).or(options.codegen_opt_range);
    let has_ir = kernel.modules.first().is_none_or(|module| CodeKind::of(module) == CodeKind::Bitcode);
    let preset = if has_ir { options.space_preset } else { Preset::Launch };
    if preset != options.space_preset {
        eprintln!("mneme-tune: the recording holds no LLVM IR, so that only launch dimensions are tuned; build with mneme-cc for more");
    }
    let space_options = SpaceOptions::new(preset, options.launch_dim, options.launch_safety, options.passes.clone(), codegen);
    let recorded = Recorded { grid: instance.grid_dims, block: instance.block_dims, shared_mem: instance.shared_mem };
    let space = PresetSpace::new(&space_options, recorded);
    if options.print_space {
        let written = output::write(&format!("{:#}\n", space.describe())).map_err(SessionError::Output);
        return written.map(|()| 0).map_err(|error| (error.exit_status(), error.to_string()));
    }
    let program = install::locate(install::REPLAYER)
        .ok_or_else(|| (status::INTERNAL, "mneme-replay is not beside mneme-tune; install all of Mneme, or set MNEME_HOME".to_owned()))?;
    let results = options.results_dir.clone().unwrap_or_else(default_folder);
    let mut settings = json!({
        "record_database": database,
        "record_id": id,
        "sampler": "exhaustive",
        "iterations": options.iterations,
        "warmup": options.warmup,
        "metric": options.metric,
        "device": options.device,
        "rtol": options.rtol,
        "atol": options.atol,
        "results_dir": results,
    });
    let space_settings = serde_json::to_value(&space_options).expect("plain data serialises");
    if let (Some(settings), serde_json::Value::Object(space_settings)) = (settings.as_object_mut(), space_settings) {
        settings.extend(space_settings);
    }
    let command = ServerCommand {
        rtol: options.rtol,
        atol: options.atol,
        program,
        instance: id.to_owned(),
        device: options.device,
        log: results.join("logs/tune.log"),
        database: database.clone(),
    };
    let plan = Plan {
        space,
        kernel: kernel.kernel_name.clone(),
        command,
        iterations: options.iterations,
        warmup: options.warmup,
        metric: options.metric,
        results,
        settings,
        quiet: options.quiet,
    };
    session::run(plan).map_err(|error| (error.exit_status(), error.to_string()))
}

/// The kernel's file: as named, or the only one of the named folder.
fn database(path: &Path) -> Result<PathBuf, String> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let mut found = kernels(path).map_err(|error| error.to_string())?;
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(format!("{} holds no recorded kernel", path.display())),
        (Some(_), others) => {
            Err(format!("{} holds {} kernels; name one of its .json files (mneme ls lists them)", path.display(), others + 1))
        }
    }
}

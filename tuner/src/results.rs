//! The results folder of a session; names and keys are upstream's.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, Status};
use serde::Serialize;
use serde_json::{Value, json};

/// A folder that a session writes its results to.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    trials: File,
    log: File,
}

/// One evaluated candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Position in the space.
    pub trial: u64,
    pub config_hash: String,
    pub config: Configuration,
    /// The session's metric over the measured runs, ns; `None` unless verified.
    pub metric: Option<f64>,
    /// Baseline's metric over this one's.
    pub speedup: Option<f64>,
    pub result: ReplayResult,
}

/// `summary.json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// "completed", "no_verified_configuration", "baseline_failed" or "internal_error".
    pub status: &'static str,
    pub num_trials_requested: usize,
    pub num_trials_completed: usize,
    pub num_verified: usize,
    pub num_failed_verification: usize,
    pub num_invalid_launch: usize,
    pub num_compile_error: usize,
    pub num_runtime_error: usize,
    pub num_invalid_config: usize,
    pub num_internal_error: usize,
    /// ns.
    pub baseline_metric: Option<f64>,
    /// ns.
    pub best_metric: Option<f64>,
    pub best_speedup: Option<f64>,
    pub best_trial: Option<u64>,
}

impl Summary {
    pub fn count(&mut self, result: &ReplayResult) {
        self.num_trials_completed += 1;
        *match result.status {
            Status::Verified => &mut self.num_verified,
            Status::FailedVerification => &mut self.num_failed_verification,
            Status::InvalidConfig => &mut self.num_invalid_config,
            Status::CompileError => &mut self.num_compile_error,
            Status::InvalidLaunch => &mut self.num_invalid_launch,
            Status::RuntimeError | Status::Timeout => &mut self.num_runtime_error,
            Status::InternalError => &mut self.num_internal_error,
        } += 1;
    }
}

impl Results {
    /// Creates the folder. One that holds trials already is refused: results are never overwritten.
    pub fn create(folder: &Path) -> std::io::Result<Self> {
        let failed = |error: std::io::Error| std::io::Error::other(format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder.join("logs")).map_err(failed)?;
        let append = |name: &str| File::options().append(true).create(true).open(folder.join(name)).map_err(failed);
        let (trials, log) = (append("trials.jsonl")?, append("logs/tune.log")?);
        if trials.metadata().map_err(failed)?.len() > 0 {
            let sentence = format!("{} holds the results of another session; choose another --results-dir", folder.display());
            return Err(std::io::Error::other(sentence));
        }
        Ok(Self { folder: folder.into(), trials, log })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.join("logs/tune.log")
    }

    /// Writes one JSON file of the folder.
    pub fn write(&self, name: &str, value: &impl Serialize) -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        let path = self.folder.join(name);
        // A reader, or a session that is killed here, finds the file whole or not at all.
        let temporary = self.folder.join(format!(".{name}.tmp"));
        std::fs::write(&temporary, text)
            .and_then(|()| std::fs::rename(&temporary, &path))
            .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))
    }

    /// Appends to `trials.jsonl`.
    pub fn add_trial(&mut self, trial: &Trial) -> std::io::Result<()> {
        // One write a line: a session that is killed leaves whole lines.
        let mut line = serde_json::to_string(trial)?;
        line.push('\n');
        self.trials.write_all(line.as_bytes())
    }

    /// Adds a line to `logs/tune.log`. A log that cannot be written stops nothing.
    pub fn log(&mut self, text: &str) {
        let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let _ = writeln!(self.log, "{seconds:.3} {text}");
    }
}

/// A results folder named after the time, which is what there is when the user names none.
pub fn default_folder() -> PathBuf {
    // SAFETY: zero is a valid value of this plain structure.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer is allowed and means that only the return value is wanted.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: both pointers are to live values of the right type.
    unsafe { libc::localtime_r(&now, &mut parts) };
    let date = format!("{:04}{:02}{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
    let time = format!("{:02}{:02}{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
    Path::new("mneme-tune-results").join(format!("{date}-{time}-{}", std::process::id()))
}

/// `proteus_tuned_kernels.json`, which Proteus reads through `PROTEUS_TUNED_KERNELS`.
pub fn proteus_tuned_kernels(kernel: &str, best: &Configuration) -> Value {
    // Proteus knows the levels 0 to 3 by number; a pipeline of another kind rules by itself.
    let level =
        best.passes.strip_prefix("default<O").and_then(|rest| rest.strip_suffix('>')).and_then(|level| level.parse().ok()).unwrap_or(2u8);
    let threads = best.max_threads.filter(|_| best.set_launch_bounds).map_or(best.block.count(), u64::from);
    let tuned = json!({
        "CodeGen": best.codegen_method,
        "LaunchBounds": best.set_launch_bounds,
        "SpecializeDims": best.specialize_dims,
        "SpecializeDimsRange": false,
        "OptLevel": level,
        "Pipeline": best.passes,
        "CodeGenOptLevel": best.codegen_opt,
        "TunedMaxThreads": threads,
        "MinBlocksPerSM": best.min_blocks_per_sm,
    });
    Value::Object(std::iter::once((kernel.to_owned(), tuned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::launch::Dim3;

    fn configuration() -> Configuration {
        Configuration { passes: "default<O1>".into(), ..Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0) }
    }

    #[test]
    fn trials_are_lines_and_another_sessions_results_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::create(folder.path()).unwrap();
        for trial in 0..2 {
            let config = configuration();
            let trial =
                Trial { trial, config_hash: config.hash(), config, metric: Some(1.5), speedup: None, result: ReplayResult::default() };
            results.add_trial(&trial).unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join("trials.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1]["trial"], 1);
        assert_eq!(lines[1]["config"]["passes"], "default<O1>");
        assert!(Results::create(folder.path()).unwrap_err().to_string().contains("--results-dir"));
    }

    #[test]
    fn files_are_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::create(folder.path()).unwrap();
        results.write("summary.json", &"first").unwrap();
        let mut reader = File::open(folder.path().join("summary.json")).unwrap();
        results.write("summary.json", &"second").unwrap();
        assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "\"first\"\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("summary.json")).unwrap(), "\"second\"\n");
        assert!(!folder.path().join(".summary.json.tmp").exists());
    }

    #[test]
    fn every_fate_is_counted_once() {
        let mut summary = Summary::default();
        let of = |status, executed| ReplayResult { status, executed, ..ReplayResult::default() };
        for (status, executed) in [
            (Status::Verified, true),
            (Status::FailedVerification, true),
            (Status::InvalidConfig, false),
            (Status::CompileError, false),
            (Status::InvalidLaunch, false),
            (Status::RuntimeError, true),
            (Status::Timeout, false),
            (Status::InternalError, false),
        ] {
            summary.count(&of(status, executed));
        }
        let value = serde_json::to_value(&summary).unwrap();
        assert_eq!(value["num_trials_completed"], 8);
        assert_eq!(value["num_runtime_error"], 2);
        for key in [
            "num_verified",
            "num_failed_verification",
            "num_invalid_launch",
            "num_compile_error",
            "num_invalid_config",
            "num_internal_error",
        ] {
            assert_eq!(value[key], 1, "{key}");
        }
    }

    #[test]
    fn proteus_gets_its_keys() {
        let value = proteus_tuned_kernels("_Z1kv", &configuration());
        let tuned = &value["_Z1kv"];
        assert_eq!((&tuned["OptLevel"], &tuned["Pipeline"]), (&json!(1), &json!("default<O1>")));
        assert_eq!((&tuned["TunedMaxThreads"], &tuned["LaunchBounds"]), (&json!(128), &json!(false)));
        assert_eq!(tuned.as_object().unwrap().len(), 9);
    }
}

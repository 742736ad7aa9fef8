//! Reads a results folder, for reports and exports.
//!
//! Accepts the results of any version: a missing file or field leaves a gap, except for the trials themselves. A file
//! that exists but cannot be read is an error, because its content could change the meaning of the rest.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use mneme_model::configuration::canonical;
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::exit;
use serde_json::{Map, Value};

use crate::failure;
use crate::results::proteus;

/// The content of a results folder.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    pub folder: PathBuf,
    /// The JSON files, `Null` if missing.
    pub config: Value,
    pub space: Value,
    pub baseline: Value,
    pub best: Value,
    pub summary: Value,
    pub tuned_kernels: Value,
    /// In the order of `trials.jsonl`.
    pub trials: Vec<ArchivedTrial>,
    /// Number of invalid lines, which a session leaves if it is killed while it writes.
    pub torn: usize,
    /// Whether metrics are times in ns.
    pub is_time: bool,
    /// `pareto.json`, `Null` with a single objective.
    pub pareto: Value,
    /// The parameters that vary between trials, in the order of the space if that is known.
    pub parameters: Vec<String>,
}

/// A line of `trials.jsonl`.
#[derive(Clone, Debug, Default)]
pub struct ArchivedTrial {
    pub number: u64,
    /// The session's metric in ns; with another objective, its cost, of which less is better. `None` unless verified.
    pub metric: Option<f64>,
    /// The metric of a trial that verified and was given up early.
    pub stopped: Option<f64>,
    /// A name of [`mneme_model::result::ReplayStatus`].
    pub status: String,
    /// The error, or "".
    pub error: String,
    /// The point of the space, or the configuration if the line has no point, flattened: `block.x`, not `block`.
    pub choice: BTreeMap<String, Value>,
    /// The whole line.
    pub line: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{} cannot be read ({source}); name the folder that a tuning session wrote (--results-dir)", path.display())]
    Trials { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be read: {source}", path.display())]
    Unread { path: PathBuf, source: std::io::Error },
    #[error("{} has no trials yet", path.display())]
    Empty { path: PathBuf },
}

impl ArchiveError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Trials { .. } | Self::Unread { .. } => exit::NO_INPUT,
            Self::Empty { .. } => exit::BAD_USAGE,
        }
    }
}

/// Whether the file does not exist. A file that exists but cannot be read is not a gap.
fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

impl Archive {
    /// Reads a results folder.
    ///
    /// # Errors The folder has no session's results, or one of its files cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ArchiveError> {
        let path = folder.join("trials.jsonl");
        let file = |name: &str| {
            let path = folder.join(name);
            match std::fs::read(&path) {
                Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
                Err(error) if is_missing(&error) => Ok(Value::Null),
                Err(source) => Err(ArchiveError::Unread { path, source }),
            }
        };
        let mut archive = Self {
            folder: folder.into(),
            config: file("config.json")?,
            space: file("search_space.json")?,
            baseline: file("baseline.json")?,
            best: file("best.json")?,
            summary: file("summary.json")?,
            tuned_kernels: file(proteus::FILE)?,
            pareto: file("pareto.json")?,
            ..Self::default()
        };
        let failed = |source| match is_missing(&source) {
            true => ArchiveError::Trials { path: path.clone(), source },
            false => ArchiveError::Unread { path: path.clone(), source },
        };
        archive.is_time =
            one(&archive.config["objective"]).is_none_or(|objective| ["time", "speedup"].contains(&objective));
        for line in BufReader::new(File::open(&path).map_err(failed)?).split(b'\n') {
            let line = line.map_err(failed)?;
            match serde_json::from_slice::<Value>(&line) {
                Ok(line @ Value::Object(_)) => archive.add(line),
                _ if line.iter().all(u8::is_ascii_whitespace) => {}
                _ => archive.torn += 1,
            }
        }
        // A session whose baseline failed has no trials, but its summary says why.
        if archive.trials.is_empty() && archive.summary.is_null() {
            return Err(ArchiveError::Empty { path });
        }
        archive.parameters = archive.varying();
        Ok(archive)
    }

    /// Adds a trial. The last line with a number counts.
    fn add(&mut self, mut line: Value) {
        let number = line["trial"].as_u64().unwrap_or(self.trials.len() as u64);
        if let Some(reason) = self.summary["refuted"].get(number.to_string()) {
            let untested = self.summary["untested"].as_array().is_some_and(|all| all.contains(&number.into()));
            refute(
                &mut line,
                reason,
                if untested { ReplayStatus::InternalError } else { ReplayStatus::FailedVerification },
            );
        }
        let entry = ArchivedTrial::new(number, line, self.is_time);
        match self.trials.iter_mut().find(|it| it.number == entry.number) {
            Some(earlier) => *earlier = entry,
            None => self.trials.push(entry),
        }
    }

    /// The number of trials that verified, as the session counts them: with those that were given up early, and
    /// without refuted ones.
    pub fn verified(&self) -> usize {
        self.trials.iter().filter(|trial| trial.status == ReplayStatus::Verified.name()).count()
    }

    /// The kernel's mangled name.
    pub fn kernel(&self) -> Option<&str> {
        let of_baseline = self.baseline["kernel"].as_str().filter(|name| !name.is_empty());
        of_baseline.or_else(|| self.tuned_kernels.as_object()?.keys().next().map(String::as_str))
    }

    /// Keys whose values differ between trials. Leaves out keys that follow from `block`, usually the grid, because the
    /// sampler did not choose them.
    fn varying(&self) -> Vec<String> {
        let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (key, value) in self.trials.iter().flat_map(|trial| &trial.choice) {
            seen.entry(key).or_default().insert(value.to_string());
        }
        let varying: Vec<&str> = seen.iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| *key).collect();
        let blocks: Vec<&str> = varying.iter().copied().filter(|key| key.starts_with("block")).collect();
        let follows = |key: &str| {
            let mut known: HashMap<Vec<Option<&Value>>, Option<&Value>> = HashMap::new();
            self.trials.iter().all(|trial| {
                let block = blocks.iter().map(|key| trial.choice.get(*key)).collect();
                *known.entry(block).or_insert(trial.choice.get(key)) == trial.choice.get(key)
            })
        };
        let derived =
            |key: &str| (key.starts_with("grid.") || key == "max_threads") && !blocks.is_empty() && follows(key);
        let mut parameters: Vec<String> = varying.into_iter().filter(|key| !derived(key)).map(str::to_owned).collect();
        let order: Vec<Cow<'_, str>> =
            self.space["parameters"].as_object().into_iter().flatten().map(|(name, _)| canonical(name)).collect();
        let place = |name: &str| order.iter().position(|known| name.starts_with(&**known)).unwrap_or(usize::MAX);
        parameters.sort_by_key(|name| place(name));
        parameters
    }
}

impl ArchivedTrial {
    fn new(number: u64, line: Value, is_time: bool) -> Self {
        let result = &line["result"];
        let verified = result["verified"] == true;
        let status = match result["status"].as_str() {
            Some(status) => status.to_owned(),
            // The existing Mneme writes no status.
            None if verified => "verified".to_owned(),
            None if result["executed"] == true => "failed_verification".to_owned(),
            None => "runtime_error".to_owned(),
        };
        let given_up = line["stopped"].is_number();
        let choice = ["params", "config"]
            .iter()
            .map(|key| &line[*key])
            .find(|value| value.as_object().is_some_and(|map| !map.is_empty()));
        Self {
            number,
            metric: if is_time { &line["metric"] } else { &line["objectives"][0] }
                .as_f64()
                .filter(|metric| verified && !given_up && metric.is_finite()),
            stopped: line["stopped"].as_f64(),
            error: if verified { String::new() } else { reason(result) },
            status,
            choice: choice.map(flat).unwrap_or_default().into_iter().map(with_canonical_name).collect(),
            line,
        }
    }
}

/// A parameter under the name that reports have, whatever the space calls it.
fn with_canonical_name((name, value): (String, Value)) -> (String, Value) {
    (canonical(&name).into_owned(), value)
}

/// Marks a trial that the session refuted after it had written the line.
fn refute(line: &mut Value, reason: &Value, status: ReplayStatus) {
    for measured in ["metric", "speedup", "objectives"] {
        if let Some(value) = line.get_mut(measured) {
            *value = Value::Null;
        }
    }
    if let Some(result) = line["result"].as_object_mut() {
        let told = [("verified", false.into()), ("status", status.name().into()), ("error", reason.clone())];
        result.extend(told.map(|(key, value)| (key.to_owned(), value)));
    }
}

/// Why a result did not verify: the difference for a failed verification, otherwise the full error.
fn reason(result: &Value) -> String {
    let Ok(result) = serde_json::from_value::<ReplayResult>(result.clone()) else {
        return "no reason was given".into();
    };
    if result.mismatch.is_some() { failure::in_short(&result) } else { failure::in_full(&result) }
}

/// The text of a setting that is a text or a list of texts.
pub fn one(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get(0)?.as_str())
}

/// Flattens an object: joins keys by dots, and the elements of lists by commas.
pub fn flat(value: &Value) -> BTreeMap<String, Value> {
    fn add(prefix: &str, map: &Map<String, Value>, into: &mut BTreeMap<String, Value>) {
        for (key, value) in map {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Object(inner) => add(&name, inner, into),
                Value::Array(values) => {
                    into.insert(name, values.iter().map(plain).collect::<Vec<_>>().join(",").into());
                }
                other => {
                    into.insert(name, other.clone());
                }
            }
        }
    }
    let mut into = BTreeMap::new();
    if let Value::Object(map) = value {
        add("", map, &mut into);
    }
    into
}

/// A value without quotes.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A results folder with `number` trials, made up by a rule.
    pub fn folder(trials: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &Value| std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        let lines: Vec<Value> = (0..trials).map(trial).collect();
        let best = lines
            .iter()
            .filter(|line| line["metric"].is_f64())
            .min_by(|a, b| a["metric"].as_f64().unwrap().total_cmp(&b["metric"].as_f64().unwrap()));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(folder.path().join("trials.jsonl"), text).unwrap();
        write(
            "config.json",
            &json!({"record_database": "it's here/7.json", "record_id": "9", "device": "cpu", "iterations": 5, "warmup": 2, "metric": "mean"}),
        );
        let mut baseline = trial(3);
        baseline["metric"] = json!(2000.0);
        write("baseline.json", &baseline);
        if let Some(best) = best {
            write("best.json", best);
            write(
                "proteus_tuned_kernels.json",
                &json!({"_Z6vecaddIlEvPT_PKS0_m": {"Pipeline": best["config"]["passes"]}}),
            );
        }
        let metric = best.map(|best| best["metric"].clone());
        write(
            "summary.json",
            &json!({"status": "completed", "num_trials_completed": trials, "baseline_metric": 2000.0, "best_metric": metric}),
        );
        folder
    }

    fn trial(number: u64) -> Value {
        let (width, level) = (32 << (number % 6), number / 6 % 4);
        let config = json!({
            "block": {"x": width, "y": 1, "z": 1}, "grid": {"x": 4096 / width, "y": 1, "z": 1},
            "passes": format!("default<O{level}>"), "codegen_opt": number % 7 % 4, "specialize": number.is_multiple_of(3),
        });
        let environment = json!({"device": "NVIDIA <H200>", "arch": "sm_90", "driver": "13.0", "timer": "events",
                                 "clocks": {"sm_mhz": 1900 + number % 3, "memory_mhz": 3201, "throttled": []}, "versions": {"llvm": "19.1.7"}});
        let result = match number % 10 {
            4 => {
                json!({"verified": false, "executed": true, "failed": false, "error": "", "status": "failed_verification", "mismatch": {"region": "allocation", "size": 16384, "dtype": "f32", "element_size": 4, "differing": 12, "largest_error": 1.0, "largest_relative_error": 1.0, "largest_ulp": 8e6}})
            }
            7 => {
                json!({"verified": false, "executed": false, "failed": true, "error": "unknown pass '<script>alert(1)</script>'; see opt", "status": "compile_error"})
            }
            _ => {
                json!({"verified": true, "executed": true, "failed": false, "error": "", "status": "verified", "exec_time": [1, 2, 3],
                        "start_time": "2026-11-21T15:00:00.25Z", "end_time": "2026-11-21T15:00:01Z", "environment": environment,
                        "metrics": {"registers": 32, "spill_stores": 0, "occupancy": 0.75, "code_size": 1024}})
            }
        };
        let metric = (result["verified"] == true).then(|| {
            1500.0 + 400.0 * (level as f64 - 1.5).powi(2) + (number % 6) as f64 * 100.0 + number as f64 * 1e-3
        });
        json!({"trial": number, "config_hash": format!("{number:064x}"), "config": config, "metric": metric,
               "speedup": metric.map(|metric| 2000.0 / metric), "result": result})
    }

    #[test]
    fn what_varies_is_found_and_what_follows_from_it_is_not() {
        let folder = folder(60);
        let archive = Archive::read(folder.path()).unwrap();
        assert_eq!(archive.trials.len(), 60);
        assert_eq!(archive.parameters, ["block.x", "codegen_opt", "passes", "specialize"]);
        assert_eq!(archive.kernel(), Some("_Z6vecaddIlEvPT_PKS0_m"));
        assert_eq!((archive.trials[4].status.as_str(), archive.trials[4].metric), ("failed_verification", None));
        assert!(archive.trials[4].error.contains("12 of 4096 f32 values"), "{}", archive.trials[4].error);
    }

    #[test]
    fn a_torn_line_is_counted_and_missing_files_are_gaps() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Archive::read(folder.path()).unwrap_err().to_string().contains("--results-dir"));
        let path = folder.path().join("trials.jsonl");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(Archive::read(folder.path()), Err(ArchiveError::Empty { .. })));
        // A line of the existing Mneme's, a line with a point, and half of a third line.
        let whole = "{\"config\": {\"passes\": \"a\"}, \"metric\": 3, \"result\": {\"verified\": true}}\n\n\
                     {\"trial\": 9, \"params\": {\"order\": [\"b\", 1]}, \"config\": {\"passes\": \"a\"}, \"result\": {\"executed\": true}}\n{\"trial\": 1";
        std::fs::write(&path, whole).unwrap();
        let archive = Archive::read(folder.path()).unwrap();
        assert_eq!((archive.trials.len(), archive.torn), (2, 1));
        assert_eq!((archive.trials[0].metric, archive.trials[0].status.as_str()), (Some(3.0), "verified"));
        assert_eq!((archive.trials[1].number, archive.trials[1].status.as_str()), (9, "failed_verification"));
        let again = whole.replace(
            "{\"trial\": 1",
            "{\"trial\": 9, \"metric\": 2, \"repeated\": 4, \"result\": {\"verified\": true}}",
        );
        std::fs::write(&path, again).unwrap();
        let measured_again = Archive::read(folder.path()).unwrap();
        assert_eq!((measured_again.trials.len(), measured_again.trials[1].metric), (2, Some(2.0)));
        assert_eq!(archive.trials[1].choice["order"], "b,1");
        assert_eq!(archive.kernel(), None);
    }
}

//! A simulation, which answers from recorded results instead of a device.
//!
//! The measurements of an exhaustive session answer for every candidate of another search.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mneme_model::configuration::Configuration;
use mneme_model::device::DeviceLimits;
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::files::trust;
use serde::Deserialize;

use crate::space::{ResultsTable, SearchSpace, Unmeasured};

/// Why recorded results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error("{}: {source}; name a results folder of a session that has finished", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}, line {line}: {source}", path.display())]
    Line { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("{} holds no trials; let a session with --sampler exhaustive finish first", path.display())]
    Empty { path: PathBuf },
}

/// Results by configuration.
#[derive(Debug)]
pub struct Simulation {
    folder: PathBuf,
    results: HashMap<String, ReplayResult>,
    baseline: Option<ReplayResult>,
}

/// The relevant fields of a line in `trials.jsonl`, and of `baseline.json`.
#[derive(Deserialize)]
struct Line {
    config: Configuration,
    result: ReplayResult,
}

impl Simulation {
    /// Reads `trials.jsonl` and, if it exists, `baseline.json` from a results folder.
    ///
    /// # Errors A file cannot be read, or has no results.
    pub fn load(folder: &Path) -> Result<Self, SimulationError> {
        let path = folder.join("trials.jsonl");
        let text = trust::read_text(&path).map_err(|source| SimulationError::Read { path: path.clone(), source })?;
        let mut results = HashMap::new();
        for (place, line) in text.lines().enumerate() {
            let line: Line = serde_json::from_str(line).map_err(|source| SimulationError::Line {
                path: path.clone(),
                line: place + 1,
                source,
            })?;
            // Trial numbers mean nothing in another session.
            results.insert(line.config.hash(), ReplayResult { shared_with: None, ..line.result });
        }
        if results.is_empty() {
            return Err(SimulationError::Empty { path });
        }
        let baseline = trust::read_text(&folder.join("baseline.json")).ok();
        let baseline = baseline.and_then(|text| serde_json::from_str::<Line>(&text).ok());
        if let Some(baseline) = &baseline {
            results.entry(baseline.config.hash()).or_insert_with(|| baseline.result.clone());
        }
        Ok(Self { folder: folder.into(), results, baseline: baseline.map(|line| line.result) })
    }

    /// The results of a table. The slowest one is the baseline, because tables have none.
    pub fn of(path: &Path, table: &ResultsTable) -> Self {
        let nanoseconds = |time: f64| (time * 1e6).round().max(1.0) as u64;
        let measured = |time: f64| ReplayResult {
            exec_time: vec![nanoseconds(time)],
            status: ReplayStatus::Verified,
            verified: true,
            ..ReplayResult::default()
        };
        let failed = |Unmeasured(error): &Unmeasured| ReplayResult {
            failed: true,
            status: ReplayStatus::InvalidConfig,
            error: error.clone(),
            ..ReplayResult::default()
        };
        let mut results = HashMap::new();
        let mut slowest: Option<f64> = None;
        for (point, outcome) in &table.results {
            if let Ok(configuration) = table.space.ground(point) {
                results.insert(configuration.hash(), outcome.as_ref().map_or_else(failed, |time| measured(*time)));
                slowest = outcome.as_ref().ok().map(|time| slowest.unwrap_or(0.0).max(*time)).or(slowest);
            }
        }
        let baseline = slowest.map(measured);
        if let Some(baseline) = &baseline {
            results.insert(table.space.baseline().hash(), baseline.clone());
        }
        Self { folder: path.into(), results, baseline }
    }

    /// The limits of that session's device, if its space asked for them.
    pub fn limits(&self) -> DeviceLimits {
        let space = std::fs::read_to_string(self.folder.join("search_space.json")).ok();
        let space = space.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        space.and_then(|mut space| serde_json::from_value(space["device"].take()).ok()).unwrap_or_default()
    }

    /// Number of configurations with a result.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// The baseline's result in that session.
    pub fn baseline(&self) -> Option<&ReplayResult> {
        self.baseline.as_ref()
    }

    /// The recorded result of a configuration, or an `invalid_config` if it was not measured.
    pub fn replay(&self, configuration: &Configuration) -> ReplayResult {
        self.results.get(&configuration.hash()).cloned().unwrap_or_else(|| ReplayResult {
            failed: true,
            status: ReplayStatus::InvalidConfig,
            error: format!("{} has no result for this configuration", self.folder.display()),
            ..ReplayResult::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(x: u32) -> Configuration {
        Configuration::recorded([4, 1, 1].into(), [x, 1, 1].into(), 0)
    }

    #[test]
    fn recorded_results_answer() {
        let folder = tempfile::tempdir().unwrap();
        let result = |time: u64| ReplayResult {
            exec_time: vec![time],
            status: ReplayStatus::Verified,
            verified: true,
            ..ReplayResult::default()
        };
        let line = |x: u32, time| {
            json!({"trial": x, "config": block(x), "config_hash": "", "result": result(time)}).to_string() + "\n"
        };
        std::fs::write(folder.path().join("trials.jsonl"), line(32, 7) + line(64, 5).as_str()).unwrap();
        std::fs::write(folder.path().join("baseline.json"), line(128, 9)).unwrap();
        let simulation = Simulation::load(folder.path()).unwrap();
        assert_eq!(simulation.len(), 3);
        assert_eq!(simulation.replay(&block(64)).exec_time, [5]);
        assert_eq!(simulation.baseline().unwrap().exec_time, [9]);
        let missing = simulation.replay(&block(96));
        assert_eq!((missing.status, missing.verified), (ReplayStatus::InvalidConfig, false));
        assert!(missing.error.contains("no result"));
    }

    #[test]
    fn folders_without_results_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Simulation::load(folder.path()).unwrap_err().to_string().contains("results folder"));
        std::fs::write(folder.path().join("trials.jsonl"), "").unwrap();
        assert!(Simulation::load(folder.path()).unwrap_err().to_string().contains("exhaustive"));
        std::fs::write(folder.path().join("trials.jsonl"), "{}\n").unwrap();
        assert!(Simulation::load(folder.path()).unwrap_err().to_string().contains("line 1"));
    }
}

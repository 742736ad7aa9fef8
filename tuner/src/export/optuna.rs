//! Optuna's journal storage: a study as a log of operations, one JSON object per line.
//!
//! Optuna and optuna-dashboard open it with `JournalStorage(JournalFileBackend(path))`.
//!
//! The format is defined by `optuna/storages/journal/_storage.py`, unchanged from 3.1 to 5.0: operation 0 creates a
//! study, 2 sets one of its attributes, 4 creates a trial, which may already be complete. Parameters have their
//! internal representation: a number, or an index into the choices of a categorical distribution.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::ExportError;
use crate::archive::{Archive, ArchivedTrial};

const CREATE_STUDY: u8 = 0;
const SET_STUDY_ATTRIBUTE: u8 = 2;
const CREATE_TRIAL: u8 = 4;
/// Values of `TrialState`.
const COMPLETE: u8 = 1;
const PRUNED: u8 = 2;
const FAIL: u8 = 3;
/// A value of `StudyDirection`.
const MINIMIZE: u8 = 1;
/// The writer's name, which no process of Optuna's has.
const WORKER: &str = "mneme-tune";

/// Writes the study.
pub fn write(archive: &Archive, study: &str, path: &Path) -> Result<(), ExportError> {
    crate::results::replace(path, journal(archive, study).as_bytes()).map_err(ExportError::of(path))
}

/// The content of the log.
fn journal(archive: &Archive, study: &str) -> String {
    let distributions: BTreeMap<&String, Distribution> =
        archive.parameters.iter().map(|name| (name, Distribution::of(archive, name))).collect();
    let mut lines =
        vec![json!({"op_code": CREATE_STUDY, "worker_id": WORKER, "study_name": study, "directions": [MINIMIZE]})];
    let attributes = [
        ("kernel", archive.kernel().map(Value::from)),
        ("metric", archive.config.get("metric").cloned()),
        ("baseline_metric", archive.summary.get("baseline_metric").cloned()),
        ("results", Some(archive.folder.display().to_string().into())),
    ];
    for (name, value) in attributes {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            let attribute = Value::Object(Map::from_iter([(name.to_owned(), value)]));
            lines.push(
                json!({"op_code": SET_STUDY_ATTRIBUTE, "worker_id": WORKER, "study_id": 0, "user_attr": attribute}),
            );
        }
    }
    lines.extend(archive.trials.iter().map(|trial| line(trial, &distributions)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn line(trial: &ArchivedTrial, distributions: &BTreeMap<&String, Distribution>) -> Value {
    let mut parameters = Map::new();
    let mut of_trial = Map::new();
    for (name, distribution) in distributions {
        if let Some(value) = trial.choice.get(*name).and_then(|value| distribution.internal(value)) {
            parameters.insert((*name).clone(), value);
            of_trial.insert((*name).clone(), distribution.json().into());
        }
    }
    let result = &trial.line["result"];
    let mut attributes =
        json!({"trial": trial.number, "status": trial.status, "config_hash": trial.line["config_hash"]});
    if !trial.error.is_empty() {
        attributes["error"] = trial.error.clone().into();
    }
    for name in ["registers", "spill_stores", "occupancy", "code_size"] {
        if let Some(value) = result["metrics"].get(name).filter(|value| !value.is_null()) {
            attributes[name] = value.clone();
        }
    }
    json!({
        "op_code": CREATE_TRIAL, "worker_id": WORKER, "study_id": 0,
        "datetime_start": time(&result["start_time"]), "datetime_complete": time(&result["end_time"]),
        "state": match (trial.metric, trial.stopped) {
            (Some(_), _) => COMPLETE,
            (None, Some(_)) => PRUNED,
            (None, None) => FAIL,
        },
        "value": trial.metric, "values": null,
        "params": parameters, "distributions": of_trial,
        "user_attrs": attributes, "system_attrs": {}, "intermediate_values": {},
    })
}

/// A time stamp that Python reads since 3.7, with an offset instead of Z. Finished trials require one.
fn time(value: &Value) -> String {
    let text =
        value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    text.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// The distribution of a parameter, as far as the trials show it.
enum Distribution {
    Integer(i64, i64),
    Real(f64, f64),
    Categorical(Vec<Value>),
}

impl Distribution {
    fn of(archive: &Archive, name: &str) -> Self {
        let mut values: Vec<&Value> = archive.trials.iter().filter_map(|trial| trial.choice.get(name)).collect();
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
        if let Some(numbers) = numbers {
            let (low, high) = numbers
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
            return if values.iter().all(|value| value.is_i64()) {
                Self::Integer(low as i64, high as i64)
            } else {
                Self::Real(low, high)
            };
        }
        values.sort_by_key(|value| value.to_string());
        values.dedup();
        Self::Categorical(values.into_iter().cloned().collect())
    }

    fn internal(&self, value: &Value) -> Option<Value> {
        match self {
            Self::Integer(..) | Self::Real(..) => value.as_f64().map(Value::from),
            Self::Categorical(choices) => choices.iter().position(|choice| choice == value).map(Value::from),
        }
    }

    /// The format of Optuna's `distribution_to_json`.
    fn json(&self) -> String {
        match self {
            Self::Integer(low, high) => {
                json!({"name": "IntDistribution", "attributes": {"log": false, "low": low, "high": high, "step": 1}})
            }
            Self::Real(low, high) => {
                json!({"name": "FloatDistribution", "attributes": {"log": false, "low": low, "high": high, "step": null}})
            }
            Self::Categorical(choices) => json!({"name": "CategoricalDistribution", "attributes": {"choices": choices}}),
        }
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::folder;

    #[test]
    fn a_study_and_its_trials_are_lines() {
        let folder = folder(30);
        let text = journal(&Archive::read(folder.path()).unwrap(), "vecadd");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["op_code"], &lines[0]["study_name"]), (&json!(0), &json!("vecadd")));
        let trials: Vec<&Value> = lines.iter().filter(|line| line["op_code"] == 4).collect();
        assert_eq!(trials.len(), 30);
        assert_eq!((&trials[4]["state"], &trials[4]["value"]), (&json!(FAIL), &Value::Null));
        assert_eq!(trials[6]["state"], COMPLETE);
        assert_eq!(trials[6]["datetime_start"], "2026-11-21T15:00:00.250000+00:00");
        assert_eq!((&trials[6]["params"]["block.x"], &trials[6]["params"]["passes"]), (&json!(32.0), &json!(1)));
        assert_eq!(
            trials[6]["distributions"]["codegen_opt"],
            json!({"name": "IntDistribution", "attributes": {"log": false, "low": 0, "high": 3, "step": 1}})
                .to_string()
        );
    }
}

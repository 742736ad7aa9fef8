//! T4, the auto-tuning community's format for results.
//!
//! The format is Kernel Tuner's `schema/T4/1.0.0/results-schema.json`, version 1.0.0. Times are in ms.

use std::path::Path;

use mneme_model::result::ReplayStatus;
use serde_json::{Map, Value, json};

use super::ExportError;
use crate::archive::{Archive, ArchivedTrial};

const VERSION: &str = "1.0.0";
const NS_PER_MS: f64 = 1e6;
const MS_PER_SECOND: f64 = 1e3;

/// Writes the file.
pub fn write(archive: &Archive, path: &Path) -> Result<(), ExportError> {
    let results: Vec<Value> = archive.trials.iter().map(|trial| result(archive, trial)).collect();
    let text = serde_json::to_string_pretty(&json!({"schema_version": VERSION, "results": results}));
    let text = text.expect("plain data serialises") + "\n";
    crate::results::replace(path, text.as_bytes()).map_err(ExportError::of(path))
}

fn result(archive: &Archive, trial: &ArchivedTrial) -> Value {
    let result = &trial.line["result"];
    let chosen = archive.parameters.iter().filter_map(|name| Some((name.clone(), trial.choice.get(name)?.clone())));
    let seconds = ["preprocess_ir_time", "opt_time", "codegen_time"].map(|name| result[name].as_f64().unwrap_or(0.0));
    let warmup = result["warmup"].as_u64().unwrap_or(0) as usize;
    let runs = result["exec_time"].as_array().and_then(|runs| runs.get(warmup..)).unwrap_or_default();
    let runtimes: Vec<f64> = runs.iter().filter_map(|ns| Some(ns.as_f64()? / NS_PER_MS)).collect();
    let objective = if archive.is_time { "time" } else { "objective" };
    // Trials that were given up early have a measurement, too.
    let metric = trial.metric.or(trial.stopped);
    let metric = metric.map(|metric| if archive.is_time { metric / NS_PER_MS } else { metric });
    let measurements: Vec<Value> = metric
        .map(|value| json!({"name": objective, "value": value, "unit": if archive.is_time { "ms" } else { "" }}))
        .into_iter()
        .collect();
    json!({
        "timestamp": result["start_time"].as_str().unwrap_or_default(),
        "configuration": Map::from_iter(chosen),
        "objectives": [objective],
        "times": {
            "compilation_time": seconds.iter().sum::<f64>() * MS_PER_SECOND,
            "runtimes": runtimes,
        },
        "invalidity": invalidity(&trial.status, metric.is_some()),
        "correctness": u8::from(metric.is_some()),
        "measurements": measurements,
    })
}

/// The format's name for a status.
fn invalidity(status: &str, is_measured: bool) -> &'static str {
    let is = |meant: ReplayStatus| status == meant.name();
    if is_measured {
        "correct"
    } else if is(ReplayStatus::FailedVerification) || is(ReplayStatus::Unproven) {
        "correctness"
    } else if is(ReplayStatus::CompileError) {
        "compile"
    } else if is(ReplayStatus::Timeout) {
        "timeout"
    } else if is(ReplayStatus::InvalidConfig) || is(ReplayStatus::InvalidLaunch) {
        "constraints"
    } else {
        "runtime"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::folder;
    use crate::space::{ResultsTable, SearchSpace};

    #[test]
    fn every_trial_is_a_result_in_milliseconds() {
        let folder = folder(30);
        let archive = Archive::read(folder.path()).unwrap();
        let path = folder.path().join("t4.json");
        write(&archive, &path).unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written["schema_version"], VERSION);
        let results = written["results"].as_array().unwrap();
        assert_eq!(results.len(), archive.trials.len());
        for (trial, result) in archive.trials.iter().zip(results) {
            let is_measured = trial.metric.or(trial.stopped).is_some();
            assert_eq!(result["invalidity"] == "correct", is_measured, "{result}");
            assert_eq!(result["measurements"].as_array().unwrap().len(), usize::from(is_measured));
            for name in ["configuration", "times", "invalidity", "correctness"] {
                assert!(!result[name].is_null(), "the schema requires {name}: {result}");
            }
            if let Some(metric) = trial.metric {
                let time = result["measurements"][0]["value"].as_f64().unwrap();
                assert!((time * 1e6 - metric).abs() <= metric * 1e-9, "{time} ms, {metric} ns");
            }
        }
        assert_eq!(results[7]["invalidity"], "compile");
        assert_eq!(results[1]["times"]["runtimes"].as_array().unwrap().len(), 3);
        // The reader for such files accepts this one.
        let table = ResultsTable::load(&path).unwrap();
        assert_eq!(table.results.len(), archive.trials.len());
        assert!(table.space.parameters().iter().any(|parameter| parameter.name == "block.x"));
    }

    #[test]
    fn statuses_have_the_format_s_names() {
        let names =
            ["correctness", "correctness", "compile", "constraints", "constraints", "runtime", "timeout", "runtime"];
        let statuses = [
            ReplayStatus::FailedVerification,
            ReplayStatus::Unproven,
            ReplayStatus::CompileError,
            ReplayStatus::InvalidConfig,
            ReplayStatus::InvalidLaunch,
            ReplayStatus::RuntimeError,
            ReplayStatus::Timeout,
            ReplayStatus::InternalError,
        ];
        assert_eq!(statuses.map(|status| invalidity(status.name(), false)), names);
    }
}

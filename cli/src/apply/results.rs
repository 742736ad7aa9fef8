//! Reads the results folders of `mneme tune`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use mneme_model::configuration::Configuration;
use mneme_model::device::CPU_DEVICE;
use mneme_model::llvm_version;
use mneme_system::files::trust::Folder;
use mneme_winners::DimensionRule;
use serde_json::{Map, Value};

use super::recording::TunedRecording;
use super::{AppliedWinner, ApplyError, compile};

const BEST: &str = "best.json";
const SUMMARY: &str = "summary.json";
/// The grid rule that built-in spaces describe.
const SAME_THREADS: &str = "ceil(recorded block * recorded grid / block) along each varied axis";
/// The option for code made from the PTX beside the recorded machine code.
const FROM_PTX: &str = "from_ptx";
/// Options for comparing memory, shared by sessions and `mneme-replay`.
const COMPARISON: [&str; 4] = ["rtol", "atol", "dtype", "tolerance"];

/// The winners of a session, or of the sessions in a folder. `recordings` is the recording's current place.
///
/// # Errors The folder has no results, or a stranger can change them.
pub fn read(folder: &Path, recordings: Option<&Path>) -> Result<Vec<AppliedWinner>, ApplyError> {
    let unreadable = |source| ApplyError::Unread { path: folder.into(), source };
    let opened = Folder::open(folder).map_err(unreadable)?;
    if opened.path().join(BEST).is_file() {
        return session(&opened, recordings);
    }
    let entries = std::fs::read_dir(opened.path()).map_err(unreadable)?;
    let mut sessions: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sessions.retain(|folder| folder.join(BEST).is_file());
    sessions.sort();
    if sessions.is_empty() {
        return Err(ApplyError::NoResults(folder.into()));
    }
    let read = |folder: &PathBuf| {
        let opened = opened.folder(folder.file_name()?).map_err(ApplyError::from);
        match opened.and_then(|opened| session(&opened, recordings)) {
            Ok(found) => Some(found),
            // The other sessions remain usable.
            Err(error) => {
                mneme_system::remark!("mneme: ignoring {}: {error}", folder.display());
                None
            }
        }
    };
    Ok(sessions.iter().filter_map(read).flatten().collect())
}

fn session(folder: &Folder, recordings: Option<&Path>) -> Result<Vec<AppliedWinner>, ApplyError> {
    let json = |name: &str| json(folder, name);
    let folder = folder.path();
    let best = json(BEST)?;
    let (options, baseline) = (json("config.json")?, json("baseline.json").unwrap_or_default());
    let recording = TunedRecording::of(&options, folder, recordings)?;
    let rule = json("search_space.json").ok().and_then(|space| rule(&space, &best["params"]));
    let mut replay = COMPARISON.iter().flat_map(|name| comparison(name, &options[name])).collect::<Vec<_>>();
    if options[FROM_PTX] == true {
        replay.push(compile::FROM_PTX.to_owned());
    }

    // The recorded configuration has no trial number.
    let summary = json(SUMMARY).unwrap_or_default();
    if best["trial"].is_null() {
        let folder = folder.display();
        if summary["status"] == "interrupted" {
            mneme_system::remark!(
                "mneme: {folder}: the session was interrupted before it confirmed a winner, so mneme applies none; continue it with mneme tune --resume --results-dir {folder}"
            );
        } else {
            mneme_system::remark!("mneme: {folder}: the recorded configuration is the best, so no winner is applied");
        }
        return Ok(Vec::new());
    }
    // A confirmation outranks the first measurement.
    let in_turns = summary["confirmation"]["significant"].as_bool();
    let is_confirmed = if best["confirmed"].is_object() { Some(true) } else { in_turns };
    let is_slower = best["speedup"].as_f64().is_some_and(|speedup| speedup <= 1.0);
    // Before `best.json` was limited to confirmed winners, releases wrote the fastest trial.
    if is_confirmed == Some(false) || (is_confirmed.is_none() && is_slower) {
        mneme_system::remark!(
            "mneme: {}: no candidate was confirmed to be faster than the application's own code, so no winner is applied",
            folder.display()
        );
        return Ok(Vec::new());
    }
    if is_confirmed.is_none() {
        mneme_system::remark!(
            "mneme: {}: the winner was measured only once; to confirm it, tune without --finalists 0",
            folder.display()
        );
    }
    let instances = match best["instances"].as_array() {
        Some(instances) => instances.clone(),
        None => {
            let mut one = best.clone();
            let id =
                [&best["record_ids"][0], &baseline["record_ids"][0], &options["record_id"], &options["record_id"][0]];
            one["record_id"] = id.into_iter().find(|id| id.is_string()).cloned().unwrap_or_default();
            vec![one]
        }
    };
    let correction = correction(&summary, &best, &baseline);
    // With a single instance, the confirmed time itself is known, as in the report.
    let in_turns =
        summary["confirmation"]["baseline"].as_f64().filter(|_| instances.len() == 1 && is_confirmed == Some(true));
    let mut found = Vec::new();
    for instance in instances {
        let strange = |what: &dyn Display| ApplyError::Edited { path: folder.join(BEST), what: what.to_string() };
        let id = instance["record_id"].as_str().ok_or_else(|| strange(&"it names no recorded instance"))?;
        let mut configuration: Configuration =
            serde_json::from_value(instance["config"].clone()).map_err(|error| strange(&error))?;
        if configuration.original {
            return Err(strange(&"it asks for the application's own code"));
        }
        let environment = &instance["result"]["environment"];
        // Another installation may choose another LLVM by default, whose code was not measured.
        let compiled_by = environment["versions"]["llvm"].as_str().and_then(llvm_version::major);
        configuration.llvm = configuration.llvm.or(compiled_by);
        let architecture = match environment["device"].as_str() {
            Some(CPU_DEVICE) => Some("cpu".to_owned()),
            _ => environment["arch"].as_str().filter(|arch| !arch.is_empty()).map(str::to_owned),
        };
        let of_baseline =
            baseline["instances"].as_array().and_then(|known| known.iter().find(|it| it["record_id"] == id));
        found.push(AppliedWinner {
            recording: recording.clone(),
            id: id.to_owned(),
            configuration,
            architecture,
            rule: rule.clone(),
            before: in_turns
                .or_else(|| of_baseline.unwrap_or(&baseline)["metric"].as_f64().map(|before| before * correction)),
            after: instance["metric"].as_f64(),
            replay: replay.clone(),
            source: folder.into(),
        });
    }
    Ok(found)
}

/// The baseline's time during the confirmation divided by its first measurement, so that before and after differ by the
/// confirmed speedup. 1 without a confirmation.
fn correction(summary: &Value, best: &Value, baseline: &Value) -> f64 {
    let finalists = summary["confirmation"]["finalists"].as_array();
    let winner = finalists.and_then(|finalists| finalists.iter().find(|it| it["trial"] == best["trial"]));
    let confirmed = winner.and_then(|winner| winner["speedup"]["estimate"].as_f64());
    let measured = baseline["metric"].as_f64().zip(best["metric"].as_f64()).map(|(before, after)| before / after);
    match (confirmed, measured) {
        (Some(confirmed), Some(measured)) if confirmed > 0.0 && measured > 0.0 => confirmed / measured,
        _ => 1.0,
    }
}

fn json(folder: &Folder, name: &str) -> Result<Value, ApplyError> {
    let path = folder.path().join(name);
    let text = folder.read(name).map_err(|source| ApplyError::Unread { path: path.clone(), source })?;
    serde_json::from_slice(&text).map_err(|source| ApplyError::NoFileOfTuner { path, source })
}

fn comparison(name: &str, value: &Value) -> Vec<String> {
    let values = match value {
        Value::Array(values) => values.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    values.iter().flat_map(|value| [format!("--{name}"), text(value)]).collect()
}

/// The space's rule for dimensions, with the values of the winner's parameters. `None` if the grid stays as recorded,
/// which is right only for launches with that grid.
fn rule(space: &Value, parameters: &Value) -> Option<DimensionRule> {
    let derived = space["derived"].as_object()?;
    if parameters["keep_grid"] == true {
        return None;
    }
    if derived.get("grid").and_then(Value::as_str) == Some(SAME_THREADS) {
        return Some(DimensionRule::same_threads());
    }
    let numbers = parameters.as_object()?.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    let values: BTreeMap<String, f64> = numbers.collect();
    Some(DimensionRule { values, derived: ordered(derived)? })
        .filter(|rule| rule.read().is_ok() && !rule.derived.is_empty())
}

/// Derived values, each after those that it uses.
fn ordered(derived: &Map<String, Value>) -> Option<Vec<(String, String)>> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "._".contains(character);
    let mut left: Vec<(String, String)> =
        derived.iter().map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect::<Option<_>>()?;
    let mut done: Vec<(String, String)> = Vec::new();
    while !left.is_empty() {
        let uses = |text: &str, name: &str| text.split(|character| !is_part(character)).any(|word| word == name);
        let next = left.iter().position(|(_, text)| !left.iter().any(|(name, _)| uses(text, name)))?;
        done.push(left.remove(next));
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_of_spaces_are_found() {
        let preset = json!({"derived": {"grid": SAME_THREADS, "max_threads": "threads of the block"}});
        assert_eq!(rule(&preset, &Value::Null), Some(DimensionRule::same_threads()));
        assert_eq!(rule(&preset, &json!({"keep_grid": true})), None);
        let file = json!({"derived": {"grid.x": "ceil(threads / block.x)", "threads": "args[2] / items"}});
        let found = rule(&file, &json!({"items": 4, "passes": "default<O3>"})).unwrap();
        assert_eq!(found.values, [("items".to_owned(), 4.0)].into());
        assert_eq!(found.derived.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["threads", "grid.x"]);
        for derived in [json!({}), json!({"grid.x": "a", "a": "grid.x"}), json!({"grid.x": "f(1)"})] {
            assert_eq!(rule(&json!({"derived": derived}), &json!({})), None);
        }
    }

    #[test]
    fn before_and_after_differ_by_what_was_confirmed() {
        let confirmation = json!({"finalists": [
            {"trial": 3, "speedup": {"estimate": 1.5, "low": 1.4, "high": 1.6}},
            {"trial": 4, "speedup": null},
        ]});
        let summary = json!({"confirmation": confirmation});
        let best = |trial: u64| json!({"trial": trial, "metric": 100.0});
        let baseline = json!({"metric": 200.0});
        assert_eq!(correction(&summary, &best(3), &baseline), 0.75);
        for (summary, best) in [(&summary, best(4)), (&summary, best(5)), (&Value::Null, best(3))] {
            assert_eq!(correction(summary, &best, &baseline), 1.0);
        }
        assert_eq!(correction(&summary, &best(3), &Value::Null), 1.0);
    }

    /// The LLVM that compiled the measured code compiles it again, even if another installation prefers another one.
    #[test]
    fn a_winner_keeps_its_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: Value| std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        write("7.json", json!({}));
        write("config.json", json!({"record_database": "7.json"}));
        let three = json!({"x": 3, "y": 1, "z": 1});
        let found = |chosen: Value, versions: Value| {
            let mut config = json!({"grid": three, "block": three, "passes": "default<O3>"});
            if !chosen.is_null() {
                config["llvm"] = chosen;
            }
            let result = json!({"environment": {"arch": "sm_90", "versions": versions}});
            let best = json!({"trial": 4, "record_ids": ["9"], "speedup": 2.0, "config": config, "result": result});
            write(BEST, best);
            read(folder.path(), None).unwrap().remove(0).configuration.llvm
        };
        assert_eq!(found(Value::Null, json!({"llvm": "22.1.8", "ir": "19.1.7"})), Some(22));
        assert_eq!(found(json!(19), json!({"llvm": "19.1.7"})), Some(19));
        assert_eq!(found(Value::Null, json!({})), None, "no LLVM had a part in it");
    }
}

//! Merges the options of command line, configuration file and resumed session.
//!
//! The command line overrides the configuration file, which overrides the resumed session.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use mneme_model::text::did_you_mean;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Options;
use super::choices::AUTO;
use super::refusals::{BUILT_IN, EXCLUSIVE};
use crate::document::{self, DocumentError};

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("{path} is not a configuration file: {problem}", path = path.display())]
    Configuration { path: PathBuf, problem: String },
}

impl Options {
    /// Adds the options of the configuration file and, when resuming, those of the session in the results folder.
    pub fn merged(mut self) -> Result<Self, MergeError> {
        if self.no_adaptive_invalid_ban {
            self.adaptive_invalid_ban = Some(false);
        }
        let mut merged = Map::new();
        let file = self.config.as_deref().map(layer).transpose()?;
        let said = object(&self);
        if self.resume {
            let folder = said.get("results_dir").or_else(|| file.as_ref()?.get("results_dir"));
            let earlier = folder.and_then(Value::as_str).map(|folder| Path::new(folder).join("config.json"));
            if let Some(earlier) = earlier.filter(|path| path.exists()) {
                cover(&mut merged, layer(&earlier)?);
                merged.entry("baseline").or_insert_with(|| BASELINE_BEFORE.into());
            }
            // Options for the earlier session's space do not apply to another space.
            let other_space = |layer: &Map<String, Value>| {
                ["space_preset", "space_module", "space"].iter().any(|key| layer.contains_key(*key))
            };
            if other_space(&said) || file.as_ref().is_some_and(other_space) {
                merged.retain(|key, _| !BUILT_IN.contains(&key.as_str()) && key != "space_arg");
            }
        }
        cover(&mut merged, file.unwrap_or_default());
        cover(&mut merged, said);
        let from_files: Self = serde_json::from_value(Value::Object(merged)).expect("each layer was read by itself");
        Ok(Self {
            no_adaptive_invalid_ban: false,
            resume: self.resume,
            rerun_baseline: self.rerun_baseline,
            config: self.config,
            dump_config: self.dump_config,
            print_space: self.print_space,
            dry_run: self.dry_run,
            baseline_only: self.baseline_only,
            // This belongs to an earlier session, whatever file it comes from.
            measured: None,
            ..from_files
        })
    }
}

/// Names of the options that determine how candidates are compiled, judged and timed.
const CONDITIONS: [&str; 11] = [
    "rtol", "atol", "dtype", "tolerance", "iterations", "warmup", "timer", "device", "baseline", "from-ptx",
    "accept-unproven",
];
/// The baseline of sessions without `baseline` in their options: at that time there was only this one.
const BASELINE_BEFORE: &str = "pipeline";

impl Options {
    /// The name, without dashes, of the first option that makes the results of two sessions incomparable.
    pub fn other_condition(&self, other: &Self) -> Option<&'static str> {
        let [own, other] = [self, other].map(|options| {
            let mut options = object(options);
            options.entry("baseline").or_insert_with(|| BASELINE_BEFORE.into());
            options.retain(|key, value| (key != "timer" || value != AUTO) && *value != false);
            options
        });
        CONDITIONS.into_iter().find(|name| {
            let key = name.replace('-', "_");
            own.get(&key) != other.get(&key)
        })
    }
}

/// Reads and checks a configuration file.
fn layer(path: &Path) -> Result<Map<String, Value>, MergeError> {
    let wrong = |problem: String| MergeError::Configuration { path: path.into(), problem };
    let fields = match document::read(path)? {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        _ => return Err(wrong("it must map option names to values".into())),
    };
    let fields: Map<String, Value> = fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.replace('-', "_"), value))
        .collect();
    for (name, value) in &fields {
        // Checked one at a time, so that the error can name the field.
        let single = Map::from_iter([(name.clone(), value.clone())]);
        serde_json::from_value::<Options>(Value::Object(single)).map_err(|error| {
            let error = error.to_string();
            let problem = if error.starts_with("unknown field") {
                let known: Vec<String> =
                    Options::command().get_arguments().map(|argument| argument.get_id().as_str().to_owned()).collect();
                let meant = did_you_mean(name, known.iter().map(String::as_str));
                format!("the option '{name}' does not exist{meant}")
            } else {
                format!("{name}: {error}")
            };
            wrong(problem)
        })?;
    }
    Ok(fields)
}

/// Lays options over others. An option also removes those that it excludes.
fn cover(below: &mut Map<String, Value>, above: Map<String, Value>) {
    for group in EXCLUSIVE {
        if group.iter().any(|name| above.contains_key(*name)) {
            for name in *group {
                below.remove(*name);
            }
        }
    }
    below.extend(above);
}

fn object(options: &Options) -> Map<String, Value> {
    match serde_json::to_value(options) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a structure of plain data is an object"),
    }
}

/// Deserialises a text, which may be written as a number.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(plain(Value::deserialize(deserializer)?)?))
}

fn plain<E: serde::de::Error>(value: Value) -> Result<String, E> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(E::custom(format!("{other} is neither a text nor a number"))),
    }
}

/// A list, or its only element alone.
pub mod one_or_many {
    use super::*;

    pub fn serialize<T: Serialize, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        match values {
            [only] => only.serialize(serializer),
            many => many.serialize(serializer),
        }
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        let values = match Value::deserialize(deserializer)? {
            Value::Array(values) => values,
            // `verify_all: true` means `--verify-all` without a value.
            Value::Bool(true) => vec![Value::from("all")],
            Value::Bool(false) => Vec::new(),
            one => vec![one],
        };
        values.into_iter().map(|value| serde_json::from_value(plain(value)?.into()).map_err(D::Error::custom)).collect()
    }
}

/// `KEY=VALUE` texts, or a mapping.
pub mod pairs {
    use super::*;

    pub fn serialize<S: Serializer>(pairs: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        pairs.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(fields) => Ok(fields.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            Value::Array(values) => values.into_iter().map(plain).collect(),
            one => Ok(vec![plain(one)?]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn options(arguments: &[&str]) -> Options {
        Options::try_parse_from(std::iter::once("mneme-tune").chain(arguments.iter().copied())).unwrap()
    }

    fn file(text: &str) -> tempfile::TempPath {
        let path = tempfile::Builder::new().suffix(".yml").tempfile().unwrap().into_temp_path();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn merged(arguments: &[&str], text: &str) -> Options {
        let path = file(text);
        options(&[arguments, &["--config", path.to_str().unwrap()]].concat()).merged().unwrap()
    }

    #[test]
    fn the_command_line_wins_and_the_rest_is_the_files() {
        let text = "record_database: a.json\nrecord_id: 16313427880266313990\niterations: 7\nquiet: true\npasses:\n  - default<O1>\n";
        let found = merged(&["--iterations", "3", "--metric", "min"], text);
        assert_eq!(
            (found.iterations, found.quiet, found.metric),
            (Some(3), Some(true), Some(crate::metric::Metric::Min))
        );
        assert_eq!(
            (found.record_id, found.passes),
            (vec!["16313427880266313990".to_owned()], vec!["default<O1>".to_owned()])
        );
        assert_eq!(found.record_database, [PathBuf::from("a.json")]);
    }

    #[test]
    fn what_excludes_what_the_file_says_takes_its_place() {
        let found = merged(&["--fixed-codegen-opt", "2"], "codegen_opt_range: 1:3\nfixed-passes: default<O1>");
        assert_eq!((found.codegen_opt_range, found.fixed_codegen_opt), (None, Some(2)));
        assert_eq!(found.fixed_passes.as_deref(), Some("default<O1>"));
        let found = merged(
            &["--no-adaptive-invalid-ban", "--space-preset", "quick"],
            "adaptive_invalid_ban: true\nspace_module: a:B",
        );
        assert_eq!((found.adaptive_invalid_ban, found.space_module), (Some(false), None));
    }

    #[test]
    fn mistakes_in_a_file_are_named() {
        for (text, expected) in [
            ("iteration: 3", "the option 'iteration' does not exist"),
            ("iterations: many", "iterations: "),
            ("launch_bounds_space: maybe", "'maybe' must be one of"),
            ("- a\n- b", "it must map option names"),
            ("resume: true", "the option 'resume' does not exist"),
        ] {
            let path = file(text);
            let error = options(&["--config", path.to_str().unwrap()]).merged().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn a_session_that_is_resumed_says_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("config.json"),
            r#"{"record_database": "a.json", "iterations": 9, "warmup": 1}"#,
        )
        .unwrap();
        let found =
            options(&["--resume", "--results-dir", folder.path().to_str().unwrap(), "--warmup", "4"]).merged().unwrap();
        assert_eq!(
            (found.iterations, found.warmup, found.record_database),
            (Some(9), Some(4), vec![PathBuf::from("a.json")])
        );
        assert!(found.resume);
    }

    #[test]
    fn arguments_of_a_class_may_be_a_mapping() {
        assert_eq!(merged(&[], "space_arg: {low: 4, name: x}").space_arg, ["low=4", "name=\"x\""]);
        assert_eq!(merged(&[], "space_arg: [low=4]").space_arg, ["low=4"]);
    }
}

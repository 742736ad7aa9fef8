//! Writes a configuration as options of `mneme-replay`.

use serde_json::{Value, json};

use super::{Configuration, DEFAULT_PASSES, FIELDS, Field, Kind};
use crate::tolerance::Tolerance;

impl Field {
    /// The option's long name, without dashes and without an axis.
    pub fn option(&self) -> String {
        if self.long.is_empty() { self.name.replace('_', "-") } else { self.long.into() }
    }

    /// The words of a command line that change the field from `before` to `value`.
    fn words(&self, before: &Value, value: &Value) -> Vec<String> {
        let option = self.option();
        let with =
            |value: &Value| format!("--{option}={}", value.as_str().map_or_else(|| value.to_string(), Into::into));
        match (self.kind, value) {
            // The pipeline is an argument, and null is the default.
            (Kind::Text, _) | (_, Value::Null) => Vec::new(),
            (Kind::Bool, Value::Bool(false)) => vec![format!("--no-{option}")],
            (Kind::Bool, _) => vec![format!("--{option}")],
            (Kind::Switch([_, word]), _) => Vec::from_iter((value == word).then(|| format!("--{option}"))),
            (Kind::Dimensions, _) => {
                let axes = ["x", "y", "z"].into_iter().filter(|axis| before[axis] != value[axis]);
                axes.flat_map(|axis| [format!("-{}{axis}", self.short), value[axis].to_string()]).collect()
            }
            (Kind::Arguments, Value::Array(list)) => {
                vec![format!("--{option}={}", list.iter().map(Value::to_string).collect::<Vec<_>>().join(","))]
            }
            (Kind::Arguments, _) => Vec::from_iter((value == true).then(|| format!("--{option}"))),
            (Kind::List, Value::Array(list)) if list.is_empty() => vec![format!("--{option}=")],
            (Kind::List, Value::Array(list)) => list.iter().map(with).collect(),
            (Kind::Tolerance, _) => {
                let read = serde_json::from_value::<Tolerance>(value.clone());
                read.iter().map(|tolerance| format!("--{option}={}", tolerance.option())).collect()
            }
            _ => vec![with(value)],
        }
    }
}

/// Fields that a recording sets, so their defaults are not those of the table.
const OF_RECORDING: [&str; 5] = ["grid", "block", "shared_mem", "passes", "codegen_opt"];

impl Configuration {
    /// The options and the pipeline that give `mneme-replay` an equal configuration. Values equal to the recorded
    /// configuration's are omitted, if that is known.
    pub fn options(&self, recorded: Option<&Self>) -> Vec<String> {
        let mut it = self.grounded();
        let mut base = recorded.cloned().unwrap_or_default();
        if it.original {
            base = Self { original: false, ..base.of_original() };
        }
        if !it.set_launch_bounds {
            // These fields do not apply.
            (it.max_threads, it.min_blocks_per_sm) = (base.max_threads, base.min_blocks_per_sm);
        }
        let is_unknown = |field: &Field| {
            let is_set = OF_RECORDING.contains(&field.name) && !(it.original && field.effect.changes_code());
            recorded.is_none() && is_set
        };
        let differ: Vec<&str> = it.differences(&base).map(|field| field.name).collect();
        let said: Vec<&Field> =
            FIELDS.iter().filter(|field| is_unknown(field) || differ.contains(&field.name)).collect();
        let before = recorded.map_or(Value::Null, |_| json!(base));
        let values = json!(it);
        let mut words: Vec<String> = Vec::new();
        for field in &said {
            let value = values.get(field.name).cloned().unwrap_or_else(field.initial);
            words.extend(field.words(&before[field.name], &value));
        }
        if said.iter().any(|field| field.name == "passes") {
            // Any other pipeline lifts PTX in a session, too.
            if !it.lift && ["", DEFAULT_PASSES].contains(&it.passes.trim()) {
                words.push("--no-lift".into());
            }
            words.push(it.passes);
        }
        words
    }
}

//! The differences of a configuration from the recorded one, as people and programs write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Configuration;

/// A configuration as far as it differs from the recorded one: an object with some of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Changes(pub Map<String, Value>);

impl From<&Configuration> for Changes {
    /// All fields.
    fn from(configuration: &Configuration) -> Self {
        match serde_json::to_value(configuration) {
            Ok(Value::Object(fields)) => Self(fields),
            _ => unreachable!("a struct of plain data is an object"),
        }
    }
}

impl Changes {
    /// The recorded configuration with these changes. Dimensions may name some axes only: the others are as recorded.
    ///
    /// # Errors
    /// One sentence, which names the field that is unknown or has a value that it cannot have.
    pub fn apply(&self, recorded: &Configuration) -> Result<Configuration, String> {
        // Fields that say how code is compiled have nothing to say of the application's own.
        let original = self.0.get("original") == Some(&Value::Bool(true));
        let Self(fields) = if original { Self::from(&recorded.of_original()) } else { Self::from(recorded) };
        let mut changed = fields.clone();
        self.0.iter().for_each(|(name, value)| change(&mut changed, name, value));
        read(changed).map_err(|error| {
            let wrong = |(name, value): (&String, &Value)| {
                let mut alone = fields.clone();
                change(&mut alone, name, value);
                read(alone).err().map(|error| said(name, value, &error))
            };
            self.0.iter().find_map(wrong).unwrap_or_else(|| error.to_string())
        })
    }
}

fn change(fields: &mut Map<String, Value>, name: &str, value: &Value) {
    match (fields.get_mut(name), value) {
        (Some(Value::Object(axes)), Value::Object(changed)) => axes.extend(changed.clone()),
        (_, value) => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
}

/// What is wrong with a field.
enum Wrong {
    Unknown(String),
    Value(serde_json::Error),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "a configuration has no field '{path}'"),
            Self::Value(error) => write!(f, "the configuration cannot be understood: {error}"),
        }
    }
}

fn read(fields: Map<String, Value>) -> Result<Configuration, Wrong> {
    let mut unknown = None;
    let configuration = serde_ignored::deserialize(Value::Object(fields), |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let configuration = configuration.map_err(Wrong::Value)?;
    unknown.map_or(Ok(configuration), |path| Err(Wrong::Unknown(path)))
}

/// What is wrong with the value of a field that is wrong.
fn said(name: &str, value: &Value, wrong: &Wrong) -> String {
    /// Characters of a value that are shown.
    const SHOWN: usize = 60;
    let Wrong::Value(error) = wrong else { return wrong.to_string() };
    let error = error.to_string();
    let mut shown = value.to_string();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(end);
        shown.push('…');
    }
    match error.rsplit_once(", expected ") {
        Some((found, expected)) => {
            // The value is a part of that which is shown.
            let part = value.is_object() || value.is_array();
            let found = if part { format!(": {found}") } else { String::new() };
            format!("{name} cannot be {shown}{found}; it has to be {}", accepted(expected))
        }
        None => format!("{name} cannot be {shown}: {error}"),
    }
}

/// A type in words.
fn accepted(expected: &str) -> String {
    match expected {
        "u8" | "u32" | "u64" => "a whole number of at least 0".into(),
        "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        // Names of values, and what a type of ours says of itself.
        other => other.replace('`', "'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Dim3;

    fn recorded() -> Configuration {
        Configuration::recorded(Dim3::new(10, 2, 1), Dim3::new(32, 4, 1), 16)
    }

    fn changed(json: &str) -> Result<Configuration, String> {
        serde_json::from_str::<Changes>(json).unwrap().apply(&recorded())
    }

    #[test]
    fn what_is_left_out_is_as_recorded() {
        assert_eq!(changed("{}").unwrap(), recorded());
        let found = changed(r#"{"block": {"x": 64}, "passes": "default<O1>"}"#).unwrap();
        assert_eq!(
            (found.block, found.grid, found.passes.as_str()),
            (Dim3::new(64, 4, 1), Dim3::new(10, 2, 1), "default<O1>")
        );
        assert_eq!(changed(r#"{"block": [64, 2, 1]}"#).unwrap().block, Dim3::new(64, 2, 1));
        assert_eq!(Changes::from(&found).apply(&recorded()).unwrap(), found);
        let other = Configuration { passes: "default<O1>".into(), codegen_opt: 1, ..recorded() };
        let original = serde_json::from_str::<Changes>(r#"{"original": true}"#).unwrap().apply(&other).unwrap();
        assert_eq!(original, recorded().of_original());
        assert_eq!(original.check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named_with_what_can() {
        for (json, expected) in [
            (r#"{"pases": "default<O1>"}"#, "a configuration has no field 'pases'"),
            (r#"{"block": {"w": 1}}"#, "a configuration has no field 'block.w'"),
            (
                r#"{"block": 256}"#,
                "block cannot be 256; it has to be an object with x, y and z (those left out are as recorded)",
            ),
            (
                r#"{"grid": "10"}"#,
                r#"grid cannot be "10"; it has to be an object with x, y and z (those left out are as recorded)"#,
            ),
            (
                r#"{"passes": "default<O1>", "shared_mem": -1}"#,
                "shared_mem cannot be -1; it has to be a whole number of at least 0",
            ),
            (r#"{"facts": 1}"#, "facts cannot be 1; it has to be true or false"),
            (r#"{"llvm_options": "-x"}"#, r#"llvm_options cannot be "-x"; it has to be a list"#),
            (r#"{"timeout_s": "2"}"#, r#"timeout_s cannot be "2"; it has to be a number"#),
            (r#"{"cache": "warm"}"#, r#"cache cannot be "warm"; it has to be 'hot' or 'cold'"#),
            (r#"{"passes": 3}"#, "passes cannot be 3; it has to be a string"),
            (
                r#"{"block": {"x": "a"}}"#,
                r#"block cannot be {"x":"a"}: invalid type: string "a"; it has to be a whole number of at least 0"#,
            ),
            (
                r#"{"specialize": "yes"}"#,
                r#"specialize cannot be "yes": specialize is true, false or a list of argument indices, counted from 0"#,
            ),
        ] {
            assert_eq!(changed(json).unwrap_err(), expected);
        }
        assert!(changed(&format!(r#"{{"block": "{}"}}"#, "é".repeat(1000))).unwrap_err().len() < 300);
    }
}

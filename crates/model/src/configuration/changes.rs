//! The differences of a configuration from the recorded one, as people and programs write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Configuration, ConfigurationError, canonical};

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
    /// The field that is unknown, or that has a value that it cannot have.
    pub fn apply(&self, recorded: &Configuration) -> Result<Configuration, ConfigurationError> {
        // Fields that say how code is compiled have nothing to say of the application's own.
        let original = self.0.get("original") == Some(&Value::Bool(true));
        let Self(fields) = if original { Self::from(&recorded.of_original()) } else { Self::from(recorded) };
        let mut changed = fields.clone();
        let changes = self.canonical();
        changes.iter().for_each(|(name, value)| change(&mut changed, name, value));
        read(changed).map_err(|error| {
            let wrong = |(name, value): (&String, &Value)| {
                let mut alone = fields.clone();
                change(&mut alone, name, value);
                read(alone).err().map(|error| match error {
                    ConfigurationError::Unreadable(error) => {
                        ConfigurationError::FieldValue { field: name.clone(), value: value.clone(), error }
                    }
                    unknown => unknown,
                })
            };
            changes.iter().find_map(wrong).unwrap_or(error)
        })
    }

    /// The changes with the names of [`FIELDS`](super::FIELDS); an axis (`block.x`) becomes an object.
    fn canonical(&self) -> Map<String, Value> {
        let mut changes = Map::new();
        for (name, value) in &self.0 {
            let name = canonical(name);
            match name.split_once('.') {
                Some((dimensions, axis)) => change(&mut changes, dimensions, &json!({axis: value})),
                None => change(&mut changes, &name, value),
            }
        }
        changes
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

fn read(fields: Map<String, Value>) -> Result<Configuration, ConfigurationError> {
    let mut unknown = None;
    let configuration = serde_ignored::deserialize(Value::Object(fields), |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let configuration = configuration.map_err(|error| ConfigurationError::Unreadable(error.to_string()))?;
    unknown.map_or(Ok(configuration), |path| Err(ConfigurationError::UnknownField(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Dim3;

    fn recorded() -> Configuration {
        Configuration::recorded(Dim3::new(10, 2, 1), Dim3::new(32, 4, 1), 16)
    }

    fn changed(json: &str) -> Result<Configuration, ConfigurationError> {
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
        for json in [r#"{"block.x": 64}"#, r#"{"blockDim": {"x": 64}}"#, r#"{"block_shape.x": 64, "grid.y": 2}"#] {
            assert_eq!(changed(json).unwrap().block, Dim3::new(64, 4, 1), "{json}");
        }
        assert_eq!(changed(r#"{"block": [64, 2, 1]}"#).unwrap().block, Dim3::new(64, 2, 1));
        assert_eq!(Changes::from(&found).apply(&recorded()).unwrap(), found);
        let other = Configuration { passes: "default<O1>".into(), codegen_opt: 1, ..recorded() };
        let original = serde_json::from_str::<Changes>(r#"{"original": true}"#).unwrap().apply(&other).unwrap();
        assert_eq!(original, recorded().of_original());
        assert_eq!(original.check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named_with_what_can() {
        for json in [r#"{"pases": "default<O1>"}"#, r#"{"block": {"w": 1}}"#] {
            assert!(matches!(changed(json), Err(ConfigurationError::UnknownField(_))), "{json}");
        }
        for (json, wrong) in [
            (r#"{"block": 256}"#, "block"),
            (r#"{"grid": "10"}"#, "grid"),
            (r#"{"passes": "default<O1>", "shared_mem": -1}"#, "shared_mem"),
            (r#"{"facts": 1}"#, "facts"),
            (r#"{"llvm_options": "-x"}"#, "llvm_options"),
            (r#"{"timeout_s": "2"}"#, "timeout_s"),
            (r#"{"cache": "warm"}"#, "cache"),
            (r#"{"passes": 3}"#, "passes"),
            (r#"{"block": {"x": "a"}}"#, "block"),
            (r#"{"specialize": "yes"}"#, "specialize"),
        ] {
            let Err(ConfigurationError::FieldValue { field, .. }) = changed(json) else { panic!("{json}") };
            assert_eq!(field, wrong);
        }
        let long = changed(&format!(r#"{{"block": "{}"}}"#, "é".repeat(1000))).unwrap_err();
        assert!(long.to_string().len() < 300);
    }
}

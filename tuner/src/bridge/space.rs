//! A search space that is a Python class.

use std::path::Path;

use mneme_model::configuration::Configuration;
use mneme_system::files::trust;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Bridge, BridgeError};
use crate::space::{Domain, Parameter, Point, Rejection, SearchSpace};

/// An instance of the user's class for one recorded instance, in the helper process.
#[derive(Debug)]
pub struct PythonSpace {
    bridge: Bridge,
    /// Number of the space in the process.
    pub(super) number: u64,
    parameters: Vec<Parameter>,
    /// Parameters whose values cannot be listed. Their domains hold a sample.
    generated: Vec<String>,
    baseline: Configuration,
}

/// A parameter as the process describes it.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Described {
    Integer { low: i64, high: i64, step: i64, log: bool },
    Real { low: f64, high: f64, step: Option<f64>, log: bool },
    Categorical { values: Vec<Value>, generated: bool },
    Permutation { values: Vec<Value> },
}

impl PythonSpace {
    /// Creates an object of class `target` (`MODULE_OR_PATH:CLASS`) for an instance of the kernel in `database`. Fields
    /// that the class leaves out of a configuration come from `recorded`.
    ///
    /// # Errors The class cannot be imported or created, or has no baseline.
    pub fn new(
        bridge: &Bridge,
        target: &str,
        arguments: &[String],
        (database, instance): (&str, &str),
        recorded: &Configuration,
    ) -> Result<Self, BridgeError> {
        if let Some((path, _)) = target.rsplit_once(':').filter(|(path, _)| path.ends_with(".py") || path.contains('/'))
        {
            let unread = |source: std::io::Error| match trust::is_refusal(&source) {
                true => BridgeError::Refused(source.to_string()),
                false => BridgeError::Unread { path: path.into(), problem: source.to_string() },
            };
            trust::check(Path::new(path)).map_err(unread)?;
        }
        let arguments: Map<String, Value> = arguments.iter().map(|pair| argument(pair)).collect::<Result<_, _>>()?;
        let request = json!({
            "type": "space", "class": target, "arguments": arguments, "database": database, "instance": instance,
            "recorded": recorded,
        });
        let mut answer = bridge.ask(&request)?;
        let odd = |error: serde_json::Error| {
            BridgeError::Refused(format!("{target} describes a space that the tuner cannot read: {error}"))
        };
        let mut generated = Vec::new();
        let mut parameters = Vec::new();
        for described in answer["parameters"].as_array().into_iter().flatten() {
            let name = described["name"].as_str().unwrap_or_default().to_owned();
            let domain = match Described::deserialize(described).map_err(odd)? {
                Described::Integer { low, high, step, log } => Domain::Integer { low, high, step, log },
                Described::Real { low, high, step, log } => Domain::Real { low, high, step, log },
                Described::Permutation { values } => Domain::Permutation(values),
                Described::Categorical { values, generated: sampled } => {
                    generated.extend(sampled.then(|| name.clone()));
                    Domain::Categorical(values)
                }
            };
            parameters.push(Parameter::new(name, domain));
        }
        let baseline = serde_json::from_value(answer["baseline"].take()).map_err(odd)?;
        Ok(Self {
            bridge: bridge.clone(),
            number: answer["space"].as_u64().unwrap_or(0),
            parameters,
            generated,
            baseline,
        })
    }

    /// Why this space cannot be tried exhaustively, if so.
    pub fn endless(&self) -> Option<String> {
        let without_step = |parameter: &&Parameter| parameter.domain.size().is_none();
        let infinite = self.parameters.iter().find(without_step).map(|parameter| &parameter.name);
        let name = self.generated.first().or(infinite)?;
        Some(format!(
            "the values of the parameter '{name}' cannot be listed, as an exhaustive search needs; use --sampler random or tpe"
        ))
    }
}

/// Splits `KEY=VALUE`; reads the value as JSON if possible.
fn argument(pair: &str) -> Result<(String, Value), BridgeError> {
    let (name, text) = pair
        .split_once('=')
        .ok_or_else(|| BridgeError::Refused(format!("--space-arg '{pair}' has no '='; write KEY=VALUE")))?;
    Ok((name.into(), serde_json::from_str(text).unwrap_or_else(|_| text.into())))
}

impl SearchSpace for PythonSpace {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        let request = json!({"type": "ground", "space": self.number, "point": point});
        let mut answer = self.bridge.ask(&request).map_err(|error| Rejection(error.to_string()))?;
        if let Some(reason) = answer["reason"].as_str() {
            return Err(Rejection(reason.into()));
        }
        serde_json::from_value(answer["config"].take())
            .map_err(|error| Rejection(format!("derived() did not return a configuration: {error}")))
    }

    fn baseline(&self) -> Configuration {
        self.baseline.clone()
    }

    fn size(&self) -> Option<u64> {
        if self.endless().is_some() {
            return None;
        }
        self.parameters.iter().try_fold(1u64, |product, parameter| product.checked_mul(parameter.domain.size()?))
    }

    /// Begins with pipeline and block, whatever the parameters are called.
    fn label(&self, point: &Point, configuration: &Configuration) -> String {
        let mut label = format!("passes={} block.x={}", configuration.passes, configuration.block.x);
        for (name, value) in point {
            let said = name == "passes" || (name == "block_dim_x" && *value == json!(configuration.block.x));
            if !said {
                label += &format!(" {name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_where_they_can_be() {
        assert_eq!(argument("low=64").unwrap(), ("low".into(), json!(64)));
        assert_eq!(argument("name=a=b").unwrap(), ("name".into(), json!("a=b")));
        assert_eq!(argument("list=[1, 2]").unwrap().1, json!([1, 2]));
        assert!(argument("low").unwrap_err().to_string().contains("KEY=VALUE"));
    }
}

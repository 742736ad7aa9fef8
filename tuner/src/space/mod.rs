//! Spaces: what a session may vary, and how a choice becomes a configuration.
//!
//! A space's parameters need not be fields of a configuration: they are what the user wants to vary (a fraction of the
//! largest block, an order of passes), and [`SearchSpace::ground`] maps a choice of them to a configuration. Built-in
//! presets, space files and Python classes are kinds of spaces. Samplers know only the trait.

mod amd;
mod constraints;
pub mod draw;
mod edges;
mod feasible;
mod file;
mod folding;
mod idle;
mod parameter;
pub mod passes;
mod preset;
mod shapes;
mod table;
pub mod walk;

pub use amd::ForAmd;
pub use constraints::Constraints;
pub use feasible::Feasible;
pub use file::{FileError, FileSpace, SpaceFault, Surroundings, field_names};
pub use folding::Folding;
pub use idle::idle_parameters;
pub use parameter::{Domain, Parameter, PassChoice, Point};
pub use preset::{BlockAxes, LaunchSafety, MaxThreads, Preset, PresetOptions, PresetSpace};
pub use table::{ResultsTable, TableSpace, Unmeasured};

use mneme_model::architecture::Processor;
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use serde_json::{Value, json};

/// A recorded launch, around which a space is built.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    /// How the application's own code was compiled, if known.
    pub compiled: Option<CompileOptions>,
    /// The AMD processor that the code is for, if any.
    pub processor: Option<Processor>,
}

impl Recorded {
    /// The recorded launch, compiled like the application's own code.
    pub fn configuration(&self) -> Configuration {
        let launch = Configuration::recorded(self.grid, self.block, self.shared_mem);
        match &self.compiled {
            Some(application) => launch.compiled_as(application),
            None => launch,
        }
    }
}

/// Why a point has no configuration, in one sentence: a violated constraint, or an impossible value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejection(pub String);

/// A search space: parameters, and the meaning of a choice.
pub trait SearchSpace {
    /// The parameters. Each depends only on earlier ones; the last one varies fastest in a walk.
    fn parameters(&self) -> &[Parameter];

    /// Whether a parameter applies to a point that has values for the active parameters before it. Inactive parameters
    /// have no value in a point.
    fn is_active(&self, _parameter: &Parameter, _point: &Point) -> bool {
        true
    }

    /// The constraints, if the space tells the parameters of each. [`ground`](Self::ground) rejects points that violate
    /// one, and possibly others.
    fn constraints(&self) -> Option<Box<dyn Constraints + '_>> {
        None
    }

    /// The configuration of a point.
    ///
    /// # Errors The point violates a constraint, or has an impossible value.
    fn ground(&self, point: &Point) -> Result<Configuration, Rejection>;

    /// The baseline's configuration, which need not be a point of the space.
    fn baseline(&self) -> Configuration;

    /// Number of points, including those that constraints reject; `None` if infinite or too large to count.
    fn size(&self) -> Option<u64> {
        count(self.parameters())
    }

    /// Edges of the space on which a point lies, one sentence each: a better point may lie outside.
    fn edges(&self, point: &Point, _configuration: &Configuration) -> Vec<String> {
        edges::of(self.parameters(), point)
    }

    /// A label that distinguishes a candidate, such as `passes=default<O1> block.x=64`.
    fn label(&self, point: &Point, _configuration: &Configuration) -> String {
        point.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join(" ")
    }

    /// The space for `search_space.json` and `--print-space`.
    fn describe(&self) -> Value {
        json!({"size": self.size(), "baseline": self.baseline(), "parameters": describe(self.parameters())})
    }
}

/// Whether the space has a parameter of this name with this value.
pub fn knows(space: &dyn SearchSpace, name: &str, value: &Value) -> bool {
    space.parameters().iter().any(|parameter| parameter.name == name && parameter.domain.contains(value))
}

/// Whether a point has a value for each parameter that applies.
pub fn holds(space: &dyn SearchSpace, point: &Point) -> bool {
    let mut before = Point::new();
    for parameter in space.parameters() {
        if space.is_active(parameter, &before) {
            let Some(value) = point.get(&parameter.name).filter(|value| parameter.domain.contains(value)) else {
                return false;
            };
            before.insert(parameter.name.clone(), value.clone());
        }
    }
    true
}

/// The product of the domains' sizes.
fn count(parameters: &[Parameter]) -> Option<u64> {
    parameters.iter().try_fold(1u64, |product, parameter| product.checked_mul(parameter.domain.size()?))
}

/// Parameters by name, for `search_space.json`.
fn describe(parameters: &[Parameter]) -> Value {
    parameters
        .iter()
        .map(|parameter| (parameter.name.clone(), serde_json::to_value(parameter).expect("plain data serialises")))
        .collect()
}

/// A value without quotes and brackets.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

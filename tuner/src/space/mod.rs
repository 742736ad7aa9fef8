//! Spaces: what a session may vary, and how a choice becomes a configuration that can be replayed.
//!
//! A space is not the space of configurations: its parameters are what a user wants to turn (a fraction of the largest
//! block, an order of passes), and [`SearchSpace::ground`] maps a choice of them to a configuration. The built-in
//! presets are one kind of space, files of data another, a Python class a third; samplers know nothing but the trait.

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
pub use file::{FileError, FileSpace, Surroundings};
pub use folding::Folding;
pub use idle::idle_parameters;
pub use parameter::{Domain, Parameter, PassChoice, Point};
pub use preset::{BlockAxes, LaunchSafety, MaxThreads, Preset, PresetOptions, PresetSpace};
pub use table::{ResultsTable, TableSpace};

use mneme_core::compile_options::CompileOptions;
use mneme_core::configuration::Configuration;
use mneme_core::image::architecture::Processor;
use mneme_core::launch::Dim3;
use serde_json::{Value, json};

/// A recorded launch, which a space is laid around.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    /// How the application's own code was compiled, where that is known.
    pub compiled: Option<CompileOptions>,
    /// The AMD processor that the code is for, if any.
    pub processor: Option<Processor>,
}

impl Recorded {
    /// The recorded launch, compiled as the application was.
    pub fn configuration(&self) -> Configuration {
        let launch = Configuration::recorded(self.grid, self.block, self.shared_mem);
        match &self.compiled {
            Some(application) => launch.compiled_as(application),
            None => launch,
        }
    }
}

/// Why a point has no configuration, in one sentence: a constraint that it violates, or a value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejection(pub String);

/// What may be varied, and what a choice means.
pub trait SearchSpace {
    /// The parameters, in an order in which each depends on earlier ones alone; the last one varies fastest when a
    /// space is walked.
    fn parameters(&self) -> &[Parameter];

    /// Whether a parameter applies to a point that has values for the (active) parameters before it. Inactive
    /// parameters have no value in a point.
    fn is_active(&self, _parameter: &Parameter, _point: &Point) -> bool {
        true
    }

    /// What must hold among parameters, where a space says what each of its constraints is about. Points that violate
    /// one are rejected by [`ground`](Self::ground), which may reject others as well.
    fn constraints(&self) -> Option<Box<dyn Constraints + '_>> {
        None
    }

    /// The configuration that a point stands for.
    ///
    /// # Errors
    /// A point that violates a constraint, or that no configuration can be made of.
    fn ground(&self, point: &Point) -> Result<Configuration, Rejection>;

    /// What candidates are compared with; it need not be a point of the space.
    fn baseline(&self) -> Configuration;

    /// Points, with those that constraints reject; `None` where there are infinitely many, or more than can be counted.
    fn size(&self) -> Option<u64> {
        count(self.parameters())
    }

    /// Where a point lies on an edge of the space, a sentence each: a better one may lie behind it.
    fn edges(&self, point: &Point, _configuration: &Configuration) -> Vec<String> {
        edges::of(self.parameters(), point)
    }

    /// What tells a candidate from others of the space, as in `passes=default<O1> blockDim.x=64`.
    fn label(&self, point: &Point, _configuration: &Configuration) -> String {
        point.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join(" ")
    }

    /// The space for `search_space.json` and `--print-space`.
    fn describe(&self) -> Value {
        json!({"size": self.size(), "baseline": self.baseline(), "parameters": describe(self.parameters())})
    }
}

/// Whether a parameter of the space has this name and may have this value.
pub fn knows(space: &dyn SearchSpace, name: &str, value: &Value) -> bool {
    space.parameters().iter().any(|parameter| parameter.name == name && parameter.domain.contains(value))
}

/// Whether a point has a value for each parameter that applies to it.
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

/// Parameters by name, as `search_space.json` has them.
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

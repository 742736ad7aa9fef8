//! Spaces from YAML or TOML files with parameters, derived values and constraints.
//!
//! A parameter or derived value with the name of a configuration's field (`block.x`, `passes`) sets that field. Other
//! names are helpers. Fields without a value stay as recorded. docs/reference/spaces.md describes the format.

mod checker;
mod document;
mod domains;
mod fault;
mod fields;

use std::path::{Path, PathBuf};

use mneme_model::configuration::{Changes, Configuration, ConfigurationError};
use mneme_model::device::DeviceLimits;
use mneme_model::text::did_you_mean;
use rand::SeedableRng;
use serde_json::{Map, Value, json};

use super::draw::draw;
use super::walk::walk;
use super::{Constraints, Domain, Parameter, Point, Recorded, Rejection, SearchSpace, passes, plain};
use crate::expression::{Expression, ExpressionEngine, ExpressionError, Values};
use checker::{Conjunct, ConstraintChecker};
use document::Document;
pub use fault::{SpaceFault, TableError};
pub use fields::names as field_names;

/// Points tried when a file is read, to find mistakes before the first replay.
const TRIED: usize = 64;

/// Limit on the points of a space with conditions that are counted one by one.
const COUNTED: u64 = 20_000;

/// An error in a space file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{}: {key}{}{what}", file.display(), at(*line), if key.is_empty() { "" } else { ": " })]
pub struct FileError {
    pub file: PathBuf,
    /// Line of the key, counted from 1; `None` if the key is not in the file.
    pub line: Option<usize>,
    /// A key such as `parameters.block.x.low`; empty for the whole file.
    pub key: String,
    pub what: Box<SpaceFault>,
}

impl FileError {
    /// An error for a file that cannot be read.
    pub(super) fn unread(file: &Path, error: &std::io::Error) -> Self {
        Self::new(file, "", SpaceFault::Unread(error.to_string()))
    }

    pub(super) fn new(file: &Path, key: impl Into<String>, what: impl Into<SpaceFault>) -> Self {
        Self { file: file.into(), line: None, key: key.into(), what: Box::new(what.into()) }
    }
}

fn at(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

/// The values besides parameters that expressions may use.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub recorded: Recorded,
    /// Recorded arguments of the kernel, as numbers.
    pub arguments: Vec<Value>,
    pub device: DeviceLimits,
}

/// A space described by a file.
pub struct FileSpace {
    file: PathBuf,
    description: String,
    parameters: Vec<Parameter>,
    /// Conditions by parameter.
    conditions: Vec<Option<Expression>>,
    derived: Vec<(String, Expression)>,
    constraints: Vec<Expression>,
    /// The constraints, split into the terms of conjunctions.
    parts: Vec<Conjunct>,
    /// The parameters of each part.
    scopes: Vec<Vec<usize>>,
    /// The parameters that decide whether each parameter applies.
    deciding: Vec<Vec<usize>>,
    recorded: Configuration,
    baseline: Configuration,
    language: ExpressionEngine,
    /// The names `recorded`, `args` and `device`.
    surroundings: Values,
    device: DeviceLimits,
}

/// Why a point has no configuration.
enum Trouble {
    /// A violated constraint, or an impossible configuration.
    Rejected(String),
    /// The key of a mistake in the file.
    Mistake(String, SpaceFault),
}

impl FileSpace {
    /// Reads a space file, and tries it on some points.
    ///
    /// # Errors The file cannot be read, or contains a mistake.
    pub fn load(path: &Path, surroundings: &Surroundings) -> Result<Self, FileError> {
        Self::new(path, Document::read(path)?, surroundings).map_err(|error| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            FileError { line: document::line_of(&text, &error.key), ..error }
        })
    }

    /// A space of listed values, which need not affect a configuration.
    ///
    /// # Errors An invalid name, list or constraint.
    pub(crate) fn of_lists(
        path: &Path,
        parameters: Vec<(String, Vec<Value>)>,
        constraints: Vec<String>,
    ) -> Result<Self, FileError> {
        let one = mneme_model::launch::Dim3::new(1, 1, 1);
        let recorded = Recorded { grid: one, block: one, shared_mem: 0, compiled: None, processor: None };
        let parameters =
            document::Ordered(parameters.into_iter().map(|(name, values)| (name, values.into())).collect());
        let document = Document { parameters, constraints, ..Document::default() };
        Self::read(path, document, &Surroundings { recorded, arguments: Vec::new(), device: DeviceLimits::default() })
    }

    /// Whether a file's expressions may use the device. `false` if the file cannot be read.
    pub fn asks_for_device(path: &Path) -> bool {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("device."))
    }

    fn new(path: &Path, document: Document, surroundings: &Surroundings) -> Result<Self, FileError> {
        let space = Self::read(path, document, surroundings)?;
        if !space.reaches_a_field() {
            return Err(FileError::new(path, "parameters", SpaceFault::NoField));
        }
        Ok(space)
    }

    fn read(path: &Path, document: Document, surroundings: &Surroundings) -> Result<Self, FileError> {
        let Recorded { grid, block, shared_mem, .. } = surroundings.recorded;
        let recorded = surroundings.recorded.configuration();
        let wrong = |key: String, what: SpaceFault| FileError::new(path, key, what);
        let (language, mut values) = (ExpressionEngine::default(), Values::default());
        values.set("recorded", &json!({"grid": grid, "block": block, "shared_mem": shared_mem}));
        values.set("args", &Value::Array(surroundings.arguments.clone()));
        values.set("device", &json!(surroundings.device));
        let outside = values.clone();
        values.set("grid", &json!(grid));
        values.set("block", &json!(block));

        let (mut parameters, mut conditions) = (Vec::new(), Vec::new());
        for (name, entry) in &document.parameters.0 {
            let key = format!("parameters.{name}");
            check_name(name).map_err(|what| wrong(key.clone(), what))?;
            let resolve = |text: &str| evaluate_now(&language, text, &outside);
            let (domain, when) = domains::read(entry, &resolve).map_err(|(inner, what)| {
                wrong(if inner.is_empty() { key.clone() } else { format!("{key}.{inner}") }, what)
            })?;
            let condition = when.as_ref().map(|text| language.read(text, &values)).transpose();
            conditions.push(condition.map_err(|error| wrong(format!("{key}.when"), error.into()))?);
            parameters.push(Parameter { name: name.clone(), domain, when });
            declare(&mut values, name);
        }
        let mut derived = Vec::new();
        for (name, entry) in &document.derived.0 {
            let key = format!("derived.{name}");
            check_name(name).map_err(|what| wrong(key.clone(), what))?;
            if parameters.iter().any(|parameter| parameter.name == *name) {
                return Err(wrong(key, SpaceFault::SameName));
            }
            let expression = language.read(&plain(entry), &values).map_err(|error| wrong(key, error.into()))?;
            derived.push((name.clone(), expression));
            declare(&mut values, name);
        }
        let constraints = document.constraints.iter().enumerate().map(|(place, text)| {
            language.read(text, &values).map_err(|error| wrong(format!("constraints[{place}]"), error.into()))
        });
        let constraints = constraints.collect::<Result<_, _>>()?;
        let baseline =
            Changes(document.baseline).apply(&recorded).and_then(|baseline| baseline.check().map(|()| baseline));
        let baseline = baseline.map_err(|what| {
            let key = match &what {
                ConfigurationError::UnknownField(field) | ConfigurationError::FieldValue { field, .. } => {
                    format!("baseline.{field}")
                }
                ConfigurationError::Range { field, .. } => format!("baseline.{field}"),
                _ => "baseline".into(),
            };
            wrong(key, what.into())
        })?;
        let mut space = Self {
            file: path.into(),
            parts: Vec::new(),
            scopes: Vec::new(),
            deciding: Vec::new(),
            description: document.description,
            parameters,
            conditions,
            derived,
            constraints,
            recorded,
            baseline,
            language,
            surroundings: outside,
            device: surroundings.device.clone(),
        };
        space.try_out()?;
        space.link()?;
        Ok(space)
    }

    /// Grounds some points, to find mistakes in the file early.
    fn try_out(&self) -> Result<(), FileError> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
        for _ in 0..TRIED {
            let point = draw(self, &mut rng);
            for (place, condition) in self.conditions.iter().enumerate() {
                let name = &self.parameters[place].name;
                if let Some(condition) = condition {
                    self.truth(condition, &mut self.values(&point).1)
                        .map_err(|what| FileError::new(&self.file, format!("parameters.{name}.when"), what))?;
                }
            }
            if let Err(Trouble::Mistake(key, what)) = self.configuration(&point) {
                return Err(FileError::new(&self.file, key, what));
            }
        }
        Ok(())
    }

    /// The fields that a point sets, and the values of all names.
    fn values(&self, point: &Point) -> (Fields, Values) {
        let mut fields = Fields::new(&self.recorded);
        let mut values = self.surroundings.clone();
        fields.publish(&mut values);
        for parameter in &self.parameters {
            let value = point.get(&parameter.name).map_or(Value::Null, |value| meaning(&parameter.domain, value));
            fields.take(&parameter.name, &value, &mut values);
        }
        (fields, values)
    }

    fn configuration(&self, point: &Point) -> Result<Configuration, Trouble> {
        let (mut fields, mut values) = self.values(point);
        for (name, expression) in &self.derived {
            let mistake = |error: ExpressionError| Trouble::Mistake(format!("derived.{name}"), error.into());
            let value = self.language.evaluate(expression, &mut values).map_err(mistake)?;
            fields.take(name, &value, &mut values);
        }
        for (place, constraint) in self.constraints.iter().enumerate() {
            let holds = self.truth(constraint, &mut values);
            if !holds.map_err(|what| Trouble::Mistake(format!("constraints[{place}]"), what))? {
                return Err(Trouble::Rejected(format!("the constraint '{}' does not hold", constraint.text())));
            }
        }
        let configuration = fields.apply(&self.recorded).map_err(|(name, what)| {
            let key =
                if self.parameters.iter().any(|parameter| parameter.name == name) { "parameters" } else { "derived" };
            Trouble::Mistake(format!("{key}.{name}"), what)
        })?;
        configuration.check().map_err(|error| Trouble::Rejected(error.to_string()))?;
        Ok(configuration)
    }

    fn truth(&self, expression: &Expression, values: &mut Values) -> Result<bool, SpaceFault> {
        let value = self.language.evaluate(expression, values)?;
        value.as_bool().ok_or_else(|| SpaceFault::NoTruth { expression: expression.text().into(), value })
    }
}

fn evaluate_now(language: &ExpressionEngine, text: &str, values: &Values) -> Result<Value, ExpressionError> {
    let mut values = values.clone();
    language.read(text, &values).and_then(|expression| language.evaluate(&expression, &mut values))
}

/// A value in expressions and configurations: a sequence of passes becomes its pipeline.
fn meaning(domain: &Domain, value: &Value) -> Value {
    match (domain, value) {
        (Domain::Pipeline(_), Value::Array(sequence)) => {
            passes::pipeline(sequence.iter().filter_map(Value::as_str)).into()
        }
        _ => value.clone(),
    }
}

/// Names with a fixed meaning in expressions.
const TAKEN: [&str; 5] = ["recorded", "args", "device", "grid", "block"];

fn check_name(name: &str) -> Result<(), SpaceFault> {
    if fields::is_field(name) && !TAKEN.contains(&name) {
        return Ok(());
    }
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if TAKEN.contains(&name) {
        Err(SpaceFault::ReservedName(name.into()))
    } else if !starts || !characters.all(|character| character.is_ascii_alphanumeric() || character == '_') {
        Err(SpaceFault::Name(did_you_mean(name, fields::names())))
    } else {
        Ok(())
    }
}

/// Makes a name known when expressions are parsed.
fn declare(values: &mut Values, name: &str) {
    if !name.contains('.') {
        values.set(name, &Value::Null);
    }
}

/// The configuration's fields that a point sets.
#[derive(Clone)]
struct Fields {
    changed: Vec<(String, Value)>,
    /// The dimensions so far.
    grid: Map<String, Value>,
    block: Map<String, Value>,
}

impl Fields {
    fn new(recorded: &Configuration) -> Self {
        let map = |dimensions: mneme_model::launch::Dim3| match json!(dimensions) {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Self { changed: Vec::new(), grid: map(recorded.grid), block: map(recorded.block) }
    }

    fn publish(&self, values: &mut Values) {
        values.set("grid", &Value::Object(self.grid.clone()));
        values.set("block", &Value::Object(self.block.clone()));
    }

    /// An axis such as `block.x`.
    fn axis(&self, name: &str) -> Value {
        let (dimensions, axis) = name.split_once('.').unwrap_or_default();
        let map = if dimensions == "grid" { &self.grid } else { &self.block };
        map.get(axis).cloned().unwrap_or_default()
    }

    /// Sets a value, also for expressions. If a parameter does not apply, its field stays as recorded.
    fn take(&mut self, name: &str, value: &Value, values: &mut Values) {
        if let Some((dimensions, axis)) = name.split_once('.') {
            if !value.is_null() {
                let map = if dimensions == "grid" { &mut self.grid } else { &mut self.block };
                map.insert(axis.into(), value.clone());
                self.publish(values);
            }
        } else {
            values.set(name, value);
        }
        if fields::is_field(name) && !value.is_null() {
            self.changed.push((name.into(), value.clone()));
        }
    }

    fn apply(&self, recorded: &Configuration) -> Result<Configuration, (String, SpaceFault)> {
        let mut configuration = recorded.clone();
        for (name, value) in &self.changed {
            let value = whole(value);
            let change = match name.split_once('.') {
                Some((dimensions, axis)) => (dimensions.to_owned(), json!({axis: value})),
                None => (name.clone(), value.clone()),
            };
            let applied = Changes(Map::from_iter([change])).apply(&configuration);
            configuration = applied.map_err(|_| (name.clone(), SpaceFault::FieldValue(value)))?;
        }
        Ok(configuration)
    }
}

/// Turns a number without a fraction into a whole number, which configurations require.
fn whole(value: &Value) -> Value {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < 9e15 => (number as i64).into(),
        _ => value.clone(),
    }
}

impl SearchSpace for FileSpace {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn is_active(&self, parameter: &Parameter, point: &Point) -> bool {
        let place = self.parameters.iter().position(|known| known.name == parameter.name);
        match place.and_then(|place| self.conditions[place].as_ref()) {
            None => true,
            // The file was checked when it was read. If a condition still has no truth value, the parameter does not
            // apply.
            Some(condition) => self.truth(condition, &mut self.values(point).1).unwrap_or(false),
        }
    }

    fn constraints(&self) -> Option<Box<dyn Constraints + '_>> {
        Some(Box::new(ConstraintChecker::new(self)))
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        self.configuration(point).map_err(|trouble| match trouble {
            Trouble::Rejected(reason) => Rejection(reason),
            Trouble::Mistake(key, what) => Rejection(FileError::new(&self.file, key, what).to_string()),
        })
    }

    fn baseline(&self) -> Configuration {
        self.baseline.clone()
    }

    /// If parameters have conditions, counts the points up to a limit. For larger spaces, gives the size without
    /// conditions.
    fn size(&self) -> Option<u64> {
        let most = super::count(&self.parameters)?;
        let depends = self.conditions.iter().any(Option::is_some);
        Some(if depends && most <= COUNTED { walk(self).count() as u64 } else { most })
    }

    fn describe(&self) -> Value {
        let derived: Map<String, Value> =
            self.derived.iter().map(|(name, expression)| (name.clone(), expression.text().into())).collect();
        json!({
            "file": self.file,
            "description": self.description,
            "size": self.size(),
            "baseline": self.baseline,
            "parameters": super::describe(&self.parameters),
            "derived": derived,
            "device": self.device,
            "constraints": self.constraints.iter().map(Expression::text).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests;

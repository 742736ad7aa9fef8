//! Reads domains in the syntax of a space file.

use mneme_model::text::did_you_mean;
use serde_json::{Map, Value};

use super::super::{Domain, PassChoice, passes};
use super::SpaceFault;
use crate::expression::ExpressionError;

/// Default for the longest sequence of passes.
const LONGEST: usize = 64;

/// Limit on bounds of whole numbers; up to here, floats represent all of them exactly.
const LARGEST: i64 = 1 << 53;

/// Evaluates a bound that is an expression.
pub type Resolve<'a> = dyn Fn(&str) -> Result<Value, ExpressionError> + 'a;

/// Keys of parameters of all types.
const KEYS: [&str; 2] = ["type", "when"];

/// Further keys of a type; `None` for an unknown type.
fn keys(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "int" | "integer" | "real" | "float" => &["low", "high", "step", "log"],
        "categorical" | "choice" | "permutation" => &["values"],
        "bool" | "boolean" => &[],
        "pipeline" => &["passes", "start", "shortest", "longest"],
        _ => return None,
    })
}

/// The domain and the condition in a parameter's entry.
///
/// # Errors The key in the entry ("" for the entry itself), and the problem.
pub fn read(entry: &Value, resolve: &Resolve) -> Result<(Domain, Option<String>), Wrong> {
    let fields = match entry {
        Value::Array(values) => return Ok((categorical(values).map_err(|what| (String::new(), what))?, None)),
        Value::Object(fields) => fields,
        _ => return Err((String::new(), SpaceFault::NoDomain(entry.clone()))),
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    // Checked before missing keys, which may be misspelt ones.
    if let Some(known) = keys(kind)
        && let Some(name) = fields.keys().find(|name| !KEYS.contains(&name.as_str()) && !known.contains(&name.as_str()))
    {
        let known = [&KEYS, known].concat();
        let meant = did_you_mean(name, known.iter().copied());
        return Err((name.clone(), SpaceFault::UnknownKey { kind: kind.into(), known: known.join(", "), meant }));
    }
    let reader = Reader { fields, resolve };
    let domain = match kind {
        "int" | "integer" => reader.integer()?,
        "real" | "float" => reader.real()?,
        "categorical" | "choice" => categorical(reader.list("values")?).map_err(|what| ("values".into(), what))?,
        "bool" | "boolean" => Domain::Boolean,
        "permutation" => {
            let values = reader.list("values")?;
            distinct(values).map_err(|what| ("values".into(), what))?;
            Domain::Permutation(values.clone())
        }
        "pipeline" => reader.pipeline()?,
        "" => return Err(("type".into(), SpaceFault::NoType)),
        _ => return Err(("type".into(), SpaceFault::UnknownType(kind.into()))),
    };
    let when = match fields.get("when") {
        None => None,
        Some(Value::String(condition)) => Some(condition.clone()),
        Some(other) => Some(other.to_string()),
    };
    Ok((domain, when))
}

fn distinct(values: &[Value]) -> Result<(), SpaceFault> {
    if values.is_empty() {
        return Err(SpaceFault::EmptyList);
    }
    match values.iter().enumerate().find(|(place, value)| values[..*place].contains(value)) {
        Some((_, value)) => Err(SpaceFault::Twice(value.clone())),
        None => Ok(()),
    }
}

fn categorical(values: &[Value]) -> Result<Domain, SpaceFault> {
    distinct(values).map(|()| Domain::Categorical(values.to_vec()))
}

struct Reader<'a> {
    fields: &'a Map<String, Value>,
    resolve: &'a Resolve<'a>,
}

type Wrong = (String, SpaceFault);

impl Reader<'_> {
    fn integer(&self) -> Result<Domain, Wrong> {
        let (low, high) = (self.whole("low")?, self.whole("high")?);
        for (key, bound) in [("low", low), ("high", high)] {
            if bound.unsigned_abs() > LARGEST as u64 {
                return Err((key.into(), SpaceFault::Inexact(bound)));
            }
        }
        let step = if self.has("step") { self.whole("step")? } else { 1 };
        let log = self.flag("log")?;
        self.ordered(low as f64, high as f64)?;
        if step < 1 {
            return Err(("step".into(), SpaceFault::Step { value: step as f64, bound: "at least 1" }));
        }
        if log && low < 1 {
            return Err(("low".into(), SpaceFault::LowOfLog { value: low as f64, bound: "at least 1" }));
        }
        Ok(Domain::Integer { low, high, step, log })
    }

    fn real(&self) -> Result<Domain, Wrong> {
        let (low, high) = (self.number("low")?, self.number("high")?);
        let step = if self.has("step") { Some(self.number("step")?) } else { None };
        let log = self.flag("log")?;
        self.ordered(low, high)?;
        if !(high - low).is_finite() {
            return Err(("high".into(), SpaceFault::TooFar { low, high }));
        }
        if let Some(step) = step.filter(|step| *step <= 0.0) {
            return Err(("step".into(), SpaceFault::Step { value: step, bound: "above 0" }));
        }
        if log && low <= 0.0 {
            return Err(("low".into(), SpaceFault::LowOfLog { value: low, bound: "above 0" }));
        }
        Ok(Domain::Real { low, high, step, log })
    }

    fn pipeline(&self) -> Result<Domain, Wrong> {
        let named = |key: &str, values: &[Value]| -> Result<Vec<String>, Wrong> {
            let text = |value: &Value| match value.as_str().filter(|name| passes::is_known(name)) {
                Some(name) => Ok(name.to_owned()),
                None => Err((key.to_owned(), SpaceFault::UnknownPass(value.clone()))),
            };
            values.iter().map(text).collect()
        };
        let mut choice = if self.has("passes") {
            let names = self.list("passes")?;
            distinct(names).map_err(|what| ("passes".to_owned(), what))?;
            named("passes", names)?
        } else {
            passes::names().map(str::to_owned).collect()
        };
        let own_start = self.has("start");
        let mut start =
            if own_start { named("start", self.list("start")?)? } else { passes::start().map(str::to_owned).collect() };
        choice.extend(
            start.iter().filter(|name| !choice.contains(name)).cloned().collect::<std::collections::BTreeSet<_>>(),
        );
        let shortest = if self.has("shortest") { self.whole("shortest")? } else { 1 };
        let longest = if self.has("longest") { self.whole("longest")? } else { LONGEST.max(start.len()) as i64 };
        if shortest < 1 || longest < shortest {
            return Err(("longest".into(), SpaceFault::Lengths { shortest, longest }));
        }
        if !own_start {
            start.truncate(usize::try_from(longest).unwrap_or(usize::MAX));
        }
        if !(shortest..=longest).contains(&(start.len() as i64)) {
            return Err(("start".into(), SpaceFault::StartLength { found: start.len(), shortest, longest }));
        }
        Ok(Domain::Pipeline(PassChoice {
            passes: choice,
            start,
            shortest: shortest as usize,
            longest: longest as usize,
        }))
    }

    fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    fn value(&self, key: &str) -> Result<Value, Wrong> {
        match self.fields.get(key) {
            Some(Value::String(expression)) => {
                (self.resolve)(expression).map_err(|error| (key.to_owned(), error.into()))
            }
            Some(value) => Ok(value.clone()),
            None => Err((key.into(), SpaceFault::Missing)),
        }
    }

    fn number(&self, key: &str) -> Result<f64, Wrong> {
        let value = self.value(key)?;
        let number = value.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| (key.into(), SpaceFault::NoNumber(value)))
    }

    fn whole(&self, key: &str) -> Result<i64, Wrong> {
        let value = self.value(key)?;
        let whole = value.as_i64().or_else(|| {
            value
                .as_f64()
                .filter(|number| number.fract() == 0.0)
                .filter(|number| number.abs() < 9.3e18)
                .map(|number| number as i64)
        });
        whole.ok_or_else(|| (key.into(), SpaceFault::NoWholeNumber(value)))
    }

    fn flag(&self, key: &str) -> Result<bool, Wrong> {
        match self.fields.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| (key.into(), SpaceFault::NoBoolean(value.clone()))),
        }
    }

    fn list(&self, key: &str) -> Result<&Vec<Value>, Wrong> {
        match self.fields.get(key) {
            Some(Value::Array(values)) => Ok(values),
            Some(other) => Err((key.into(), SpaceFault::NoList(other.clone()))),
            None => Err((key.into(), SpaceFault::MissingList)),
        }
    }

    fn ordered(&self, low: f64, high: f64) -> Result<(), Wrong> {
        if low <= high { Ok(()) } else { Err(("low".into(), SpaceFault::Swapped { low, high })) }
    }
}

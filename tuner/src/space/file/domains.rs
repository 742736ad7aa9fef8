//! Reads domains in the syntax of a space file.

use serde_json::{Map, Value};

use super::super::{Domain, PassChoice, passes};

/// Default for the longest sequence of passes.
const LONGEST: usize = 64;

/// Limit on bounds of whole numbers; up to here, floats represent all of them exactly.
const LARGEST: i64 = 1 << 53;

/// Evaluates a bound that is an expression.
pub type Resolve<'a> = dyn Fn(&str) -> Result<Value, String> + 'a;

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
/// # Errors The key in the entry ("" for the entry itself), and a sentence with the problem and the remedy.
pub fn read(entry: &Value, resolve: &Resolve) -> Result<(Domain, Option<String>), (String, String)> {
    let fields = match entry {
        Value::Array(values) => return Ok((categorical(values).map_err(|what| (String::new(), what))?, None)),
        Value::Object(fields) => fields,
        _ => {
            return Err((
                String::new(),
                format!("{entry} is not a domain; write a list of values, or a mapping with a 'type'"),
            ));
        }
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    // Checked before missing keys, which may be misspelt ones.
    if let Some(known) = keys(kind)
        && let Some(name) = fields.keys().find(|name| !KEYS.contains(&name.as_str()) && !known.contains(&name.as_str()))
    {
        let known = [&KEYS, known].concat().join(", ");
        return Err((name.clone(), format!("this key is unknown; a parameter of type {kind} has {known}")));
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
        _ => {
            let what = "write one of int, real, categorical, bool, permutation, pipeline".to_owned();
            return Err((
                "type".into(),
                if kind.is_empty() { format!("it is missing; {what}") } else { format!("'{kind}' is unknown; {what}") },
            ));
        }
    };
    let when = match fields.get("when") {
        None => None,
        Some(Value::String(condition)) => Some(condition.clone()),
        Some(other) => Some(other.to_string()),
    };
    Ok((domain, when))
}

fn distinct(values: &[Value]) -> Result<(), String> {
    if values.is_empty() {
        return Err("the list is empty; name at least one value".into());
    }
    match values.iter().enumerate().find(|(place, value)| values[..*place].contains(value)) {
        Some((_, value)) => Err(format!("{value} occurs twice; drop one")),
        None => Ok(()),
    }
}

fn categorical(values: &[Value]) -> Result<Domain, String> {
    distinct(values).map(|()| Domain::Categorical(values.to_vec()))
}

struct Reader<'a> {
    fields: &'a Map<String, Value>,
    resolve: &'a Resolve<'a>,
}

type Wrong = (String, String);

impl Reader<'_> {
    fn integer(&self) -> Result<Domain, Wrong> {
        let (low, high) = (self.whole("low")?, self.whole("high")?);
        for (key, bound) in [("low", low), ("high", high)] {
            if bound.unsigned_abs() > LARGEST as u64 {
                return Err((
                    key.into(),
                    format!("{bound} is beyond 2^53, {LARGEST}, up to which numbers are exact; choose a nearer bound"),
                ));
            }
        }
        let step = if self.has("step") { self.whole("step")? } else { 1 };
        let log = self.flag("log")?;
        self.ordered(low as f64, high as f64)?;
        if step < 1 {
            return Err(("step".into(), format!("it is {step}; it must be at least 1")));
        }
        if log && low < 1 {
            return Err(("low".into(), format!("it is {low}; with 'log' it must be at least 1")));
        }
        Ok(Domain::Integer { low, high, step, log })
    }

    fn real(&self) -> Result<Domain, Wrong> {
        let (low, high) = (self.number("low")?, self.number("high")?);
        let step = if self.has("step") { Some(self.number("step")?) } else { None };
        let log = self.flag("log")?;
        self.ordered(low, high)?;
        if !(high - low).is_finite() {
            return Err((
                "high".into(),
                format!("{low:e} to {high:e} is too far apart for a number; choose nearer bounds"),
            ));
        }
        if let Some(step) = step.filter(|step| *step <= 0.0) {
            return Err(("step".into(), format!("it is {step}; it must be above 0")));
        }
        if log && low <= 0.0 {
            return Err(("low".into(), format!("it is {low}; with 'log' it must be above 0")));
        }
        Ok(Domain::Real { low, high, step, log })
    }

    fn pipeline(&self) -> Result<Domain, Wrong> {
        let named = |key: &str, values: &[Value]| -> Result<Vec<String>, Wrong> {
            let text = |value: &Value| match value.as_str().filter(|name| passes::is_known(name)) {
                Some(name) => Ok(name.to_owned()),
                None => Err((
                    key.to_owned(),
                    format!(
                        "the nesting of pass {value} is unknown; write it as a pipeline, such as 'function({})'",
                        plain(value)
                    ),
                )),
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
            return Err((
                "longest".into(),
                format!(
                    "sequences cannot have {shortest} to {longest} passes; 'shortest' must be at least 1 and at most 'longest'"
                ),
            ));
        }
        if !own_start {
            start.truncate(usize::try_from(longest).unwrap_or(usize::MAX));
        }
        if !(shortest..=longest).contains(&(start.len() as i64)) {
            return Err((
                "start".into(),
                format!("it has {} passes; the parameter has {shortest} to {longest}", start.len()),
            ));
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
            Some(Value::String(expression)) => (self.resolve)(expression).map_err(|what| (key.to_owned(), what)),
            Some(value) => Ok(value.clone()),
            None => Err((key.into(), "it is missing".into())),
        }
    }

    fn number(&self, key: &str) -> Result<f64, Wrong> {
        let value = self.value(key)?;
        value
            .as_f64()
            .filter(|number| number.is_finite())
            .ok_or_else(|| (key.into(), format!("{value} is not a number")))
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
        whole.ok_or_else(|| {
            (key.into(), format!("{value} is not a whole number; use a real parameter, or ceil, floor or round"))
        })
    }

    fn flag(&self, key: &str) -> Result<bool, Wrong> {
        match self.fields.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| (key.into(), format!("{value} is neither true nor false"))),
        }
    }

    fn list(&self, key: &str) -> Result<&Vec<Value>, Wrong> {
        match self.fields.get(key) {
            Some(Value::Array(values)) => Ok(values),
            Some(other) => Err((key.into(), format!("{other} is not a list; write [{}]", plain(other)))),
            None => Err((key.into(), "it is missing; write the list of values".into())),
        }
    }

    fn ordered(&self, low: f64, high: f64) -> Result<(), Wrong> {
        if low <= high { Ok(()) } else { Err(("low".into(), format!("{low} is above 'high', {high}; swap them"))) }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

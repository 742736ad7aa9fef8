//! Spaces from files with every configuration's result: Kernel Tuner caches and T4 files.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use mneme_model::configuration::Configuration;
use serde_json::{Value, json};

use super::file::{FileError, FileSpace, TableError};
use super::{Constraints, Parameter, Point, Rejection, SearchSpace, plain};

/// A space with its results.
pub struct ResultsTable {
    pub name: String,
    pub space: TableSpace,
    pub results: Vec<(Point, TableResult)>,
}

/// The parameters of a file. Valid points are those in its list `valid`, otherwise those with results.
pub struct TableSpace {
    inner: FileSpace,
    /// The beginnings of valid points, by length.
    beginnings: Vec<HashSet<String>>,
    scopes: Vec<Vec<usize>>,
    none: Vec<Vec<usize>>,
}

/// The content of a file.
struct Content {
    name: String,
    parameters: Vec<(String, Vec<Value>)>,
    valid: Option<Vec<Point>>,
    results: Vec<(Point, TableResult)>,
}

/// Milliseconds.
pub type TableResult = Result<f64, Unmeasured>;

/// Why a point has no time, in the file's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmeasured(pub String);

impl ResultsTable {
    /// Reads a file.
    ///
    /// # Errors The file cannot be read, or has an unknown format.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let wrong = |what: TableError| FileError::new(path, "", what);
        let text = std::fs::read_to_string(path).map_err(|error| FileError::unread(path, &error))?;
        let document: Value =
            serde_json::from_str(&without_nan(&text)).map_err(|error| wrong(TableError::NoJson(error.to_string())))?;
        let content = if document["results"].is_array() { t4(&document) } else { cache(&document) }.map_err(wrong)?;
        let Content { parameters, valid, results, .. } = content;
        let name = if content.name.is_empty() {
            path.file_stem().unwrap_or_default().to_string_lossy().into()
        } else {
            content.name
        };
        let names: Vec<String> = parameters.iter().map(|(name, _)| name.clone()).collect();
        let valid: Vec<&Point> = match &valid {
            Some(points) => points.iter().collect(),
            None => results.iter().map(|(point, _)| point).collect(),
        };
        let beginnings: Vec<HashSet<String>> = (1..=names.len())
            .map(|length| valid.iter().map(|point| beginning(&names[..length], point)).collect())
            .collect();
        let inner = FileSpace::of_lists(path, parameters, Vec::new())?;
        let scopes = (1..=beginnings.len()).map(|length| (0..length).collect()).collect();
        let none = vec![Vec::new(); names.len()];
        let space = TableSpace { inner, beginnings, scopes, none };
        Ok(Self { name, space, results })
    }
}

/// The default objective, in milliseconds.
const TIME: &str = "time";
/// Milliseconds per unit of time in T4 files.
const UNITS: [(&str, f64); 9] = [
    ("ms", 1.0),
    ("milliseconds", 1.0),
    ("s", 1e3),
    ("seconds", 1e3),
    ("us", 1e-3),
    ("µs", 1e-3),
    ("microseconds", 1e-3),
    ("ns", 1e-6),
    ("nanoseconds", 1e-6),
];

/// Times are stored in whole nanoseconds.
fn check_time(milliseconds: f64) -> Result<(), TableError> {
    if (1e-6..1e13).contains(&milliseconds) { Ok(()) } else { Err(TableError::Time(milliseconds)) }
}

/// Replaces the numbers NaN and Infinity, which Python's json module writes, with `null`.
fn without_nan(text: &str) -> String {
    let (mut found, mut rest, mut is_string) = (String::with_capacity(text.len()), text, false);
    while let Some(first) = rest.chars().next() {
        let name = ["NaN", "-Infinity", "Infinity"].into_iter().find(|name| !is_string && rest.starts_with(name));
        let length = match (name, first) {
            (Some(name), _) => name.len(),
            (None, '\\') => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => first.len_utf8(),
        };
        is_string ^= first == '"';
        found.push_str(if name.is_some() { "null" } else { &rest[..length] });
        rest = &rest[length..];
    }
    found
}

/// Whether a part of a key is a value, written by Python or as JSON.
fn is_written(value: &Value, part: &str) -> bool {
    match value {
        Value::Bool(true) => part == "true" || part == "True",
        Value::Bool(false) => part == "false" || part == "False",
        Value::Number(number) => plain(value) == part || (part.parse().ok() == number.as_f64() && !number.is_u64()),
        _ => plain(value) == part,
    }
}

/// Reads a Kernel Tuner cache, or a similar file with times by key.
fn cache(document: &Value) -> Result<Content, TableError> {
    let either = |one: &str, other: &str| document.get(one).or(document.get(other)).cloned().unwrap_or_default();
    let keys = either("keys", "tune_params_keys");
    let names: Vec<String> =
        keys.as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    if names.is_empty() {
        return Err(TableError::NoKeys);
    }
    let lists = either("values", "tune_params");
    let values = names.iter().enumerate().map(|(place, name)| match &lists {
        Value::Array(lists) => lists.get(place),
        lists => lists.get(name),
    });
    let values: Option<Vec<Vec<Value>>> = values.map(|values| values?.as_array().cloned()).collect();
    let values = values.ok_or(TableError::NoValues)?;
    let objective = document["objective"].as_str().unwrap_or(TIME);
    if objective != TIME || document["objective_higher_is_better"] == true {
        return Err(TableError::Objective(objective.into()));
    }
    let key = |text: &str, names: &[String], values: &[Vec<Value>]| -> Option<Point> {
        let parts: Vec<&str> = text.split(',').collect();
        let of = |(part, values): (&&str, &Vec<Value>)| values.iter().find(|value| is_written(value, part)).cloned();
        let found: Vec<Value> = parts.iter().zip(values).map(of).collect::<Option<_>>()?;
        (parts.len() == names.len()).then(|| names.iter().cloned().zip(found).collect())
    };
    let mut results = BTreeMap::new();
    // An entry with its own values needs no parsing of its key.
    let of_entry = |entry: &Value| -> Option<Point> {
        let found = names.iter().zip(&values).map(|(name, values)| {
            let wanted = entry.get(name)?;
            let same = |value: &&Value| *value == wanted || (value.is_number() && value.as_f64() == wanted.as_f64());
            Some((name.clone(), values.iter().find(same)?.clone()))
        });
        found.collect()
    };
    for (text, entry) in ["times", "cache", "errors"].iter().filter_map(|field| document[*field].as_object()).flatten()
    {
        let point =
            of_entry(entry).or_else(|| key(text, &names, &values)).ok_or_else(|| TableError::Key(text.clone()))?;
        let measured = if entry.is_object() { &entry[objective] } else { entry };
        // Kernel Tuner writes 1e20 for a missing time.
        let outcome = measured.as_f64().filter(|time| *time > 0.0 && *time < 1e20);
        let outcome = outcome.ok_or_else(|| Unmeasured(measured.as_str().unwrap_or("it failed").to_owned()));
        if let Ok(time) = outcome {
            check_time(time)?;
        }
        if outcome.is_err() && results.get(text).is_some_and(|(_, known): &(Point, TableResult)| known.is_ok()) {
            continue;
        }
        results.insert(text.clone(), (point, outcome));
    }
    let valid = match (document["valid"].as_array(), document["restrictions"].as_array()) {
        (Some(points), _) => Some(valid_points(&names, points)?),
        (None, Some(restrictions)) if !restrictions.is_empty() => {
            return Err(TableError::Restrictions);
        }
        _ => None,
    };
    let name = document["name"].as_str().or(document["kernel_name"].as_str()).unwrap_or_default().to_owned();
    Ok(Content {
        name,
        parameters: names.into_iter().zip(values).collect(),
        valid,
        results: results.into_values().collect(),
    })
}

/// Reads points that are lists of values, in the order of the parameters.
fn valid_points(names: &[String], points: &[Value]) -> Result<Vec<Point>, TableError> {
    let point = |point: &Value| -> Option<Point> {
        let values = point.as_array().filter(|values| values.len() == names.len())?;
        Some(names.iter().cloned().zip(values.iter().cloned()).collect())
    };
    let found: Option<Vec<Point>> = points.iter().map(point).collect();
    found.ok_or(TableError::ValidPoint(names.len()))
}

/// Reads the T4 format: a list of results with their configurations.
fn t4(document: &Value) -> Result<Content, TableError> {
    let mut parameters: Vec<(String, Vec<Value>)> = Vec::new();
    let mut results = Vec::new();
    for (number, result) in document["results"].as_array().into_iter().flatten().enumerate() {
        let configuration = result["configuration"].as_object().ok_or(TableError::NoConfiguration(number))?;
        for (name, value) in configuration {
            match parameters.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) if values.contains(value) => {}
                Some((_, values)) => values.push(value.clone()),
                None => parameters.push((name.clone(), vec![value.clone()])),
            }
        }
        let objective = result["objectives"].get(0).and_then(Value::as_str).unwrap_or(TIME);
        let mut measurements = result["measurements"].as_array().into_iter().flatten();
        let measurement = measurements.find(|entry| entry["name"] == objective && entry["value"].is_number());
        let unit = measurement.and_then(|it| it["unit"].as_str()).filter(|unit| !unit.is_empty());
        let milliseconds = match unit {
            Some(unit) => UNITS.iter().find(|(known, _)| *known == unit).map(|(_, milliseconds)| *milliseconds),
            None => (objective == TIME).then_some(1.0),
        };
        let milliseconds = match (measurement, milliseconds) {
            (Some(_), None) => {
                let unit = unit.map_or(String::new(), |it| format!(" in {it}"));
                return Err(TableError::Objective(format!("{objective}{unit}")));
            }
            (_, milliseconds) => milliseconds.unwrap_or(1.0),
        };
        let time = measurement.and_then(|entry| entry["value"].as_f64()).map(|value| value * milliseconds);
        let invalidity = result["invalidity"].as_str().unwrap_or("correct");
        let outcome =
            time.filter(|time| invalidity == "correct" && *time > 0.0).ok_or_else(|| Unmeasured(invalidity.to_owned()));
        if let Ok(time) = outcome {
            check_time(time)?;
        }
        results.push((configuration.iter().map(|(name, value)| (name.clone(), value.clone())).collect(), outcome));
    }
    // A parameter that does not apply to a configuration gets the value `null`.
    let results: Vec<(Point, TableResult)> = results;
    let results = results.into_iter().map(|(mut point, outcome)| {
        for (name, values) in &mut parameters {
            if !point.contains_key(name) {
                point.insert(name.clone(), Value::Null);
                if !values.contains(&Value::Null) {
                    values.push(Value::Null);
                }
            }
        }
        (point, outcome)
    });
    let results = results.collect();
    for (_, values) in &mut parameters {
        if values.iter().all(Value::is_number) {
            values.sort_by(|a, b| a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)));
        }
    }
    Ok(Content { name: String::new(), parameters, valid: None, results })
}

/// The values of a point's first parameters, as text.
fn beginning(names: &[String], point: &Point) -> String {
    names.iter().map(|name| point.get(name).map(plain).unwrap_or_default()).collect::<Vec<_>>().join(",")
}

impl SearchSpace for TableSpace {
    fn parameters(&self) -> &[Parameter] {
        self.inner.parameters()
    }

    fn constraints(&self) -> Option<Box<dyn Constraints + '_>> {
        Some(Box::new(Listed { space: self, values: vec![String::new(); self.scopes.len()] }))
    }

    /// Each parameter becomes an LLVM option, so that each point has a distinct configuration.
    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        let names: Vec<String> = self.parameters().iter().map(|parameter| parameter.name.clone()).collect();
        if self.beginnings.last().is_some_and(|listed| !listed.contains(&beginning(&names, point))) {
            return Err(Rejection("the file does not list it as valid".into()));
        }
        let options =
            names.iter().map(|name| format!("-{name}={}", point.get(name).map(plain).unwrap_or_default())).collect();
        Ok(Configuration { llvm_options: options, ..self.inner.ground(point)? })
    }

    fn baseline(&self) -> Configuration {
        self.inner.baseline()
    }

    fn describe(&self) -> Value {
        let mut described = self.inner.describe();
        if let Value::Object(fields) = &mut described
            && let Some(feasible) = super::Feasible::of(self)
        {
            fields.insert("valid".into(), json!(feasible.size()));
        }
        described
    }
}

/// Checks that a valid point begins with the values so far.
struct Listed<'a> {
    space: &'a TableSpace,
    values: Vec<String>,
}

impl Constraints for Listed<'_> {
    fn scopes(&self) -> &[Vec<usize>] {
        &self.space.scopes
    }

    fn conditions(&self) -> &[Vec<usize>] {
        &self.space.none
    }

    fn set(&mut self, parameter: usize, value: Option<&Value>) {
        self.values[parameter] = value.map(plain).unwrap_or_default();
    }

    fn applies(&mut self, _parameter: usize) -> bool {
        true
    }

    fn holds(&mut self, constraint: usize) -> bool {
        self.space.beginnings[constraint].contains(&self.values[..=constraint].join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceFault;

    fn load(content: &Value) -> Result<ResultsTable, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.json");
        std::fs::write(&path, content.to_string()).unwrap();
        ResultsTable::load(&path)
    }

    fn fault<T>(found: Result<T, FileError>) -> TableError {
        match *found.err().unwrap().what {
            SpaceFault::Table(error) => error,
            other => panic!("{other}"),
        }
    }

    fn point(x: i64, y: i64) -> Point {
        Point::from([("x".to_owned(), json!(x)), ("y".to_owned(), json!(y))])
    }

    #[test]
    fn times_with_a_list_of_valid_points() {
        let content = json!({
            "name": "k", "keys": ["x", "y"], "values": [[1, 2], [1, 2]], "restrictions": ["x * y < 4"],
            "valid": [[1, 1], [1, 2], [2, 1]],
            "times": {"1,1": 2.5, "1,2": null}, "errors": {"1,2": "RuntimeFailedConfig"},
        });
        let table = load(&content).unwrap();
        assert_eq!((table.name.as_str(), table.results.len()), ("k", 2));
        assert!(table.space.ground(&point(2, 2)).is_err());
        assert_eq!(super::super::Feasible::of(&table.space).unwrap().size(), Some(3));
        let of =
            |x, y| table.results.iter().find(|(known, _)| *known == point(x, y)).map(|(_, outcome)| outcome.clone());
        assert_eq!((of(1, 1), of(2, 1)), (Some(Ok(2.5)), None));
        assert!(of(1, 2).unwrap().is_err());
        let hashes: HashSet<String> =
            [point(1, 1), point(1, 2), point(2, 1)].iter().map(|it| table.space.ground(it).unwrap().hash()).collect();
        assert_eq!(hashes.len(), 3);
    }

    #[test]
    fn caches_of_kernel_tuner_and_t4_files_list_what_is_valid() {
        let cache = json!({
            "kernel_name": "k", "tune_params_keys": ["x", "y"], "tune_params": {"x": [1, 2], "y": [1, 2]}, "objective": "time",
            "cache": {"1,1": {"x": 1, "y": 1, "time": 2.5}, "2,1": {"x": 2, "y": 1, "time": "CompilationFailedConfig"}},
        });
        let measurements = |time: f64| json!([{"name": "time", "value": time, "unit": "ms"}]);
        let t4 = json!({"results": [
            {"configuration": {"x": 1, "y": 1}, "objectives": ["time"], "measurements": measurements(2.5), "invalidity": "correct"},
            {"configuration": {"x": 2, "y": 1}, "objectives": ["time"], "measurements": [], "invalidity": "compile"},
        ]});
        for content in [cache, t4] {
            let table = load(&content).unwrap();
            assert!(table.space.ground(&point(1, 1)).is_ok());
            assert!(table.space.ground(&point(1, 2)).is_err());
            assert_eq!(super::super::Feasible::of(&table.space).unwrap().size(), Some(2));
            assert_eq!(table.results.iter().filter(|(_, outcome)| *outcome == Ok(2.5)).count(), 1);
        }
    }

    #[test]
    fn values_are_those_of_entries_and_of_keys_as_python_writes_them() {
        let text = r#"{"tune_params_keys": ["b", "f", "s"],
            "tune_params": {"b": [true, false], "f": [0.00001, 2.5], "s": ["a,b", "NaN"]},
            "cache": {"True,1e-05,a,b": {"b": true, "f": 1e-05, "s": "a,b", "time": 2.5},
                      "False,1e-05,NaN": {"time": 1.5}, "False,2.5,NaN": {"time": NaN}}}"#;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.json");
        std::fs::write(&path, text).unwrap();
        let table = ResultsTable::load(&path).unwrap();
        let times: Vec<_> = table.results.iter().map(|(_, outcome)| outcome.clone().ok()).collect();
        assert_eq!(times, [Some(1.5), None, Some(2.5)]);
        assert_eq!(table.results[2].0["s"], "a,b");
    }

    #[test]
    fn what_is_no_time_is_refused_and_units_are_heard() {
        let t4 = |name: &str, unit: &str, value: f64| {
            let measurements = json!([{"name": name, "value": value, "unit": unit}]);
            load(&json!({"results": [
                {"configuration": {"x": 1}, "objectives": [name], "measurements": measurements, "invalidity": "correct"},
                {"configuration": {"x": 2, "y": 7}, "objectives": [name], "measurements": measurements, "invalidity": "correct"},
            ]}))
        };
        let table = t4("runtime", "us", 500.0).unwrap();
        assert_eq!(table.results[0].1, Ok(0.5));
        // A configuration without a parameter differs from those with any value of it.
        assert_eq!(super::super::Feasible::of(&table.space).unwrap().size(), Some(2));
        assert!(matches!(fault(t4("GFLOP/s", "GFLOP/s", 2.0)), TableError::Objective(_)));
        assert!(matches!(fault(t4("time", "ms", 1e-8)), TableError::Time(_)));
        let cache = |more: Value| {
            let mut content = json!({"keys": ["x"], "values": [[1]], "cache": {"1": {"GFLOP/s": 2.0, "time": 1.0}}});
            content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            load(&content).map(|_| ())
        };
        assert_eq!(cache(json!({"objective": "time"})), Ok(()));
        assert!(matches!(fault(cache(json!({"objective": "GFLOP/s"}))), TableError::Objective(_)));
        assert!(cache(json!({"objective_higher_is_better": true})).is_err());
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(fault(load(&json!({"a": 1}))), TableError::NoKeys);
        let with = |field: &str, value: Value| {
            let mut content = json!({"keys": ["x"], "values": [[1]], "times": {"1": 1.0}});
            content[field] = value;
            load(&content).map(|_| ())
        };
        assert_eq!(fault(with("restrictions", json!(["x > 0"]))), TableError::Restrictions);
        assert!(with("restrictions", json!([])).is_ok());
        assert!(with("valid", json!([[1, 2]])).is_err());
    }
}

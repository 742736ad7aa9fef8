//! Finds parameters whose value lies on an edge of their range.
//!
//! A better value may lie outside.

use mneme_model::configuration::{FIELDS, Kind};
use serde_json::Value;

use super::{Domain, Parameter, Point};

/// Minimum number of values at which a range has more than edges.
const RANGE: u64 = 3;

/// A sentence for each numeric parameter whose value is the first or the last of its domain.
pub fn of(parameters: &[Parameter], point: &Point) -> Vec<String> {
    let on_edge = |parameter: &Parameter| {
        let value = point.get(&parameter.name)?;
        let end = end(&parameter.domain, value)?;
        Some(format!("{} is {value}, the {end} value in the space", parameter.name))
    };
    // The range of a level is all that compilers know.
    let is_level = |name: &str| FIELDS.iter().any(|field| field.name == name && field.kind == Kind::Level);
    parameters.iter().filter(|parameter| !is_level(&parameter.name)).filter_map(on_edge).collect()
}

/// The end of its domain at which a number is.
fn end(domain: &Domain, value: &Value) -> Option<&'static str> {
    if domain.size().is_some_and(|size| size < RANGE) {
        return None;
    }
    let (low, high) = match domain {
        Domain::Integer { .. } | Domain::Real { step: Some(_), .. } => (domain.nth(0), domain.nth(u64::MAX)),
        Domain::Real { low, high, step: None, .. } => ((*low).into(), (*high).into()),
        Domain::Categorical(_) => {
            domain.place(value)?;
            (domain.nth(0), domain.nth(u64::MAX))
        }
        Domain::Boolean | Domain::Permutation(_) | Domain::Pipeline(_) => return None,
    };
    let is = |end: &Value| value.as_f64().is_some_and(|value| Some(value) == end.as_f64());
    match () {
        () if is(&low) => Some("smallest"),
        () if is(&high) => Some("largest"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_ends_of_ranges_are_edges() {
        let integer = |low, high| Domain::Integer { low, high, step: 1, log: false };
        let numbers = |values: &[u64]| Domain::Categorical(values.iter().map(|value| json!(value)).collect());
        let real = Domain::Real { low: 0.5, high: 2.0, step: None, log: false };
        for (domain, value, expected) in [
            (integer(1, 8), json!(8), Some("largest")),
            (integer(1, 8), json!(1), Some("smallest")),
            (integer(1, 8), json!(4), None),
            (integer(0, 1), json!(1), None),
            (numbers(&[32, 64, 128]), json!(128), Some("largest")),
            (numbers(&[32, 128, 64]), json!(64), None),
            (real, json!(2.0), Some("largest")),
            (Domain::Boolean, json!(true), None),
        ] {
            assert_eq!(end(&domain, &value), expected, "{domain:?} {value}");
        }
        let parameters = [Parameter::new("tile", integer(1, 8)), Parameter::new("codegen_opt", integer(0, 3))];
        let point = [("tile".to_owned(), json!(8)), ("codegen_opt".to_owned(), json!(3))].into();
        assert_eq!(of(&parameters, &point).len(), 1);
    }
}

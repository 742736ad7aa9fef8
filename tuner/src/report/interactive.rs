//! The trials' data for the page's script.

use serde_json::{Value, json};

use super::columns::Column;
use crate::archive::Archive;

/// Parameters and trials as JSON that is safe in a script element. A trial is a list: its number, metric, status (an
/// index into `statuses`), and for each parameter the index of its level, or the number itself.
pub fn data(archive: &Archive, columns: &[Column], is_time: bool) -> String {
    let mut statuses: Vec<&str> = Vec::new();
    let trials: Vec<Value> = archive
        .trials
        .iter()
        .map(|trial| {
            let status = statuses.iter().position(|status| *status == trial.status).unwrap_or_else(|| {
                statuses.push(&trial.status);
                statuses.len() - 1
            });
            let mut row = vec![json!(trial.number), json!(trial.metric.map(short)), json!(status)];
            row.extend(columns.iter().map(|column| column.code(trial).map_or(Value::Null, short)));
            Value::Array(row)
        })
        .collect();
    let parameters: Vec<Value> = columns
        .iter()
        .map(|column| json!({"name": column.name, "levels": column.levels, "range": [column.range.0, column.range.1]}))
        .collect();
    let value = json!({"parameters": parameters, "statuses": statuses, "trials": trials, "time": is_time});
    // Escaped, so the data cannot end the element or begin a comment.
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A number rounded to visible digits.
fn short(value: f64) -> Value {
    let rounded = (value * 10.0).round() / 10.0;
    if value.abs() < 100.0 && rounded != value {
        return json!(value);
    }
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

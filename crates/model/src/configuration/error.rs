//! Reasons for an unreadable or invalid configuration.

use serde_json::Value;

use super::{FIELDS, MAX_THREADS, MAX_TIMEOUT};
use crate::launch::Dim3;
use crate::text::did_you_mean;
use crate::tolerance::ToleranceError;

/// The reason for an unreadable or invalid configuration; each message names the field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("a configuration has no field '{0}'{meant}", meant = did_you_mean(.0, FIELDS.iter().map(|it| it.name)))]
    UnknownField(String),
    /// The value has the wrong type, or is not one of the allowed values.
    #[error("{}", said(field, value, error))]
    FieldValue { field: String, value: Value, error: String },
    #[error("the configuration cannot be understood: {0}")]
    Unreadable(String),
    #[error("grid {grid} and block {block} must be at least 1 along every axis")]
    NoThreads { grid: Dim3, block: Dim3 },
    #[error("a block of {block} has {} threads; the limit is {MAX_THREADS}", block.count())]
    LargeBlock { block: Dim3 },
    #[error("{field} is {value}; it must be {range}")]
    Range { field: &'static str, value: Value, range: String },
    #[error("'{}' in ptxas_options is not an option of ptxas", .0.escape_debug())]
    PtxasOption(String),
    #[error("'{}' in llvm_options is not an option of LLVM; options start with '-'", .0.escape_debug())]
    LlvmOption(String),
    #[error("timeout_s is {0}; it must be above 0 and at most {MAX_TIMEOUT:e} seconds")]
    Timeout(f64),
    #[error("original runs the application's own code, which {field} cannot change; leave one of them out")]
    Original { field: &'static str },
    #[error(transparent)]
    Tolerance(#[from] ToleranceError),
}

/// Describes the invalid value of a field, and the valid values.
fn said(name: &str, value: &Value, error: &str) -> String {
    /// The maximum number of characters to show from a value.
    const SHOWN: usize = 60;
    let mut shown = value.to_string();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(end);
        shown.push('…');
    }
    match error.rsplit_once(", expected ") {
        Some((found, expected)) => {
            // The invalid value is part of the value shown.
            let part = value.is_object() || value.is_array();
            let found = if part { format!(": {found}") } else { String::new() };
            format!("{name} cannot be {shown}{found}; it has to be {}", accepted(expected))
        }
        None => format!("{name} cannot be {shown}: {error}"),
    }
}

/// A type in words.
fn accepted(expected: &str) -> String {
    match expected {
        "u8" | "u32" | "u64" => "a whole number of at least 0".into(),
        "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        // Names of values, and the custom message of a type.
        other => other.replace('`', "'"),
    }
}

//! Mistakes in a space file.

use mneme_model::configuration::ConfigurationError;
use mneme_model::text::did_you_mean;
use serde_json::Value;

use super::plain;
use crate::expression::ExpressionError;

/// The types of parameters.
const TYPES: [&str; 6] = ["int", "real", "categorical", "bool", "permutation", "pipeline"];

/// What is wrong with the value of a key, or with the whole file, and the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceFault {
    #[error("it cannot be read: {0}")]
    Unread(String),
    #[error("it is not a space file: {0}")]
    Syntax(String),
    #[error("it has no parameters; give at least one below 'parameters'")]
    NoParameters,
    #[error(
        "no parameter reaches a field of a configuration, so all points are equal; give a parameter or a derived value the name of a field, such as block.x or passes"
    )]
    NoField,
    #[error(transparent)]
    Table(#[from] TableError),

    #[error("the name '{0}' is reserved; use another name, or a part such as 'block.x'")]
    ReservedName(String),
    /// The end of the message is a suggestion, or empty.
    #[error("a name must consist of letters, digits and '_', or be one of grid.x to block.z{0}")]
    Name(String),
    #[error("a parameter has the same name; rename one")]
    SameName,

    #[error(transparent)]
    Expression(#[from] ExpressionError),
    #[error("'{expression}' gives {value}; it must be true or false, so add a comparison")]
    NoTruth { expression: String, value: Value },
    #[error("'{expression}' uses {later}, which has no value yet; write the parameter {later} before {name}")]
    Later { expression: String, later: String, name: String },
    #[error(transparent)]
    Baseline(#[from] ConfigurationError),
    #[error("{} is not a valid value{}", .0, if .0.is_f64() { "; use ceil, floor or round" } else { "" })]
    FieldValue(Value),

    #[error("{0} is not a domain; write a list of values, or a mapping with a 'type'")]
    NoDomain(Value),
    #[error("this key is unknown; a parameter of type {kind} has {known}{meant}")]
    UnknownKey { kind: String, known: String, meant: String },
    #[error("it is missing; write one of {types}", types = TYPES.join(", "))]
    NoType,
    #[error("'{0}' is unknown; write one of {types}{meant}", types = TYPES.join(", "), meant = did_you_mean(.0, TYPES))]
    UnknownType(String),
    #[error("it is missing")]
    Missing,
    #[error("it is missing; write the list of values")]
    MissingList,
    #[error("{} is not a list; write [{}]", .0, plain(.0))]
    NoList(Value),
    #[error("the list is empty; name at least one value")]
    EmptyList,
    #[error("{0} occurs twice; drop one")]
    Twice(Value),
    #[error("{0} is not a number")]
    NoNumber(Value),
    #[error("{0} is not a whole number; use a real parameter, or ceil, floor or round")]
    NoWholeNumber(Value),
    #[error("{0} is neither true nor false")]
    NoBoolean(Value),
    #[error("{0} is beyond 2^53, 9007199254740992, up to which numbers are exact; choose a nearer bound")]
    Inexact(i64),
    #[error("{low:e} to {high:e} is too far apart for a number; choose nearer bounds")]
    TooFar { low: f64, high: f64 },
    #[error("{low} is above 'high', {high}; swap them")]
    Swapped { low: f64, high: f64 },
    #[error("it is {value}; it must be {bound}")]
    Step { value: f64, bound: &'static str },
    #[error("it is {value}; with 'log' it must be {bound}")]
    LowOfLog { value: f64, bound: &'static str },
    #[error("the nesting of pass {} is unknown; write it as a pipeline, such as 'function({})'", .0, plain(.0))]
    UnknownPass(Value),
    #[error(
        "sequences cannot have {shortest} to {longest} passes; 'shortest' must be at least 1 and at most 'longest'"
    )]
    Lengths { shortest: i64, longest: i64 },
    #[error("it has {found} passes; the parameter has {shortest} to {longest}")]
    StartLength { found: usize, shortest: i64, longest: i64 },
}

/// Why a file is no table.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TableError {
    #[error("it is not JSON: {0}")]
    NoJson(String),
    #[error("it has neither 'keys' nor 'tune_params_keys' nor 'results'; name a Kernel Tuner cache or a T4 file")]
    NoKeys,
    #[error("it has no list of values for each parameter")]
    NoValues,
    #[error("its objective is {0}, but only times, of which the shortest is best, can be searched here")]
    Objective(String),
    #[error("it has a time of {0:e} ms, which is below 1 ns or above 10^19 ns")]
    Time(f64),
    #[error("'{0}' is not a configuration of its parameters")]
    Key(String),
    #[error("results[{0}] has no 'configuration'")]
    NoConfiguration(usize),
    #[error(
        "it has restrictions in Python; to replace them with a list of valid points, run 'benches/samplers --valid FILE'"
    )]
    Restrictions,
    #[error("a point in its list 'valid' does not have {0} values")]
    ValidPoint(usize),
}

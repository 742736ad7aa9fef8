//! The reason why PTX cannot be lifted.

use thiserror::Error;

/// The name of the unsupported construct.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct LiftError {
    pub line: u32,
    pub what: String,
}

impl LiftError {
    pub fn at(line: u32, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

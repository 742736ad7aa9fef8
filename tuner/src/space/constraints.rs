//! Checks constraints as parameters get their values, to find valid points without trying all.

use serde_json::Value;

/// The constraints of a space, checked as parameters get their values one by one. Parameters are identified by index.
pub trait Constraints {
    /// The parameters of each constraint, ascending.
    fn scopes(&self) -> &[Vec<usize>];

    /// The parameters that decide whether each parameter applies, ascending. All come before it.
    fn conditions(&self) -> &[Vec<usize>];

    /// Sets a parameter's value; `None` if it does not apply.
    fn set(&mut self, parameter: usize, value: Option<&Value>);

    /// Whether a parameter applies. The parameters that decide this must be set.
    fn applies(&mut self, parameter: usize) -> bool;

    /// Whether a constraint holds. Its parameters must be set.
    fn holds(&mut self, constraint: usize) -> bool;
}

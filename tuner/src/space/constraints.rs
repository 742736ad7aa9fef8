//! Constraints a parameter at a time, so that valid points are found without trying all others.

use serde_json::Value;

/// The constraints of a space, checked on values that are set one parameter after another. Parameters are named by
/// their places.
pub trait Constraints {
    /// For each constraint the parameters it is about, ascending.
    fn scopes(&self) -> &[Vec<usize>];

    /// For each parameter those that decide whether it applies, ascending; all of them come before it.
    fn conditions(&self) -> &[Vec<usize>];

    /// Gives a parameter its value; `None` where it does not apply.
    fn set(&mut self, parameter: usize, value: Option<&Value>);

    /// Whether a parameter applies, once those that decide it are set.
    fn applies(&mut self, parameter: usize) -> bool;

    /// Whether a constraint holds, once the parameters it is about are set.
    fn holds(&mut self, constraint: usize) -> bool;
}

//! Early stopping: rules that say after a candidate's first runs whether the others are worth it.

use crate::space::Point;

/// Says of candidates after a few runs whether the others are worth it.
pub trait EarlyStop {
    /// Whether a candidate that took `metric` ns, as the session's metric has it, is hopeless.
    fn hopeless(&mut self, point: &Point, metric: f64) -> bool;
}

//! Every valid point of a finite space, in order.

use crate::space::walk::Odometer;
use crate::space::{Point, SearchSpace};

use super::{Ahead, History, Sampler};

/// Walks the valid points of a space; the last parameter varies fastest. An infinite domain ends the walk before it
/// starts.
#[derive(Debug, Default)]
pub struct Exhaustive {
    /// The previous point, as indices; empty before the first.
    odometer: Odometer,
}

impl Sampler for Exhaustive {
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::All
    }

    fn is_walk(&self) -> bool {
        true
    }

    fn ask(&mut self, space: &dyn SearchSpace, _history: &History) -> Option<Point> {
        self.odometer.next_valid(space)
    }
}

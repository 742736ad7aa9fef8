//! The times and launch shapes of one kernel, for a profile.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_model::summary::{ShapeSummary, Times};

use super::request::LaunchRequest;

/// How many launch shapes of a kernel are distinguished. Further shapes count as the last.
const SHAPES: usize = 16;

/// The profile of one kernel.
#[derive(Default)]
pub struct Profile {
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    times: Times,
    shapes: Vec<ShapeSummary>,
}

impl Profile {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, time: u64) {
        self.lock().times.add(time);
    }

    /// Counts a launch of a shape. Returns the mean time so far, ns.
    pub fn count(&self, request: &LaunchRequest) -> u64 {
        let (grid, block) = (request.launch.grid, request.launch.block);
        let mut known = self.lock();
        match known.shapes.iter().position(|shape| (shape.grid, shape.block) == (grid, block)) {
            Some(index) => known.shapes[index].launches += 1,
            None if known.shapes.len() < SHAPES => known.shapes.push(ShapeSummary { grid, block, launches: 1 }),
            None => known.shapes[SHAPES - 1].launches += 1,
        }
        known.times.total.checked_div(known.times.count).unwrap_or(0)
    }

    /// The times, and the shapes by frequency.
    pub fn result(&self) -> (Option<Times>, Vec<ShapeSummary>) {
        let mut known = self.lock().clone();
        known.shapes.sort_by_key(|shape| std::cmp::Reverse(shape.launches));
        ((known.times.count > 0).then_some(known.times), known.shapes)
    }
}

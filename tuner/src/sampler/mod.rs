//! Samplers: which point of a space to try next, given what has been tried.
//!
//! A session asks for a point, grounds it, replays the configuration and tells the outcome; [`crate::search`] does the
//! parts of that which need no device. A sampler's choices follow from its seed and what it is told, so that a session
//! with `--workers 1` is repeatable where its measurements are. A session that is resumed tells the old trials alone:
//! whose choice each was is not known, so that `auto`, `nsga2` and `--learn-from` go on otherwise than without a break.

mod auto;
mod axis;
mod dominance;
mod exhaustive;
mod kind;
mod local;
mod nsga2;
mod prior;
mod random;
mod region;
mod sequence;
mod sobol;
mod surrogate;
mod tpe;
mod variation;

pub use auto::Auto;
pub use dominance::{dominates, fronts};
pub use exhaustive::Exhaustive;
pub use kind::{SamplerKind, SamplerSettings, SettingsError};
pub use local::Local;
pub use nsga2::Nsga2;
pub use prior::Prior;
pub use random::Random;
pub use sequence::{Sequences, Shrinking, passes};
pub use sobol::Sobol;
pub use tpe::Tpe;

use std::collections::HashSet;

use mneme_core::result::ReplayStatus;

use crate::space::{Point, SearchSpace};

/// What became of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialOutcome {
    /// It verified: its objectives, of which smaller is better in each.
    Measured(Vec<f64>),
    /// It was replayed and is no candidate.
    Failed(ReplayStatus),
    /// It has no configuration, and nothing was replayed.
    Rejected,
}

impl TrialOutcome {
    /// The objectives of a candidate that verified.
    pub fn values(&self) -> Option<&[f64]> {
        match self {
            Self::Measured(values) => Some(values),
            Self::Failed(_) | Self::Rejected => None,
        }
    }
}

/// A point that was proposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    pub point: Point,
    /// `None` while it is being replayed.
    pub outcome: Option<TrialOutcome>,
}

/// All points so far, in the order in which they were proposed.
#[derive(Clone, Debug, Default)]
pub struct History {
    tried: Vec<Tried>,
    known: HashSet<Point>,
    in_flight: usize,
}

impl History {
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// Notes a point, and says where it is.
    pub fn add(&mut self, point: Point, outcome: Option<TrialOutcome>) -> usize {
        self.known.insert(point.clone());
        self.in_flight += usize::from(outcome.is_none());
        self.tried.push(Tried { point, outcome });
        self.tried.len() - 1
    }

    /// Notes what became of a point.
    pub fn settle(&mut self, place: usize, outcome: TrialOutcome) {
        let before = self.tried[place].outcome.replace(outcome);
        self.in_flight -= usize::from(before.is_none());
    }

    /// Whether a point was proposed already.
    pub fn has(&self, point: &Point) -> bool {
        self.known.contains(point)
    }

    /// Points that are being replayed.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Points whose outcome is known.
    pub fn known(&self) -> usize {
        self.tried.len() - self.in_flight
    }
}

/// How many candidates may be chosen, and built, before the outcomes of those that are being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Any number: no choice follows from an outcome.
    All,
    /// So many. Each of them is a choice that knows a little less.
    Some(usize),
}

/// Outcomes that stand behind each candidate that is chosen ahead.
const KNOWN_FOR_ONE: usize = 8;

impl Ahead {
    /// For a sampler that learns from all outcomes alike: one more does not tell it much when it knows many.
    fn of(history: &History) -> Self {
        Self::Some((history.known() / KNOWN_FOR_ONE).max(1))
    }
}

/// A way to choose points.
pub trait Sampler {
    /// The next point to try. `None` says that there is nothing to try before a point in flight has its outcome;
    /// without one in flight, that the search is over.
    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point>;

    /// How far it may be asked ahead.
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::Some(1)
    }

    /// Whether each point that it gives is another step towards the end, however many are rejected in a row.
    fn is_walk(&self) -> bool {
        false
    }

    /// Says what became of a point; the history that comes with the next question has it too.
    fn tell(&mut self, _point: &Point, _outcome: &TrialOutcome) {}
}

#[cfg(test)]
mod tests;

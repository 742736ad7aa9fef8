//! Samplers choose the next point of a space, given the points tried so far.
//!
//! A session asks for a point, grounds it, replays the configuration and tells the outcome. [`crate::search`] does the
//! parts of this that need no device. A sampler's choices depend only on its seed and the outcomes, so a session with
//! `--workers 1` is repeatable if its measurements are. A resumed session tells only the old trials, not which strategy
//! chose them, so `auto`, `nsga2` and `--learn-from` continue differently than without the interruption.

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

use mneme_model::result::ReplayStatus;

use crate::space::{Point, SearchSpace};

/// The outcome of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialOutcome {
    /// It verified; its objectives, of which smaller is better.
    Measured(Vec<f64>),
    /// It was replayed but cannot win.
    Failed(ReplayStatus),
    /// The space rejected it, so it was not replayed.
    Rejected,
}

impl TrialOutcome {
    /// The objectives, if the candidate verified.
    pub fn values(&self) -> Option<&[f64]> {
        match self {
            Self::Measured(values) => Some(values),
            Self::Failed(_) | Self::Rejected => None,
        }
    }
}

/// A proposed point.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    pub point: Point,
    /// `None` while it is in flight.
    pub outcome: Option<TrialOutcome>,
}

/// All points so far, in the order of proposals.
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

    /// Adds a point, and returns its index.
    pub fn add(&mut self, point: Point, outcome: Option<TrialOutcome>) -> usize {
        self.known.insert(point.clone());
        self.in_flight += usize::from(outcome.is_none());
        self.tried.push(Tried { point, outcome });
        self.tried.len() - 1
    }

    /// Notes the outcome of a point.
    pub fn settle(&mut self, place: usize, outcome: TrialOutcome) {
        let before = self.tried[place].outcome.replace(outcome);
        self.in_flight -= usize::from(before.is_none());
    }

    /// Whether a point was proposed before.
    pub fn has(&self, point: &Point) -> bool {
        self.known.contains(point)
    }

    /// Number of points in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of points with an outcome.
    pub fn known(&self) -> usize {
        self.tried.len() - self.in_flight
    }
}

/// How many candidates may be chosen and built before the outcomes of running ones are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Any number, because choices do not depend on outcomes.
    All,
    /// This many. Each is chosen with a little less knowledge.
    Some(usize),
}

/// Known outcomes per candidate that is chosen ahead.
const KNOWN_FOR_ONE: usize = 8;

impl Ahead {
    /// For a sampler that learns from all outcomes alike, so one more changes little when it knows many.
    fn of(history: &History) -> Self {
        Self::Some((history.known() / KNOWN_FOR_ONE).max(1))
    }
}

/// A method of choosing points.
pub trait Sampler {
    /// The next point to try. `None` means that the sampler needs the outcome of a point in flight first, or, without
    /// one in flight, that the search is over.
    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point>;

    /// How far the sampler may be asked ahead.
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::Some(1)
    }

    /// Whether each point is a step towards the end, even if many in a row are rejected.
    fn is_walk(&self) -> bool {
        false
    }

    /// Tells the outcome of a point, which the next call of [`ask`](Self::ask) also finds in the history.
    fn tell(&mut self, _point: &Point, _outcome: &TrialOutcome) {}
}

#[cfg(test)]
mod tests;

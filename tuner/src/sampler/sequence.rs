//! Search for a sequence of passes.
//!
//! It mutates and recombines sequences, then cuts the best one down to the passes that matter.

use rand::{Rng, RngExt};
use serde_json::Value;

use crate::space::{Domain, Point, SearchSpace};

use super::random::{fresh, generator};
use super::{Ahead, History, Sampler, variation};
use crate::space::draw::{complete, draw, draw_value};

/// Number of potential parents.
const PARENTS: usize = 12;
/// Limit on the share of trials for shrinking.
const SHRINKING: f64 = 0.3;
/// A shorter sequence counts as good if it is slower by at most this share.
const AS_GOOD: f64 = 0.01;
/// Share of children that are mutated copies of one parent. The others have two.
const COPIED: f64 = 0.6;
/// Limit on the edits of a child.
const EDITS: usize = 3;

/// Evolves the sequences of a space, and finally shrinks the best one.
#[derive(Debug)]
pub struct Sequences {
    seed: u64,
    /// Number of points for the search. The rest are for shrinking.
    search: Option<usize>,
    shrinking: Option<Shrinking>,
}

impl Sequences {
    /// `trials` is the number of trials; without it, sequences are not shrunk.
    pub fn new(seed: u64, trials: Option<usize>) -> Self {
        let search = trials.map(|trials| trials - (SHRINKING * trials as f64) as usize);
        Self { seed, search, shrinking: None }
    }
}

impl Sampler for Sequences {
    fn ahead(&self, history: &History) -> Ahead {
        Ahead::of(history)
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let mut rng = generator(self.seed, history.tried().len());
        if self.search.is_some_and(|search| history.tried().len() >= search) {
            let shrinking = self.shrinking.get_or_insert_with(Shrinking::default);
            if let Some(point) = shrinking.ask(space, history) {
                return Some(point);
            }
            if history.in_flight() > 0 {
                return None;
            }
        }
        if history.tried().is_empty() {
            return Some(start(space, &mut rng));
        }
        let parents = ranked(history);
        if parents.is_empty() {
            return fresh(space, history, &mut rng, |rng| {
                let start = start(space, rng);
                variation::mutate(space, &start, 1.0, rng)
            });
        }
        let parents = &parents[..parents.len().min(PARENTS)];
        fresh(space, history, &mut rng, |rng| {
            // The better of two random parents.
            let parent = |rng: &mut _| {
                let (a, b) = (RngExt::random_range(rng, 0..parents.len()), RngExt::random_range(rng, 0..parents.len()));
                parents[a.min(b)].0
            };
            let mut child = if rng.random_bool(COPIED) {
                parent(rng).clone()
            } else {
                variation::cross(space, parent(rng), parent(rng), rng)
            };
            for _ in 0..rng.random_range(1..=EDITS) {
                child = variation::neighbour(space, &child, rng);
            }
            child
        })
        .or_else(|| fresh(space, history, &mut rng, |rng| draw(space, rng)))
    }
}

/// The given starting sequences; other parameters are random.
fn start(space: &dyn SearchSpace, rng: &mut impl Rng) -> Point {
    complete(space, Point::new(), |parameter| match &parameter.domain {
        Domain::Pipeline(choice) => {
            choice.start.iter().map(|pass| Value::from(pass.as_str())).collect::<Vec<_>>().into()
        }
        domain => draw_value(domain, rng),
    })
}

/// Measured points with their first objective, best first.
fn ranked(history: &History) -> Vec<(&Point, f64)> {
    let mut measured: Vec<(&Point, f64)> = history
        .tried()
        .iter()
        .filter_map(|tried| Some((&tried.point, *tried.outcome.as_ref()?.values()?.first()?)))
        .collect();
    measured.sort_by(|a, b| a.1.total_cmp(&b.1));
    measured
}

/// Shrinks the best point's sequences: removes parts without loss, large ones first (the scheme of Zeller and
/// Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002).
#[derive(Debug, Default)]
pub struct Shrinking {
    /// The shortest point that is as good as the best, and the number of parts to cut it into.
    current: Option<(Point, usize)>,
}

impl Sampler for Shrinking {
    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let ranked = ranked(history);
        let bar = ranked.first()?.1 * (1.0 + AS_GOOD);
        // A cut that turned out as good is the next one to be cut.
        let shortest = ranked
            .iter()
            .take_while(|(_, value)| *value <= bar)
            .map(|(point, _)| *point)
            .min_by_key(|point| passes(space, point))?;
        if self.current.as_ref().is_none_or(|(current, _)| passes(space, shortest) < passes(space, current)) {
            let parts = self.current.as_ref().map_or(2, |(_, parts)| (parts - 1).max(2));
            self.current = Some((shortest.clone(), parts));
        }
        let (current, parts) = self.current.as_mut()?;
        loop {
            if let Some(cut) = cuts(space, current, *parts).into_iter().find(|cut| !history.has(cut)) {
                return Some(cut);
            }
            if history.in_flight() > 0 || *parts >= passes(space, current) {
                return None;
            }
            *parts = (*parts * 2).min(passes(space, current));
        }
    }
}

/// Number of passes in all sequences of a point.
pub fn passes(space: &dyn SearchSpace, point: &Point) -> usize {
    sequences(space).filter_map(|name| point.get(name)?.as_array()).map(Vec::len).sum()
}

fn sequences(space: &dyn SearchSpace) -> impl Iterator<Item = &str> {
    space
        .parameters()
        .iter()
        .filter(|parameter| matches!(parameter.domain, Domain::Pipeline(_)))
        .map(|parameter| parameter.name.as_str())
}

/// The point without one of `parts` parts of a sequence, if the domain allows that.
fn cuts(space: &dyn SearchSpace, point: &Point, parts: usize) -> Vec<Point> {
    let mut found = Vec::new();
    for parameter in space.parameters() {
        let (Domain::Pipeline(_), Some(Value::Array(sequence))) = (&parameter.domain, point.get(&parameter.name))
        else {
            continue;
        };
        for cut in variation::cuts(sequence, parts) {
            let value = Value::from(cut);
            if parameter.domain.contains(&value) {
                found.push(Point::from_iter(point.iter().map(|(name, old)| {
                    (name.clone(), if *name == parameter.name { value.clone() } else { old.clone() })
                })));
            }
        }
    }
    found
}

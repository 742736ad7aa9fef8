//! Local search from a point: to better neighbours (greedy), or first to worse ones too (annealing).
//!
//! Annealing: Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing", 1983.
//!
//! A search begins at the best of a few points. When all neighbours are known, or many in a row were no better, it
//! restarts from the best point with a few parameters changed, or sometimes elsewhere (iterated local search: Lourenço,
//! Martin and Stützle, 2003).

use rand::{Rng, RngExt};

use crate::space::{self, Parameter, Point, SearchSpace};

use super::random::generator;
use super::region::SearchRegion;
use super::{History, Sampler, TrialOutcome, variation};

/// Uniformly drawn points, the best of which starts a search without a given start. They also set the scale of the
/// temperature.
const FIRST: usize = 10;
/// At the start, a step to a worse point has a chance of 1/e if it is worse by this share of the distance between the
/// best and the median of all points so far. The temperature thus depends neither on the unit nor on the origin of an
/// objective.
const START_TEMPERATURE: f64 = 0.05;
/// Draws of a starting point before the search accepts a known one.
const DRAWS: usize = 200;
/// Consecutive neighbours without improvement before a restart.
const PATIENCE: usize = 25;
/// Parameters of the best point that a restart changes.
const CHANGED: usize = 2;
/// Draws of a restart point before the search accepts a known one.
const KICKS: usize = 20;
/// One restart in this many begins anywhere.
const ELSEWHERE: u32 = 5;
/// Factor by which the next value of an ordered domain is more likely than a distant one.
const NEAR: f64 = 3.0;

/// The sampler.
#[derive(Debug)]
pub struct Local {
    seed: u64,
    start: Option<Point>,
    region: Option<SearchRegion>,
    /// The current point, and its first objective.
    here: Option<(Point, f64)>,
    /// Outcomes before the search moves on from the best of its first points.
    first: usize,
    /// Trials over which the temperature falls to zero; `None` never accepts worse points.
    cooling: Option<usize>,
    told: usize,
    /// The best point of all, and the number of outcomes since the last move.
    best: Option<(Point, f64)>,
    stale: usize,
    /// The first objective of all measured points, ascending.
    values: Vec<f64>,
}

impl Local {
    /// Greedy search from `start`, or from the best of some random points.
    pub fn greedy(seed: u64, start: Option<Point>) -> Self {
        let first = if start.is_some() { 1 } else { FIRST };
        Self {
            seed,
            start,
            region: None,
            here: None,
            first,
            cooling: None,
            told: 0,
            best: None,
            stale: 0,
            values: Vec::new(),
        }
    }

    /// Annealing over this many trials.
    pub fn annealing(seed: u64, start: Option<Point>, trials: usize) -> Self {
        Self { cooling: Some(trials.max(1)), ..Self::greedy(seed, start) }
    }

    /// Whether the search moves to a point with this value.
    fn accepts(&self, value: f64) -> bool {
        let Some((_, here)) = &self.here else { return true };
        match self.cooling {
            Some(trials) if self.told > self.first => {
                let left = 1.0 - (self.told as f64 / trials as f64).min(1.0);
                let scale = self.values[self.values.len() / 2] - self.values[0];
                let temperature = (START_TEMPERATURE * left * scale).max(f64::MIN_POSITIVE);
                let mut rng = generator(!self.seed, self.told);
                value < *here || rng.random::<f64>() < ((here - value) / temperature).exp()
            }
            _ => value < *here,
        }
    }
}

impl Local {
    /// The best point with a few parameters changed, if that is new.
    fn start_again(
        &self,
        space: &dyn SearchSpace,
        region: &SearchRegion,
        history: &History,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        let (best, _) = self.best.as_ref().filter(|_| rng.random_range(0..ELSEWHERE) > 0)?;
        (0..KICKS).find_map(|_| {
            let changed = (0..CHANGED).try_fold(best.clone(), |point, _| {
                let mut neighbours = region.neighbours(space, &point, rng);
                (!neighbours.is_empty()).then(|| neighbours.swap_remove(rng.random_range(0..neighbours.len())))
            });
            changed.filter(|point| !history.has(point))
        })
    }
}

/// The weight of a neighbour, by its distance along an ordered domain.
fn weight(space: &dyn SearchSpace, here: &Point, other: &Point) -> f64 {
    let differs = |parameter: &&Parameter| here.get(&parameter.name) != other.get(&parameter.name);
    let Some(parameter) = space.parameters().iter().find(differs) else { return 1.0 };
    let place = |point: &Point| parameter.domain.place(point.get(&parameter.name)?);
    match place(here).zip(place(other)) {
        Some((one, another)) if one.abs_diff(another) == 1 => NEAR,
        _ => 1.0,
    }
}

impl Sampler for Local {
    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let mut rng = generator(self.seed, history.tried().len());
        let region = self.region.take().unwrap_or_else(|| SearchRegion::of(space));
        let mut point = None;
        if history.tried().is_empty()
            && let Some(start) = self.start.clone()
        {
            // Draws the parameters that the start leaves out; it may come from another space.
            let start: Point = start.into_iter().filter(|(name, value)| space::knows(space, name, value)).collect();
            let drawn = (0..DRAWS).map(|_| variation::completed(space, start.clone(), &mut rng));
            point = drawn.reduce(|kept, other| if region.holds(&kept) { kept } else { other });
        } else if history.tried().len() >= self.first
            && let Some((here, _)) = &self.here
        {
            let mut left = region.neighbours(space, here, &mut rng);
            left.retain(|point| !history.has(point));
            if left.is_empty() || self.stale >= PATIENCE {
                (self.here, self.stale) = (None, 0);
                point = self.start_again(space, &region, history, &mut rng);
            } else {
                // With only near values, the search would hardly leave its first valley.
                let weights: Vec<f64> = left.iter().map(|other| weight(space, here, other)).collect();
                let mut at = rng.random::<f64>() * weights.iter().sum::<f64>();
                let place = weights.iter().position(|weight| {
                    at -= weight;
                    at < 0.0
                });
                point = Some(left.swap_remove(place.unwrap_or(left.len() - 1)));
            }
        }
        let point = point.or_else(|| region.fresh(space, history, &mut rng));
        self.region = Some(region);
        point
    }

    fn tell(&mut self, point: &Point, outcome: &TrialOutcome) {
        self.told += 1;
        self.stale += 1;
        let Some(value) = outcome.values().and_then(|values| values.first()).copied() else { return };
        let place = self.values.partition_point(|other| *other < value);
        self.values.insert(place, value);
        if self.best.as_ref().is_none_or(|(_, best)| value < *best) {
            self.best = Some((point.clone(), value));
        }
        if self.accepts(value) {
            if self.here.as_ref().is_none_or(|(_, here)| value < *here) {
                self.stale = 0;
            }
            self.here = Some((point.clone(), value));
        }
    }
}

//! Local search from a point: to better neighbours (greedy), or at first to worse ones too (annealing).
//!
//! Annealing is that of Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing", 1983. A search begins at
//! the best of a few points. Where all neighbours are known, or many in a row are no better, it starts again from the
//! best point with a few parameters changed, or now and then elsewhere (iterated local search: Lourenço, Martin and
//! Stützle, 2003).

use rand::{Rng, RngExt};

use crate::space::{self, Parameter, Point, SearchSpace};

use super::random::generator;
use super::region::SearchRegion;
use super::{History, Sampler, TrialOutcome, variation};

/// Points, drawn uniformly, of which the best is where a search begins that was not told where. They also say what the
/// temperature is a share of.
const FIRST: usize = 10;
/// A step to a point that is worse by this share of what lies between the best and the median of all points so far
/// has, at the start, a chance of 1/e. So the temperature follows neither the unit nor the origin of an objective.
const START_TEMPERATURE: f64 = 0.05;
/// Draws for a point to start from, that may be known.
const DRAWS: usize = 200;
/// Neighbours in a row that are no better before a search starts again.
const PATIENCE: usize = 25;
/// Parameters of the best point that are changed where it does.
const CHANGED: usize = 2;
/// Draws of such a point, that may be known.
const KICKS: usize = 20;
/// One start in so many is anywhere.
const ELSEWHERE: u32 = 5;
/// How many times as often the next value of an ordered domain is tried as one that is far.
const NEAR: f64 = 3.0;

/// The sampler.
#[derive(Debug)]
pub struct Local {
    seed: u64,
    start: Option<Point>,
    region: Option<SearchRegion>,
    /// Where the search is, and the first objective there.
    here: Option<(Point, f64)>,
    /// Outcomes before the search leaves the best of its first points.
    first: usize,
    /// Trials over which the temperature falls to nothing; `None` takes no step to worse points.
    cooling: Option<usize>,
    told: usize,
    /// The best point of all, and outcomes since the search has moved last.
    best: Option<(Point, f64)>,
    stale: usize,
    /// The first objective of all points that were measured, ascending.
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

    /// Annealing over so many trials.
    pub fn annealing(seed: u64, start: Option<Point>, trials: usize) -> Self {
        Self { cooling: Some(trials.max(1)), ..Self::greedy(seed, start) }
    }

    /// Whether a step to a value is taken.
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
    /// The best point with a few parameters changed, as far as it is new.
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

/// How readily a neighbour is tried, by how far its value is along an ordered domain.
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
            // Parameters that the start says nothing of, of another space perhaps, are drawn.
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
                // Not near values alone: such a search hardly leaves the valley that it begins in.
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

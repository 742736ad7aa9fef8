//! Local search from a point: to better neighbours (greedy), or at first to worse ones too (annealing).
//!
//! Annealing is that of Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing", 1983. Where all
//! neighbours are known the search starts again elsewhere.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use crate::space::{self, Point, Space};

use super::axis::Axis;
use super::random::generator;
use super::region::{self, Region};
use super::{History, Outcome, Sampler, variation};

/// A step to a point that is this share worse has, at the start, a chance of 1/e.
const START_TEMPERATURE: f64 = 0.1;
/// Draws for a point to start again from, that may be known.
const DRAWS: usize = 200;

/// The sampler.
#[derive(Debug)]
pub struct Local {
    seed: u64,
    start: Option<Point>,
    region: Option<Region>,
    axes: Vec<Axis>,
    /// Where the search is, and the first objective there.
    here: Option<(Point, f64)>,
    /// Trials over which the temperature falls to nothing; `None` takes no step to worse points.
    cooling: Option<usize>,
    told: usize,
}

impl Local {
    /// Greedy search from `start`, or from a random point.
    pub fn greedy(seed: u64, start: Option<Point>) -> Self {
        Self { seed, start, region: None, axes: Vec::new(), here: None, cooling: None, told: 0 }
    }

    /// Annealing over so many trials.
    pub fn annealing(seed: u64, start: Option<Point>, trials: usize) -> Self {
        Self { cooling: Some(trials.max(1)), ..Self::greedy(seed, start) }
    }

    /// A new neighbour: of those that are left the nearer the likelier.
    fn neighbour(
        &self,
        space: &dyn Space,
        history: &History,
        region: &Region,
        here: &Point,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        let code = |point: &Point| -> Vec<_> {
            space
                .parameters()
                .iter()
                .zip(&self.axes)
                .map(|(parameter, axis)| axis.code(point.get(&parameter.name)))
                .collect()
        };
        let from = code(here);
        // Values that are drawn are near and far already.
        let is_listed = |axis: &Axis| axis.indices().is_some_and(|size| size as u64 <= region::LISTED);
        let far = |point: &Point| -> f64 {
            let pairs = self.axes.iter().zip(from.iter().zip(code(point)));
            pairs.filter(|(axis, _)| is_listed(axis)).map(|(axis, (a, b))| axis.distance(a, &b)).sum()
        };
        let new = region.neighbours(space, here, rng).into_iter().filter(|point| !history.has(point));
        let mut left: Vec<(f64, Point)> = new.map(|point| (far(&point), point)).collect();
        left.shuffle(rng);
        left.sort_by(|a, b| a.0.total_cmp(&b.0));
        if left.is_empty() {
            return None;
        }
        let place = rng.random_range(0..left.len()).min(rng.random_range(0..left.len()));
        Some(left.swap_remove(place).1)
    }
}

impl Sampler for Local {
    fn ask(&mut self, space: &dyn Space, history: &History) -> Option<Point> {
        let mut rng = generator(self.seed, history.tried().len());
        let region = self.region.take().unwrap_or_else(|| Region::of(space));
        if self.axes.is_empty() {
            self.axes = space.parameters().iter().map(|parameter| Axis::new(&parameter.domain)).collect();
        }
        let mut point = None;
        if history.tried().is_empty()
            && let Some(start) = self.start.clone()
        {
            // Parameters that the start says nothing of, of another space perhaps, are drawn.
            let start: Point = start.into_iter().filter(|(name, value)| space::knows(space, name, value)).collect();
            let drawn = (0..DRAWS).map(|_| variation::completed(space, start.clone(), &mut rng));
            point = drawn.reduce(|kept, other| if region.holds(&kept) { kept } else { other });
        } else if let Some((here, _)) = &self.here {
            point = self.neighbour(space, history, &region, here, &mut rng);
            if point.is_none() {
                self.here = None;
            }
        }
        let point = point.or_else(|| region.fresh(space, history, &mut rng));
        self.region = Some(region);
        point
    }

    fn tell(&mut self, point: &Point, outcome: &Outcome) {
        self.told += 1;
        let Some(value) = outcome.values().and_then(|values| values.first()) else { return };
        let accepted = match (&self.here, self.cooling) {
            (None, _) => true,
            (Some((_, here)), None) => value < here,
            (Some((_, here)), Some(trials)) => {
                let left = 1.0 - (self.told as f64 / trials as f64).min(1.0);
                let worse = (value - here) / here.abs().max(f64::MIN_POSITIVE);
                let mut rng = generator(!self.seed, self.told);
                worse < 0.0 || rng.random::<f64>() < (-worse / (START_TEMPERATURE * left).max(f64::MIN_POSITIVE)).exp()
            }
        };
        if accepted {
            self.here = Some((point.clone(), *value));
        }
    }
}

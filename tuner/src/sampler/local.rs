//! Local search from a point: to better neighbours (greedy), or at first to worse ones too (annealing: Kirkpatrick, Gelatt and Vecchi,
//! "Optimization by Simulated Annealing", 1983).

use rand::RngExt;

use crate::space::{self, Point, Space};

use super::random::{fresh, generator};
use super::{History, Outcome, Sampler, variation};
use crate::space::draw::{complete, draw_value};

/// A step to a point that is this share worse has, at the start, a chance of 1/e.
const START_TEMPERATURE: f64 = 0.1;
/// Neighbours that may be known in a row before two steps are taken at once, then three, ….
const KNOWN: usize = 50;
/// Steps at once, at most.
const FARTHEST: usize = 6;

/// The sampler.
#[derive(Debug)]
pub struct Local {
    seed: u64,
    start: Option<Point>,
    /// Where the search is, and the first objective there.
    here: Option<(Point, f64)>,
    /// Trials over which the temperature falls to nothing; `None` takes no step to worse points.
    cooling: Option<usize>,
    told: usize,
}

impl Local {
    /// Greedy search from `start`, or from a random point.
    pub fn greedy(seed: u64, start: Option<Point>) -> Self {
        Self { seed, start, here: None, cooling: None, told: 0 }
    }

    /// Annealing over so many trials.
    pub fn annealing(seed: u64, start: Option<Point>, trials: usize) -> Self {
        Self { cooling: Some(trials.max(1)), ..Self::greedy(seed, start) }
    }
}

impl Sampler for Local {
    fn ask(&mut self, space: &dyn Space, history: &History) -> Option<Point> {
        let mut rng = generator(self.seed, history.tried().len());
        if history.tried().is_empty() {
            // Parameters that the start says nothing of, of another space perhaps, are drawn.
            let start = self.start.clone().unwrap_or_default();
            let start = start.into_iter().filter(|(name, value)| space::knows(space, name, value)).collect();
            return Some(complete(space, start, |parameter| draw_value(&parameter.domain, &mut rng)));
        }
        let Some((here, _)) = &self.here else {
            let start = history.tried()[0].point.clone();
            return fresh(space, history, &mut rng, |rng| variation::mutate(space, &start, 0.5, rng));
        };
        for distance in 1..=FARTHEST {
            for _ in 0..KNOWN {
                let point = (0..distance).fold(here.clone(), |point, _| variation::neighbour(space, &point, &mut rng));
                if !history.has(&point) {
                    return Some(point);
                }
            }
        }
        fresh(space, history, &mut rng, |rng| variation::mutate(space, here, 0.5, rng))
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

//! Evolution towards several objectives at once (NSGA-II).
//!
//! It creates one child at a time, so workers never wait for a generation.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use crate::space::{Point, SearchSpace};

use super::random::generator;
use super::region::SearchRegion;
use super::{Ahead, History, Sampler, dominance, sobol, variation};

/// Number of potential parents.
const POPULATION: usize = 32;
/// Consecutive children that are known or violate a constraint, before a point is drawn at random.
const BARREN: usize = 200;
/// Share of children with two parents. The others are mutated copies of one.
const CROSSED: f64 = 0.9;

/// The sampler.
#[derive(Debug)]
pub struct Nsga2 {
    seed: u64,
    /// Best first.
    parents: Vec<Point>,
    /// Number of known outcomes when the parents were chosen.
    settled: usize,
    region: Option<SearchRegion>,
}

impl Nsga2 {
    pub fn new(seed: u64) -> Self {
        Self { seed, parents: Vec::new(), settled: 0, region: None }
    }

    /// The better of two random parents.
    fn parent(&self, rng: &mut impl Rng) -> &Point {
        let place = rng.random_range(0..self.parents.len()).min(rng.random_range(0..self.parents.len()));
        &self.parents[place]
    }
}

impl Sampler for Nsga2 {
    fn ahead(&self, history: &History) -> Ahead {
        Ahead::of(history)
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let mut rng = generator(self.seed, history.tried().len());
        let settled = history.known();
        if settled != self.settled || self.parents.is_empty() {
            self.parents = best(history, POPULATION);
            self.settled = settled;
        }
        self.region.get_or_insert_with(|| SearchRegion::of(space));
        let region = self.region.as_ref().expect("it was made");
        let is_new = |point: &Point| region.holds(point) && !history.has(point);
        if history.tried().len() < POPULATION || self.parents.len() < 2 {
            let next = history.tried().len() as u64;
            let mut points = (next..next + BARREN as u64).map(|number| sobol::point(space, self.seed, number));
            return points.find(is_new).or_else(|| region.fresh(space, history, &mut rng));
        }
        // Changes one parameter on average.
        let rate = 1.0 / space.parameters().len() as f64;
        let child = |rng: &mut ChaCha8Rng| {
            let mother = self.parent(rng);
            let child = if rng.random_bool(CROSSED) {
                let father = self.parent(rng);
                variation::cross(space, mother, father, rng)
            } else {
                mother.clone()
            };
            variation::mutate(space, &child, rate, rng)
        };
        let found = (0..BARREN).map(|_| child(&mut rng)).find(is_new);
        found.or_else(|| region.fresh(space, history, &mut rng))
    }
}

/// The best measured points, best first.
fn best(history: &History, most: usize) -> Vec<Point> {
    let measured: Vec<(&Point, &[f64])> =
        history.tried().iter().filter_map(|tried| Some((&tried.point, tried.outcome.as_ref()?.values()?))).collect();
    let values: Vec<&[f64]> = measured.iter().map(|(_, values)| *values).collect();
    dominance::ranking(&values).into_iter().take(most).map(|place| measured[place].0.clone()).collect()
}

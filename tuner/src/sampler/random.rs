//! Uniformly drawn points without repetition.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::space::{Point, SearchSpace};

use super::region::SearchRegion;
use super::{Ahead, History, Sampler};
use crate::space::walk::walk;

/// Draws before a small space is enumerated for new points, or a large one given up.
const DRAWS: usize = 200;
/// Limit on the size of a space that is enumerated.
const WALKED: u64 = 1 << 20;

/// Independent draws of valid points.
#[derive(Debug)]
pub struct Random {
    seed: u64,
    region: Option<SearchRegion>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed, region: None }
    }
}

impl Sampler for Random {
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::All
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let mut rng = generator(self.seed, history.tried().len());
        self.region.get_or_insert_with(|| SearchRegion::of(space)).fresh(space, history, &mut rng)
    }
}

/// The random numbers for one proposal. They depend on the seed and the number of earlier points, not on the number or
/// time of calls.
pub(super) fn generator(seed: u64, question: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(question as u64);
    rng
}

/// A new point drawn by `choose`. If all draws are known, a random one of the remaining points.
pub(super) fn fresh<R: Rng>(
    space: &dyn SearchSpace,
    history: &History,
    rng: &mut R,
    mut choose: impl FnMut(&mut R) -> Point,
) -> Option<Point> {
    for _ in 0..DRAWS {
        let point = choose(rng);
        if !history.has(&point) {
            return Some(point);
        }
    }
    space.size().filter(|size| *size <= WALKED)?;
    let mut left: Vec<Point> = walk(space).filter(|point| !history.has(point)).collect();
    if left.is_empty() { None } else { Some(left.swap_remove(rng.random_range(0..left.len()))) }
}

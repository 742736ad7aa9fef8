//! Points that fill the space evenly: a Sobol sequence with Owen's scrambling.
//!
//! Burley, "Practical Hash-based Owen Scrambling", 2020.

use crate::space::{Point, SearchSpace};

use super::random::{fresh, generator};
use super::{Ahead, History, Sampler};
use crate::space::draw::{complete, draw};

/// Points of one sequence; after them comes one with another seed.
const LENGTH: u64 = 1 << 16;
/// Points in a row that may be known before the rest is drawn at random.
const KNOWN: usize = 1000;

/// A scrambled Sobol sequence, one dimension a parameter.
#[derive(Debug)]
pub struct Sobol {
    seed: u64,
    next: u64,
}

impl Sobol {
    pub fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }
}

impl Sampler for Sobol {
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::All
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        for _ in 0..KNOWN {
            let point = point(space, self.seed, self.next);
            self.next += 1;
            if !history.has(&point) {
                return Some(point);
            }
        }
        let mut rng = generator(self.seed, history.tried().len());
        fresh(space, history, &mut rng, |rng| draw(space, rng))
    }
}

/// Point number `index` of the sequence of a seed.
pub(super) fn point(space: &dyn SearchSpace, seed: u64, index: u64) -> Point {
    // The crate's seeds are 32 bits wide; sequences beyond the first have seeds of their own.
    let seed = (seed ^ (seed >> 32) ^ (index / LENGTH).wrapping_mul(0x9e37_79b9)) as u32;
    let mut dimension = 0;
    complete(space, Point::new(), |parameter| {
        let position = sobol_burley::sample((index % LENGTH) as u32, dimension, seed);
        dimension += 1;
        parameter.domain.at(f64::from(position))
    })
}

//! Points that fill the space evenly: a Sobol sequence with Owen's scrambling.
//!
//! Burley, "Practical Hash-based Owen Scrambling", 2020.

use crate::space::{Point, SearchSpace};

use rand::RngExt;

use super::random::generator;
use super::region::SearchRegion;
use super::{Ahead, History, Sampler};
use crate::space::draw::complete;

/// Points of one sequence. Then a sequence with another seed follows.
const LENGTH: u64 = 1 << 16;
/// Dimensions of the sequence. Positions in further dimensions are random.
const DIMENSIONS: u32 = 256;
/// Consecutive points that violate a constraint or are known, beyond the number of tried ones, before points are drawn
/// at random.
const BARREN: usize = 1000;

/// A scrambled Sobol sequence, with a dimension for each parameter.
#[derive(Debug)]
pub struct Sobol {
    seed: u64,
    next: u64,
    region: Option<SearchRegion>,
}

impl Sobol {
    pub fn new(seed: u64) -> Self {
        Self { seed, next: 0, region: None }
    }
}

impl Sampler for Sobol {
    fn ahead(&self, _history: &History) -> Ahead {
        Ahead::All
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let region = self.region.get_or_insert_with(|| SearchRegion::of(space));
        for _ in 0..BARREN + history.tried().len() {
            let point = point(space, self.seed, self.next);
            self.next += 1;
            if region.holds(&point) && !history.has(&point) {
                return Some(point);
            }
        }
        region.fresh(space, history, &mut generator(self.seed, history.tried().len()))
    }
}

/// Point number `index` of a seed's sequence.
pub(super) fn point(space: &dyn SearchSpace, seed: u64, index: u64) -> Point {
    // The crate's seeds have 32 bits; sequences after the first have different ones.
    let seed = (seed ^ (seed >> 32) ^ (index / LENGTH).wrapping_mul(0x9e37_79b9)) as u32;
    let mut dimension = 0;
    let mut further = None;
    complete(space, Point::new(), |parameter| {
        let position = if dimension < DIMENSIONS {
            f64::from(sobol_burley::sample((index % LENGTH) as u32, dimension, seed))
        } else {
            further.get_or_insert_with(|| generator(u64::from(!seed), index as usize)).random()
        };
        dimension += 1;
        parameter.domain.at(position)
    })
}

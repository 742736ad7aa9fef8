//! The region of a search: valid points, and the steps between them.

use rand::{Rng, RngExt};

use super::{History, variation};
use crate::interrupt;
use crate::space::draw::draw;
use crate::space::walk::walk;
use crate::space::{Feasible, Point, SearchSpace};

/// Limit on the size of a domain whose values are all neighbours. Neighbours in longer domains are drawn.
const LISTED: u64 = 64;
/// Neighbours drawn in a longer domain.
const DRAWN: usize = 8;
/// Known draws in a row before the remaining points are enumerated.
const KNOWN: usize = 200;
/// Limit on the size of a space that is enumerated.
const WALKED: u64 = 1 << 20;

/// The valid points if the space tells its constraints, otherwise all points.
#[derive(Debug)]
pub struct SearchRegion(Option<Feasible>);

impl SearchRegion {
    pub fn of(space: &dyn SearchSpace) -> Self {
        // If computing the region takes longer, points are drawn without it in the remaining time.
        Self(interrupt::until(interrupt::halfway(), || Feasible::of(space)))
    }

    /// Whether a point satisfies all known constraints.
    pub fn holds(&self, point: &Point) -> bool {
        self.0.as_ref().is_none_or(|feasible| feasible.contains(point))
    }

    /// Number of points, if known.
    fn size(&self, space: &dyn SearchSpace) -> Option<u64> {
        self.0.as_ref().map_or_else(|| space.size(), Feasible::size)
    }

    /// All points of a finite space.
    fn walk(&self, space: &dyn SearchSpace) -> Vec<Point> {
        match &self.0 {
            Some(feasible) => {
                feasible.size().map_or_else(Vec::new, |size| (0..size).map(|number| feasible.nth(number)).collect())
            }
            None => walk(space).collect(),
        }
    }

    /// A uniformly drawn point.
    pub fn draw(&self, space: &dyn SearchSpace, rng: &mut impl Rng) -> Option<Point> {
        match &self.0 {
            Some(feasible) => feasible.draw(rng),
            None => Some(draw(space, rng)),
        }
    }

    /// A random new point. If draws are known, one of the remaining points.
    pub fn fresh(&self, space: &dyn SearchSpace, history: &History, rng: &mut impl Rng) -> Option<Point> {
        let drawn = (0..KNOWN).find_map(|_| self.draw(space, rng).filter(|point| !history.has(point)));
        if drawn.is_some() {
            return drawn;
        }
        self.size(space).filter(|size| *size <= WALKED)?;
        let mut left: Vec<Point> = self.walk(space).into_iter().filter(|point| !history.has(point)).collect();
        if left.is_empty() { None } else { Some(left.swap_remove(rng.random_range(0..left.len()))) }
    }

    /// Points that differ in one parameter: all of them for a short domain, otherwise some.
    pub fn neighbours(&self, space: &dyn SearchSpace, point: &Point, rng: &mut impl Rng) -> Vec<Point> {
        let conditional = space.parameters().iter().any(|parameter| parameter.when.is_some());
        let mut found = Vec::new();
        for parameter in space.parameters().iter().filter(|parameter| point.contains_key(&parameter.name)) {
            let size = parameter.domain.size().filter(|size| *size <= LISTED);
            let values: Vec<_> = match size {
                Some(size) => (0..size).map(|index| parameter.domain.nth(index)).collect(),
                None => (0..DRAWN).map(|_| variation::step(&parameter.domain, &point[&parameter.name], rng)).collect(),
            };
            for value in values.into_iter().filter(|value| *value != point[&parameter.name]) {
                let mut changed = point.clone();
                changed.insert(parameter.name.clone(), value);
                found.push(if conditional { variation::completed(space, changed, rng) } else { changed });
            }
        }
        found.retain(|point| self.holds(point));
        found
    }
}

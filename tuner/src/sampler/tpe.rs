//! Tree-structured Parzen estimators, which propose points that resemble good ones.
//!
//! One density describes good points and another the rest; the next point maximises their ratio (Bergstra, Bardenet,
//! Bengio and Kégl, "Algorithms for Hyper-Parameter Optimization", 2011).
//!
//! Densities cover all parameters jointly (a product of kernels for each observation), so they see dependencies between
//! parameters. If an observation lacks a parameter that applies to a candidate, the kernel along it is uniform. Points
//! that failed, were rejected or are in flight belong to the rest. No point is proposed twice.

use std::collections::HashSet;

use rand::{Rng, RngExt};

use crate::space::{Point, SearchSpace};

use super::axis::{Axis, EncodedValue, Kernels};
use super::random::{fresh, generator};
use super::region::SearchRegion;
use super::{Ahead, History, Sampler, TrialOutcome, dominance, sobol};
use crate::space::draw::{complete, draw_value};

/// Points of a Sobol sequence before the first density.
const STARTUP: usize = 10;
/// Draws from the good density, the best of which is proposed.
const CANDIDATES: usize = 32;
/// Share of distinct measurements that count as good, and its limit.
const GOOD_SHARE: f64 = 0.1;
const MOST_GOOD: usize = 25;
/// Limit on the points of the second density; the latest ones are used.
const MOST_OTHERS: usize = 1000;
/// Width of a kernel for a single observation, relative to the axis.
const WIDTH: f64 = 0.1;

/// The sampler.
#[derive(Debug)]
pub struct Tpe {
    seed: u64,
    axes: Vec<Axis>,
    /// Encoded points by index in the history.
    codes: Vec<Vec<EncodedValue>>,
    region: Option<SearchRegion>,
}

impl Tpe {
    pub fn new(seed: u64) -> Self {
        Self { seed, axes: Vec::new(), codes: Vec::new(), region: None }
    }
}

impl Sampler for Tpe {
    fn ahead(&self, history: &History) -> Ahead {
        // The first points do not depend on outcomes.
        let Ahead::Some(ahead) = Ahead::of(history) else { return Ahead::All };
        Ahead::Some(ahead.max(STARTUP.saturating_sub(history.known())))
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        if self.axes.is_empty() {
            self.axes = space.parameters().iter().map(|parameter| Axis::new(&parameter.domain)).collect();
        }
        for tried in &history.tried()[self.codes.len()..] {
            self.codes.push(codes(space, &self.axes, &tried.point));
        }
        let mut rng = generator(self.seed, history.tried().len());
        let (good, others) = split(history);
        // Rejected points teach nothing about times.
        let counted = history.tried().iter().filter(|tried| tried.outcome != Some(TrialOutcome::Rejected)).count();
        let region = self.region.get_or_insert_with(|| SearchRegion::of(space));
        if counted < STARTUP || good.is_empty() {
            let first = history.tried().len() as u64;
            let mut next = first;
            return fresh(space, history, &mut rng, |rng| {
                next += 1;
                let point = sobol::point(space, self.seed, next - 1);
                if region.holds(&point) { point } else { region.draw(space, rng).unwrap_or(point) }
            });
        }
        let of = |places: Vec<usize>| -> Vec<(&Point, &[EncodedValue])> {
            places.into_iter().map(|place| (&history.tried()[place].point, self.codes[place].as_slice())).collect()
        };
        let good = Estimator::new(&self.axes, of(good));
        let others = Estimator::new(&self.axes, of(others));
        let mut best: Option<(f64, Point)> = None;
        for _ in 0..CANDIDATES {
            let point = good.draw(space, &mut rng);
            // Replaces an invalid point with a valid one that has many values in common.
            let point = if region.holds(&point) { point } else { nearest(space, region, &point, &mut rng) };
            if !history.has(&point) {
                let codes = codes(space, &self.axes, &point);
                let ratio = good.density(&codes) - others.density(&codes);
                if best.as_ref().is_none_or(|(known, _)| ratio > *known) {
                    best = Some((ratio, point));
                }
            }
        }
        match best {
            Some((_, point)) => Some(point),
            None => region.fresh(space, history, &mut rng),
        }
    }
}

/// A valid point that has many values in common with an invalid one.
fn nearest(space: &dyn SearchSpace, region: &SearchRegion, point: &Point, rng: &mut impl Rng) -> Point {
    let around = region.neighbours(space, point, rng);
    if !around.is_empty() {
        return around[rng.random_range(0..around.len())].clone();
    }
    let common = |other: &Point| point.iter().filter(|(name, value)| other.get(*name) == Some(value)).count();
    (0..CANDIDATES).filter_map(|_| region.draw(space, rng)).max_by_key(common).unwrap_or_else(|| point.clone())
}

/// Indices of the good points in the history, and of the others.
fn split(history: &History) -> (Vec<usize>, Vec<usize>) {
    let mut measured: Vec<(usize, &[f64])> = Vec::new();
    let mut others: Vec<usize> = Vec::new();
    for (place, tried) in history.tried().iter().enumerate() {
        match tried.outcome.as_ref().and_then(|outcome| outcome.values()) {
            Some(values) => measured.push((place, values)),
            None => others.push(place),
        }
    }
    let values: Vec<&[f64]> = measured.iter().map(|(_, values)| *values).collect();
    // Equal measurements mean equal code. Such points count once among the good ones, otherwise the search would stay
    // with the many configurations of one code.
    let mut seen = HashSet::new();
    let is_new = |place: &usize| seen.insert(values[*place].iter().map(|value| value.to_bits()).collect::<Vec<_>>());
    let (distinct, repeated): (Vec<usize>, Vec<usize>) = dominance::ranking(&values).into_iter().partition(is_new);
    let count = ((GOOD_SHARE * distinct.len() as f64).ceil() as usize).min(MOST_GOOD);
    let good = distinct[..count].iter().map(|place| measured[*place].0).collect();
    others.extend(distinct[count..].iter().chain(&repeated).map(|place| measured[*place].0));
    if others.len() > MOST_OTHERS {
        others.drain(..others.len() - MOST_OTHERS);
    }
    (good, others)
}

fn codes(space: &dyn SearchSpace, axes: &[Axis], point: &Point) -> Vec<EncodedValue> {
    space.parameters().iter().zip(axes).map(|(parameter, axis)| axis.code(point.get(&parameter.name))).collect()
}

/// A density: a kernel around each observation, and a uniform one.
struct Estimator<'a> {
    axes: &'a [Axis],
    kernels: Vec<Kernels<'a>>,
    observations: Vec<(&'a Point, &'a [EncodedValue])>,
}

impl<'a> Estimator<'a> {
    fn new(axes: &'a [Axis], observations: Vec<(&'a Point, &'a [EncodedValue])>) -> Self {
        let dimensions = axes.iter().filter(|axis| axis.varies()).count();
        let count = observations.len();
        // Scott's rule, but no narrower than the spacing of this many points on a line.
        let width = WIDTH * (count.max(1) as f64).powf(-1.0 / (dimensions as f64 + 4.0));
        let width = width.max(1.0 / (count as f64 + 1.0).min(100.0) * 0.1);
        Self { axes, kernels: axes.iter().map(|axis| axis.kernels(width, count)).collect(), observations }
    }

    fn draw(&self, space: &dyn SearchSpace, rng: &mut impl Rng) -> Point {
        let chosen = rng.random_range(0..=self.observations.len());
        let Some((origin, centres)) = self.observations.get(chosen) else {
            return complete(space, Point::new(), |parameter| draw_value(&parameter.domain, rng));
        };
        complete(space, Point::new(), |parameter| {
            let place = space
                .parameters()
                .iter()
                .position(|known| known.name == parameter.name)
                .expect("a parameter of the space");
            match origin.get(&parameter.name) {
                Some(value) => self.kernels[place].draw(&centres[place], value, rng),
                None => draw_value(&parameter.domain, rng),
            }
        })
    }

    /// The logarithm of the density.
    fn density(&self, x: &[EncodedValue]) -> f64 {
        let uniform: Vec<f64> = self
            .axes
            .iter()
            .zip(x)
            .map(|(axis, x)| if *x == EncodedValue::Absent { 0.0 } else { axis.uniform(x) })
            .collect();
        let mut logarithms: Vec<f64> = Vec::with_capacity(self.observations.len() + 1);
        logarithms.push(uniform.iter().sum());
        for (_, observation) in &self.observations {
            let of = |(place, x): (usize, &EncodedValue)| match (&observation[place], x) {
                (_, EncodedValue::Absent) => 0.0,
                (EncodedValue::Absent, _) => uniform[place],
                (centre, x) => self.kernels[place].density(centre, x),
            };
            logarithms.push(x.iter().enumerate().map(of).sum());
        }
        let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + logarithms.iter().map(|logarithm| (logarithm - largest).exp()).sum::<f64>().ln()
            - (logarithms.len() as f64).ln()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations_of_the_same_code_are_one_good_point() {
        let mut history = History::default();
        let point = |number: u32| Point::from([("x".to_owned(), json!(number))]);
        for number in 0..30 {
            history.add(point(number), Some(TrialOutcome::Measured(vec![7.0])));
        }
        history.add(point(30), None);
        for number in 31..51 {
            history.add(point(number), Some(TrialOutcome::Measured(vec![f64::from(number)])));
        }
        let (good, others) = split(&history);
        assert_eq!(good, [0, 31, 32], "a tenth of 21, rounded up");
        assert_eq!(others.len(), 48);
    }
}

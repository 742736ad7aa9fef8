//! The portfolio: a model, local search and evolution take turns over one history, by what they find.
//!
//! The first points fill the valid region. After them a bandit draws who chooses the next one, from what became of the
//! points that each chose before. All of them propose valid points alone where the space tells its constraints, and
//! what one finds the others start from. A local search that has tried all neighbours of the best point goes on from
//! the next best, which restarts it.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use super::axis::{Axis, Code};
use super::random::generator;
use super::region::Region;
use super::surrogate::{Covariance, Posterior};
use super::{Ahead, History, Outcome, Sampler, dominance, variation};
use crate::space::{Point, Space};

/// Points before the model is asked; each is the furthest from the others of so many draws.
const FIRST: usize = 10;
const DRAWS: usize = 8;
/// Points that the model is given: half of them the best.
const GIVEN: usize = 120;
/// Points that its parameters are fitted to, and by how much the history grows between two fits.
const FITTED: usize = 80;
const GROWTH: f64 = 1.15;
/// Points that the model chooses from, and good points whose neighbours and children are among them.
const POOL: usize = 400;
const LEADERS: usize = 5;
/// Points whose neighbours local search looks for.
const RESTARTS: usize = 10;
/// Children that evolution draws for each one that it proposes, and points that may be parents.
const CHILDREN: usize = 16;
const PARENTS: usize = 20;
/// Points in the history up to which each point has a prediction of its own, and points that share one at most: one
/// more tells a large history little.
const OWN: usize = 200;
const SHARED: usize = 50;
/// How much less a point counts for the bandit than the one after it.
const FORGETTING: f64 = 0.97;
/// Points that it looks back on.
const REMEMBERED: usize = 200;

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Model,
    Local,
    Evolution,
}

/// Strategies with the points that they are taken to have chosen before, and how many of these were successes.
const STRATEGIES: [(Strategy, f64, f64); 3] =
    [(Strategy::Model, 10.0, 3.0), (Strategy::Local, 10.0, 1.5), (Strategy::Evolution, 10.0, 0.5)];

/// The sampler.
#[derive(Debug)]
pub struct Auto {
    seed: u64,
    region: Option<Region>,
    axes: Vec<Axis>,
    /// By place in the history.
    codes: Vec<Vec<Code>>,
    /// Who chose the point of a place.
    chosen: HashMap<usize, Strategy>,
    covariance: Option<Covariance>,
    posterior: Option<Posterior>,
    /// Length of the history up to which the posterior serves.
    posterior_until: usize,
    /// Length of the history at which the covariance is fitted again.
    next_fit: usize,
    /// What the model would propose next, the best last, and the history's length up to which it is.
    ranked: Vec<Point>,
    ranked_until: usize,
}

/// What is known of the history: scores that are normally distributed, smaller is better, and places from the best on.
struct Scores {
    values: Vec<f64>,
    /// Places of points that were measured, the best first.
    best: Vec<usize>,
}

impl Auto {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            region: None,
            axes: Vec::new(),
            codes: Vec::new(),
            chosen: HashMap::new(),
            covariance: None,
            posterior: None,
            posterior_until: 0,
            next_fit: 0,
            ranked: Vec::new(),
            ranked_until: 0,
        }
    }

    fn code(&self, space: &dyn Space, point: &Point) -> Vec<Code> {
        space
            .parameters()
            .iter()
            .zip(&self.axes)
            .map(|(parameter, axis)| axis.code(point.get(&parameter.name)))
            .collect()
    }

    fn distance(&self, a: &[Code], b: &[Code]) -> f64 {
        self.axes.iter().zip(a.iter().zip(b)).map(|(axis, (a, b))| axis.distance(a, b).powi(2)).sum()
    }

    /// A valid point that is new: of some draws the one that is furthest from those before.
    fn furthest(&self, space: &dyn Space, history: &History, region: &Region, rng: &mut impl Rng) -> Option<Point> {
        let draws = (0..DRAWS).filter_map(|_| region.fresh(space, history, rng));
        let nearest = |point: &Point| {
            let code = self.code(space, point);
            self.codes.iter().map(|other| self.distance(&code, other)).fold(f64::INFINITY, f64::min)
        };
        draws.map(|point| (nearest(&point), point)).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point)
    }

    /// Draws who chooses: in proportion to the share of successes, of which later ones count more. A success is a point
    /// that is among the best fiftieth, or the best.
    fn turn(&self, scores: &Scores, rng: &mut impl Rng) -> Strategy {
        let length = scores.values.len();
        let best: HashSet<usize> = scores.best[..scores.best.len().min(1 + length / 50)].iter().copied().collect();
        let mut shares = STRATEGIES.map(|(_, points, successes)| (points, successes));
        for place in length.saturating_sub(REMEMBERED)..length {
            if let Some(at) =
                self.chosen.get(&place).and_then(|strategy| STRATEGIES.iter().position(|(known, ..)| known == strategy))
            {
                let weight = FORGETTING.powi((length - place) as i32);
                shares[at].0 += weight;
                shares[at].1 += weight * f64::from(u8::from(best.contains(&place)));
            }
        }
        let rates = shares.map(|(points, successes)| successes / points);
        let mut left = rng.random::<f64>() * rates.iter().sum::<f64>();
        for (rate, (strategy, ..)) in rates.iter().zip(STRATEGIES) {
            left -= rate;
            if left < 0.0 {
                return strategy;
            }
        }
        Strategy::Model
    }

    /// Gives the process the best points and some others, unless it has those of a history that was nearly as long.
    fn refresh(&mut self, scores: &Scores, rng: &mut impl Rng) {
        let length = scores.values.len();
        if length < self.posterior_until && self.posterior.is_some() {
            return;
        }
        self.posterior_until = length + shared(length);
        let mut order: Vec<usize> = (0..length).collect();
        order.sort_by(|a, b| scores.values[*a].total_cmp(&scores.values[*b]));
        let some = |most: usize, rng: &mut _| -> Vec<usize> {
            let (best, rest) = order.split_at(length.min(most / 2));
            let mut rest = rest.to_vec();
            let (drawn, _) = SliceRandom::partial_shuffle(rest.as_mut_slice(), rng, most - most / 2);
            [best, drawn].concat()
        };
        let of = |places: &[usize]| {
            let values: Vec<f64> = places.iter().map(|place| scores.values[*place]).collect();
            let points: Vec<&[Code]> = places.iter().map(|place| self.codes[*place].as_slice()).collect();
            (points, values)
        };
        let before = self.covariance.take().unwrap_or_else(|| Covariance::new(&self.axes));
        let covariance = if length >= self.next_fit {
            self.next_fit = (length as f64 * GROWTH).ceil() as usize;
            let (points, values) = of(&some(FITTED, rng));
            before.fitted(&self.axes, &points, &values)
        } else {
            before
        };
        let (points, values) = of(&some(GIVEN, rng));
        self.posterior = Posterior::new(covariance.clone(), &self.axes, &points, &values);
        self.covariance = Some(covariance);
    }

    /// Neighbours of a point that are new.
    fn neighbours(
        &self,
        space: &dyn Space,
        history: &History,
        region: &Region,
        place: usize,
        rng: &mut impl Rng,
    ) -> Vec<Point> {
        let found = region.neighbours(space, &history.tried()[place].point, rng);
        found.into_iter().filter(|point| !history.has(point)).collect()
    }

    /// New valid children of the best points.
    fn children(
        &self,
        space: &dyn Space,
        history: &History,
        region: &Region,
        scores: &Scores,
        count: usize,
        rng: &mut impl Rng,
    ) -> Vec<Point> {
        let parents = &scores.best[..scores.best.len().min(PARENTS)];
        if parents.is_empty() {
            return Vec::new();
        }
        let rate = 1.0 / space.parameters().len() as f64;
        let mut found = Vec::new();
        for _ in 0..count {
            let mut parent = || {
                let place = rng.random_range(0..parents.len()).min(rng.random_range(0..parents.len()));
                &history.tried()[parents[place]].point
            };
            let (mother, father) = (parent(), parent());
            let child = variation::cross(space, mother, father, rng);
            let child = variation::mutate(space, &child, rate, rng);
            if region.holds(&child) && !history.has(&child) {
                found.push(child);
            }
        }
        found
    }

    /// Points for the model to choose from: around the best, between them, and anywhere.
    fn pool(
        &self,
        space: &dyn Space,
        history: &History,
        region: &Region,
        scores: &Scores,
        rng: &mut impl Rng,
    ) -> Vec<Point> {
        let leaders = &scores.best[..scores.best.len().min(LEADERS)];
        let mut around: Vec<Point> =
            leaders.iter().flat_map(|place| self.neighbours(space, history, region, *place, rng)).collect();
        let (drawn, _) = around.partial_shuffle(rng, POOL / 2);
        let mut pool = drawn.to_vec();
        pool.extend(self.children(space, history, region, scores, POOL / 8, rng));
        let anywhere = (0..POOL - pool.len().min(POOL))
            .filter_map(|_| region.draw(space, rng))
            .filter(|point| !history.has(point));
        pool.extend(anywhere);
        let mut seen = HashSet::new();
        pool.retain(|point| seen.insert(point.clone()));
        pool
    }

    /// A point by the model: where it expects the largest improvement.
    fn by_model(
        &mut self,
        space: &dyn Space,
        history: &History,
        region: &Region,
        scores: &Scores,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        let length = history.tried().len();
        if length < self.ranked_until
            && let Some(place) = self.ranked.iter().rposition(|point| !history.has(point))
        {
            self.ranked.truncate(place + 1);
            return self.ranked.pop();
        }
        self.refresh(scores, rng);
        let posterior = self.posterior.as_ref()?;
        let best = scores.best.first().map_or(0.0, |place| scores.values[*place]);
        let mut pool: Vec<(f64, Point)> = self
            .pool(space, history, region, scores, rng)
            .into_iter()
            .map(|point| (log_improvement(best, posterior.at(&self.axes, &self.code(space, &point))), point))
            .collect();
        pool.sort_by(|a, b| a.0.total_cmp(&b.0));
        let shared = shared(length);
        self.ranked = pool.split_off(pool.len().saturating_sub(shared)).into_iter().map(|(_, point)| point).collect();
        self.ranked_until = length + shared;
        self.ranked.pop()
    }

    /// The likeliest of some points.
    fn likeliest(
        &mut self,
        space: &dyn Space,
        scores: &Scores,
        points: Vec<Point>,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        self.refresh(scores, rng);
        let Some(posterior) = &self.posterior else { return points.into_iter().next() };
        let mean = |point: &Point| posterior.at(&self.axes, &self.code(space, point)).0;
        points.into_iter().map(|point| (mean(&point), point)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point)
    }

    fn choose(
        &mut self,
        strategy: Strategy,
        space: &dyn Space,
        history: &History,
        region: &Region,
        scores: &Scores,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        match strategy {
            Strategy::Model => self.by_model(space, history, region, scores, rng),
            Strategy::Local => {
                let starts = scores.best.iter().take(RESTARTS);
                let around = starts
                    .map(|place| self.neighbours(space, history, region, *place, rng))
                    .find(|found| !found.is_empty())?;
                self.likeliest(space, scores, around, rng)
            }
            Strategy::Evolution => {
                let children = self.children(space, history, region, scores, CHILDREN, rng);
                self.likeliest(space, scores, children, rng)
            }
        }
    }
}

impl Sampler for Auto {
    fn ahead(&self, history: &History) -> Ahead {
        Ahead::of(history)
    }

    fn ask(&mut self, space: &dyn Space, history: &History) -> Option<Point> {
        let region = self.region.take().unwrap_or_else(|| Region::of(space));
        if self.axes.is_empty() {
            self.axes = space.parameters().iter().map(|parameter| Axis::new(&parameter.domain)).collect();
        }
        for tried in &history.tried()[self.codes.len()..] {
            self.codes.push(self.code(space, &tried.point));
        }
        let mut rng = generator(self.seed, history.tried().len());
        let measured =
            history.tried().iter().filter(|tried| matches!(tried.outcome, Some(Outcome::Measured(_)))).count();
        let counted = history.tried().iter().filter(|tried| tried.outcome != Some(Outcome::Rejected)).count();
        let mut point = None;
        if counted < FIRST || measured < 2 {
            point = self.furthest(space, history, &region, &mut rng);
        } else {
            let scores = scores(history);
            let strategy = self.turn(&scores, &mut rng);
            point = point.or_else(|| self.choose(strategy, space, history, &region, &scores, &mut rng));
            if point.is_some() {
                self.chosen.insert(history.tried().len(), strategy);
            }
        }
        let point = point.or_else(|| region.fresh(space, history, &mut rng));
        self.region = Some(region);
        point
    }
}

/// Points that share a prediction.
fn shared(length: usize) -> usize {
    (length / OWN).pow(2).clamp(1, SHARED)
}

/// Ranks as quantiles of the normal distribution: what the best are like counts, whatever the unit and however slow the
/// worst. What failed is worst, and what is in flight is in the middle.
fn scores(history: &History) -> Scores {
    let measured: Vec<(usize, &[f64])> = history
        .tried()
        .iter()
        .enumerate()
        .filter_map(|(place, tried)| Some((place, tried.outcome.as_ref()?.values()?)))
        .collect();
    let values: Vec<&[f64]> = measured.iter().map(|(_, values)| *values).collect();
    let best: Vec<usize> = dominance::ranking(&values).into_iter().map(|at| measured[at].0).collect();
    let known = history.known().max(1) as f64;
    let normal = Normal::standard();
    let worst = (best.len() as f64 + known) / 2.0 / known;
    let failed = normal.inverse_cdf(worst.min(1.0 - 0.25 / known));
    let outcome = |place: usize| history.tried()[place].outcome.is_some();
    let mut scores: Vec<f64> =
        (0..history.tried().len()).map(|place| if outcome(place) { failed } else { 0.0 }).collect();
    for (rank, place) in best.iter().enumerate() {
        scores[*place] = normal.inverse_cdf((rank as f64 + 0.5) / known);
    }
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / scores.len() as f64;
    let deviation = variance.sqrt().max(1e-9);
    scores.iter_mut().for_each(|score| *score = (*score - mean) / deviation);
    Scores { values: scores, best }
}

/// The logarithm of the improvement over `best` that is expected of a normal distribution.
fn log_improvement(best: f64, (mean, deviation): (f64, f64)) -> f64 {
    let normal = Normal::standard();
    let below = (best - mean) / deviation;
    let expected = below * normal.cdf(below) + normal.pdf(below);
    // Far out the expectation is lost in rounding; its leading term orders as it does.
    let factor =
        if below > -5.0 && expected > 0.0 { expected.ln() } else { normal.ln_pdf(below) - 2.0 * below.abs().ln() };
    match factor.partial_cmp(&f64::NEG_INFINITY) {
        Some(Ordering::Greater) => factor + deviation.ln(),
        _ => f64::MIN,
    }
}

//! The portfolio: a model, local search and evolution take turns over one history.
//!
//! The first points fill the valid region. After that, a bandit draws the strategy for the next point, by the outcomes
//! of each strategy's earlier points. If the space tells its constraints, all strategies propose only valid points, and
//! each builds on the others' results. If local search has tried all neighbours of the best point, it continues from
//! the next best, which restarts it.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use super::axis::{Axis, EncodedValue};
use super::random::generator;
use super::region::SearchRegion;
use super::surrogate::{Covariance, Posterior};
use super::{Ahead, History, Sampler, TrialOutcome, dominance, variation};
use crate::space::{Point, SearchSpace};

/// Points before the first model. Each is the one of `DRAWS` that is furthest from the others.
const FIRST: usize = 10;
const DRAWS: usize = 8;
/// Points given to the model; half of them are the best.
const GIVEN: usize = 120;
/// Points to which the model's parameters are fitted, and growth of the history between two fits.
const FITTED: usize = 80;
const GROWTH: f64 = 1.25;
/// Points from which the model chooses, and number of good points whose neighbours and children are among them.
const POOL: usize = 400;
const LEADERS: usize = 5;
/// Proposals that share a pool as long as its leaders stay the same: making a pool costs as much as choosing from it.
const POOLED: usize = 8;
/// Points whose neighbours local search considers.
const RESTARTS: usize = 10;
/// Lower bound on the probability that a point can be measured.
const LEAST_CHANCE: f64 = 0.02;
/// Children that evolution draws per proposal, and number of potential parents.
const CHILDREN: usize = 16;
const PARENTS: usize = 20;
/// Length of the history up to which each point gets its own prediction, and the limit on points that share one: in a
/// long history, one more point changes little.
const OWN: usize = 200;
const SHARED: usize = 50;
/// Factor between the weights of consecutive points, for the bandit.
const FORGETTING: f64 = 0.97;
/// Number of recent points that the bandit considers.
const REMEMBERED: usize = 200;

/// The strategy that chooses a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Model,
    Local,
    Evolution,
}

/// Strategies with a prior for the bandit: numbers of points, and of successes among them.
const STRATEGIES: [(Strategy, f64, f64); 3] =
    [(Strategy::Model, 10.0, 3.0), (Strategy::Local, 10.0, 1.5), (Strategy::Evolution, 10.0, 0.5)];

/// The sampler.
#[derive(Debug)]
pub struct Auto {
    seed: u64,
    region: Option<SearchRegion>,
    axes: Vec<Axis>,
    /// Encoded points by index in the history.
    codes: Vec<Vec<EncodedValue>>,
    /// The strategy that chose the point at an index.
    chosen: HashMap<usize, Strategy>,
    /// Covariances of the score, and of whether points can be measured.
    covariance: Option<Covariance>,
    covariance_of_success: Option<Covariance>,
    model: Option<Model>,
    /// Length of the history up to which the model is used.
    model_until: usize,
    /// Length of the history at which the covariances are fitted again.
    next_fit: usize,
    pool: Pool,
}

/// Points from which the model chooses.
#[derive(Debug, Default)]
struct Pool {
    /// Points with their promise, best last.
    points: Vec<(f64, Vec<EncodedValue>, Point)>,
    /// Indices of the points around which the pool lies.
    leaders: Vec<usize>,
    /// Lengths of the history up to which the pool, and its order, are valid.
    until: usize,
    ordered_until: usize,
}

impl Pool {
    fn order(&mut self, model: &Model, axes: &[Axis]) {
        let codes: Vec<&[EncodedValue]> = self.points.iter().map(|(_, code, _)| code.as_slice()).collect();
        let promises = model.promises(axes, &codes);
        self.points.iter_mut().zip(promises).for_each(|(point, promise)| point.0 = promise);
        self.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// A prediction for points, given the history.
#[derive(Debug)]
struct Model {
    posterior: Posterior,
    /// Scores of the best point, and of points that cannot be measured.
    best: f64,
    worst: f64,
    /// Predicts whether a point can be measured, relative to the share of points that could; `None` if all could.
    success: Option<(Posterior, f64)>,
}

impl Model {
    /// The probability that a point can be measured.
    fn chance(&self, axes: &[Axis], code: &[EncodedValue]) -> f64 {
        let Some((posterior, share)) = &self.success else { return 1.0 };
        (share + posterior.mean(axes, code)).clamp(LEAST_CHANCE, 1.0)
    }

    /// The logarithms of the points' expected improvements.
    fn promises(&self, axes: &[Axis], codes: &[&[EncodedValue]]) -> Vec<f64> {
        let found = self.posterior.at(axes, codes).into_iter().zip(codes);
        found.map(|(found, code)| log_improvement(self.best, found) + self.chance(axes, code).ln()).collect()
    }

    /// The expected score of a point.
    fn expected(&self, axes: &[Axis], code: &[EncodedValue]) -> f64 {
        self.worst + self.chance(axes, code) * (self.posterior.mean(axes, code) - self.worst)
    }
}

/// The history by rank.
struct Ranks {
    length: usize,
    /// Indices of measured points, best first.
    best: Vec<usize>,
    /// Indices of points that could not be measured, ascending.
    failed: Vec<usize>,
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
            covariance_of_success: None,
            model: None,
            model_until: 0,
            next_fit: 0,
            pool: Pool::default(),
        }
    }

    fn code(&self, space: &dyn SearchSpace, point: &Point) -> Vec<EncodedValue> {
        space
            .parameters()
            .iter()
            .zip(&self.axes)
            .map(|(parameter, axis)| axis.code(point.get(&parameter.name)))
            .collect()
    }

    fn distance(&self, a: &[EncodedValue], b: &[EncodedValue]) -> f64 {
        self.axes.iter().zip(a.iter().zip(b)).map(|(axis, (a, b))| axis.distance(a, b).powi(2)).sum()
    }

    /// A new valid point: of some draws, the one that is furthest from earlier points.
    fn furthest(
        &self,
        space: &dyn SearchSpace,
        history: &History,
        region: &SearchRegion,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        let draws = (0..DRAWS).filter_map(|_| region.fresh(space, history, rng));
        let nearest = |point: &Point| {
            let code = self.code(space, point);
            self.codes.iter().map(|other| self.distance(&code, other)).fold(f64::INFINITY, f64::min)
        };
        draws.map(|point| (nearest(&point), point)).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point)
    }

    /// Draws a strategy in proportion to its share of successes, with more weight on recent ones. A point is a success
    /// if it is among the best 2 %, or the best of all.
    fn turn(&self, ranks: &Ranks, rng: &mut impl Rng) -> Strategy {
        let length = ranks.length;
        let best: HashSet<usize> = ranks.best[..ranks.best.len().min(1 + length / 50)].iter().copied().collect();
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

    /// Makes a model of the best points and some others, unless the current one is recent enough.
    ///
    /// Points that could not be measured only tell where others may fail, not how fast points are. Treated as slow,
    /// they would hide good points next to them.
    fn refresh(&mut self, ranks: &Ranks, rng: &mut impl Rng) {
        let length = ranks.length;
        if length < self.model_until && self.model.is_some() {
            return;
        }
        self.model_until = length + shared(length);
        let fits = length >= self.next_fit;
        if fits {
            self.next_fit = (length as f64 * GROWTH).ceil() as usize;
        }
        let scores = ranks.scores();
        let in_order = {
            let mut order: Vec<usize> =
                (0..length).filter(|place| ranks.failed.binary_search(place).is_err()).collect();
            order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
            order
        };
        let some = |most: usize, rng: &mut _| -> Vec<usize> {
            let (best, rest) = in_order.split_at(in_order.len().min(most / 2));
            let mut rest = rest.to_vec();
            let (drawn, _) = SliceRandom::partial_shuffle(rest.as_mut_slice(), rng, most - most / 2);
            [best, drawn].concat()
        };
        let (fitted, given) = (some(FITTED, rng), some(GIVEN, rng));
        let covariance = self.covariance.take();
        let posterior = self.learn(covariance, fits.then_some(&fitted), &given, |place| scores[place]);
        let Some((covariance, posterior)) = posterior else { return };
        self.covariance = Some(covariance);
        let success = if ranks.failed.is_empty() { None } else { self.learn_success(ranks, fits, rng) };
        let best = ranks.best.first().map_or(0.0, |place| scores[*place]);
        let worst = ranks.failed.first().map_or(0.0, |place| scores[*place]);
        self.model = Some(Model { posterior, best, worst, success });
    }

    /// Learns whether points can be measured.
    fn learn_success(&mut self, ranks: &Ranks, fits: bool, rng: &mut impl Rng) -> Option<(Posterior, f64)> {
        let share = 1.0 - ranks.failed.len() as f64 / ranks.length as f64;
        let mut places: Vec<usize> = (0..ranks.length).collect();
        let (given, _) = places.partial_shuffle(rng, GIVEN);
        let fitted = fits.then(|| &given[..given.len().min(FITTED)]);
        let value = |place: usize| f64::from(u8::from(ranks.failed.binary_search(&place).is_err())) - share;
        let covariance = self.covariance_of_success.take();
        let (covariance, posterior) = self.learn(covariance, fitted, given, value)?;
        self.covariance_of_success = Some(covariance);
        Some((posterior, share))
    }

    /// A process given the values at some points, with a covariance fitted to others if given.
    fn learn(
        &self,
        before: Option<Covariance>,
        fitted: Option<impl AsRef<[usize]>>,
        given: &[usize],
        value: impl Fn(usize) -> f64,
    ) -> Option<(Covariance, Posterior)> {
        let of = |places: &[usize]| -> (Vec<&[EncodedValue]>, Vec<f64>) {
            places.iter().map(|place| (self.codes[*place].as_slice(), value(*place))).unzip()
        };
        let mut covariance = before.unwrap_or_else(|| Covariance::new(&self.axes));
        if let Some(places) = fitted {
            let (points, values) = of(places.as_ref());
            covariance = covariance.fitted(&self.axes, &points, &values);
        }
        let (points, values) = of(given);
        let posterior = Posterior::new(covariance.clone(), &self.axes, &points, &values)?;
        Some((covariance, posterior))
    }

    /// New neighbours of a point.
    fn neighbours(
        &self,
        space: &dyn SearchSpace,
        history: &History,
        region: &SearchRegion,
        place: usize,
        rng: &mut impl Rng,
    ) -> Vec<Point> {
        let found = region.neighbours(space, &history.tried()[place].point, rng);
        found.into_iter().filter(|point| !history.has(point)).collect()
    }

    /// New valid children of the best points.
    fn children(
        &self,
        space: &dyn SearchSpace,
        history: &History,
        region: &SearchRegion,
        ranks: &Ranks,
        count: usize,
        rng: &mut impl Rng,
    ) -> Vec<Point> {
        let parents = &ranks.best[..ranks.best.len().min(PARENTS)];
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
        space: &dyn SearchSpace,
        history: &History,
        region: &SearchRegion,
        ranks: &Ranks,
        rng: &mut impl Rng,
    ) -> Vec<Point> {
        let leaders = &ranks.best[..ranks.best.len().min(LEADERS)];
        let mut around: Vec<Point> =
            leaders.iter().flat_map(|place| self.neighbours(space, history, region, *place, rng)).collect();
        let (drawn, _) = around.partial_shuffle(rng, POOL / 2);
        let mut pool = drawn.to_vec();
        pool.extend(self.children(space, history, region, ranks, POOL / 8, rng));
        let anywhere = (0..POOL - pool.len().min(POOL))
            .filter_map(|_| region.draw(space, rng))
            .filter(|point| !history.has(point));
        pool.extend(anywhere);
        let mut seen = HashSet::new();
        pool.retain(|point| seen.insert(point.clone()));
        pool
    }

    /// The model's choice: the point with the largest expected improvement.
    fn by_model(
        &mut self,
        space: &dyn SearchSpace,
        history: &History,
        region: &SearchRegion,
        ranks: &Ranks,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        let (length, shared) = (ranks.length, shared(ranks.length));
        let leaders = &ranks.best[..ranks.best.len().min(LEADERS)];
        if length >= self.pool.until || self.pool.leaders != leaders {
            let points = self.pool(space, history, region, ranks, rng).into_iter();
            let points = points.map(|point| (0.0, self.code(space, &point), point)).collect();
            self.pool =
                Pool { points, leaders: leaders.to_vec(), until: length + POOLED.max(shared), ordered_until: length };
        }
        if length >= self.pool.ordered_until {
            self.refresh(ranks, rng);
            self.pool.order(self.model.as_ref()?, &self.axes);
            self.pool.ordered_until = length + shared;
        }
        std::iter::from_fn(|| self.pool.points.pop()).map(|(.., point)| point).find(|point| !history.has(point))
    }

    /// The point with the best expected score.
    fn likeliest(
        &mut self,
        space: &dyn SearchSpace,
        ranks: &Ranks,
        points: Vec<Point>,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        self.refresh(ranks, rng);
        let Some(model) = &self.model else { return points.into_iter().next() };
        let expected = |point: &Point| model.expected(&self.axes, &self.code(space, point));
        let all = points.into_iter().map(|point| (expected(&point), point));
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, point)| point)
    }

    fn choose(
        &mut self,
        strategy: Strategy,
        space: &dyn SearchSpace,
        history: &History,
        region: &SearchRegion,
        ranks: &Ranks,
        rng: &mut impl Rng,
    ) -> Option<Point> {
        match strategy {
            Strategy::Model => self.by_model(space, history, region, ranks, rng),
            Strategy::Local => {
                let starts = ranks.best.iter().take(RESTARTS);
                let around = starts
                    .map(|place| self.neighbours(space, history, region, *place, rng))
                    .find(|found| !found.is_empty())?;
                self.likeliest(space, ranks, around, rng)
            }
            Strategy::Evolution => {
                let children = self.children(space, history, region, ranks, CHILDREN, rng);
                self.likeliest(space, ranks, children, rng)
            }
        }
    }
}

impl Sampler for Auto {
    fn ahead(&self, history: &History) -> Ahead {
        Ahead::of(history)
    }

    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        let region = self.region.take().unwrap_or_else(|| SearchRegion::of(space));
        if self.axes.is_empty() {
            self.axes = space.parameters().iter().map(|parameter| Axis::new(&parameter.domain)).collect();
        }
        for tried in &history.tried()[self.codes.len()..] {
            self.codes.push(self.code(space, &tried.point));
        }
        let mut rng = generator(self.seed, history.tried().len());
        let measured =
            history.tried().iter().filter(|tried| matches!(tried.outcome, Some(TrialOutcome::Measured(_)))).count();
        let counted = history.tried().iter().filter(|tried| tried.outcome != Some(TrialOutcome::Rejected)).count();
        let point = if counted < FIRST || measured < 2 {
            self.furthest(space, history, &region, &mut rng)
        } else {
            let ranks = Ranks::of(history);
            let strategy = self.turn(&ranks, &mut rng);
            let point = self.choose(strategy, space, history, &region, &ranks, &mut rng);
            if point.is_some() {
                self.chosen.insert(history.tried().len(), strategy);
            }
            point
        };
        let point = point.or_else(|| region.fresh(space, history, &mut rng));
        self.region = Some(region);
        point
    }
}

/// Number of points that share a prediction.
fn shared(length: usize) -> usize {
    (length / OWN).pow(2).clamp(1, SHARED)
}

impl Ranks {
    fn of(history: &History) -> Self {
        let (mut measured, mut values, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (place, tried) in history.tried().iter().enumerate() {
            match tried.outcome.as_ref().map(TrialOutcome::values) {
                Some(Some(objectives)) => {
                    measured.push(place);
                    values.push(objectives);
                }
                Some(None) => failed.push(place),
                None => {}
            }
        }
        let best = dominance::ranking(&values).into_iter().map(|at| measured[at]).collect();
        Self { length: history.tried().len(), best, failed }
    }

    /// Normal quantiles of the ranks by index in the history, smaller is better. The shape of the best counts, not the
    /// unit or the slowest point. Failed points are worst, and points in flight are in the middle.
    fn scores(&self) -> Vec<f64> {
        let known = (self.best.len() + self.failed.len()).max(1) as f64;
        let normal = Normal::standard();
        let worst = (self.best.len() as f64 + known) / 2.0 / known;
        let failed = normal.inverse_cdf(worst.min(1.0 - 0.25 / known));
        let mut scores = vec![0.0; self.length];
        self.failed.iter().for_each(|place| scores[*place] = failed);
        for (rank, place) in self.best.iter().enumerate() {
            scores[*place] = normal.inverse_cdf((rank as f64 + 0.5) / known);
        }
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / scores.len() as f64;
        let deviation = variance.sqrt().max(1e-9);
        scores.iter_mut().for_each(|score| *score = (*score - mean) / deviation);
        scores
    }
}

/// The logarithm of the expected improvement over `best` under a normal distribution.
fn log_improvement(best: f64, (mean, deviation): (f64, f64)) -> f64 {
    let normal = Normal::standard();
    let below = (best - mean) / deviation;
    let expected = below * normal.cdf(below) + normal.pdf(below);
    // Far out, rounding destroys the expectation; its leading term has the same order.
    let factor =
        if below > -5.0 && expected > 0.0 { expected.ln() } else { normal.ln_pdf(below) - 2.0 * below.abs().ln() };
    match factor.partial_cmp(&f64::NEG_INFINITY) {
        Some(Ordering::Greater) => factor + deviation.ln(),
        _ => f64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::tests::Given;
    use crate::space::{Domain, Parameter};

    #[test]
    fn a_pool_serves_while_its_leaders_do() {
        let number = Domain::Integer { low: 1, high: 64, step: 1, log: false };
        let space = Given(["x", "y"].map(|name| Parameter::new(name, number.clone())).into());
        let (mut auto, region, mut rng) = (Auto::new(1), SearchRegion::of(&space), generator(1, 0));
        let mut history = History::default();
        for time in 0..2 * FIRST {
            let point = auto.ask(&space, &history).unwrap();
            history.add(point, Some(TrialOutcome::Measured(vec![1.0 + time as f64])));
        }
        // Asks for a point with this outcome, and returns the history's length at which the pool was made.
        let mut made_after = |time: f64| {
            let point = auto.ask(&space, &history).unwrap();
            history.add(point, Some(TrialOutcome::Measured(vec![time])));
            auto.codes.push(auto.code(&space, &history.tried().last().unwrap().point));
            let proposed = auto.by_model(&space, &history, &region, &Ranks::of(&history), &mut rng).unwrap();
            assert!(!history.has(&proposed));
            auto.pool.until - POOLED
        };
        let made = made_after(0.5);
        assert_eq!(made, 2 * FIRST + 1, "there is a new leader");
        for _ in 1..POOLED {
            assert_eq!(made_after(1e3), made, "the leaders are the same");
        }
        assert_eq!(made_after(1e3), made + POOLED, "it has served its time");
        assert_eq!(made_after(0.25), made + POOLED + 1, "there is a new leader");
    }
}

//! A prior from the results of other sessions, for any sampler.
//!
//! It tries the best points of other sessions in turns with the sampler's own. Other sessions had another launch,
//! kernel or device and may mislead, so the search measures the worth of their points: the chance that one of them is
//! better than one of the sampler's own (the statistic of Mann and Whitney). They keep getting turns as long as that
//! chance is above one half; the first few points are tried in any case.

use std::collections::HashMap;

use rand::RngExt;

use super::random::generator;
use super::region::SearchRegion;
use super::{Ahead, History, Sampler, TrialOutcome, variation};
use crate::space::{self, Point, SearchSpace};

/// Points of each session that are tried in any case.
const TRUSTED: usize = 3;
/// Points of a session that may be tried: the best 1/`SHARE`, but at least `FEWEST`.
const FEWEST: usize = 10;
const SHARE: usize = 10;
/// Largest share of the turns.
const MOST: f64 = 0.5;
/// Draws for the parameters that a session's point leaves out.
const DRAWS: usize = 50;

/// A sampler that begins with the results of other sessions.
pub struct Prior {
    own: Box<dyn Sampler>,
    seed: u64,
    /// Points by session, best first.
    sessions: Vec<Vec<Point>>,
    /// Index of the next point of each session.
    next: Vec<usize>,
    region: Option<SearchRegion>,
    /// The session from which a point was taken.
    taken: HashMap<Point, usize>,
    turns: usize,
}

impl Prior {
    /// `sessions` contain points with their first objective, of which less is better.
    pub fn new(own: Box<dyn Sampler>, seed: u64, sessions: Vec<Vec<(Point, f64)>>) -> Self {
        let ordered = |mut session: Vec<(Point, f64)>| {
            session.sort_by(|one, other| one.1.total_cmp(&other.1));
            session.truncate((session.len() / SHARE).max(FEWEST));
            session.into_iter().map(|(point, _)| point).collect()
        };
        let sessions: Vec<Vec<Point>> = sessions.into_iter().map(ordered).collect();
        let next = vec![0; sessions.len()];
        Self { own, seed, sessions, next, region: None, taken: HashMap::new(), turns: 0 }
    }

    /// An estimate of the chance that a point of this session is better than one of the sampler's own.
    fn worth(&self, session: usize, history: &History) -> f64 {
        let value = |outcome: &Option<TrialOutcome>| match outcome {
            Some(TrialOutcome::Measured(values)) => values.first().copied(),
            Some(TrialOutcome::Failed(_)) => Some(f64::INFINITY),
            Some(TrialOutcome::Rejected) | None => None,
        };
        let (mut theirs, mut own) = (Vec::new(), Vec::new());
        for tried in history.tried() {
            if let Some(value) = value(&tried.outcome) {
                match self.taken.get(&tried.point) {
                    None => own.push(value),
                    Some(from) if *from == session => theirs.push(value),
                    Some(_) => {}
                }
            }
        }
        if theirs.is_empty() || own.is_empty() {
            return 0.5;
        }
        let wins = |theirs: f64, own: f64| if theirs == own { 0.5 } else { f64::from(u8::from(theirs < own)) };
        let pairs = theirs.iter().flat_map(|theirs| own.iter().map(move |own| (*theirs, *own)));
        pairs.map(|(theirs, own)| wins(theirs, own)).sum::<f64>() / (theirs.len() * own.len()) as f64
    }

    /// The next new point of a session that fits this space.
    fn take(
        &mut self,
        session: usize,
        space: &dyn SearchSpace,
        region: &SearchRegion,
        history: &History,
    ) -> Option<Point> {
        while let Some(point) = self.sessions[session].get(self.next[session]).cloned() {
            self.next[session] += 1;
            let known: Point = point.into_iter().filter(|(name, value)| space::knows(space, name, value)).collect();
            if known.is_empty() {
                continue;
            }
            let mut rng = generator(self.seed ^ session as u64, self.next[session]);
            let drawn = (0..DRAWS).map(|_| variation::completed(space, known.clone(), &mut rng));
            let mut fitting = drawn.filter(|point| region.holds(point) && !history.has(point));
            if let Some(point) = fitting.next() {
                return Some(point);
            }
        }
        None
    }
}

impl Sampler for Prior {
    fn ask(&mut self, space: &dyn SearchSpace, history: &History) -> Option<Point> {
        self.turns += 1;
        let region = self.region.take().unwrap_or_else(|| SearchRegion::of(space));
        let mut rng = generator(!self.seed, history.tried().len());
        // The most promising session that has points left.
        let left = (0..self.sessions.len()).filter(|session| self.next[*session] < self.sessions[*session].len());
        let worth = |session: usize| (session, self.worth(session, history), self.next[session] < TRUSTED);
        let best = left.map(worth).max_by(|one, other| one.2.cmp(&other.2).then(one.1.total_cmp(&other.1)));
        let point = best.and_then(|(session, worth, is_trusted)| {
            // The first point is another session's best. Turns then alternate, to have points for comparison.
            let has_turn = match is_trusted {
                true => self.turns % 2 == 1,
                false => rng.random::<f64>() < MOST * (2.0 * worth - 1.0),
            };
            let point = has_turn.then(|| self.take(session, space, &region, history)).flatten()?;
            self.taken.insert(point.clone(), session);
            Some(point)
        });
        self.region = Some(region);
        point.or_else(|| self.own.ask(space, history))
    }

    fn ahead(&self, history: &History) -> Ahead {
        self.own.ahead(history)
    }

    fn tell(&mut self, point: &Point, outcome: &TrialOutcome) {
        self.own.tell(point, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Random;
    use crate::sampler::tests::Given;
    use crate::space::{Domain, Parameter};

    fn cost(point: &Point) -> f64 {
        let of = |name: &str| (point[name].as_f64().unwrap() - 900.0).abs();
        1.0 + of("x") + of("y")
    }

    /// The best of this many points, and how many came from other sessions.
    fn search(sessions: Vec<Vec<(Point, f64)>>, seed: u64, trials: usize) -> (f64, usize) {
        let integer = |name: &str| Parameter::new(name, Domain::Integer { low: 0, high: 1000, step: 1, log: false });
        let space = Given(["x", "y"].map(integer).into());
        let mut prior = Prior::new(Box::new(Random::new(seed)), seed, sessions);
        let mut history = History::default();
        for _ in 0..trials {
            let point = prior.ask(&space, &history).unwrap();
            let outcome = TrialOutcome::Measured(vec![cost(&point)]);
            prior.tell(&point, &outcome);
            history.add(point, Some(outcome));
        }
        let costs = history.tried().iter().map(|tried| cost(&tried.point));
        (costs.fold(f64::INFINITY, f64::min), prior.taken.len())
    }

    fn session(good: i64) -> Vec<(Point, f64)> {
        let at = |step: i64| [("x".to_owned(), (good + step).into()), ("y".to_owned(), (good - step).into())];
        (0..60).map(|step| (Point::from(at(step)), 10.0 + step as f64)).collect()
    }

    #[test]
    fn what_others_found_is_where_a_search_begins() {
        let (best, taken) = search(vec![session(890)], 1, 4);
        assert!(best <= 21.0 && taken == 2, "{best} with {taken} of another session");
        // All points that may be taken, because they are better than random ones.
        assert!(search(vec![session(890)], 1, 100).1 >= FEWEST);
    }

    #[test]
    fn what_misleads_costs_a_few_trials() {
        let misled: Vec<usize> = (0..20).map(|seed| search(vec![session(100)], seed, 100).1).collect();
        assert!(misled.iter().all(|taken| (TRUSTED..=TRUSTED + 1).contains(taken)), "{misled:?}");
        // The search follows the better of two sessions.
        let (best, _) = search(vec![session(100), session(899)], 3, 12);
        assert!(best <= 3.0, "{best}");
    }

    #[test]
    fn points_of_other_spaces_are_completed_or_left_out() {
        let foreign = vec![(Point::from([("z".to_owned(), 3.into())]), 1.0)];
        let half = vec![(Point::from([("x".to_owned(), 900.into()), ("z".to_owned(), 3.into())]), 1.0)];
        let (_, taken) = search(vec![foreign, half], 5, 8);
        assert_eq!(taken, 1);
    }
}

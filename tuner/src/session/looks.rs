//! Looks: further visits of the best candidates, before some of them become finalists.
//!
//! Runs of one visit share the machine's state at that time, so more runs do not make up for a bad moment. The session
//! therefore visits candidates again later, after all others had their turn: those that are among the best, and those
//! that may be if a disturbance slowed them down. It estimates the spread between visits of one candidate from all
//! visits together. On a quiet device a few looks show that the order stands; on a busy one, every candidate may be
//! visited several times.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mneme_model::configuration::Configuration;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::confirm::AGAIN;
use super::{Session, SessionError, Stop};
use crate::options::RunsKind;
use crate::results::{Look, Trial};
use crate::sequential::LONG;
use crate::server::Runs;

/// Measured runs of a visit, and warm-up runs before them.
const RUNS: (u32, u32) = (3, 1);
/// Limit on candidates of the second pass. The first pass has twice as many candidates as there are finalists, and
/// shows the spread between visits. Each later pass keeps the share `KEPT` of the previous one.
const WIDEST: usize = 128;
const KEPT: f64 = 0.7;
/// Probability that a candidate as fast as the last finalist gets no further look.
const ERROR: f64 = 0.05;
/// A candidate must be faster than the last finalist by this share to be worth a look.
const GAIN: f64 = 0.03;
/// A session spends 1/`SHARE` of its time on looks. A short session spends up to twice its time so far, at most
/// `SHORT`.
const SHARE: u32 = 4;
const SHORT: Duration = Duration::from_secs(10);

/// The results of visits.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// Logarithms of metrics, by trial.
    visits: BTreeMap<u64, Vec<f64>>,
    /// Passes so far.
    passes: i32,
}

impl Looks {
    /// Notes a visit.
    fn note(&mut self, trial: u64, metric: f64) {
        self.visits.entry(trial).or_default().push(metric.ln());
    }

    /// The mean logarithm of a trial's metric over all visits; `None` if the trial is not a candidate.
    pub fn estimate(&self, trial: u64) -> Option<f64> {
        self.visits.get(&trial).map(|visits| mean(visits))
    }

    /// The candidates with several visits.
    pub fn summary(&self) -> BTreeMap<u64, Look> {
        let of = |visits: &Vec<f64>| Look { visits: visits.len() as u64, mean: mean(visits).exp() };
        let several = self.visits.iter().filter(|(_, visits)| visits.len() > 1);
        several.map(|(trial, visits)| (*trial, of(visits))).collect()
    }

    /// The spread between visits of one candidate, times the quantile of Student's t for the number of visits.
    fn noise(&self) -> Option<f64> {
        let squares = |visits: &Vec<f64>| visits.iter().map(|visit| (visit - mean(visits)).powi(2)).sum::<f64>();
        let degrees: usize = self.visits.values().map(|visits| visits.len() - 1).sum();
        let student = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
        Some(
            (self.visits.values().map(squares).sum::<f64>() / degrees as f64).sqrt() * student.inverse_cdf(1.0 - ERROR),
        )
    }

    /// The trials of the next pass. They are compared with the last of `finalists`.
    fn next(&mut self, finalists: usize) -> Vec<u64> {
        let mut ranked: Vec<(u64, f64, usize)> =
            self.visits.iter().map(|(trial, visits)| (*trial, mean(visits), visits.len())).collect();
        ranked.sort_by(|one, other| one.1.total_cmp(&other.1));
        let widest = ranked.len().min(WIDEST) as f64 * KEPT.powi(self.passes - 1);
        let limit = if self.passes == 0 { 2 * finalists } else { widest as usize };
        // If all candidates become finalists, looks cannot change the choice.
        if finalists == 0 || limit <= finalists || ranked.len() <= finalists {
            return Vec::new();
        }
        self.passes += 1;
        ranked.truncate(limit);
        let (best, others) = ranked.split_at(finalists);
        let bound = best[finalists - 1].1 - GAIN;
        let noise = self.noise();
        let may_be_better =
            |estimate: f64, visits: usize| noise.is_none_or(|noise| estimate - noise / (visits as f64).sqrt() < bound);
        let others: Vec<u64> = others.iter().filter(|it| may_be_better(it.1, it.2)).map(|it| it.0).collect();
        // A finalist with a single visit may have been lucky.
        let best = best.iter().filter(|(.., visits)| *visits < 2 || !others.is_empty());
        best.map(|(trial, ..)| *trial).chain(others.iter().copied()).collect()
    }
}

fn mean(visits: &[f64]) -> f64 {
    visits.iter().sum::<f64>() / visits.len() as f64
}

impl Session {
    /// Visits candidates again until the best ones are clear or the time for looks is up.
    pub(super) fn look_again(&mut self) -> Result<(), SessionError> {
        let most = self.settings.confirmation.finalists;
        for trial in self.candidates() {
            self.standings.looks.note(trial.trial, trial.metric.unwrap_or(f64::INFINITY));
        }
        let spent = self.start.elapsed();
        let end = Instant::now() + (spent / SHARE).max((2 * spent).min(SHORT));
        let mut rng = ChaCha8Rng::seed_from_u64(self.settings.search.seed);
        self.progress.pause();
        loop {
            let mut next = self.standings.looks.next(most);
            // Consecutive visits share disturbances, so the order changes with every pass.
            next.shuffle(&mut rng);
            if next.is_empty() {
                return Ok(());
            }
            for trial in next {
                if Instant::now() >= end || self.time_is_up().is_some() {
                    return Ok(());
                }
                self.look_at(trial)?;
            }
        }
    }

    /// Candidates with different code or launch, if times decide and the user leaves the number of runs to the session.
    /// Empty for long kernels: a run averages over short disturbances.
    fn candidates(&self) -> Vec<Trial> {
        if self.stop != Stop::Complete || self.settings.replay.runs != RunsKind::Needed || self.finalists().is_none() {
            return Vec::new();
        }
        let candidates = self.standings.finalists(&self.standings.ranked(self.proposals.space()), usize::MAX);
        // The fastest one decides whether kernels are long: on a busy machine, any kernel may take long once.
        let fastest = candidates.iter().filter_map(|it| it.metric).fold(self.standings.baseline_metric, f64::min);
        if fastest >= LONG as f64 { Vec::new() } else { candidates }
    }

    fn look_at(&mut self, number: u64) -> Result<(), SessionError> {
        let trial = self.standings.trial(number).expect("a candidate is ranked").clone();
        let configurations: Vec<Configuration> = match trial.instances.is_empty() {
            true => vec![trial.config],
            false => trial.instances.into_iter().map(|instance| instance.config).collect(),
        };
        let device = self.evaluator.greeting().devices.first().copied();
        let (iterations, warmup) = RUNS;
        let runs = Runs { iterations, warmup, fresh: true, device, proven: true, ..Runs::default() };
        let results = self.evaluator.run(configurations.clone(), runs)?;
        match self.criteria.condense(&results) {
            Some(metric) => {
                self.records.log(&format!("[{number}] looked at again: {metric} ns"));
                self.standings.looks.note(number, metric);
                self.standings.summary.num_looks += 1;
            }
            None => {
                self.standings.looks.visits.remove(&number);
                self.refute_again(number, &configurations, &results, AGAIN);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    /// Simulates a session of 100 candidates, of which number 49 takes two thirds of the others' time. Returns its
    /// finalists and the number of looks. `slower` gives the slowdown of the next visit.
    fn finalists(rng: &mut ChaCha8Rng, mut slower: impl FnMut(&mut ChaCha8Rng) -> f64) -> (Vec<u64>, usize) {
        let mut looks = Looks::default();
        let time = |trial: u64| if trial == 49 { 2e6 } else { 3e6 };
        (0..100).for_each(|trial| looks.note(trial, time(trial) * slower(rng)));
        let mut count = 0;
        loop {
            let mut next = looks.next(3);
            next.shuffle(rng);
            if next.is_empty() {
                break;
            }
            count += next.len();
            next.into_iter().for_each(|trial| looks.note(trial, time(trial) * slower(rng)));
        }
        let mut ranked: Vec<u64> = looks.visits.keys().copied().collect();
        ranked.sort_by(|one, other| looks.estimate(*one).unwrap().total_cmp(&looks.estimate(*other).unwrap()));
        (ranked[..3].to_vec(), count)
    }

    #[test]
    fn a_busy_machine_does_not_hide_the_best() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut found = 0;
        for _ in 0..100 {
            // Other programs use the machine now and then; six consecutive visits see about the same load.
            let (mut visits, mut level) = (0, 1.0);
            let (best, _) = finalists(&mut rng, |rng| {
                if visits % 6 == 0 {
                    level = [0.6, 1.0, 1.0, 1.0, 1.0, 1.0, 1.2, 1.2, 1.6, 2.0][rng.random_range(0..10)];
                }
                visits += 1;
                level * (1.0 + 0.1 * rng.random::<f64>())
            });
            found += usize::from(best.contains(&49));
        }
        // Without looks, the session finds it in 25 of 100 cases.
        assert!(found >= 80, "{found} of 100");
    }

    #[test]
    fn a_quiet_device_needs_few_looks() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for _ in 0..20 {
            let (best, looks) = finalists(&mut rng, |rng| 1.0 + 0.01 * rng.random::<f64>());
            assert!(best[0] == 49 && looks <= 20, "{best:?} after {looks}");
        }
    }

    #[test]
    fn those_who_are_finalists_anyway_are_not_looked_at() {
        let mut looks = Looks::default();
        (0..3).for_each(|trial| looks.note(trial, 1e6));
        assert!(looks.next(3).is_empty() && looks.next(0).is_empty());
        looks.note(3, 1e6);
        assert_eq!(looks.next(3).len(), 4);
    }
}

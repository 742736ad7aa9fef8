//! The rate at which a configuration fails, and the runs needed to show that another one does not.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::criterion::Criterion;
use super::experiments::{Experiment, ExperimentOutcome, RunExperiments};
use super::search::Judgement;
use crate::error::Fatal;

/// Runs that show whether a configuration fails every time, and the fewest runs in total if it does not.
const FIRST: u32 = 16;
const ALL: u32 = 64;
/// Runs per batch, and the time limit for all of them.
const BATCH: usize = 8;
const LONG: Duration = Duration::from_secs(20);
/// The accepted probability that a configuration with the observed failure rate passes for a good one.
const MISSED: f64 = 1e-4;
/// The most runs of one candidate.
pub const MOST: u32 = 400;

/// Independent runs of a configuration, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailureRate {
    pub failed: u32,
    pub runs: u32,
}

impl FailureRate {
    /// Measures how often an experiment fails. Also returns the outcome of a failed run.
    pub fn of(
        runner: &mut impl RunExperiments,
        criterion: &Criterion,
        experiment: &Experiment,
    ) -> Result<(Self, Option<ExperimentOutcome>), Fatal> {
        let single = Experiment { runs: 1, warmup: 0, fresh: true, ..experiment.clone() };
        let mut rate = Self::default();
        let (mut example, begin) = (None, Instant::now());
        while rate.runs < if rate.is_certain() { FIRST } else { ALL } && begin.elapsed() < LONG {
            for seen in runner.observe(vec![single.clone(); BATCH])? {
                rate.runs += 1;
                if criterion.judge(&seen) == Judgement::Bad {
                    rate.failed += 1;
                    example.get_or_insert(seen);
                }
            }
        }
        Ok((rate, example))
    }

    /// Whether every run failed.
    pub fn is_certain(self) -> bool {
        self.failed == self.runs
    }

    /// The number of runs in which a configuration with this rate almost certainly fails. `None` if it exceeds `most`.
    pub fn needed(self, usual: u32, most: u32) -> Option<u32> {
        if self.is_certain() {
            return Some(usual);
        }
        let needed = (MISSED.ln() / (1.0 - self.least()).ln()).ceil();
        (needed <= f64::from(most)).then_some((needed as u32).max(usual))
    }

    /// The lowest plausible rate (Wilson's bound at two standard deviations).
    fn least(self) -> f64 {
        let (runs, rate) = (f64::from(self.runs), f64::from(self.failed) / f64::from(self.runs.max(1)));
        let (square, half) = (4.0 / runs, 2.0 / runs);
        (rate + half - (square * rate * (1.0 - rate) + half * half).sqrt()) / (1.0 + square)
    }
}

impl std::fmt::Display for FailureRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} runs", self.failed, self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_that_fail_seldom_take_more_runs() {
        let needed = |failed, runs| FailureRate { failed, runs }.needed(3, MOST);
        assert_eq!(needed(16, 16), Some(3));
        let half = needed(32, 64).unwrap();
        let tenth = needed(6, 64).unwrap();
        assert!((10..40).contains(&half) && (100..=MOST).contains(&tenth), "{half} {tenth}");
        assert_eq!(needed(1, 64), None);
        assert_eq!(FailureRate { failed: 32, runs: 64 }.needed(3, 5), None);
    }
}

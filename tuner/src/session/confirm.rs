//! Confirmation: measures the best few again before one of them is reported.
//!
//! Finalists take turns with the baseline, which is measured again with them.

use std::collections::BTreeMap;
use std::time::Instant;

use mneme_model::configuration::Configuration;
use mneme_model::result::{ReplayResult, ReplayStatus};

use super::criteria::spokesman;
use super::{Session, SessionError, Stop};
use crate::confirm::{self, Confirmation, FirstRunGap, RoundSettings};
use crate::failure;
use crate::results::{InstanceTrial, Trial};
use crate::sequential::{EXPENSIVE, SequentialTest};
use crate::server::Runs;
use crate::statistics::median;

/// Candidates that take so many times as long as the best one do not win, even if measurements are noisy.
const CLEARLY_SLOWER: f64 = 1.15;

/// When finalists are measured again; the end of a sentence.
pub(super) const AGAIN: &str = "when it was measured again";

impl Session {
    /// Whether this session confirms its winners. Rounds can only confirm times, and `--finalists 0` turns confirmation
    /// off.
    pub(super) fn confirms(&self) -> bool {
        let by_time = !self.evaluator.is_simulated() && self.criteria.objectives.is_time();
        self.settings.confirmation.finalists > 0 && by_time
    }

    /// The candidates to measure again; `None` if the session confirms nothing or has no candidates.
    pub(super) fn finalists(&self) -> Option<Vec<Trial>> {
        let most = self.settings.confirmation.finalists;
        let ended = self.stop == Stop::Failure || self.is_baseline_only();
        let ranked = self.standings.ranked(self.proposals.space());
        if ranked.is_empty() || ended || !self.confirms() {
            return None;
        }
        self.standings.baseline.as_ref().map(|_| promising(self.standings.finalists(&ranked, most)))
    }

    /// Compares the finalists with the baseline. Refutes a finalist as soon as it does not verify in a round, even if
    /// the rounds then end early.
    pub(super) fn confirm(&mut self, finalists: &[Trial]) -> Result<Option<Confirmation>, SessionError> {
        let Some(baseline) = self.standings.baseline.clone() else { return Ok(None) };
        let configurations: Vec<Configuration> = finalists.iter().map(|trial| trial.config.clone()).collect();
        self.progress.pause();
        self.progress.say("Measuring the best again, in turns with the baseline");
        let end = Instant::now() + self.settings.confirmation.time;
        let mut settings =
            RoundSettings { end: Some(end), seed: self.settings.search.seed, ..RoundSettings::default() };
        // Times from two devices compare less well than times from one, even if the devices are of one kind.
        let device = self.evaluator.greeting().devices.first().copied();
        let fastest = finalists.iter().filter_map(|trial| trial.metric).fold(self.standings.baseline_metric, f64::min);
        let is_warm = self.test.as_ref().is_some_and(SequentialTest::is_warm_at_once);
        let (iterations, warmup) = settings.fit(fastest, is_warm);
        // Trials have proved the configurations.
        let runs = Runs { iterations, warmup, fresh: true, device, proven: true, ..Runs::default() };
        let mut first_runs = FirstRuns::default();
        let measure = |order: &[&Configuration]| -> Result<Vec<Option<Vec<u64>>>, SessionError> {
            let mut found = Vec::new();
            for configuration in order {
                let finalist = finalists.iter().find(|trial| trial.config == **configuration);
                // The configurations that were replayed: a Python space may ground the same point differently another
                // time.
                let of_instances = match finalist {
                    None => of_instances(&baseline.config, &baseline.instances),
                    Some(trial) => of_instances(&trial.config, &trial.instances),
                };
                let results = self.evaluator.run(of_instances.clone(), runs.clone())?;
                let times = self.criteria.times(&results);
                if let Some(result) = results.first().filter(|_| times.is_some()) {
                    first_runs.note(finalist.map(|trial| trial.trial), result);
                }
                if let (None, Some(trial)) = (&times, finalist) {
                    self.refute_again(trial.trial, &of_instances, &results, AGAIN);
                }
                found.push(times);
            }
            Ok(found)
        };
        let mut confirmation = confirm::confirm(&baseline.config, &configurations, &settings, measure)?;
        confirmation.gpu_id = device;
        for finalist in &mut confirmation.finalists {
            finalist.trial = finalists[finalist.place].trial;
            finalist.first_run_gap = first_runs.gap(finalist.trial);
        }
        self.records.log(&confirmation.sentence());
        Ok(Some(confirmation))
    }

    /// Refutes a trial that failed a later verification; `when` says in which runs.
    pub(super) fn refute_again(
        &mut self,
        trial: u64,
        configurations: &[Configuration],
        results: &[ReplayResult],
        when: &str,
    ) {
        let result = spokesman(results);
        if result.status == ReplayStatus::InternalError {
            self.leave_untested(trial, failure::in_full(&result));
            return;
        }
        let reason = failure::in_short(&result);
        self.standings.rounding.note(&result);
        self.refute(trial, format!("it verified at first, but not {when}: {reason}"));
        // Otherwise other sessions would take it for verified.
        self.records.forget(configurations, results);
    }

    /// Refutes a trial that verified before, and tells the user.
    pub(super) fn refute(&mut self, trial: u64, reason: String) {
        self.tell(trial, &reason);
        self.standings.refute(trial, reason, false);
    }

    /// Marks a trial that could not be measured again. It cannot win in this session, but may in the next.
    pub(super) fn leave_untested(&mut self, trial: u64, reason: String) {
        let sentence = format!("it verified, but could not be measured again: {reason}");
        if !self.standings.summary.untested.contains(&trial) {
            self.tell(trial, &sentence);
        }
        self.standings.refute(trial, sentence, true);
        self.standings.untried.get_or_insert(reason);
    }

    fn tell(&mut self, trial: u64, reason: &str) {
        let sentence = format!("trial {trial}: {reason}");
        self.records.log(&sentence);
        self.progress.remark(&sentence);
    }
}

/// The finalists, best first, without those that rounds would waste much time on. They come back if all others are
/// refuted.
fn promising(mut finalists: Vec<Trial>) -> Vec<Trial> {
    if let Some(best) = finalists.first().and_then(|trial| trial.metric).filter(|best| *best >= EXPENSIVE) {
        finalists.retain(|trial| trial.metric.is_some_and(|metric| metric < CLEARLY_SLOWER * best));
    }
    finalists
}

/// The configurations of all instances.
pub(super) fn of_instances(only: &Configuration, instances: &[InstanceTrial]) -> Vec<Configuration> {
    if instances.is_empty() {
        vec![only.clone()]
    } else {
        instances.iter().map(|instance| instance.config.clone()).collect()
    }
}

/// Minimum of loaded modules for a verdict.
const LEAST_MODULES: usize = 5;
/// The largest ratio of first to later runs in honest code, which has cold caches and touches pages for the first time.
const FIRST_RUN_GAP: f64 = 1.5;

/// Ratios of first runs to the median of later runs, by trial. The baseline's key is `None`.
#[derive(Debug, Default)]
pub struct FirstRuns(BTreeMap<Option<u64>, Vec<f64>>);

impl FirstRuns {
    /// Notes the runs of a module.
    pub fn note(&mut self, trial: Option<u64>, result: &ReplayResult) {
        let later: Vec<f64> = result.measured().iter().map(|time| *time as f64).collect();
        let first = result.exec_time.first().filter(|_| result.warmup > 0);
        if let (Some(first), Some(later)) = (first, median(&later).filter(|later| *later > 0.0)) {
            self.0.entry(trial).or_default().push(*first as f64 / later);
        }
    }

    /// The gap of a trial, if three in four of its first runs are slower and the baseline's are not.
    pub fn gap(&self, trial: u64) -> Option<FirstRunGap> {
        let (own, baseline) = (self.0.get(&Some(trial))?, self.0.get(&None)?);
        if own.len().min(baseline.len()) < LEAST_MODULES {
            return None;
        }
        let mut sorted = own.clone();
        sorted.sort_by(f64::total_cmp);
        let (ratio, baseline) = (median(own)?, median(baseline)?);
        (sorted[sorted.len() / 4] > FIRST_RUN_GAP * baseline.max(1.0)).then_some(FirstRunGap { ratio, baseline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(first: u64, later: u64) -> ReplayResult {
        ReplayResult { exec_time: vec![first, later, later, later], warmup: 1, ..ReplayResult::default() }
    }

    #[test]
    fn code_that_is_slow_at_first_is_told_from_cold_code() {
        let mut runs = FirstRuns::default();
        for round in 0..6 {
            runs.note(None, &result(1300, 1000));
            runs.note(Some(1), &result(1400, 1000));
            runs.note(Some(2), &result(4000, 100));
            // Two rounds are disturbed.
            runs.note(Some(3), &result(if round < 2 { 5000 } else { 1000 }, 1000));
            runs.note(Some(4), &ReplayResult { exec_time: vec![4000, 100], ..ReplayResult::default() });
        }
        assert_eq!([1, 3, 4, 5].map(|trial| runs.gap(trial)), [None; 4]);
        assert_eq!(runs.gap(2), Some(FirstRunGap { ratio: 40.0, baseline: 1.3 }));
        let mut few = FirstRuns::default();
        for _ in 1..LEAST_MODULES {
            few.note(None, &result(1, 1));
            few.note(Some(0), &result(9, 1));
        }
        assert_eq!(few.gap(0), None);
    }
}

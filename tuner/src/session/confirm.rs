//! Confirmation: the best few are measured again before one of them is reported.
//!
//! They take turns with the baseline, which is measured again with them.

use std::time::Instant;

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, ReplayStatus};

use super::criteria::spokesman;
use super::first_runs::FirstRuns;
use super::{Session, SessionError, Stop};
use crate::confirm::{self, Confirmation, RoundSettings};
use crate::failure;
use crate::results::{InstanceTrial, Trial};
use crate::sequential::{LONG, SequentialTest};
use crate::server::Runs;

/// Measured runs of each configuration in a round, and runs before them.
const RUNS: (u32, u32) = (5, 1);
/// The same of kernels that take long: the rounds are what is compared, however many runs they have. The warm-up is
/// left out if the session has seen that first runs are as fast as others.
const LONG_RUNS: (u32, u32) = (1, 1);
const WARM_RUNS: (u32, u32) = (1, 0);
/// Rounds of theirs after which the data are looked at first: a great difference is seen then, and a round costs much.
const LONG_LOOK: usize = 3;

/// When finalists are run for their times.
pub(super) const AGAIN: &str = "when it was measured again";

impl Session {
    /// Whether winners of this session have to be confirmed. Rounds of times confirm winners by time only, and
    /// `--finalists 0` asks for none.
    pub(super) fn confirms(&self) -> bool {
        let by_time = !self.evaluator.is_simulated() && self.criteria.objectives.is_time();
        self.settings.confirmation.finalists > 0 && by_time
    }

    /// The best candidates, as many as are measured again. `None` if nothing is to be confirmed, or nothing is there to
    /// compare.
    pub(super) fn finalists(&self) -> Option<Vec<Trial>> {
        let most = self.settings.confirmation.finalists;
        let ended = self.stop == Stop::Failure || self.is_baseline_only();
        let ranked = self.standings.ranked(self.proposals.space());
        if ranked.is_empty() || ended || !self.confirms() {
            return None;
        }
        self.standings.baseline.as_ref().map(|_| self.standings.finalists(&ranked, most))
    }

    /// Compares the finalists with the baseline anew. Who does not verify in a round is refuted at once, whatever ends
    /// the rounds.
    pub(super) fn confirm(&mut self, finalists: &[Trial]) -> Result<Option<Confirmation>, SessionError> {
        let Some(baseline) = self.standings.baseline.clone() else { return Ok(None) };
        let configurations: Vec<Configuration> = finalists.iter().map(|trial| trial.config.clone()).collect();
        self.progress.pause();
        let end = Instant::now() + self.settings.confirmation.time;
        let mut settings =
            RoundSettings { end: Some(end), seed: self.settings.search.seed, ..RoundSettings::default() };
        // Times of two devices, even of one kind, do not compare as well as those of one.
        let device = self.evaluator.greeting().devices.first().copied();
        let fastest = finalists.iter().filter_map(|trial| trial.metric).fold(self.standings.baseline_metric, f64::min);
        let is_long = fastest >= LONG as f64;
        let is_warm = self.test.as_ref().is_some_and(SequentialTest::is_warm_at_once);
        let (iterations, warmup) = match is_long {
            true if is_warm => WARM_RUNS,
            true => LONG_RUNS,
            false => RUNS,
        };
        if is_long {
            settings.looks.insert(0, LONG_LOOK);
        }
        let runs = Runs { iterations, warmup, fresh: true, device, ..Runs::default() };
        let mut first_runs = FirstRuns::default();
        let measure = |order: &[&Configuration]| -> Result<Vec<Option<Vec<u64>>>, SessionError> {
            let mut found = Vec::new();
            for configuration in order {
                let finalist = finalists.iter().find(|trial| trial.config == **configuration);
                // What was replayed, whatever a space makes of its point another time.
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

    /// Refutes a trial that did not verify later; `when` says in which runs.
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
        self.refute(trial, format!("it verified, and did not {when}: {reason}"));
        // Other sessions are not to take it for verified.
        self.records.forget(configurations, results);
    }

    /// A trial that verified is none, and the user is told.
    pub(super) fn refute(&mut self, trial: u64, reason: String) {
        self.tell(trial, &reason);
        self.standings.refute(trial, reason, false);
    }

    /// A trial that verified cannot be measured again here: it wins nothing in this session, and may in the next.
    pub(super) fn leave_untested(&mut self, trial: u64, reason: String) {
        let sentence = format!("it verified, and could not be measured again: {reason}");
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

/// The configurations of all instances.
pub(super) fn of_instances(only: &Configuration, instances: &[InstanceTrial]) -> Vec<Configuration> {
    if instances.is_empty() {
        vec![only.clone()]
    } else {
        instances.iter().map(|instance| instance.config.clone()).collect()
    }
}

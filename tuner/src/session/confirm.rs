//! The best few again, in turns with the baseline, before one of them is reported.

use std::time::{Duration, Instant};

use mneme_core::configuration::Configuration;
use mneme_core::result::ReplayResult;

use super::{Session, SessionError, Stop, baseline_results};
use crate::confirm::{self, Confirmation, Settings};
use crate::failure;
use crate::results::{Baseline, Trial};
use crate::server::Runs;

/// Measured runs of each configuration in a round, and runs before them.
const RUNS: (u32, u32) = (5, 1);

impl Session {
    /// Those that are to be measured again: of the best, as many as are wanted. `None` where none are, or there is
    /// nothing to compare.
    pub(super) fn finalists(&self) -> Option<Vec<Trial>> {
        let most = self.plan.options.finalists.unwrap_or(0) as usize;
        let ended = self.stop == Stop::Failure || self.plan.options.baseline_only;
        let ranked = self.ranked();
        // A winner by time is all that rounds of times can confirm.
        if most == 0 || ranked.is_empty() || self.evaluator.is_simulated() || ended || !self.plan.objectives.is_time() {
            return None;
        }
        let baseline = self.baseline_trial.as_ref()?;
        Some(finalists(&ranked, &baseline.config, &baseline_results(baseline)[0], most).into_iter().cloned().collect())
    }

    /// Compares the finalists with the baseline anew. Who does not verify in a round is refuted at once, whatever ends
    /// the rounds.
    pub(super) fn confirm(&mut self, finalists: &[Trial]) -> Result<Option<Confirmation>, SessionError> {
        let Some(baseline) = self.baseline_trial.clone() else { return Ok(None) };
        let configurations: Vec<Configuration> = finalists.iter().map(|trial| trial.config.clone()).collect();
        let base: Vec<Configuration> = if baseline.instances.is_empty() {
            vec![baseline.config.clone()]
        } else {
            baseline.instances.iter().map(|instance| instance.config.clone()).collect()
        };
        self.live.above(|| {});
        let end = Instant::now() + Duration::from_secs_f64(self.plan.options.confirm_time.unwrap_or(20.0));
        let settings = Settings { end: Some(end), seed: self.plan.options.seed.unwrap_or(0), ..Settings::default() };
        // Times of two devices, even of one kind, do not compare as well as those of one.
        let device = self.evaluator.greeting().devices.first().copied();
        let runs = Runs { iterations: RUNS.0, warmup: RUNS.1, fresh: true, device, energy: false };
        let measure = |order: &[&Configuration]| -> Result<Vec<Option<Vec<u64>>>, SessionError> {
            let mut found = Vec::new();
            for configuration in order {
                let finalist = finalists.iter().find(|trial| trial.config == **configuration);
                // What was replayed, whatever a space makes of its point another time.
                let of_instances = match finalist {
                    None => base.clone(),
                    Some(trial) if trial.instances.is_empty() => vec![trial.config.clone()],
                    Some(trial) => trial.instances.iter().map(|instance| instance.config.clone()).collect(),
                };
                let results = self.evaluator.run(of_instances.clone(), runs)?;
                let times = self.together(&results);
                if let (None, Some(trial)) = (&times, finalist) {
                    let reason = failure::in_short(&super::spokesman(&results));
                    self.refute(trial.trial, format!("it verified, and did not when it was measured again: {reason}"));
                    // Other sessions are not to take it for verified.
                    self.forget(&of_instances, &results);
                }
                found.push(times);
            }
            Ok(found)
        };
        let mut confirmation = confirm::confirm(&baseline.config, &configurations, &settings, measure)?;
        confirmation.gpu_id = device;
        for finalist in &mut confirmation.finalists {
            finalist.trial = finalists[finalist.place].trial;
        }
        self.results.log(&confirmation.sentence());
        Ok(Some(confirmation))
    }

    /// Whether a trial has the baseline's code and launch.
    pub(super) fn is_baselines(&self, trial: &Trial) -> bool {
        let same = |baseline: &Baseline| {
            identity(&baseline.config, &baseline_results(baseline)[0], &baseline.config)
                == identity(&trial.config, &trial.result, &baseline.config)
        };
        self.baseline_trial.as_ref().is_some_and(same)
    }

    /// Times of each run over all instances, weighted; `None` unless all verified.
    fn together(&self, results: &[ReplayResult]) -> Option<Vec<u64>> {
        if results.len() < self.plan.instances.len() || results.iter().any(|result| !result.verified) {
            return None;
        }
        let all: f64 = self.plan.instances.iter().map(|instance| instance.weight).sum();
        let runs = results.iter().map(|result| result.measured().len()).min().filter(|runs| *runs > 0)?;
        if results.iter().any(|result| result.measured().contains(&0)) {
            return None;
        }
        let of = |run: usize| -> f64 {
            self.plan
                .instances
                .iter()
                .zip(results)
                .map(|(instance, result)| instance.weight * result.measured()[run] as f64 / all)
                .sum()
        };
        Some((0..runs).map(|run| of(run).round() as u64).collect())
    }
}

/// What a configuration is measured by: equal ones differ by noise alone.
fn identity(config: &Configuration, result: &ReplayResult, baseline: &Configuration) -> impl PartialEq + use<> {
    // Where the device names no code, configurations are told apart by themselves.
    let code = if result.environment.code.is_empty() { config.hash() } else { result.environment.code.clone() };
    (code, config.grid, config.block, config.shared_mem, config.cache == baseline.cache)
}

/// The best trials of different code or launch, none of them the baseline's.
fn finalists<'a>(ranked: &'a [Trial], baseline: &Configuration, result: &ReplayResult, most: usize) -> Vec<&'a Trial> {
    let mut seen = vec![identity(baseline, result, baseline)];
    let mut found = Vec::new();
    for trial in ranked {
        let identity = identity(&trial.config, &trial.result, baseline);
        if found.len() < most && !seen.contains(&identity) {
            seen.push(identity);
            found.push(trial);
        }
    }
    found
}

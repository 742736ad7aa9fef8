//! The best few again, in turns with the baseline, before one of them is reported.

use std::time::{Duration, Instant};

use mneme_core::configuration::Configuration;
use mneme_core::result::ReplayResult;

use super::{Session, SessionError, Stop, baseline_results};
use crate::confirm::{self, Confirmation, Settings};
use crate::results::{Baseline, Trial};
use crate::server::Runs;

/// Measured runs of each configuration in a round, and runs before them.
const RUNS: (u32, u32) = (5, 1);

impl Session {
    /// Compares the best of `ranked` with the baseline anew. `None` where that was not wanted, or nothing could be compared.
    pub(super) fn confirm(&mut self, ranked: &[Trial]) -> Result<Option<Confirmation>, SessionError> {
        let most = self.plan.options.finalists.unwrap_or(0) as usize;
        let ended = self.stop == Stop::Failure || self.plan.options.baseline_only;
        if most == 0 || ranked.is_empty() || self.evaluator.is_simulated() || ended {
            return Ok(None);
        }
        let Some(baseline) = self.baseline_trial.clone() else { return Ok(None) };
        let finalists = finalists(ranked, &baseline.config, &baseline_results(&baseline)[0], most);
        let configurations: Vec<Configuration> = finalists.iter().map(|trial| trial.config.clone()).collect();
        let base: Vec<Configuration> = if baseline.instances.is_empty() {
            vec![baseline.config.clone()]
        } else {
            baseline.instances.iter().map(|instance| instance.config.clone()).collect()
        };
        self.live.above(|| {});
        let end = Instant::now() + Duration::from_secs_f64(self.plan.options.confirm_time.unwrap_or(20.0));
        let settings = Settings { end: Some(end), ..Settings::default() };
        // Times of two devices, even of one kind, do not compare as well as those of one.
        let device = self.evaluator.greeting().devices.first().copied();
        let runs = Runs { iterations: RUNS.0, warmup: RUNS.1, fresh: true, device, energy: false };
        let measure = |order: &[&Configuration]| -> Result<Vec<Option<Vec<u64>>>, SessionError> {
            let mut found = Vec::new();
            for configuration in order {
                let of_instances = match finalists.iter().find(|trial| trial.config == **configuration) {
                    Some(trial) => match self.ground(&trial.params, trial.config.clone()) {
                        Ok(configurations) => configurations,
                        Err(_) => {
                            found.push(None);
                            continue;
                        }
                    },
                    None => base.clone(),
                };
                let results = self.evaluator.run(of_instances, runs)?;
                found.push(self.together(&results));
            }
            Ok(found)
        };
        let mut confirmation = confirm::confirm(&baseline.config, &configurations, &settings, measure)?;
        confirmation.gpu_id = device;
        for finalist in &mut confirmation.finalists {
            finalist.trial = finalists[finalist.place].trial;
        }
        let sentence = confirmation.sentence();
        self.results.log(&sentence);
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
        let of = |run: usize| -> f64 {
            self.plan.instances.iter().zip(results).map(|(instance, result)| instance.weight * result.measured()[run] as f64 / all).sum()
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

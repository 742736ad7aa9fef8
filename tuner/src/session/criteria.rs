//! The measures of a candidate: its metric and its objectives, over all instances that are tuned for.

use mneme_core::configuration::Configuration;
use mneme_core::result::ReplayResult;

use super::TunedInstance;
use crate::metric::Metric;
use crate::objective::{Measurement, ObjectiveError, Objectives};
use crate::results::{Baseline, InstanceTrial, Trial};
use crate::server::Runs;

/// What candidates are measured by.
pub struct Criteria {
    pub instances: Vec<TunedInstance>,
    pub objectives: Objectives,
    pub metric: Metric,
    /// Of each candidate.
    pub runs: Runs,
}

impl Criteria {
    fn weights(&self) -> f64 {
        self.instances.iter().map(|instance| instance.weight).sum()
    }

    /// Whether all instances have a result that verified.
    fn all_verified(&self, results: &[ReplayResult]) -> bool {
        results.len() >= self.instances.len() && results.iter().all(|result| result.verified)
    }

    /// The session's metric, ns: over all instances, each weighing as often as it was launched; `None` unless all
    /// verified.
    pub fn condense(&self, results: &[ReplayResult]) -> Option<f64> {
        if results.len() < self.instances.len() {
            return None;
        }
        let mut sum = 0.0;
        for (instance, result) in self.instances.iter().zip(results) {
            sum += instance.weight * self.metric.of(result.measured()).filter(|_| result.verified)?;
        }
        Some(sum / self.weights())
    }

    /// The objectives, of which smaller is better: over all instances, each weighing as often as it was launched. Empty
    /// unless all verified.
    pub fn costs(
        &self,
        configurations: &[&Configuration],
        results: &[ReplayResult],
        baseline: Option<f64>,
    ) -> Result<Vec<f64>, ObjectiveError> {
        if !self.all_verified(results) {
            return Ok(Vec::new());
        }
        let all = self.weights();
        let mut sums = vec![0.0; self.objectives.names().len()];
        for ((instance, configuration), result) in self.instances.iter().zip(configurations).zip(results) {
            let values = self.objectives.evaluate(&Measurement { result, configuration, baseline })?;
            for (sum, cost) in sums.iter_mut().zip(self.objectives.costs(&values)) {
                *sum += instance.weight * cost / all;
            }
        }
        Ok(sums)
    }

    /// Times of each run over all instances, weighted; `None` unless all verified.
    pub fn times(&self, results: &[ReplayResult]) -> Option<Vec<u64>> {
        if !self.all_verified(results) {
            return None;
        }
        let all = self.weights();
        let runs = results.iter().map(|result| result.measured().len()).min().filter(|runs| *runs > 0)?;
        if results.iter().any(|result| result.measured().contains(&0)) {
            return None;
        }
        let of = |run: usize| -> f64 {
            let measured = self.instances.iter().zip(results);
            measured.map(|(instance, result)| instance.weight * result.measured()[run] as f64 / all).sum()
        };
        Some((0..runs).map(|run| of(run).round() as u64).collect())
    }

    /// Fills in what a trial's results come to, beside a baseline's metric; an objective without a value is an error
    /// that leaves the trial without objectives.
    pub fn judge(&self, trial: &mut Trial, results: &[ReplayResult], baseline: f64) -> Result<(), ObjectiveError> {
        let first = results.iter().find_map(first_run).filter(|_| self.all_verified(results));
        let first = first.map(|first| [ReplayResult { warmup: 0, ..first.clone() }]);
        trial.stopped = trial.stopped.or(first.as_ref().and_then(|first| self.metric.of(first[0].measured())));
        // The search learns from what one that was given up took at first, which is no measurement.
        let results = first.as_ref().map_or(results, |first| first);
        trial.metric = self.condense(results).filter(|_| trial.stopped.is_none());
        trial.speedup = trial.metric.map(|metric| baseline / metric);
        trial.objectives = Vec::new();
        let configurations: Vec<&Configuration> = if trial.instances.is_empty() {
            vec![&trial.config]
        } else {
            trial.instances.iter().map(|instance| &instance.config).collect()
        };
        trial.objectives = self.costs(&configurations, results, Some(baseline))?;
        Ok(())
    }

    /// What is told of each instance, where there are several.
    pub fn by_instance(&self, configurations: &[Configuration], results: &[ReplayResult]) -> Vec<InstanceTrial> {
        if self.instances.len() == 1 {
            return Vec::new();
        }
        let replayed = self.instances.iter().zip(configurations).zip(results);
        replayed
            .map(|((instance, config), result)| InstanceTrial {
                record_id: instance.id.clone(),
                config: config.clone(),
                metric: self.metric.of(result.measured()).filter(|_| result.verified),
                result: result.clone(),
            })
            .collect()
    }

    pub fn record_ids(&self) -> Vec<String> {
        self.instances.iter().map(|instance| instance.id.clone()).collect()
    }
}

/// The result that speaks for a candidate: of the first instance that did not verify, else of the first.
pub fn spokesman(results: &[ReplayResult]) -> ReplayResult {
    results.iter().find(|result| !result.verified).or(results.first()).cloned().unwrap_or_default()
}

/// A result that was given up after its first run.
fn first_run(result: &ReplayResult) -> Option<&ReplayResult> {
    Some(result).filter(|result| result.verified && result.measured().is_empty() && result.exec_time.len() == 1)
}

/// The results of a trial, by instance.
pub fn results_of(trial: &Trial) -> Vec<ReplayResult> {
    by_instance(&trial.result, &trial.instances)
}

/// The results of a baseline, by instance.
pub fn baseline_results(baseline: &Baseline) -> Vec<ReplayResult> {
    by_instance(&baseline.result, &baseline.instances)
}

fn by_instance(only: &ReplayResult, instances: &[InstanceTrial]) -> Vec<ReplayResult> {
    if instances.is_empty() {
        vec![only.clone()]
    } else {
        instances.iter().map(|instance| instance.result.clone()).collect()
    }
}

//! Computes a candidate's metric and objectives, over all instances that are tuned for.

use mneme_model::configuration::Configuration;
use mneme_model::result::ReplayResult;
use mneme_model::units;

use super::TunedInstance;
use crate::metric::{Metric, weighted_times};
use crate::objective::{Measurement, ObjectiveError, Objectives};
use crate::results::{Baseline, InstanceTrial, Trial};
use crate::server::Runs;

/// How candidates are measured and judged.
pub struct Criteria {
    pub instances: Vec<TunedInstance>,
    pub objectives: Objectives,
    pub metric: Metric,
    /// Runs of each candidate.
    pub runs: Runs,
}

impl Criteria {
    fn weights(&self) -> f64 {
        self.instances.iter().map(|instance| instance.weight).sum()
    }

    /// Whether every instance has a verified result.
    fn all_verified(&self, results: &[ReplayResult]) -> bool {
        results.len() >= self.instances.len() && results.iter().all(|result| result.verified)
    }

    /// The name of the metric with a value in ns, for a line.
    pub fn timed(&self, metric: f64) -> String {
        format!("{}={}", self.metric.name(), units::time(metric))
    }

    /// The session's metric in ns, averaged over the instances and weighted by their numbers of launches; `None` unless
    /// all verified.
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

    /// The objectives (smaller is better), averaged over the instances and weighted by their numbers of launches. Empty
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

    /// The time of each run, as the weighted mean of all instances; `None` unless all verified.
    pub fn times(&self, results: &[ReplayResult]) -> Option<Vec<u64>> {
        let weights: Vec<f64> = self.instances.iter().map(|instance| instance.weight).collect();
        weighted_times(&weights, results)
    }

    /// Fills in the metric, speedup and objectives of a trial. If an objective has no value, returns the error and
    /// leaves the objectives empty.
    pub fn judge(&self, trial: &mut Trial, results: &[ReplayResult], baseline: f64) -> Result<(), ObjectiveError> {
        let first = results.iter().find_map(first_run).filter(|_| self.all_verified(results));
        let first = first.map(|first| [ReplayResult { warmup: 0, ..first.clone() }]);
        trial.stopped = trial.stopped.or(first.as_ref().and_then(|first| self.metric.of(first[0].measured())));
        // For a trial that was given up, the search learns from the first run, which is not a measurement.
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

    /// The results by instance; empty if there is only one.
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

/// The result that represents a candidate: of the first instance that did not verify, else of the first instance.
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

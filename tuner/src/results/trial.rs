//! The records of a session: its trials, and the summary of them.

use std::collections::{BTreeMap, BTreeSet};

use mneme_core::configuration::Configuration;
use mneme_core::result::{FreshInputs, ReplayResult, ReplayStatus};
use serde::{Deserialize, Serialize};

use crate::confirm::Confirmation;
use crate::space::Point;

/// One evaluated candidate: a line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Counts candidates in the order in which they were chosen.
    pub trial: u64,
    /// Of the configuration for the first instance.
    pub config_hash: String,
    /// The values of the space's parameters.
    #[serde(default)]
    pub params: Point,
    /// For the first instance.
    pub config: Configuration,
    /// The session's metric over the measured runs, ns; of several instances the mean, weighted by how often each was
    /// launched. `None` unless verified and run to its end.
    pub metric: Option<f64>,
    /// Baseline's metric over this one's.
    pub speedup: Option<f64>,
    /// What the sampler was told, of which smaller is better in each; empty unless verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<f64>,
    /// Of the first instance that did not verify, else of the first.
    pub result: ReplayResult,
    /// Where several instances are tuned for: those that were replayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceTrial>,
    /// The result was known from another session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// It was given up after its first runs, of which this is the metric, ns; `result` has those runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<f64>,
    /// It was measured again, because the device was disturbed when its metric was this, ns. The line before stays in
    /// `trials.jsonl`; the last line of a trial counts, also where a session that was resumed has used the number of
    /// one that could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<f64>,
}

/// A candidate on one of several instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceTrial {
    pub record_id: String,
    pub config: Configuration,
    /// ns; `None` unless verified.
    pub metric: Option<f64>,
    pub result: ReplayResult,
}

/// `baseline.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    pub config_hash: String,
    pub config: Configuration,
    /// As a trial's.
    pub metric: Option<f64>,
    pub result: ReplayResult,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceTrial>,
    /// Mangled.
    #[serde(default)]
    pub kernel: String,
    /// The instances that are tuned for.
    #[serde(default)]
    pub record_ids: Vec<String>,
}

/// `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSummary {
    /// "completed", "timeout", "baseline_only", "no_verified_configuration", "stopped_at_failure", "baseline_failed",
    /// "unproven", "interrupted", "invalid_configuration", "not_written" or "internal_error".
    pub status: String,
    /// Trials that were asked for, or the size of a space that is walked; 0 where neither is known.
    pub num_trials_requested: u64,
    pub num_trials_completed: u64,
    pub num_verified: u64,
    pub num_failed_verification: u64,
    /// Memory was as recorded, which shows too little.
    pub num_unproven: u64,
    /// Trials that failed verification with another grid than the recorded one, which followed the block.
    pub num_other_grid: u64,
    pub num_invalid_launch: u64,
    pub num_compile_error: u64,
    pub num_runtime_error: u64,
    pub num_invalid_config: u64,
    pub num_internal_error: u64,
    /// Trials of the session before it was interrupted, and trials whose result another session knew; both are among
    /// the completed.
    pub num_resumed: u64,
    pub num_cached: u64,
    /// Trials that verified and were given up after their first runs.
    pub num_stopped: u64,
    /// Trials that verified, of which an objective has no value: no candidates.
    pub num_without_objective: u64,
    /// Runs of trials, and runs that they did not need of those that they were allowed.
    pub num_runs: u64,
    pub num_runs_saved: u64,
    /// Times that candidates were measured again, later in the session, before finalists were chosen.
    pub num_looks: u64,
    /// Points that the space rejected, that stood for a configuration tried already, and that had a banned block shape;
    /// no trials.
    pub num_rejected: u64,
    pub num_repeated: u64,
    pub num_banned: u64,
    /// The baseline, run again between candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<References>,
    /// ns.
    pub baseline_metric: Option<f64>,
    /// ns.
    pub best_metric: Option<f64>,
    pub best_speedup: Option<f64>,
    /// `None` also where the recorded configuration is the best.
    pub best_trial: Option<u64>,
    /// The best few against the baseline, measured again in turns, and the outcome in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// The fresh inputs that finalists were run on.
    #[serde(skip_serializing_if = "FreshInputs::is_none")]
    pub fresh_inputs: FreshInputs,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// Where the best lies on an edge of the space, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<String>,
    /// Trials that verified, and did not when they were measured again or on an instance of `--verify-all`, and why:
    /// they count as failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refuted: BTreeMap<u64, String>,
    /// Those among them of which nothing is known, because something of Mneme's was missing or broke when they were
    /// measured again. They count as internal errors, and a session that is resumed forgets that they are refuted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub untested: BTreeSet<u64>,
    /// Trials that nothing dominates, where there are several objectives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pareto_front: Vec<u64>,
    /// Instances on which the best was verified beyond those that were tuned for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verified_on: Vec<String>,
    /// Seconds that this run took, of a resumed session the last one.
    pub elapsed_s: f64,
}

/// How the device kept its pace while candidates were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct References {
    pub count: u64,
    /// Those whose time was off by more than noise.
    pub disturbed: u64,
    /// The largest change among them, relative to the baseline's time: above 0 where it was slower.
    pub largest_change: f64,
    /// Why clocks were below their limit then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<String>,
    /// Trials that were measured again, because the device was disturbed the first time.
    pub repeated: u64,
    /// Trials whose measurement stands although the device was disturbed: it was so to the end, or the second time too.
    pub in_doubt: u64,
}

impl SessionSummary {
    /// One that was counted as verified is not, or cannot be told to be.
    pub fn count_refuted(&mut self, is_untested: bool) {
        self.num_verified = self.num_verified.saturating_sub(1);
        *if is_untested { &mut self.num_internal_error } else { &mut self.num_failed_verification } += 1;
    }

    /// Whether nothing is known of any trial that makes sense, as something of Mneme's was missing or broke.
    pub fn could_try_none(&self) -> bool {
        self.num_internal_error > 0 && self.num_internal_error + self.num_invalid_config == self.num_trials_completed
    }

    pub fn count(&mut self, result: &ReplayResult) {
        self.num_trials_completed += 1;
        *match result.status {
            ReplayStatus::Verified => &mut self.num_verified,
            ReplayStatus::FailedVerification => &mut self.num_failed_verification,
            ReplayStatus::Unproven => &mut self.num_unproven,
            ReplayStatus::InvalidConfig => &mut self.num_invalid_config,
            ReplayStatus::CompileError => &mut self.num_compile_error,
            ReplayStatus::InvalidLaunch => &mut self.num_invalid_launch,
            ReplayStatus::RuntimeError | ReplayStatus::Timeout => &mut self.num_runtime_error,
            ReplayStatus::InternalError => &mut self.num_internal_error,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_counted_once() {
        let mut summary = SessionSummary::default();
        let of = |status, executed| ReplayResult { status, executed, ..ReplayResult::default() };
        for (status, executed) in [
            (ReplayStatus::Verified, true),
            (ReplayStatus::FailedVerification, true),
            (ReplayStatus::Unproven, true),
            (ReplayStatus::InvalidConfig, false),
            (ReplayStatus::CompileError, false),
            (ReplayStatus::InvalidLaunch, false),
            (ReplayStatus::RuntimeError, true),
            (ReplayStatus::Timeout, false),
            (ReplayStatus::InternalError, false),
        ] {
            summary.count(&of(status, executed));
        }
        let value = serde_json::to_value(&summary).unwrap();
        assert_eq!(value["num_trials_completed"], 9);
        assert_eq!(value["num_runtime_error"], 2);
        for key in [
            "num_verified",
            "num_failed_verification",
            "num_unproven",
            "num_invalid_launch",
            "num_compile_error",
            "num_invalid_config",
            "num_internal_error",
        ] {
            assert_eq!(value[key], 1, "{key}");
        }
    }
}

//! The records of a session: its trials, baseline and summary.

use std::collections::{BTreeMap, BTreeSet};

use mneme_model::configuration::Configuration;
use mneme_model::result::{FreshInputs, ReplayResult, ReplayStatus};
use serde::{Deserialize, Serialize};

use crate::confirm::Confirmation;
use crate::space::Point;

/// One evaluated candidate: a line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the candidate, in the order of choice.
    pub trial: u64,
    /// Hash of `config`.
    pub config_hash: String,
    /// The values of the space's parameters.
    #[serde(default)]
    pub params: Point,
    /// The configuration for the first instance.
    pub config: Configuration,
    /// The session's metric over the measured runs, ns; for several instances the mean, weighted by numbers of
    /// launches. `None` unless verified and run to the end.
    pub metric: Option<f64>,
    /// The baseline's metric divided by this one.
    pub speedup: Option<f64>,
    /// The costs for the sampler, of which smaller is better; empty unless verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<f64>,
    /// The result of the first instance that did not verify, else of the first instance.
    pub result: ReplayResult,
    /// The instances that were replayed, if the session tunes for several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceTrial>,
    /// Whether the result came from another session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// The metric in ns at which it was given up after its first runs; `result` has those runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<f64>,
    /// The earlier metric in ns, if it was measured again because the device was disturbed. `trials.jsonl` keeps the
    /// earlier line; the last line of a trial counts. The same holds if a resumed session reuses the number of a trial
    /// that could not be tried.
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
    /// As in a trial.
    pub metric: Option<f64>,
    pub result: ReplayResult,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceTrial>,
    /// Mangled name.
    #[serde(default)]
    pub kernel: String,
    /// The instances that the session tunes for.
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
    /// Requested trials, or the size of a space that is tried exhaustively; 0 if unknown.
    pub num_trials_requested: u64,
    pub num_trials_completed: u64,
    pub num_verified: u64,
    pub num_failed_verification: u64,
    /// Memory is as recorded, but that shows too little.
    pub num_unproven: u64,
    /// Trials that failed verification with another grid than the recorded one, because the grid followed the block.
    pub num_other_grid: u64,
    pub num_invalid_launch: u64,
    pub num_compile_error: u64,
    pub num_runtime_error: u64,
    pub num_invalid_config: u64,
    pub num_internal_error: u64,
    /// Trials taken from the resumed session, and trials whose result another session knew. The completed trials
    /// include both.
    pub num_resumed: u64,
    pub num_cached: u64,
    /// Trials that verified and were given up after their first runs.
    pub num_stopped: u64,
    /// Trials that verified but cannot win, because an objective has no value.
    pub num_without_objective: u64,
    /// Runs of trials, and allowed runs that were not needed.
    pub num_runs: u64,
    pub num_runs_saved: u64,
    /// Further visits of candidates before finalists were chosen.
    pub num_looks: u64,
    /// Those candidates, with the mean of all visits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub looks: BTreeMap<u64, Look>,
    /// Points that are not trials: the space rejected them, their configuration was tried already, or their block shape
    /// was banned.
    pub num_rejected: u64,
    pub num_repeated: u64,
    pub num_banned: u64,
    /// The baseline's runs between candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<References>,
    /// ns.
    pub baseline_metric: Option<f64>,
    /// ns.
    pub best_metric: Option<f64>,
    pub best_speedup: Option<f64>,
    /// `None` if there is no best, or if it is the recorded configuration.
    pub best_trial: Option<u64>,
    /// The comparison of the best few with the baseline, and its outcome in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// The fresh inputs that finalists were run on.
    #[serde(skip_serializing_if = "FreshInputs::is_none")]
    pub fresh_inputs: FreshInputs,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// The edges of the space on which the best lies, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<String>,
    /// Trials that verified, but failed when they were measured again or on an instance of `--verify-all`, with the
    /// reason. They count as failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refuted: BTreeMap<u64, String>,
    /// Those refuted trials whose outcome is unknown, because a part of Mneme was missing or broke when they were
    /// measured again. They count as internal errors, and a resumed session forgets that they were refuted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub untested: BTreeSet<u64>,
    /// The Pareto front, if there are several objectives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pareto_front: Vec<u64>,
    /// Further instances on which the best was verified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verified_on: Vec<String>,
    /// Duration of this run in seconds; of a resumed session the last run.
    pub elapsed_s: f64,
}

/// All visits of a candidate, including the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    pub visits: u64,
    /// Geometric mean of the visits' metrics, ns.
    pub mean: f64,
}

/// The device's speed while candidates were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct References {
    pub count: u64,
    /// References whose time was off by more than noise.
    pub disturbed: u64,
    /// The largest change among them, relative to the baseline's time; positive if slower.
    pub largest_change: f64,
    /// Reasons for low clocks at those times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<String>,
    /// Trials that were measured again because the device had been disturbed.
    pub repeated: u64,
    /// Trials that were measured while the device was disturbed and keep that measurement, because the disturbance
    /// lasted or came back.
    pub in_doubt: u64,
}

impl SessionSummary {
    /// Moves a trial from the verified ones to the failed ones, or to internal errors if `is_untested`.
    pub fn count_refuted(&mut self, is_untested: bool) {
        self.num_verified = self.num_verified.saturating_sub(1);
        *if is_untested { &mut self.num_internal_error } else { &mut self.num_failed_verification } += 1;
    }

    /// Whether no valid trial has a known outcome, because a part of Mneme was missing or broke.
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
            "num_verified", "num_failed_verification", "num_unproven", "num_invalid_launch", "num_compile_error",
            "num_invalid_config", "num_internal_error",
        ] {
            assert_eq!(value[key], 1, "{key}");
        }
    }
}

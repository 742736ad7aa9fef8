//! The standings of a session: the baseline, the verified trials by rank, and counts of all trials.

use std::collections::BTreeMap;

use mneme_model::configuration::Configuration;
use mneme_model::result::{ReplayResult, ReplayStatus};

use super::criteria::baseline_results;
use super::looks::Looks;
use crate::confirm::{Finalist, FinalistOutcome};
use crate::failure::{self, InvalidAccesses, Rounding};
use crate::results::{Baseline, SessionSummary, Trial};
use crate::sampler::{TrialOutcome, fronts, passes};
use crate::space::SearchSpace;
use crate::statistics::Interval;

/// The result of a session.
#[derive(Clone, Debug)]
pub enum Best {
    /// A candidate.
    Candidate(Box<Trial>),
    /// Candidates verified, but none was confirmed to be faster than the recorded configuration.
    Recorded,
    /// No candidate verified, or the best ones could not be measured again.
    Nothing,
}

/// Everything known about the trials so far.
pub struct Standings {
    pub summary: SessionSummary,
    pub rounding: Rounding,
    pub invalid_accesses: InvalidAccesses,
    /// Metric of the baseline, ns.
    pub baseline_metric: f64,
    pub baseline: Option<Baseline>,
    /// Metric of the fastest trial so far, ns.
    pub fastest: f64,
    /// The first reason why a trial could not be tried, in full.
    pub untried: Option<String>,
    /// Later visits of candidates.
    pub looks: Looks,
    /// All verified trials that are points of this session's space.
    ranking: Vec<Trial>,
}

impl Standings {
    pub fn new(summary: SessionSummary) -> Self {
        Self {
            summary,
            rounding: Rounding::default(),
            invalid_accesses: InvalidAccesses::default(),
            baseline_metric: 0.0,
            baseline: None,
            fastest: f64::INFINITY,
            untried: None,
            looks: Looks::default(),
            ranking: Vec::new(),
        }
    }

    /// Counts a trial.
    pub fn count(&mut self, trial: &Trial) {
        self.summary.count(&trial.result);
        if trial.result.status == ReplayStatus::InternalError {
            self.untried.get_or_insert_with(|| failure::in_full(&trial.result));
        }
        self.summary.num_stopped += u64::from(trial.stopped.is_some());
        self.summary.num_without_objective += u64::from(trial.metric.is_some() && trial.objectives.is_empty());
        self.summary.num_cached += u64::from(trial.cached);
        self.rounding.note(&trial.result);
        self.invalid_accesses.note(trial.trial, &trial.result);
        self.summary.num_other_grid += u64::from(self.failed_under_another_grid(trial).is_some());
    }

    /// If a trial failed verification under another grid than the recorded one, a sentence that says so.
    pub fn failed_under_another_grid(&self, trial: &Trial) -> Option<String> {
        failure::of_grid(&trial.result, &trial.config, &self.baseline.as_ref()?.config)
    }

    /// Adds a trial of this session's space, which makes it eligible as the best.
    pub fn rank(&mut self, trial: Trial) {
        if let Some(metric) = trial.metric {
            if !trial.objectives.is_empty() {
                self.fastest = self.fastest.min(metric);
            }
            self.ranking.push(trial);
        }
    }

    /// All ranked trials, in the order in which they came.
    pub fn all_ranked(&self) -> &[Trial] {
        &self.ranking
    }

    /// A ranked trial by its number.
    pub fn trial(&self, number: u64) -> Option<&Trial> {
        self.ranking.iter().find(|trial| trial.trial == number)
    }

    /// Replaces a trial's measurement.
    pub fn replace(&mut self, trial: Trial) {
        self.ranking.retain(|other| other.trial != trial.trial);
        self.ranking.push(trial);
        self.fastest = self.ranking.iter().filter_map(|trial| trial.metric).fold(f64::INFINITY, f64::min);
    }

    /// Whether no trial was ranked, including refuted ones.
    pub fn is_empty(&self) -> bool {
        self.ranking.is_empty()
    }

    /// Refutes a verified trial: it cannot win, and does not count as verified. `is_untested` says that the trial could
    /// not be measured again, so its speed is unknown.
    pub fn refute(&mut self, trial: u64, reason: String, is_untested: bool) {
        if is_untested {
            self.summary.untested.insert(trial);
        }
        if self.summary.refuted.insert(trial, reason).is_none() {
            self.summary.count_refuted(is_untested);
        }
        if let Some(confirmation) = &mut self.summary.confirmation {
            confirmation.reject(trial);
        }
    }

    /// The outcome of a trial, for the search.
    pub fn outcome(&self, trial: &Trial) -> TrialOutcome {
        if self.summary.refuted.contains_key(&trial.trial) {
            TrialOutcome::Failed(ReplayStatus::FailedVerification)
        } else if trial.objectives.is_empty() {
            TrialOutcome::Failed(trial.result.status)
        } else {
            TrialOutcome::Measured(trial.objectives.clone())
        }
    }

    /// All verified trials that were not refuted, best first by the first objective. Pass sequences that compile to the
    /// same code have the same measurement; the shortest comes first.
    pub fn ranked(&self, space: &dyn SearchSpace) -> Vec<Trial> {
        let stands = |trial: &&Trial| !trial.objectives.is_empty() && !self.summary.refuted.contains_key(&trial.trial);
        let mut ranked: Vec<Trial> = self.ranking.iter().filter(stands).cloned().collect();
        ranked.sort_by(|one, other| {
            let simpler = || (passes(space, &one.params), one.trial).cmp(&(passes(space, &other.params), other.trial));
            one.objectives[0].total_cmp(&other.objectives[0]).then_with(simpler)
        });
        ranked
    }

    /// The Pareto front: trials that no other trial beats in every objective, best first by the first one.
    pub fn front(&self, space: &dyn SearchSpace) -> Vec<Trial> {
        let ranked = self.ranked(space);
        let costs: Vec<&[f64]> = ranked.iter().map(|trial| trial.objectives.as_slice()).collect();
        let fronts = fronts(&costs);
        ranked.iter().zip(fronts).filter(|(_, front)| *front == 0).map(|(trial, _)| trial.clone()).collect()
    }

    /// Finalists that were confirmed to be faster than the baseline, best first, with their confirmed figures.
    pub fn winners(&self) -> Vec<Trial> {
        let finalists = self.summary.confirmation.iter().flat_map(|confirmation| &confirmation.finalists);
        let faster = finalists.filter(|finalist| finalist.outcome == FinalistOutcome::Faster);
        faster.filter_map(|finalist| Some(confirmed(self.trial(finalist.trial)?, finalist))).collect()
    }

    /// The first of these trials as the best. Without trials, the recorded configuration if candidates were refuted,
    /// otherwise nothing.
    pub fn first_of(&self, trials: Vec<Trial>) -> Best {
        match trials.into_iter().next() {
            Some(first) => Best::Candidate(Box::new(first)),
            None if self.summary.refuted.is_empty() => Best::Nothing,
            None => Best::Recorded,
        }
    }

    /// Whether the best is unknown because the candidates could not be tried, or not measured again.
    pub fn is_untold(&self, best: &Best) -> bool {
        let untested = matches!(best, Best::Nothing) && !self.summary.untested.is_empty();
        untested || self.summary.could_try_none()
    }

    /// The trials to measure again: the best ones with different code or launch, without those equal to the baseline.
    /// Ranks by the mean of all visits. Among configurations that compile to the same code, picks the one that changes
    /// least from the baseline, so a winner contains no change without effect.
    pub fn finalists(&self, ranked: &[Trial], most: usize) -> Vec<Trial> {
        let Some(baseline) = &self.baseline else { return Vec::new() };
        let own = identity(&baseline.config, &baseline_results(baseline)[0], &baseline.config);
        let mut groups: BTreeMap<_, Vec<&Trial>> = BTreeMap::new();
        for trial in ranked {
            groups.entry(identity(&trial.config, &trial.result, &baseline.config)).or_default().push(trial);
        }
        groups.remove(&own);
        // Trials of a group run the same code, so a visit of one counts for all.
        let time = |group: &[&Trial]| {
            let visited = group.iter().find_map(|trial| self.looks.estimate(trial.trial));
            visited.or(group[0].metric.map(f64::ln)).unwrap_or(f64::INFINITY)
        };
        let mut groups: Vec<(f64, Vec<&Trial>)> = groups.into_values().map(|group| (time(&group), group)).collect();
        groups.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1[0].trial.cmp(&other.1[0].trial)));
        let plainest = |group: Vec<&Trial>| {
            group.into_iter().min_by_key(|trial| (changes(&trial.config, &baseline.config), trial.trial)).cloned()
        };
        groups.into_iter().take(most).filter_map(|(_, group)| plainest(group)).collect()
    }

    /// The confirmed speedup of a trial over the baseline, if it has one.
    pub fn confirmed_speedup(&self, trial: u64) -> Option<Interval> {
        let finalist = self.summary.confirmation.as_ref()?.finalist(trial)?;
        finalist.speedup.filter(|_| finalist.outcome == FinalistOutcome::Faster)
    }

    /// Whether an unconfirmed best may be given to an application: not if its only measurement is slower than the
    /// baseline.
    pub fn is_fit(&self, best: &Trial, by_time: bool) -> bool {
        let not_slower = best.metric.is_some_and(|metric| metric <= self.baseline_metric);
        !by_time || not_slower || self.confirmed_speedup(best.trial).is_some()
    }
}

/// Replaces a trial's first measurement with the time and speedup of its rounds against the baseline.
fn confirmed(trial: &Trial, finalist: &Finalist) -> Trial {
    Trial {
        metric: finalist.time.or(trial.metric),
        speedup: finalist.speedup.map(|speedup| speedup.estimate),
        ..trial.clone()
    }
}

/// Number of code-generation settings in which two configurations differ.
fn changes(one: &Configuration, other: &Configuration) -> usize {
    let (one, other) = (one.grounded(), other.grounded());
    one.differences(&other).filter(|field| field.effect.changes_code()).count()
}

/// What a measurement depends on: trials with equal identities differ by noise only.
fn identity(config: &Configuration, result: &ReplayResult, baseline: &Configuration) -> impl Ord + use<> {
    // If the device reports no hash of the code, only equal configurations are identical.
    let code = if result.environment.code.is_empty() { config.hash() } else { result.environment.code.clone() };
    (code, config.grid.as_array(), config.block.as_array(), config.shared_mem, config.cache == baseline.cache)
}

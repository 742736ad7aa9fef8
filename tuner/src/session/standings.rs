//! The standings of a session: the baseline, the trials that verified by rank, and the counts of all.

use std::collections::BTreeMap;

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, ReplayStatus};

use super::criteria::baseline_results;
use super::looks::Looks;
use crate::confirm::{Finalist, FinalistOutcome};
use crate::failure::{self, Rounding};
use crate::results::{Baseline, SessionSummary, Trial};
use crate::sampler::{TrialOutcome, fronts, passes};
use crate::space::SearchSpace;
use crate::statistics::Interval;

/// What a session comes to.
#[derive(Clone, Debug)]
pub enum Best {
    /// A candidate.
    Candidate(Box<Trial>),
    /// Candidates verified, and none of them was confirmed to be faster than what was recorded.
    Recorded,
    /// No candidate verified, or none that may be the best could be measured again.
    Nothing,
}

/// What is known of the trials so far.
pub struct Standings {
    pub summary: SessionSummary,
    pub rounding: Rounding,
    /// Metric of the baseline, ns.
    pub baseline_metric: f64,
    pub baseline: Option<Baseline>,
    /// Metric of the fastest so far, ns.
    pub fastest: f64,
    /// Why one that could not be tried was not: the first such reason, whole.
    pub untried: Option<String>,
    /// Visits of candidates after their trials.
    pub looks: Looks,
    /// Everything that verified, of this session's space.
    ranking: Vec<Trial>,
}

impl Standings {
    pub fn new(summary: SessionSummary) -> Self {
        Self {
            summary,
            rounding: Rounding::default(),
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
        self.summary.num_other_grid += u64::from(self.failed_under_another_grid(trial).is_some());
    }

    /// Says that the grid followed the block, for a trial that failed verification so.
    pub fn failed_under_another_grid(&self, trial: &Trial) -> Option<String> {
        failure::of_grid(&trial.result, &trial.config, &self.baseline.as_ref()?.config)
    }

    /// A trial of this session's space may be its best.
    pub fn rank(&mut self, trial: Trial) {
        if let Some(metric) = trial.metric {
            if !trial.objectives.is_empty() {
                self.fastest = self.fastest.min(metric);
            }
            self.ranking.push(trial);
        }
    }

    /// All trials that were ranked, as they came.
    pub fn all_ranked(&self) -> &[Trial] {
        &self.ranking
    }

    /// One of them, by its number.
    pub fn trial(&self, number: u64) -> Option<&Trial> {
        self.ranking.iter().find(|trial| trial.trial == number)
    }

    /// Another measurement takes the place of a trial's.
    pub fn replace(&mut self, trial: Trial) {
        self.ranking.retain(|other| other.trial != trial.trial);
        self.ranking.push(trial);
        self.fastest = self.ranking.iter().filter_map(|trial| trial.metric).fold(f64::INFINITY, f64::min);
    }

    /// Whether no trial was ranked, refuted ones among them.
    pub fn is_empty(&self) -> bool {
        self.ranking.is_empty()
    }

    /// A trial that verified is none: it wins nothing, and nobody is told that it verified. Of one that is `untested`
    /// nothing is known.
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

    /// What the search is told of a trial.
    pub fn outcome(&self, trial: &Trial) -> TrialOutcome {
        if self.summary.refuted.contains_key(&trial.trial) {
            TrialOutcome::Failed(ReplayStatus::FailedVerification)
        } else if trial.objectives.is_empty() {
            TrialOutcome::Failed(trial.result.status)
        } else {
            TrialOutcome::Measured(trial.objectives.clone())
        }
    }

    /// Everything that verified and was not refuted, the best by the first objective first; of sequences of passes that
    /// come to the same code, and so to the same measurement, the shortest.
    pub fn ranked(&self, space: &dyn SearchSpace) -> Vec<Trial> {
        let stands = |trial: &&Trial| !trial.objectives.is_empty() && !self.summary.refuted.contains_key(&trial.trial);
        let mut ranked: Vec<Trial> = self.ranking.iter().filter(stands).cloned().collect();
        ranked.sort_by(|one, other| {
            let simpler = || (passes(space, &one.params), one.trial).cmp(&(passes(space, &other.params), other.trial));
            one.objectives[0].total_cmp(&other.objectives[0]).then_with(simpler)
        });
        ranked
    }

    /// Trials that no other is better than in every objective, the best by the first one first.
    pub fn front(&self, space: &dyn SearchSpace) -> Vec<Trial> {
        let ranked = self.ranked(space);
        let costs: Vec<&[f64]> = ranked.iter().map(|trial| trial.objectives.as_slice()).collect();
        let fronts = fronts(&costs);
        ranked.iter().zip(fronts).filter(|(_, front)| *front == 0).map(|(trial, _)| trial.clone()).collect()
    }

    /// Finalists that were confirmed to be faster than the baseline, the best first, each with its confirmed figures.
    pub fn winners(&self) -> Vec<Trial> {
        let finalists = self.summary.confirmation.iter().flat_map(|confirmation| &confirmation.finalists);
        let faster = finalists.filter(|finalist| finalist.outcome == FinalistOutcome::Faster);
        faster.filter_map(|finalist| Some(confirmed(self.trial(finalist.trial)?, finalist))).collect()
    }

    /// The first of these as the best. Without one it is nothing, or what was recorded if candidates were refuted.
    pub fn first_of(&self, trials: Vec<Trial>) -> Best {
        match trials.into_iter().next() {
            Some(first) => Best::Candidate(Box::new(first)),
            None if self.summary.refuted.is_empty() => Best::Nothing,
            None => Best::Recorded,
        }
    }

    /// Whether there is no best because what could be it could not be tried, or not again.
    pub fn is_untold(&self, best: &Best) -> bool {
        let untested = matches!(best, Best::Nothing) && !self.summary.untested.is_empty();
        untested || self.summary.could_try_none()
    }

    /// Those that are to be measured again: the best trials of different code or launch, none of them the baseline's.
    /// The best are those that all visits show. Of configurations that come to the same code, the one that changes
    /// least of the baseline stands for all, so that a winner has nothing that makes no difference.
    pub fn finalists(&self, ranked: &[Trial], most: usize) -> Vec<Trial> {
        let Some(baseline) = &self.baseline else { return Vec::new() };
        let own = identity(&baseline.config, &baseline_results(baseline)[0], &baseline.config);
        let mut groups: BTreeMap<_, Vec<&Trial>> = BTreeMap::new();
        for trial in ranked {
            groups.entry(identity(&trial.config, &trial.result, &baseline.config)).or_default().push(trial);
        }
        groups.remove(&own);
        // A visit of one is a visit of all.
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

    /// Whether a best that was not confirmed may be given to an application: not if its only measurement is slower.
    pub fn is_fit(&self, best: &Trial, by_time: bool) -> bool {
        let not_slower = best.metric.is_some_and(|metric| metric <= self.baseline_metric);
        !by_time || not_slower || self.confirmed_speedup(best.trial).is_some()
    }
}

/// A trial with the time and speedup of its rounds against the baseline in place of its first measurement's.
fn confirmed(trial: &Trial, finalist: &Finalist) -> Trial {
    Trial {
        metric: finalist.time.or(trial.metric),
        speedup: finalist.speedup.map(|speedup| speedup.estimate),
        ..trial.clone()
    }
}

/// In how many ways code is made otherwise than the baseline's.
fn changes(one: &Configuration, other: &Configuration) -> usize {
    let (one, other) = (one.grounded(), other.grounded());
    let differ = [
        one.passes != other.passes,
        one.codegen_opt != other.codegen_opt,
        one.specialize != other.specialize,
        one.specialize_dims != other.specialize_dims,
        one.internalize != other.internalize,
        one.set_launch_bounds != other.set_launch_bounds,
        one.max_threads != other.max_threads,
        one.min_blocks_per_sm != other.min_blocks_per_sm,
    ];
    differ.into_iter().filter(|differs| *differs).count()
}

/// What a configuration is measured by: equal ones differ by noise alone.
fn identity(config: &Configuration, result: &ReplayResult, baseline: &Configuration) -> impl Ord + use<> {
    // Where the device names no code, configurations are told apart by themselves.
    let code = if result.environment.code.is_empty() { config.hash() } else { result.environment.code.clone() };
    (code, config.grid.as_array(), config.block.as_array(), config.shared_mem, config.cache == baseline.cache)
}

//! Candidates that are given up after their first runs.

use mneme_core::result::ReplayResult;

use super::{Flying, Session};
use crate::server::Runs;

impl Session {
    /// What a candidate's first runs are; `None` where there is nobody to judge by them, or no more runs to save.
    pub(super) fn first_runs(&self) -> Option<Runs> {
        let first = Runs { iterations: 1, warmup: self.runs.warmup.min(1), energy: false, ..self.runs };
        (self.plan.early_stop.is_some() && self.runs.iterations > first.iterations).then_some(first)
    }

    /// Submits what is left of a candidate after its first runs, unless it is over; gives back one that is.
    pub(super) fn go_on(&mut self, id: u64, mut candidate: Flying, results: &[ReplayResult]) -> Option<Flying> {
        if !std::mem::take(&mut candidate.first) {
            return Some(candidate);
        }
        let (Some(metric), Some(rule)) = (self.condense(results), &mut self.plan.early_stop) else {
            return Some(candidate);
        };
        if rule.hopeless(&candidate.point, metric) {
            candidate.stopped = Some(metric);
            return Some(candidate);
        }
        self.evaluator.submit(id, candidate.configurations.clone(), self.runs);
        self.flying.insert(id, candidate);
        None
    }
}

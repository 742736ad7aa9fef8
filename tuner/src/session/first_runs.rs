//! Compares first runs in freshly loaded modules with later runs.
//!
//! Code that reuses results of earlier launches is slow in its first run.

use std::collections::BTreeMap;

use mneme_model::result::ReplayResult;

use crate::confirm::FirstRunGap;
use crate::statistics::median;

/// Minimum of loaded modules for a verdict.
const LEAST: usize = 5;
/// The largest ratio of first to later runs in honest code, which has cold caches and touches pages for the first time.
const GAP: f64 = 1.5;

/// Ratios of first runs to the median of later runs, by trial. The baseline's key is `None`.
#[derive(Debug, Default)]
pub struct FirstRuns(BTreeMap<Option<u64>, Vec<f64>>);

impl FirstRuns {
    /// Notes the runs of a module.
    pub fn note(&mut self, trial: Option<u64>, result: &ReplayResult) {
        let later: Vec<f64> = result.measured().iter().map(|time| *time as f64).collect();
        let first = result.exec_time.first().filter(|_| result.warmup > 0);
        if let (Some(first), Some(later)) = (first, median(&later).filter(|later| *later > 0.0)) {
            self.0.entry(trial).or_default().push(*first as f64 / later);
        }
    }

    /// The gap of a trial, if three in four of its first runs are slower and the baseline's are not.
    pub fn gap(&self, trial: u64) -> Option<FirstRunGap> {
        let (own, baseline) = (self.0.get(&Some(trial))?, self.0.get(&None)?);
        if own.len().min(baseline.len()) < LEAST {
            return None;
        }
        let mut sorted = own.clone();
        sorted.sort_by(f64::total_cmp);
        let (ratio, baseline) = (median(own)?, median(baseline)?);
        (sorted[sorted.len() / 4] > GAP * baseline.max(1.0)).then_some(FirstRunGap { ratio, baseline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(first: u64, later: u64) -> ReplayResult {
        ReplayResult { exec_time: vec![first, later, later, later], warmup: 1, ..ReplayResult::default() }
    }

    #[test]
    fn code_that_is_slow_at_first_is_told_from_cold_code() {
        let mut runs = FirstRuns::default();
        for round in 0..6 {
            runs.note(None, &result(1300, 1000));
            runs.note(Some(1), &result(1400, 1000));
            runs.note(Some(2), &result(4000, 100));
            // Two rounds are disturbed.
            runs.note(Some(3), &result(if round < 2 { 5000 } else { 1000 }, 1000));
            runs.note(Some(4), &ReplayResult { exec_time: vec![4000, 100], ..ReplayResult::default() });
        }
        assert_eq!([1, 3, 4, 5].map(|trial| runs.gap(trial)), [None; 4]);
        assert_eq!(runs.gap(2), Some(FirstRunGap { ratio: 40.0, baseline: 1.3 }));
        let mut few = FirstRuns::default();
        for _ in 1..LEAST {
            few.note(None, &result(1, 1));
            few.note(Some(0), &result(9, 1));
        }
        assert_eq!(few.gap(0), None);
    }
}

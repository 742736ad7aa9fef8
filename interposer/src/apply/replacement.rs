//! The tuned replacement of one kernel, and counts of replaced launches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use mneme_core::summary::{Applied, Failure};
use mneme_core::tuned::Winner;

use super::candidate::WinnerCandidate;

/// Of one kernel.
pub struct KernelReplacement {
    /// Or why there is nothing that could stand in.
    pub candidates: Result<Vec<WinnerCandidate>, String>,
    replaced: AtomicU64,
    reshaped: AtomicU64,
    /// The first that was launched.
    first: OnceLock<&'static Winner>,
    /// Threads that a block of the application's own code may have, where the vendor says.
    pub own_threads: OnceLock<Option<u64>>,
    /// Why launches kept the application's own code.
    kept: RwLock<BTreeMap<&'static str, AtomicU64>>,
}

impl KernelReplacement {
    pub fn new(candidates: Result<Vec<WinnerCandidate>, String>) -> Self {
        Self {
            candidates,
            replaced: AtomicU64::new(0),
            reshaped: AtomicU64::new(0),
            first: OnceLock::new(),
            own_threads: OnceLock::new(),
            kept: RwLock::default(),
        }
    }

    /// Those that are still used.
    pub fn usable(&self) -> impl Iterator<Item = &WinnerCandidate> {
        self.candidates.iter().flatten().filter(|candidate| candidate.broken.get().is_none())
    }

    /// Why nothing stands in any more, if so.
    pub fn given_up(&self) -> Option<&str> {
        match &self.candidates {
            Err(reason) => Some(reason),
            Ok(candidates) => {
                let reasons = candidates.iter().map(|candidate| candidate.broken.get());
                reasons.collect::<Option<Vec<_>>>()?.first().map(|reason| reason.as_str())
            }
        }
    }

    /// Whether nothing was replaced so far.
    pub fn is_untouched(&self) -> bool {
        self.first.get().is_none()
    }

    pub fn count(&self, winner: &'static Winner, is_reshaped: bool) {
        self.replaced.fetch_add(1, Ordering::Relaxed);
        self.reshaped.fetch_add(u64::from(is_reshaped), Ordering::Relaxed);
        if self.first.get().is_none() {
            let _ = self.first.set(winner);
        }
    }

    /// Counts a launch of the application's own code.
    pub fn count_kept(&self, reason: &'static str) {
        if let Some(count) = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(reason) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.entry(reason).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// What became of so many launches.
    pub fn outcome(&self, launches: u64) -> (Applied, Vec<Failure>) {
        let replaced = self.replaced.load(Ordering::Relaxed);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let failure = |reason: &str, launches, broken| Failure { reason: reason.to_owned(), launches, broken };
        let mut failures: Vec<Failure> =
            kept.iter().map(|(reason, count)| failure(reason, count.load(Ordering::Relaxed), false)).collect();
        let known: u64 = failures.iter().map(|failure| failure.launches).sum();
        // After it was given up, launches are only counted.
        let rest = launches.saturating_sub(replaced + known);
        if rest > 0 {
            let reason = self.given_up().unwrap_or("it was given up");
            failures.push(failure(reason, rest, true));
        }
        let winner = self.first.get();
        let applied = Applied {
            replaced,
            reshaped: self.reshaped.load(Ordering::Relaxed),
            before: winner.and_then(|winner| winner.before),
            after: winner.and_then(|winner| winner.after),
        };
        (applied, failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launch_has_one_fate() {
        let replacement = KernelReplacement::new(Err("its code has changed".into()));
        replacement.count_kept("inside a stream capture");
        replacement.count_kept("inside a stream capture");
        let (applied, failures) = replacement.outcome(5);
        assert_eq!(applied, Applied::default());
        let found: Vec<_> = failures.iter().map(|it| (it.reason.as_str(), it.launches, it.broken)).collect();
        assert_eq!(found, [("inside a stream capture", 2, false), ("its code has changed", 3, true)]);
        let replacement = KernelReplacement::new(Ok(Vec::new()));
        assert!(replacement.outcome(0).1.is_empty());
    }
}

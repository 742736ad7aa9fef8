//! Counts on how many launches of this run a winner has verified.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many recordings of trial launches may fail for temporary reasons.
const ATTEMPTS: u32 = 3;

/// The trials of one winner.
pub struct Trials {
    /// How many launches must verify.
    pub wanted: u32,
    started: AtomicU32,
    verified: AtomicU32,
    failed: AtomicU32,
    is_trusted: AtomicBool,
}

impl Trials {
    pub fn new(wanted: u32) -> Self {
        Self {
            wanted,
            started: AtomicU32::new(0),
            verified: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            is_trusted: AtomicBool::new(wanted == 0),
        }
    }

    /// Whether the winner may be used.
    #[inline]
    pub fn are_passed(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    /// Whether to try more launches.
    pub fn wants(&self) -> bool {
        self.started.load(Ordering::Relaxed) < self.wanted
    }

    /// Takes a launch for a trial if more are needed.
    pub fn take(&self) -> bool {
        let one_more = |started| (started < self.wanted).then_some(started + 1);
        self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Notes that a taken launch is not tried.
    pub fn postpone(&self) {
        self.started.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that a launch verified. Returns whether it was the last one needed.
    pub fn pass(&self) -> bool {
        let is_last = self.verified.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted;
        if is_last {
            self.is_trusted.store(true, Ordering::Relaxed);
        }
        is_last
    }

    /// Notes that recording a launch failed for a temporary reason. Returns whether to take another one instead.
    pub fn retry(&self) -> bool {
        let may_retry = self.failed.fetch_add(1, Ordering::Relaxed) + 1 < ATTEMPTS;
        if may_retry {
            self.postpone();
        }
        may_retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_winner_is_trusted_after_as_many_launches_as_are_wanted() {
        assert!(Trials::new(0).are_passed());
        let trials = Trials::new(2);
        assert_eq!([trials.take(), trials.take(), trials.take()], [true, true, false]);
        trials.postpone();
        assert_eq!([trials.take(), trials.take()], [true, false]);
        assert!(!trials.pass() && !trials.are_passed());
        assert!(trials.pass() && trials.are_passed());
    }
}

//! Counts of trials: how often a winner has verified on launches of this run.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Launches of a winner whose recording may fail for a reason that passes.
const ATTEMPTS: u32 = 3;

/// The trials of one winner.
pub struct Trials {
    /// Launches.
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

    /// Whether more launches are to be tried.
    pub fn wants(&self) -> bool {
        self.started.load(Ordering::Relaxed) < self.wanted
    }

    /// Takes a launch for a trial, while more are wanted.
    pub fn take(&self) -> bool {
        let one_more = |started| (started < self.wanted).then_some(started + 1);
        self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// A launch that was taken is not tried.
    pub fn postpone(&self) {
        self.started.fetch_sub(1, Ordering::Relaxed);
    }

    /// A launch verified; whether that was the last one that was wanted.
    pub fn pass(&self) -> bool {
        let is_last = self.verified.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted;
        if is_last {
            self.is_trusted.store(true, Ordering::Relaxed);
        }
        is_last
    }

    /// A launch could not be recorded for a reason that may pass; whether another one is taken in its place.
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

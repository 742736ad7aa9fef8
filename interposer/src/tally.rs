//! What becomes of most launches of a kernel, counted without a lock: they repeat an instance, or are not recorded at all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Instances that are counted here; launches of further ones are counted under the kernel's lock.
const PLACES: usize = 8;

#[derive(Default)]
struct Place {
    /// The dynamic hash; 0 where the place is free.
    hash: AtomicU64,
    launches: AtomicU64,
}

/// Changed under the kernel's lock, but for the counters.
#[derive(Default)]
pub struct Tally {
    places: [Place; PLACES],
    /// No further instance will be recorded.
    closed: AtomicBool,
    /// Nothing will be recorded, so that launches are not even told apart.
    given_up: AtomicBool,
    /// Launches of a kernel whose code cannot be recorded.
    refused: AtomicU64,
}

impl Tally {
    fn place(&self, hash: u64) -> Option<&Place> {
        self.places.iter().find(|place| hash != 0 && place.hash.load(Ordering::Acquire) == hash)
    }

    /// Whether a launch is only counted: it repeats an instance, or is one too many.
    #[inline]
    pub fn counts(&self, hash: u64) -> bool {
        if let Some(place) = self.place(hash) {
            place.launches.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.closed.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Counts the launches of an instance from now on, if there is a place for it.
    pub fn watch(&self, hash: u64) {
        if let Some(place) = self.places.iter().find(|place| place.hash.load(Ordering::Relaxed) == 0) {
            place.launches.store(0, Ordering::Relaxed);
            place.hash.store(hash, Ordering::Release);
        }
    }

    /// Forgets an instance.
    pub fn forget(&self, hash: u64) {
        if let Some(place) = self.place(hash) {
            place.hash.store(0, Ordering::Release);
        }
    }

    /// Launches of an instance that were counted here.
    pub fn launches(&self, hash: u64) -> u64 {
        self.place(hash).map_or(0, |place| place.launches.load(Ordering::Relaxed))
    }

    pub fn close(&self, closed: bool, given_up: bool) {
        self.closed.store(closed, Ordering::Relaxed);
        self.given_up.store(given_up, Ordering::Relaxed);
    }

    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_counted_until_they_are_forgotten() {
        let tally = Tally::default();
        assert!(!tally.counts(7));
        tally.watch(7);
        assert!(tally.counts(7) && tally.counts(7) && !tally.counts(8) && !tally.counts(0));
        assert_eq!((tally.launches(7), tally.launches(8)), (2, 0));
        tally.close(true, false);
        assert!(tally.counts(8) && tally.launches(8) == 0);
        tally.close(false, false);
        tally.forget(7);
        tally.watch(9);
        assert_eq!((tally.counts(7), tally.launches(9)), (false, 0));
        (10..20).for_each(|hash| tally.watch(hash));
        assert!(tally.counts(16) && !tally.counts(17), "eight places");
    }
}

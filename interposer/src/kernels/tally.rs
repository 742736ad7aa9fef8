//! Counts launches without a lock.
//!
//! Most launches repeat an instance or are not recorded at all, and these only need to be counted.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use super::key::Key;

/// How many instances are counted here. Launches of further ones are counted under the kernel's lock.
pub const PLACES: usize = 8;

#[repr(C)]
struct LaunchCount {
    launches: AtomicU64,
    key: Key,
    hash: u64,
}

/// The lock-free counters of a kernel. Everything except the counters changes under the kernel's lock.
#[derive(Default)]
#[repr(C)]
pub struct LaunchTally {
    /// No further instance will be recorded, and all recorded ones are here.
    closed: AtomicBool,
    /// No launch will be recorded, so launches need not be distinguished.
    given_up: AtomicBool,
    /// Launches of a kernel whose code cannot be recorded.
    refused: AtomicU64,
    /// Entries are never freed, because another thread may be reading one. They are replaced only if their instance
    /// failed.
    places: [AtomicPtr<LaunchCount>; PLACES],
}

impl LaunchTally {
    fn entries(&self) -> impl Iterator<Item = &LaunchCount> {
        // SAFETY: null, or leaked and changed only through its counter.
        self.places.iter().filter_map(|place| unsafe { place.load(Ordering::Acquire).as_ref() })
    }

    fn place(&self, hash: u64) -> Option<&AtomicPtr<LaunchCount>> {
        // SAFETY: as above.
        self.places
            .iter()
            .find(|place| unsafe { place.load(Ordering::Acquire).as_ref() }.is_some_and(|entry| entry.hash == hash))
    }

    /// Counts a launch if it repeats an instance. Returns whether it is only counted.
    #[inline]
    pub fn counts(&self, repeats: impl Fn(&Key) -> bool) -> bool {
        // Read first: a thread that sees it closed sees every instance.
        let closed = self.closed.load(Ordering::Acquire);
        if let Some(entry) = self.entries().find(|entry| repeats(&entry.key)) {
            entry.launches.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        closed
    }

    /// Whether a launch would be only counted. Does not count it.
    pub fn knows(&self, repeats: impl Fn(&Key) -> bool) -> bool {
        self.closed.load(Ordering::Acquire) || self.entries().any(|entry| repeats(&entry.key))
    }

    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Counts the launches of an instance from now on, if there is a place for it.
    pub fn watch(&self, hash: u64, key: Key) {
        if let Some(place) = self.places.iter().find(|place| place.load(Ordering::Relaxed).is_null()) {
            place.store(
                Box::into_raw(Box::new(LaunchCount { hash, key, launches: AtomicU64::new(0) })),
                Ordering::Release,
            );
        }
    }

    /// Forgets an instance.
    pub fn forget(&self, hash: u64) {
        if let Some(place) = self.place(hash) {
            place.store(std::ptr::null_mut(), Ordering::Release);
        }
    }

    /// How many launches of an instance were counted here.
    pub fn launches(&self, hash: u64) -> u64 {
        self.entries().find(|entry| entry.hash == hash).map_or(0, |entry| entry.launches.load(Ordering::Relaxed))
    }

    pub fn close(&self, closed: bool, given_up: bool) {
        self.closed.store(closed, Ordering::Release);
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
    use crate::kernels::key::LaunchShape;
    use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

    fn key(grid: u32) -> Key {
        let launch = Launch {
            grid: Dim3::new(grid, 1, 1),
            block: Dim3::new(1, 1, 1),
            shared_mem: 0,
            attributes: LaunchAttributes::default(),
        };
        Key { shape: LaunchShape::of(&launch), arguments: Box::default() }
    }

    #[test]
    fn instances_are_counted_until_they_are_forgotten() {
        let tally = LaunchTally::default();
        let counts = |grid| tally.counts(|known| *known == key(grid));
        assert!(!counts(7));
        tally.watch(70, key(7));
        assert!(counts(7) && counts(7) && !counts(8));
        assert_eq!((tally.launches(70), tally.launches(80)), (2, 0));
        tally.close(true, false);
        assert!(counts(8) && tally.launches(80) == 0);
        tally.close(false, false);
        tally.forget(70);
        tally.watch(90, key(9));
        assert_eq!((counts(7), tally.launches(90)), (false, 0));
        (10..20).for_each(|grid| tally.watch(10 * u64::from(grid), key(grid)));
        assert!(counts(16) && !counts(17), "eight places");
    }
}

//! The progress of this process's threads that write files.
//!
//! It lets a waiting thread distinguish a slow writer from a stuck one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static STEPS: AtomicU64 = AtomicU64::new(0);
static SYNCS: AtomicUsize = AtomicUsize::new(0);

/// Counts a step, without a unit.
pub fn note_step() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// The number of steps. Safe in signal handlers, like [`is_syncing`].
pub fn steps() -> u64 {
    STEPS.load(Ordering::Relaxed)
}

/// Whether a thread waits for a disk, possibly for seconds without a step.
pub fn is_syncing() -> bool {
    SYNCS.load(Ordering::Relaxed) > 0
}

/// Runs a call that waits for a disk, and counts it as a step.
pub fn syncing<R>(call: impl FnOnce() -> R) -> R {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    let result = call();
    SYNCS.fetch_sub(1, Ordering::Relaxed);
    note_step();
    result
}

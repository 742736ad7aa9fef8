//! The progress of the threads of this process that write files.
//!
//! By it a waiting thread can tell a slow writer from one that is stuck.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static STEPS: AtomicU64 = AtomicU64::new(0);
static SYNCS: AtomicUsize = AtomicUsize::new(0);

/// Counts a step, in no unit.
pub fn note_step() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// The steps so far. Safe in signal handlers, as [`is_syncing`].
pub fn steps() -> u64 {
    STEPS.load(Ordering::Relaxed)
}

/// Whether a thread waits for a disk, which may take it seconds without a step.
pub fn is_syncing() -> bool {
    SYNCS.load(Ordering::Relaxed) > 0
}

/// Runs a call that waits for a disk, as a step.
pub fn syncing<R>(call: impl FnOnce() -> R) -> R {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    let result = call();
    SYNCS.fetch_sub(1, Ordering::Relaxed);
    note_step();
    result
}

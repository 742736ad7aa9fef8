//! The libraries of this process whose calls the recorder does not see, for the summary.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_model::summary::UnwatchedLibrary;

/// How many are listed.
const MOST: usize = 8;

static LIBRARIES: Mutex<Vec<UnwatchedLibrary>> = Mutex::new(Vec::new());
/// The process that has loaded them. A forked child does not report them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn libraries() -> MutexGuard<'static, Vec<UnwatchedLibrary>> {
    LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a library.
pub fn note(library: UnwatchedLibrary) {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    let mut libraries = libraries();
    if libraries.len() < MOST && !libraries.contains(&library) {
        libraries.push(library);
    }
}

/// Whether this process has loaded any.
pub fn any() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// The libraries of this process.
pub fn all() -> Vec<UnwatchedLibrary> {
    if any() { libraries().clone() } else { Vec::new() }
}

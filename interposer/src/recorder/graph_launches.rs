//! Counts launches of graphs, for the summary.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_model::summary::{GraphLaunches, RecorderMode};

use super::begin;
use crate::process::settings::settings;

static LAUNCHES: Mutex<GraphLaunches> = Mutex::new(GraphLaunches { expanded: 0, complete: 0, whole: BTreeMap::new() });
/// Launches of graphs whose kernels are recorded. Apart from the others, because most launches are.
static COMPLETE: AtomicU64 = AtomicU64::new(0);

fn launches() -> MutexGuard<'static, GraphLaunches> {
    LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a graph that was launched node by node.
pub fn count_expanded() {
    begin();
    launches().expanded += 1;
}

/// Counts a graph that was launched as a whole, because its kernels are recorded.
pub fn count_complete() {
    if COMPLETE.fetch_add(1, Ordering::Relaxed) == 0 {
        begin();
    }
}

/// Counts a graph that was launched as a whole, although its kernels may lack instances.
pub fn count_whole(reason: &str) {
    begin();
    let mut launches = launches();
    match launches.whole.get_mut(reason) {
        Some(count) => *count += 1,
        None => _ = launches.whole.insert(reason.to_owned(), 1),
    }
}

/// Why the kernels of graphs are ignored.
pub fn on_request() -> &'static str {
    match settings().mode {
        RecorderMode::Profile => "MNEME_GRAPHS=expand times the kernels of graphs",
        _ => "MNEME_GRAPHS=whole leaves them out",
    }
}

/// All launches up to now.
pub fn so_far() -> GraphLaunches {
    GraphLaunches { complete: COMPLETE.load(Ordering::Relaxed), ..launches().clone() }
}

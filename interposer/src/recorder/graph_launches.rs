//! Counts launches of graphs, for the summary.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_model::summary::{GraphLaunches, RecorderMode};

use super::begin;
use crate::process::settings::settings;

static LAUNCHES: Mutex<GraphLaunches> = Mutex::new(GraphLaunches { expanded: 0, whole: BTreeMap::new() });

fn launches() -> MutexGuard<'static, GraphLaunches> {
    LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a graph that was launched node by node.
pub fn count_expanded() {
    begin();
    launches().expanded += 1;
}

/// Counts a graph that was launched as a whole.
pub fn count_whole(reason: &str) {
    begin();
    let mut launches = launches();
    match launches.whole.get_mut(reason) {
        Some(count) => *count += 1,
        None => _ = launches.whole.insert(reason.to_owned(), 1),
    }
}

/// Why the kernels of graphs are ignored by default.
pub fn on_request() -> &'static str {
    if settings().mode == RecorderMode::Profile {
        "MNEME_GRAPHS=expand times the kernels of graphs"
    } else {
        "MNEME_GRAPHS=expand records the kernels of graphs"
    }
}

/// All launches up to now.
pub fn so_far() -> GraphLaunches {
    launches().clone()
}

//! Executors on their way out, which nobody waits for.
//!
//! A driver may take a tenth of a second to let go.

use std::time::{Duration, Instant};

use mneme_core::device::Description;

use super::RunningJob;
use crate::execute::executor::Executor;
use mneme_builds::process::child::Child;

/// How long a killed process may take to go before it is left to the system.
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// Why an executor leaves.
pub enum Reason {
    /// It was told to; it is killed.
    Dismissed,
    /// It went by itself in the middle of a run.
    DiedRunning(Box<RunningJob>),
    /// It went by itself and ran nothing.
    DiedIdle,
}

/// A process that was killed or has closed its end.
pub struct LeavingExecutor {
    child: Child,
    pub device: usize,
    since: Instant,
    reason: Reason,
    description: Option<Description>,
}

/// One that is gone.
pub struct EndedExecutor {
    pub device: usize,
    pub reason: Reason,
    pub description: Option<Description>,
    /// How it ended.
    pub how: String,
}

impl LeavingExecutor {
    pub fn new(executor: Executor, device: usize, reason: Reason) -> Self {
        let description = executor.description.clone();
        // One that went by itself is not killed, so that it can say how it ended.
        let child = executor.dismiss(matches!(reason, Reason::Dismissed));
        Self { child, device, since: Instant::now(), reason, description }
    }

    /// What it ran when it went.
    pub fn running(&self) -> Option<&RunningJob> {
        match &self.reason {
            Reason::DiedRunning(running) => Some(running),
            Reason::Dismissed | Reason::DiedIdle => None,
        }
    }

    pub fn take_running(&mut self) -> Option<RunningJob> {
        match std::mem::replace(&mut self.reason, Reason::Dismissed) {
            Reason::DiedRunning(running) => Some(*running),
            other => {
                self.reason = other;
                None
            }
        }
    }

    pub fn abandon(self) {
        self.child.abandon();
    }
}

/// Takes those that are gone, and those that do not go.
pub fn reap(leaving: &mut Vec<LeavingExecutor>) -> Vec<EndedExecutor> {
    let mut gone = Vec::new();
    for at in (0..leaving.len()).rev() {
        let end = leaving[at].child.end();
        if end.is_none() && leaving[at].since.elapsed() <= REAP_LIMIT {
            continue;
        }
        let LeavingExecutor { child, device, reason, description, .. } = leaving.swap_remove(at);
        if end.is_none() {
            child.abandon();
        }
        gone.push(EndedExecutor {
            device,
            reason,
            description,
            how: end.map_or_else(|| "does not answer".into(), |end| end.to_string()),
        });
    }
    gone
}

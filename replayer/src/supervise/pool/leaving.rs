//! Executors that are ending, without anyone waiting for them.
//!
//! A driver may take a tenth of a second to release a device.

use std::time::{Duration, Instant};

use mneme_model::device::Description;
use mneme_sandbox::child::Child;

use super::RunningJob;
use crate::execute::executor::Executor;

/// How long a killed process may take to end before it is left to the system.
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// Why an executor leaves.
pub enum Reason {
    /// It was dismissed, and is killed.
    Dismissed,
    /// It ended by itself during a run.
    DiedRunning(Box<RunningJob>),
    /// It ended by itself outside of runs.
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

/// An executor that has ended.
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
        // An executor that ended by itself is not killed, so its exit status shows how it ended.
        let child = executor.dismiss(matches!(reason, Reason::Dismissed));
        Self { child, device, since: Instant::now(), reason, description }
    }

    /// The configuration that it ran when it ended.
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

/// Takes the executors that have ended, and those that should have.
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

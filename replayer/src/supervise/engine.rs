//! The engine of a replay: a supervisor with its processes, or this process alone.

use mneme_model::device::Description;
use mneme_model::protocol::Statistics;

use super::single_process::SingleProcess;
use super::supervisor::Supervisor;
use super::{Client, SupervisorEvent};
use crate::context::ReplayContext;
use crate::context::settings::Isolation;
use crate::error::Fatal;
use crate::job::Job;

pub enum Engine<'a> {
    Supervised(Box<Supervisor<'a>>),
    SingleProcess(Box<SingleProcess<'a>>),
}

impl<'a> Engine<'a> {
    pub fn start(context: &'a ReplayContext) -> Result<Self, Fatal> {
        Ok(match context.isolation {
            Isolation::None => Self::SingleProcess(Box::new(SingleProcess::start(context)?)),
            Isolation::Fault | Isolation::Process => Self::Supervised(Box::new(Supervisor::start(context)?)),
        })
    }

    /// Takes a configuration. Its result comes as an event.
    pub fn submit(&mut self, job: Job) {
        match self {
            Self::Supervised(supervisor) => supervisor.submit(job),
            Self::SingleProcess(process) => process.submit(job),
        }
    }

    /// Whether a configuration with this id has no result yet.
    pub fn is_outstanding(&self, id: u64) -> bool {
        match self {
            Self::Supervised(supervisor) => supervisor.is_outstanding(id),
            Self::SingleProcess(process) => process.is_outstanding(id),
        }
    }

    /// How many configurations have no result yet.
    pub fn outstanding(&self) -> usize {
        match self {
            Self::Supervised(supervisor) => supervisor.outstanding(),
            Self::SingleProcess(process) => process.outstanding(),
        }
    }

    /// Forgets a waiting configuration. Returns false if the id is unknown.
    pub fn cancel(&mut self, id: u64) -> bool {
        match self {
            Self::Supervised(supervisor) => supervisor.cancel(id),
            Self::SingleProcess(process) => process.cancel(id),
        }
    }

    /// Forgets all configurations.
    pub fn cancel_all(&mut self) {
        match self {
            Self::Supervised(supervisor) => supervisor.cancel_all(),
            Self::SingleProcess(process) => process.cancel_all(),
        }
    }

    pub fn statistics(&self) -> Statistics {
        match self {
            Self::Supervised(supervisor) => supervisor.statistics(),
            Self::SingleProcess(process) => process.statistics(),
        }
    }

    /// The first known device.
    pub fn device(&self) -> Option<&Description> {
        match self {
            Self::Supervised(supervisor) => supervisor.device(),
            Self::SingleProcess(process) => Some(process.device()),
        }
    }

    /// Waits for the next event.
    pub fn next(&mut self, client: Client<'_>) -> Result<SupervisorEvent, Fatal> {
        match self {
            Self::Supervised(supervisor) => supervisor.next(client),
            Self::SingleProcess(process) => process.next(client),
        }
    }

    /// The next event that is known already.
    pub fn pending_event(&mut self) -> Option<SupervisorEvent> {
        match self {
            Self::Supervised(supervisor) => supervisor.pending_event(),
            Self::SingleProcess(process) => process.pending_event(),
        }
    }

    /// Ends all work without waiting for the device, for a process that is about to end.
    pub fn leave(self) {
        if let Self::Supervised(supervisor) = self {
            supervisor.leave();
        }
    }
}

//! What replays configurations: a supervisor with its processes, or this process alone.

use crate::alone::Alone;
use crate::arguments::Isolation;
use crate::scene::Scene;
use crate::supervisor::{Client, Event, Fatal, Job, Supervisor};
use mneme_core::device::Description;
use mneme_core::protocol::Statistics;

pub enum Engine<'a> {
    Supervised(Box<Supervisor<'a>>),
    Alone(Box<Alone<'a>>),
}

impl<'a> Engine<'a> {
    pub fn start(scene: &'a Scene) -> Result<Self, Fatal> {
        Ok(match scene.isolation {
            Isolation::None => Self::Alone(Box::new(Alone::start(scene)?)),
            Isolation::Fault | Isolation::Process => Self::Supervised(Box::new(Supervisor::start(scene)?)),
        })
    }

    /// Takes a configuration; its result comes as an event.
    pub fn submit(&mut self, job: Job) {
        match self {
            Self::Supervised(supervisor) => supervisor.submit(job),
            Self::Alone(alone) => alone.submit(job),
        }
    }

    /// Whether a configuration of this id has no result yet.
    pub fn is_outstanding(&self, id: u64) -> bool {
        match self {
            Self::Supervised(supervisor) => supervisor.is_outstanding(id),
            Self::Alone(alone) => alone.is_outstanding(id),
        }
    }

    /// Configurations without a result yet.
    pub fn outstanding(&self) -> usize {
        match self {
            Self::Supervised(supervisor) => supervisor.outstanding(),
            Self::Alone(alone) => alone.outstanding(),
        }
    }

    /// Forgets a configuration that waits; false where there is none of this id.
    pub fn cancel(&mut self, id: u64) -> bool {
        match self {
            Self::Supervised(supervisor) => supervisor.cancel(id),
            Self::Alone(alone) => alone.cancel(id),
        }
    }

    /// Forgets all configurations.
    pub fn cancel_all(&mut self) {
        match self {
            Self::Supervised(supervisor) => supervisor.cancel_all(),
            Self::Alone(alone) => alone.cancel_all(),
        }
    }

    pub fn statistics(&self) -> Statistics {
        match self {
            Self::Supervised(supervisor) => supervisor.statistics(),
            Self::Alone(alone) => alone.statistics(),
        }
    }

    /// The first device that is known.
    pub fn device(&self) -> Option<&Description> {
        match self {
            Self::Supervised(supervisor) => supervisor.device(),
            Self::Alone(alone) => Some(alone.device()),
        }
    }

    /// Waits for something to happen and returns one event.
    pub fn next(&mut self, client: Client<'_>) -> Result<Event, Fatal> {
        match self {
            Self::Supervised(supervisor) => supervisor.next(client),
            Self::Alone(alone) => alone.next(client),
        }
    }

    /// An event that is known already.
    pub fn pending_event(&mut self) -> Option<Event> {
        match self {
            Self::Supervised(supervisor) => supervisor.pending_event(),
            Self::Alone(alone) => alone.pending_event(),
        }
    }

    /// Ends all work without waiting for the device to let go, for a process that is about to end.
    pub fn leave(self) {
        if let Self::Supervised(supervisor) = self {
            supervisor.leave();
        }
    }
}

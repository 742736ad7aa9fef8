//! Supervises a replay, from jobs to results.
//!
//! Decides what is built and run when, in which processes, on which device.

mod alone;
mod architecture;
mod builds;
pub mod engine;
mod identity;
mod pool;
pub mod queue;
mod shared;
mod single_process;
mod supervisor;

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_builds::BuildOutcome;
use mneme_model::device::Description;
use mneme_model::result::ReplayResult;
use mneme_recording::poison::PoisonMap;

/// An event for a client.
pub enum SupervisorEvent {
    /// A device works and the recording is resident.
    Ready(Description),
    Finished {
        id: u64,
        result: Box<ReplayResult>,
        outcome: Option<Rc<BuildOutcome>>,
        /// The digest of the memory after the run, if requested.
        digest: String,
        /// Why a requested file is missing, in one sentence.
        unwritten: Option<String>,
        /// The bytes that the code only writes, if requested.
        calibrated: Option<Box<PoisonMap>>,
        /// The time of all of the executor's work for it.
        took: Duration,
    },
    Cancelled(u64),
    /// The client's requests can be read.
    Input,
    /// The reader of the results is gone.
    ReaderGone,
    /// The time that the client gave has come.
    Tick,
}

/// The client's descriptors and alarm, which are watched too.
#[derive(Clone, Copy, Default)]
pub struct Client<'a> {
    /// The source of its requests.
    pub input: Option<BorrowedFd<'a>>,
    /// The destination of its results. A closed reader shows here even between results.
    pub output: Option<BorrowedFd<'a>>,
    /// When to return [`SupervisorEvent::Tick`].
    pub alarm: Option<Instant>,
}

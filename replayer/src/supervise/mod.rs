//! Supervision of a replay, from jobs to results.
//!
//! It decides what is built and run when, in which processes, on which device.

mod architecture;
mod builds;
pub mod engine;
mod pool;
pub mod queue;
mod shared;
mod single_process;
mod supervisor;

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_core::device::Description;
use mneme_core::recording::poison::PoisonMap;
use mneme_core::result::ReplayResult;

use mneme_builds::BuildOutcome;

/// What there is to tell a client.
pub enum SupervisorEvent {
    /// A device works and the recording is resident.
    Ready(Description),
    Finished {
        id: u64,
        result: Box<ReplayResult>,
        outcome: Option<Rc<BuildOutcome>>,
        /// Of what the run left, where that was asked for.
        digest: String,
        /// Why a file that was asked for is not there, in one sentence.
        unwritten: Option<String>,
        /// Bytes that the code only writes, if that was asked for.
        calibrated: Option<Box<PoisonMap>>,
        /// All that the executor did for it.
        took: Duration,
    },
    Cancelled(u64),
    /// The client's requests can be read.
    Input,
    /// Nobody reads the results any more.
    ReaderGone,
    /// The time that the client gave has come.
    Tick,
}

/// What is watched for a client besides.
#[derive(Clone, Copy, Default)]
pub struct Client<'a> {
    /// Where its requests come from.
    pub input: Option<BorrowedFd<'a>>,
    /// Where its results go; what becomes of it shows here even while there is nothing to write.
    pub output: Option<BorrowedFd<'a>>,
    /// When to return with [`SupervisorEvent::Tick`].
    pub alarm: Option<Instant>,
}

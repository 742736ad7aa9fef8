//! Tells whether contexts have finished all the work that they had at some moment.
//!
//! Since CUDA 12.5 the driver can record an event after all of it (`cuCtxRecordEvent`). Older drivers and HIP lack such
//! an event, and a query over all streams. For these a thread waits for the contexts; it stays until they are idle,
//! even if the recorder has stopped waiting.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use mneme_abi::cuda::sys::CUevent_flags;

use super::streams::CaptureMode;
use super::{self as driver, CUcontext, CUevent, Status, contexts, waiting};
use crate::process::threads;

const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;

/// A question to the driver, asked once. You can poll the answer while the contexts live.
pub enum IdleQuestion {
    /// Events that have not been reached, with their contexts.
    Events(Vec<(usize, CUevent)>),
    /// Receives the answer of the thread.
    Thread(Receiver<Status>),
}

// SAFETY: driver handles may be used from any thread, and one thread at a time has the question.
unsafe impl Send for IdleQuestion {}

impl IdleQuestion {
    /// Asks about live contexts.
    pub fn ask(contexts: &[usize]) -> Self {
        let mut question = Self::Events(Vec::new());
        for context in contexts {
            match contexts::within(*context, || event_behind_all_of(*context)) {
                Some(Ok(event)) => question.add(*context, event),
                Some(Err(_)) => {
                    question.destroy();
                    return Self::ask_by_thread(contexts.to_vec());
                }
                // A context that died in a way that is not hooked has no work to wait for.
                None => {}
            }
        }
        question
    }

    fn add(&mut self, context: usize, event: CUevent) {
        if let Self::Events(events) = self {
            events.push((context, event));
        }
    }

    fn ask_by_thread(contexts: Vec<usize>) -> Self {
        let (sender, receiver) = sync_channel(1);
        let wait = move || {
            let _mode = CaptureMode::relaxed();
            let idle = |context: usize| {
                // SAFETY: the driver reports an error for a dead context.
                unsafe {
                    match driver::cuCtxSetCurrent(context as CUcontext) {
                        Status::SUCCESS => driver::cuCtxSynchronize(),
                        _ => Status::SUCCESS,
                    }
                }
            };
            let status = contexts.into_iter().map(idle).find(|status| *status != Status::SUCCESS);
            let _ = sender.send(status.unwrap_or(Status::SUCCESS));
        };
        // If the thread cannot start, its sender is dropped, and `answer` reports that.
        threads::start("mneme-idle", threads::LARGE, wait);
        Self::Thread(receiver)
    }

    /// `None` while the contexts work, then the first error or success. Do not ask again after an answer.
    pub fn answer(&mut self) -> Option<Status> {
        match self {
            Self::Events(events) => {
                while let Some((context, event)) = events.last().copied() {
                    let status =
                        contexts::within(context, || waiting::reached(event)).unwrap_or(Some(Status::SUCCESS))?;
                    events.pop();
                    destroy(context, event);
                    if status != Status::SUCCESS {
                        return Some(status);
                    }
                }
                Some(Status::SUCCESS)
            }
            Self::Thread(receiver) => match receiver.try_recv() {
                Ok(status) => Some(status),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Status::OUT_OF_MEMORY),
            },
        }
    }

    /// Destroys the events, reached or not.
    fn destroy(&mut self) {
        if let Self::Events(events) = self {
            events.drain(..).for_each(|(context, event)| destroy(context, event));
        }
    }
}

/// Records an event after all work of the current context.
fn event_behind_all_of(context: usize) -> Result<CUevent, Status> {
    let mut event: CUevent = std::ptr::null_mut();
    // SAFETY: a valid place; the context is the current one, in which the event is made.
    unsafe {
        match driver::cuEventCreate(&mut event, DISABLE_TIMING) {
            Status::SUCCESS => {}
            error => return Err(error),
        }
        match driver::cuCtxRecordEvent(context as CUcontext, event) {
            Status::SUCCESS => Ok(event),
            error => {
                driver::cuEventDestroy_v2(event);
                Err(error)
            }
        }
    }
}

/// Destroys an event, reached or not; the driver does not wait.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "a handle that only the driver dereferences")]
pub fn destroy(context: usize, event: CUevent) {
    // SAFETY: the recorder's event, not used again; its context is alive if it can be made current.
    contexts::within(context, || unsafe { driver::cuEventDestroy_v2(event) });
}

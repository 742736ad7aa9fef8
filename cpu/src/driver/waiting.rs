//! Calls that wait for streams and contexts, or query them.

use mneme_abi::cuda::types::STREAM_LEGACY;

use super::lanes::{self, Task};
use super::{context, event, graph, stream};
use crate::status::{Status, StatusResult};

/// Waits for all work of the context.
pub fn context() -> StatusResult {
    graph::check_uncaptured(None)?;
    context::usable()?;
    wait_for_context()
}

/// Waits for all work of the context, in a call that has another purpose.
pub fn wait_for_context() -> StatusResult {
    lanes::wait(&lanes::of_context(context::current()?))?;
    context::fault()
}

/// Checks that a call may wait for a stream.
fn check(stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    graph::check_uncaptured(Some(stream).filter(|stream| *stream > STREAM_LEGACY).or(Some(usize::MAX)))
}

pub fn stream(stream: usize) -> StatusResult {
    check(stream)?;
    lanes::wait(&lanes::of_stream(&stream::place(stream)?))?;
    context::fault()
}

/// Returns `NOT_READY` if a stream has unfinished work.
pub fn query(stream: usize) -> StatusResult {
    check(stream)?;
    if !lanes::are_reached(&lanes::of_stream(&stream::place(stream)?)) {
        return Err(Status::NOT_READY);
    }
    context::fault()
}

/// Accepts `cuStreamAttachMemAsync`, which has no effect because the host has all memory.
pub fn attach(stream: usize) -> StatusResult {
    check(stream)
}

/// Makes a stream wait for an event.
pub fn stream_waits(stream: usize, event: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture_wait(stream, event) {
        return Ok(());
    }
    context::usable()?;
    if let Some(moment) = event::unreached(event)? {
        lanes::submit(&stream::place(stream)?, &[moment], Task::nothing())?;
    }
    Ok(())
}

//! Waiting for streams and contexts, and asking about them.

use mneme_abi::cuda::types::STREAM_LEGACY;

use super::lanes::{self, Task};
use super::{context, event, graph, stream};
use crate::status::{Status, StatusResult};

/// Waiting for all work of the context.
pub fn context() -> StatusResult {
    graph::check_wait(None)?;
    context::usable()?;
    wait_for_context()
}

/// The same for a call that waits besides.
pub fn wait_for_context() -> StatusResult {
    lanes::wait(&lanes::of_context(context::current()?))?;
    context::fault()
}

/// A stream that may be waited for.
fn check(stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    graph::check_wait(Some(stream).filter(|stream| *stream > STREAM_LEGACY).or(Some(usize::MAX)))
}

pub fn stream(stream: usize) -> StatusResult {
    check(stream)?;
    lanes::wait(&lanes::of_stream(&stream::place(stream)?))?;
    context::fault()
}

/// Whether a stream has done what it has to do.
pub fn query(stream: usize) -> StatusResult {
    check(stream)?;
    if !lanes::are_reached(&lanes::of_stream(&stream::place(stream)?)) {
        return Err(Status::NOT_READY);
    }
    context::fault()
}

/// For work on a stream that leaves memory as it is.
pub fn attach(stream: usize) -> StatusResult {
    check(stream)
}

/// Has a stream wait for an event.
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

//! Waiting for streams, events and contexts.
//!
//! All work is done, unless a stream that is captured has noted it down.

use mneme_abi::cuda::types::STREAM_LEGACY;

use super::{context, event, graph, stream};
use crate::status::StatusResult;

/// Waiting for all work of the context.
pub fn context() -> StatusResult {
    graph::check_wait(None)?;
    context::usable()
}

/// Querying a stream, and waiting for it.
pub fn stream(stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    graph::check_wait(Some(stream).filter(|stream| *stream > STREAM_LEGACY).or(Some(usize::MAX)))
}

/// Has a stream wait for an event.
pub fn stream_waits(stream: usize, event: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture_wait(stream, event) {
        return Ok(());
    }
    event::reached(event)
}

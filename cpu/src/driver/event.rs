//! Events: points in time.
//!
//! Work is done when it is enqueued, so a recorded event has happened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::{context, graph, stream};
use crate::abi::Out;
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

const DISABLE_TIMING: u32 = 2;

struct Event {
    context: usize,
    flags: u32,
    /// Nanoseconds since the first event, plus one; 0 = never recorded.
    recorded: AtomicU64,
}

static EVENTS: Registry<Event> = Registry::new("an event");

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

pub fn create(out: Out<usize>, flags: u32) -> StatusResult {
    context::usable()?;
    now();
    out.put(EVENTS.insert(Arc::new(Event { context: context::current()?, flags, recorded: AtomicU64::new(0) })))
}

/// Events are destroyed with their context.
pub fn end_with(context: usize) {
    EVENTS.remove_all(|event| event.context == context);
}

pub fn destroy(event: usize) -> StatusResult {
    EVENTS.remove(event).map(|_| ())
}

pub fn record(event: usize, stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    if EVENTS.get(event).is_ok() && graph::capture_event(event, stream) {
        return Ok(());
    }
    EVENTS.get(event)?.recorded.store(now(), Ordering::Release);
    Ok(())
}

/// Querying and waiting: the event has happened, or a kernel before it has failed.
pub fn reached(event: usize) -> StatusResult {
    context::usable()?;
    EVENTS.get(event).map(|_| ())
}

/// Milliseconds between two recorded events.
pub fn elapsed(out: Out<f32>, start: usize, end: usize) -> StatusResult {
    context::usable()?;
    let (start, end) = (EVENTS.get(start)?, EVENTS.get(end)?);
    let time = |event: &Event| match event.recorded.load(Ordering::Acquire) {
        0 => Err(Status::INVALID_HANDLE),
        _ if event.flags & DISABLE_TIMING != 0 => Err(Status::INVALID_HANDLE),
        time => Ok(time as f64),
    };
    out.put(((time(&end)? - time(&start)?) / 1e6) as f32)
}

//! Streams: handles of work that is executed in order.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mneme_abi::cuda::types::STREAM_PER_THREAD;

use super::context;
use super::lanes::{LaneKey, Place};
use crate::abi::Out;
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

struct Stream {
    context: usize,
    flags: u32,
    priority: i32,
}

static STREAMS: Registry<Stream> = Registry::new("a stream");

pub fn check(stream: usize) -> StatusResult {
    if stream <= STREAM_PER_THREAD { Ok(()) } else { STREAMS.get(stream).map(|_| ()) }
}

/// `CU_STREAM_NON_BLOCKING`: does not synchronise with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A number that identifies the calling thread.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(u64::MAX)
}

thread_local! {
    /// Whether stream 0 means the calling thread's own default stream.
    static HAS_OWN_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function that was called by its name for per-thread default streams.
pub fn with_own_default<R>(body: impl FnOnce() -> R) -> R {
    let before = HAS_OWN_DEFAULT.replace(true);
    let done = body();
    HAS_OWN_DEFAULT.set(before);
    done
}

/// The lane of a stream.
pub fn place(stream: usize) -> Result<Place, Status> {
    let stream = if stream == 0 && HAS_OWN_DEFAULT.get() { STREAM_PER_THREAD } else { stream };
    let default = |key: fn(usize) -> LaneKey, blocking| {
        let context = context::current()?;
        Ok(Place { key: key(context), context, device: context::device_of(context)?, blocking })
    };
    match stream {
        STREAM_PER_THREAD => default(|context| LaneKey::PerThread(context, thread()), true),
        ..STREAM_PER_THREAD => default(LaneKey::Legacy, false),
        _ => {
            let Stream { context, flags, .. } = *STREAMS.get(stream)?;
            let (device, blocking) = (context::device_of(context)?, flags & NON_BLOCKING == 0);
            Ok(Place { key: LaneKey::Stream(stream), context, device, blocking })
        }
    }
}

pub fn create(out: Out<usize>, flags: u32, priority: i32) -> StatusResult {
    context::usable()?;
    if flags > 1 {
        return Err(Status::INVALID_VALUE);
    }
    out.put(STREAMS.insert(Arc::new(Stream { context: context::current()?, flags, priority })))
}

pub fn destroy(stream: usize) -> StatusResult {
    STREAMS.remove(stream).map(|_| ())
}

/// Destroys the streams of a context.
pub fn end_with(context: usize) {
    STREAMS.remove_all(|stream| stream.context == context);
}

pub fn get_flags(stream: usize, out: Out<u32>) -> StatusResult {
    context::current()?;
    check(stream)?;
    out.put(STREAMS.get(stream).map_or(0, |stream| stream.flags))
}

pub fn get_priority(stream: usize, out: Out<i32>) -> StatusResult {
    context::current()?;
    check(stream)?;
    out.put(STREAMS.get(stream).map_or(0, |stream| stream.priority))
}

pub fn get_context(stream: usize, out: Out<usize>) -> StatusResult {
    check(stream)?;
    out.put(match STREAMS.get(stream) {
        Ok(stream) => stream.context,
        Err(_) => context::current()?,
    })
}

pub fn get_device(stream: usize, out: Out<i32>) -> StatusResult {
    check(stream)?;
    out.put(match STREAMS.get(stream) {
        Ok(stream) => context::device_of(stream.context)?,
        Err(_) => context::current_device()?,
    })
}

pub fn get_id(stream: usize, out: Out<u64>) -> StatusResult {
    context::current()?;
    check(stream)?;
    out.put(stream as u64)
}

/// `CU_STREAM_CAPTURE_MODE_*` of the thread. The modes have no effect, because no call is unsafe during a capture here.
pub fn exchange_capture_mode(mode: Out<u32>) -> StatusResult {
    if mode.is_null() { Err(Status::INVALID_VALUE) } else { Ok(()) }
}

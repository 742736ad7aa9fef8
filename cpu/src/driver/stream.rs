//! Streams: names under which work is enqueued and done at once.

use std::ffi::c_void;
use std::sync::Arc;

use mneme_abi::cuda::types::STREAM_PER_THREAD;

use super::context;
use crate::abi::{Callback, Out};
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

/// Streams are destroyed with their context.
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

/// `CU_STREAM_CAPTURE_MODE_*` of the thread: nothing that a mode could forbid is unsafe here.
pub fn exchange_capture_mode(mode: Out<u32>) -> StatusResult {
    if mode.is_null() { Err(Status::INVALID_VALUE) } else { Ok(()) }
}

pub fn add_callback(stream: usize, function: Callback, data: *mut c_void) -> StatusResult {
    context::current()?;
    check(stream)?;
    let function = function.ok_or(Status::INVALID_VALUE)?;
    // SAFETY: as above.
    unsafe { function(stream, crate::status::of(context::fault()), data) };
    Ok(())
}

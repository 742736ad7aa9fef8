//! The stream captures in progress.
//!
//! While a stream is captured, waiting for its context is an error that ends the capture, whichever thread waits and
//! whatever its capture mode (tried on driver 580). So nothing is recorded meanwhile, and a free waits in another way.

use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{CUstream, STREAM_PER_THREAD, Status, gate, streams};

/// Captured streams; a thread's own default stream goes by the name that all threads use, hence several times.
#[derive(Default)]
struct Captures(Mutex<Vec<usize>>);

static CAPTURES: Captures = Captures(Mutex::new(Vec::new()));

impl Captures {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: usize) {
        self.lock().push(stream);
    }

    fn remove(&self, stream: usize) {
        let mut streams = self.lock();
        if let Some(index) = streams.iter().position(|captured| *captured == stream) {
            streams.swap_remove(index);
        }
    }
}

/// Whether any stream is being captured.
pub fn in_progress() -> bool {
    !CAPTURES.lock().is_empty()
}

/// The legacy default stream cannot be captured, so that 0 is the thread's own.
fn named(stream: CUstream) -> usize {
    if stream.is_null() { STREAM_PER_THREAD } else { stream as usize }
}

/// # Safety
/// The arguments are those of `cuStreamBeginCapture`.
pub unsafe fn begin(call: &dyn Fn() -> Status, stream: CUstream) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == Status::SUCCESS {
            CAPTURES.add(named(stream));
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuStreamBeginCapture_v2`.
pub unsafe fn begin_in_mode(call: &dyn Fn() -> Status, stream: CUstream, _mode: c_uint) -> Status {
    // SAFETY: the stream is the same.
    unsafe { begin(call, stream) }
}

/// # Safety
/// The arguments are those of `cuStreamBeginCaptureToGraph`.
pub unsafe fn begin_to_graph(
    call: &dyn Fn() -> Status,
    stream: CUstream,
    _graph: *mut c_void,
    _dependencies: *const c_void,
    _data: *const c_void,
    _count: usize,
    _mode: c_uint,
) -> Status {
    // SAFETY: the stream is the same.
    unsafe { begin(call, stream) }
}

/// Into a graph that exists, whose nodes take the new parameters.
///
/// # Safety
/// The arguments are those of `cuStreamBeginRecaptureToGraph`.
pub unsafe fn begin_again(
    call: &dyn Fn() -> Status,
    stream: CUstream,
    _mode: c_uint,
    _graph: *mut c_void,
    _callback: *mut c_void,
    _data: *mut c_void,
) -> Status {
    // SAFETY: the stream is the same.
    unsafe { begin(call, stream) }
}

/// Into a command list of a graphics interface.
///
/// # Safety
/// The arguments are those of `cuStreamBeginCaptureToCig`.
pub unsafe fn begin_for_graphics(call: &dyn Fn() -> Status, stream: CUstream, _parameters: *mut c_void) -> Status {
    // SAFETY: the stream is the same.
    unsafe { begin(call, stream) }
}

/// # Safety
/// The arguments are those of `cuStreamEndCaptureToCig`.
pub unsafe fn end_for_graphics(call: &dyn Fn() -> Status, stream: CUstream) -> Status {
    gate::passing(&|| {
        let status = call();
        // Whether such a stream counts as one that is captured is not said.
        if status == Status::SUCCESS {
            CAPTURES.remove(named(stream));
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuStreamEndCapture`.
pub unsafe fn end(call: &dyn Fn() -> Status, stream: CUstream, _graph: *mut *mut c_void) -> Status {
    gate::passing(&|| {
        let status = call();
        // An invalidated capture ends with an error, and one of another thread's does not end.
        if !streams::is_capturing(named(stream)) {
            CAPTURES.remove(named(stream));
        }
        status
    })
}

/// Whether a stream of the application's is being captured.
pub fn captures(stream: CUstream) -> bool {
    let stream = named(stream);
    // A thread's own default stream goes by a name that others have, too.
    let is_known = stream != STREAM_PER_THREAD && CAPTURES.lock().contains(&stream);
    in_progress() && (is_known || streams::is_capturing(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_needs_its_end() {
        let captures = Captures::default();
        captures.add(2);
        captures.add(2);
        captures.add(64);
        captures.remove(2);
        captures.remove(7);
        assert_eq!(captures.lock().len(), 2);
        captures.remove(2);
        captures.remove(64);
        assert!(captures.lock().is_empty());
    }
}

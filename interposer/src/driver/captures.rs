//! The stream captures in progress.
//!
//! While a stream is captured, waiting for its context is an error that ends the capture, whichever thread waits and in
//! every capture mode (tried on driver 580). So no launch is recorded during a capture, and a free waits in another
//! way.
//!
//! A capture ends with `cuStreamEndCapture`, or with its stream, its context, or the thread that owns the default
//! stream.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::{self as driver, CUstream, STREAM_PER_THREAD, Status, gate, streams};

/// A stream that is being captured.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Captured {
    stream: usize,
    /// `CUcontext`, or 0 if it is unknown.
    context: usize,
    /// The owner of a per-thread default stream, whose handle is the same in every thread.
    thread: Option<ThreadId>,
}

/// Holds a stream once for each capture that has begun.
#[derive(Default)]
struct Captures(Mutex<Vec<Captured>>);

static CAPTURES: Captures = Captures(Mutex::new(Vec::new()));

impl Captures {
    fn lock(&self) -> MutexGuard<'_, Vec<Captured>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, captured: Captured) {
        self.lock().push(captured);
    }

    /// Removes one capture.
    fn remove(&self, stream: usize, thread: Option<ThreadId>) {
        let mut streams = self.lock();
        if let Some(index) = streams.iter().position(|it| (it.stream, it.thread) == (stream, thread)) {
            streams.swap_remove(index);
        }
    }

    /// Removes the captures that `ended` selects.
    fn remove_where(&self, ended: impl Fn(&Captured) -> bool) {
        self.lock().retain(|captured| !ended(captured));
    }
}

/// Forgets the captures in a context that has died.
pub fn forget_context(context: usize) {
    CAPTURES.remove_where(|captured| captured.context == context);
}

/// Forgets the captures of a thread's default stream when the thread ends.
struct OwnStream;

impl Drop for OwnStream {
    fn drop(&mut self) {
        let own = Some(thread::current().id());
        CAPTURES.remove_where(|captured| captured.thread == own);
    }
}

thread_local! {
    static OWN_STREAM: OwnStream = const { OwnStream };
}

/// The thread that owns a per-thread default stream.
fn owner_of(stream: usize) -> Option<ThreadId> {
    (stream == STREAM_PER_THREAD).then(|| thread::current().id())
}

/// Whether any stream is being captured.
pub fn in_progress() -> bool {
    !CAPTURES.lock().is_empty()
}

/// Turns 0 into the per-thread default stream: the legacy default stream cannot be captured.
fn named(stream: CUstream) -> usize {
    if stream.is_null() { STREAM_PER_THREAD } else { stream as usize }
}

/// Begins a capture: of the application, into a graph, or into a command list of a graphics interface.
pub fn begin(call: &dyn Fn() -> Status, stream: CUstream) -> Status {
    let begun = || {
        let stream = named(stream);
        let context = streams::context_of(stream).or_else(driver::current_context).unwrap_or(0);
        let thread = owner_of(stream);
        if thread.is_some() {
            // Registers the destructor, which runs when the thread ends.
            let _ = OWN_STREAM.try_with(|_| ());
        }
        CAPTURES.add(Captured { stream, context, thread });
    };
    gate::passing(&|| call().on_success(begun))
}

/// Handles `cuStreamEndCaptureToCig`, whose documentation does not say whether `cuStreamIsCapturing` reports such a
/// stream.
pub fn end_for_graphics(call: &dyn Fn() -> Status, stream: CUstream) -> Status {
    gate::passing(&|| call().on_success(|| ended(named(stream))))
}

/// Handles `cuStreamEndCapture`.
pub fn end(call: &dyn Fn() -> Status, stream: CUstream) -> Status {
    gate::passing(&|| {
        let status = call();
        // An invalidated capture ends with an error. The capture of another thread's stream does not end.
        if !streams::is_capturing(named(stream)) {
            ended(named(stream));
        }
        status
    })
}

/// Notes that the capture of a stream has ended. Only its own thread can end the capture of a default stream.
fn ended(stream: usize) {
    CAPTURES.remove(stream, owner_of(stream));
}

/// Destroys a stream. Its handle may belong to a new stream as soon as the call is made.
pub fn destroy(call: &dyn Fn() -> Status, stream: CUstream) -> Status {
    if in_progress() && !stream.is_null() && stream.addr() > STREAM_PER_THREAD {
        return destroy_captured(call, stream.addr());
    }
    call()
}

/// Forgets the captures before the call: after it, another thread may begin a capture with the same handle.
#[cold]
fn destroy_captured(call: &dyn Fn() -> Status, stream: usize) -> Status {
    let before: Vec<Captured> = CAPTURES.lock().extract_if(.., |captured| captured.stream == stream).collect();
    let status = call();
    if status != Status::SUCCESS {
        CAPTURES.lock().extend(before);
    }
    status
}

/// Whether a stream of the application is being captured.
pub fn captures(stream: CUstream) -> bool {
    let stream = named(stream);
    // All threads' default streams share a handle, so the list cannot answer for them.
    let is_known = stream != STREAM_PER_THREAD && CAPTURES.lock().iter().any(|captured| captured.stream == stream);
    in_progress() && (is_known || streams::is_capturing(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(stream: usize, context: usize) -> Captured {
        Captured { stream, context, thread: owner_of(stream) }
    }

    #[test]
    fn every_beginning_needs_its_end() {
        let captures = Captures::default();
        for stream in [STREAM_PER_THREAD, STREAM_PER_THREAD, 64] {
            captures.add(captured(stream, 0));
        }
        let own = owner_of(STREAM_PER_THREAD);
        captures.remove(STREAM_PER_THREAD, own);
        captures.remove(7, None);
        thread::scope(|scope| {
            scope.spawn(|| captures.remove(STREAM_PER_THREAD, owner_of(STREAM_PER_THREAD)));
        });
        assert_eq!(captures.lock().len(), 2, "another thread's own stream is another one");
        captures.remove(STREAM_PER_THREAD, own);
        captures.remove(64, None);
        assert!(captures.lock().is_empty());
    }

    #[test]
    fn a_capture_ends_with_what_it_takes_place_in() {
        let begin = |stream: usize| CAPTURES.add(captured(stream, 0x10));
        let is_captured = |stream| CAPTURES.lock().iter().any(|captured| captured.stream == stream);
        let destroy = |stream: usize, status| destroy(&|| status, std::ptr::without_provenance_mut(stream));
        [0x99, 0xaa].into_iter().for_each(begin);
        destroy(0x99, Status::INVALID_VALUE);
        assert!(is_captured(0x99), "the capture of a stream that is not destroyed continues");
        destroy(0x99, Status::SUCCESS);
        assert!(!is_captured(0x99) && is_captured(0xaa));
        forget_context(0x20);
        assert!(is_captured(0xaa));
        forget_context(0x10);
        assert!(!is_captured(0xaa));
        let begin_own = || {
            super::begin(&|| Status::SUCCESS, std::ptr::null_mut());
            let own = Some(thread::current().id());
            assert!(in_progress() && CAPTURES.lock().iter().any(|captured| captured.thread == own));
            own
        };
        let ended = thread::spawn(begin_own).join().unwrap();
        assert!(CAPTURES.lock().iter().all(|captured| captured.thread != ended), "a thread's own stream ends with it");
    }
}

//! Asks the driver about streams, and about this thread's part in captures.

use mneme_abi::cuda::sys::CUstreamCaptureMode;

use crate::driver::{self, CUcontext, CUstream, STREAM_PER_THREAD, Status};

/// The mode in which the recorder's calls do not disturb a capture of another thread.
const CAPTURE_RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;

/// Whether a stream is captured, or the driver refuses to answer because another one is.
pub fn is_capturing(stream: usize) -> bool {
    let mut status = 0;
    // SAFETY: the stream is the one that the application launches into.
    let result = unsafe { driver::cuStreamIsCapturing(stream as CUstream, &mut status) };
    // The default stream returns an error while another stream captures. A driver without the function cannot capture.
    status != 0 || !matches!(result, Status::SUCCESS | Status::NOT_FOUND)
}

/// The context of a stream, in which a launch into it runs. `None` for a default stream, which uses the current
/// context.
pub fn context_of(stream: usize) -> Option<usize> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: a valid place, and the stream is the one that the application launches into.
    let known = stream > STREAM_PER_THREAD
        && unsafe { driver::cuStreamGetCtx(stream as CUstream, &mut context) } == Status::SUCCESS;
    (known && !context.is_null()).then_some(context as usize)
}

/// Runs `work` without disturbing a capture of another thread.
pub fn with_relaxed_captures<R>(work: impl FnOnce() -> R) -> R {
    let _mode = CaptureMode::relaxed();
    work()
}

/// Restores this thread's capture mode when dropped.
pub struct CaptureMode(u32);

impl CaptureMode {
    pub fn relaxed() -> Self {
        let mut mode = CAPTURE_RELAXED;
        // SAFETY: exchanges the value; a driver without the function leaves it.
        unsafe { driver::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Self(mode)
    }
}

impl Drop for CaptureMode {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { driver::cuThreadExchangeStreamCaptureMode(&mut self.0) };
    }
}

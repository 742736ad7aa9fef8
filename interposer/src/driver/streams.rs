//! The driver's answers about streams and about this thread's part in captures.

use mneme_abi::cuda::sys::CUstreamCaptureMode;

use crate::driver::{self, CUcontext, CUstream, STREAM_PER_THREAD, Status};

/// The mode in which our calls do not disturb a capture of another thread.
const CAPTURE_RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;

/// Whether a stream is captured, or cannot be asked because another one is.
pub fn is_capturing(stream: usize) -> bool {
    let mut status = 0;
    // SAFETY: the stream is the one that the application launches into.
    let result = unsafe { driver::cuStreamIsCapturing(stream as CUstream, &mut status) };
    // The default stream answers with an error while another stream captures; a driver without the function captures
    // nothing.
    status != 0 || !matches!(result, Status::SUCCESS | Status::NOT_FOUND)
}

/// The context that a stream was made in, in which a launch into it takes place; `None` for a default stream, which has
/// the current one.
pub fn context_of(stream: usize) -> Option<usize> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: a valid place, and the stream is the one that the application launches into.
    let known = stream > STREAM_PER_THREAD
        && unsafe { driver::cuStreamGetCtx(stream as CUstream, &mut context) } == Status::SUCCESS;
    (known && !context.is_null()).then_some(context as usize)
}

/// Runs `work` so that its calls do not disturb a capture of another thread.
pub fn with_relaxed_captures<R>(work: impl FnOnce() -> R) -> R {
    let _mode = CaptureMode::relaxed();
    work()
}

/// This thread's capture mode, put back when dropped.
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

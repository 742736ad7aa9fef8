//! Waits for the device, with limits.
//!
//! The driver's own waits have no limit, and the device may be waiting for the thread that waits: a kernel may wait for
//! a flag that the host sets after the launch. So the recorder polls, at first without a pause, because most work takes
//! microseconds, then ever more rarely, because the application needs the processor.

use std::time::{Duration, Instant};

use super::streams::CaptureMode;
use super::{self as driver, CUevent, CUstream, Status};

/// How long to poll without a pause.
const BUSY: Duration = Duration::from_micros(200);
/// The longest pause. Shorter pauses are a fraction of the time waited so far, which bounds by how much a wait can be
/// too long.
const PAUSE: Duration = Duration::from_millis(1);
const FRACTION: u32 = 16;

/// Polls at least once until there is an answer. Returns `None` at the deadline.
pub fn until<T>(deadline: Instant, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        let now = Instant::now();
        if now >= deadline {
            return None;
        }
        let waited = now - start;
        if waited < BUSY {
            std::thread::yield_now();
        } else {
            std::thread::sleep((waited / FRACTION).min(PAUSE).min(deadline - now));
        }
    }
}

/// The driver's answer once an event has been reached, `None` before.
///
/// `cuEventQuery` invalidates a stream capture in the global mode, so this thread asks in the relaxed mode.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "a handle that only the driver dereferences")]
pub fn reached(event: CUevent) -> Option<Status> {
    let _mode = CaptureMode::relaxed();
    // SAFETY: the recorder's event, in a live context.
    let status = unsafe { driver::cuEventQuery(event) };
    (status != Status::NOT_READY).then_some(status)
}

/// A stream of the recorder, on which no work of the application runs.
#[derive(Clone, Copy)]
pub struct OwnStream {
    /// Null on the CPU device, where no work is enqueued.
    pub stream: CUstream,
    /// Recorded after the work.
    pub done: CUevent,
}

impl OwnStream {
    /// Waits for the enqueued work. Returns [`Status::NOT_READY`] if it is not done in time.
    pub fn finish(self, limit: Duration) -> Status {
        // SAFETY: an event and a stream of the recorder.
        match unsafe { driver::cuEventRecord(self.done, self.stream) } {
            Status::SUCCESS => finish(self.done, limit),
            error => error,
        }
    }
}

/// Waits for an event. Returns [`Status::NOT_READY`] if it is not reached in time.
pub fn finish(event: CUevent, limit: Duration) -> Status {
    until(Instant::now() + limit, || reached(event)).unwrap_or(Status::NOT_READY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_answer_or_at_its_limit() {
        let now = Instant::now();
        assert_eq!(until(now, || Some(7)), Some(7), "what is done already is done in time");
        let mut asked = 0;
        let third = || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        assert_eq!(until(now + Duration::from_secs(60), third), Some(3));
        let limit = Duration::from_millis(20);
        let start = Instant::now();
        assert_eq!(until(start + limit, || None::<()>), None);
        assert!(start.elapsed() >= limit);
    }
}

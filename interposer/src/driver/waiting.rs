//! Waits for the device, each with a limit.
//!
//! The driver's own waits have none, and what is waited for may wait for the thread that waits: a kernel for a flag
//! that the host sets after the launch. So the recorder asks again and again, at first without a pause, because most
//! work is done in microseconds, then ever more rarely, because the processor is the application's.

use std::time::{Duration, Instant};

use super::streams::CaptureMode;
use super::{self as driver, CUevent, CUstream, Status};

/// For so long it asks without a pause.
const BUSY: Duration = Duration::from_micros(200);
/// The longest pause. Shorter ones are a fraction of what has been waited, which is by how much a wait may be too long.
const PAUSE: Duration = Duration::from_millis(1);
const FRACTION: u32 = 16;

/// Asks until there is an answer, at least once; `None` when there is none in time.
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

/// Whether an event has been reached: the driver's answer, `None` while it has not.
///
/// `cuEventQuery` invalidates a stream capture in the global mode, so this thread asks in the relaxed mode.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "a handle of our own, which only the driver follows")]
pub fn reached(event: CUevent) -> Option<Status> {
    let _mode = CaptureMode::relaxed();
    // SAFETY: an event of ours, in a context that is alive.
    let status = unsafe { driver::cuEventQuery(event) };
    (status != Status::NOT_READY).then_some(status)
}

/// A stream of ours, with which nothing of the application's is waited for.
#[derive(Clone, Copy)]
pub struct OwnStream {
    /// Null on the CPU device, where nothing is enqueued.
    pub stream: CUstream,
    /// Recorded behind what is waited for.
    pub done: CUevent,
}

impl OwnStream {
    /// Waits for what has been enqueued; [`Status::NOT_READY`] where it is not done in time.
    pub fn finish(self, limit: Duration) -> Status {
        // SAFETY: an event and a stream of ours.
        match unsafe { driver::cuEventRecord(self.done, self.stream) } {
            Status::SUCCESS => finish(self.done, limit),
            error => error,
        }
    }
}

/// Waits for an event; [`Status::NOT_READY`] where it is not reached in time.
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

//! Times kernels by pairs of events around a launch, in the launch's own stream.
//!
//! If the device was idle, the time includes that of the submission, a few microseconds.

use super::{self as driver, CUevent, CUstream, Status, waiting};

/// Two events of the current context.
pub struct EventPair {
    start: CUevent,
    end: CUevent,
}

// SAFETY: driver handles may be used from any thread, and one thread at a time has the timer.
unsafe impl Send for EventPair {}

impl EventPair {
    pub fn create() -> Option<Self> {
        let mut timer = Self { start: std::ptr::null_mut(), end: std::ptr::null_mut() };
        // SAFETY: valid places for the handles; 0 are an event's default flags, with timing.
        unsafe {
            if driver::cuEventCreate(&mut timer.start, 0) != Status::SUCCESS {
                return None;
            }
            if driver::cuEventCreate(&mut timer.end, 0) != Status::SUCCESS {
                driver::cuEventDestroy_v2(timer.start);
                return None;
            }
        }
        Some(timer)
    }

    /// Records the event before the launch. Returns whether the stream took it.
    pub fn start(&self, stream: usize) -> bool {
        // SAFETY: the recorder's event, and the stream that the application launches into.
        unsafe { driver::cuEventRecord(self.start, stream as CUstream) == Status::SUCCESS }
    }

    /// Records the event after the launch.
    pub fn stop(&self, stream: usize) -> bool {
        // SAFETY: as above.
        unsafe { driver::cuEventRecord(self.end, stream as CUstream) == Status::SUCCESS }
    }

    /// The driver's answer once the work between the two is done, `None` before.
    pub fn is_reached(&self) -> Option<Status> {
        waiting::reached(self.end)
    }

    /// The time between the two in ns, if both have been reached. Does not wait.
    pub fn elapsed(&self) -> Option<u64> {
        let mut milliseconds = 0f32;
        // SAFETY: events of the recorder and a valid place.
        let done = self.is_reached() == Some(Status::SUCCESS)
            && unsafe { driver::cuEventElapsedTime(&mut milliseconds, self.start, self.end) == Status::SUCCESS };
        (done && milliseconds >= 0.0).then(|| (f64::from(milliseconds) * 1e6) as u64)
    }

    /// Returns the event after the work, and destroys the other.
    pub fn into_end(self) -> CUevent {
        // SAFETY: the recorder's event, not used again; destroying it does not wait.
        unsafe { driver::cuEventDestroy_v2(self.start) };
        self.end
    }

    /// Destroys the events. There is no `Drop`, because the context may be gone by then.
    pub fn destroy(self) {
        // SAFETY: events of the recorder in a live context, not used again.
        unsafe {
            driver::cuEventDestroy_v2(self.start);
            driver::cuEventDestroy_v2(self.end);
        }
    }
}

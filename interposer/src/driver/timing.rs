//! Kernel times by pairs of events around a launch, in the launch's own stream.
//!
//! A kernel that starts on an idle device is charged with the time of its submission too, a few microseconds.

use super::{self as driver, CUevent, CUstream, Status, waiting};

/// Two events of the current context.
pub struct EventPair {
    start: CUevent,
    end: CUevent,
}

// SAFETY: driver handles may be used from any thread; one has a timer at a time.
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

    /// Before the launch; whether the stream took the event.
    pub fn start(&self, stream: usize) -> bool {
        // SAFETY: an event of ours, and the stream that the application launches into.
        unsafe { driver::cuEventRecord(self.start, stream as CUstream) == Status::SUCCESS }
    }

    /// After the launch.
    pub fn stop(&self, stream: usize) -> bool {
        // SAFETY: as above.
        unsafe { driver::cuEventRecord(self.end, stream as CUstream) == Status::SUCCESS }
    }

    /// Whether the work between the two is done: the driver's answer, `None` while it is not.
    pub fn is_reached(&self) -> Option<Status> {
        waiting::reached(self.end)
    }

    /// ns between the two, once both have been reached; does not wait.
    pub fn elapsed(&self) -> Option<u64> {
        let mut milliseconds = 0f32;
        // SAFETY: events of ours and a valid place.
        let done = self.is_reached() == Some(Status::SUCCESS)
            && unsafe { driver::cuEventElapsedTime(&mut milliseconds, self.start, self.end) == Status::SUCCESS };
        (done && milliseconds >= 0.0).then(|| (f64::from(milliseconds) * 1e6) as u64)
    }

    /// The event behind the work; the other one is given back.
    pub fn into_end(self) -> CUevent {
        // SAFETY: an event of ours, used no more; the driver waits for nothing.
        unsafe { driver::cuEventDestroy_v2(self.start) };
        self.end
    }

    /// Gives the events back; not when dropped, because their context may be gone then.
    pub fn destroy(self) {
        // SAFETY: events of ours in a context that is alive, used no more.
        unsafe {
            driver::cuEventDestroy_v2(self.start);
            driver::cuEventDestroy_v2(self.end);
        }
    }
}

//! The last error of each thread.

use std::cell::Cell;

use crate::abi;
use crate::status::{Status, StatusResult};

thread_local! {
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// Runs the body of an exported function and remembers how it failed.
pub fn enter(body: impl FnOnce() -> StatusResult) -> Status {
    let status = abi::enter(body);
    // "Not ready" answers a question; it is no failure.
    if status != Status::SUCCESS && status != Status::NOT_READY {
        LAST.set(status);
    }
    status
}

/// The same for HIP, where until ROCm 7 it is the status of the last call, whatever that was.
pub fn enter_as_hip(keeps_errors: bool, body: impl FnOnce() -> StatusResult) -> Status {
    if keeps_errors {
        return enter(body);
    }
    let status = abi::enter(body);
    if !is_sticky(LAST.get()) {
        LAST.set(status);
    }
    status
}

/// A kernel's fault.
fn is_sticky(status: Status) -> bool {
    matches!(status, Status::ILLEGAL_ADDRESS | Status::ASSERT | Status::LAUNCH_FAILED | Status::LAUNCH_TIMEOUT)
}

pub fn peek() -> Status {
    LAST.get()
}

/// A kernel's fault stays; everything else is reported once.
pub fn take() -> Status {
    let status = LAST.get();
    if !is_sticky(status) {
        LAST.set(Status::SUCCESS);
    }
    status
}

/// After a device reset.
pub fn clear() {
    LAST.set(Status::SUCCESS);
}

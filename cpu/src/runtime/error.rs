//! The last error of each thread.

use std::cell::Cell;

use crate::abi;
use crate::status::{Status, StatusResult};

thread_local! {
    static LAST: Cell<Status> = const { Cell::new(Status::SUCCESS) };
    /// The status of HIP's last call, failed or not.
    static LAST_OF_HIP: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// Runs the body of an exported function and stores its error as the last one.
pub fn enter(body: impl FnOnce() -> StatusResult) -> Status {
    let status = abi::enter(body);
    // "Not ready" answers a query and is not a failure.
    if status != Status::SUCCESS && status != Status::NOT_READY {
        LAST.set(status);
    }
    status
}

/// The same for HIP. Until ROCm 7, the last error is the status of the last call, even a successful one. A kernel's
/// fault stays.
pub fn enter_as_hip(keeps_errors: bool, body: impl FnOnce() -> StatusResult) -> Status {
    let status = abi::enter(body);
    let is_noted = !keeps_errors || !matches!(status, Status::SUCCESS | Status::NOT_READY);
    if is_noted && !is_sticky(LAST.get()) {
        LAST.set(status);
    }
    LAST_OF_HIP.set(status);
    status
}

/// `hipPeekAtLastError`. Its own status is the value that it returns.
pub fn peek_as_hip() -> Status {
    LAST_OF_HIP.set(peek());
    peek()
}

/// `hipExtGetLastError`: the last error until ROCm 7, the status of the last call from then on.
pub fn take_of_hip(keeps_errors: bool) -> Status {
    if keeps_errors { LAST_OF_HIP.replace(Status::SUCCESS) } else { take() }
}

/// Whether a status is a kernel's fault.
fn is_sticky(status: Status) -> bool {
    matches!(status, Status::ILLEGAL_ADDRESS | Status::ASSERT | Status::LAUNCH_FAILED | Status::LAUNCH_TIMEOUT)
}

pub fn peek() -> Status {
    LAST.get()
}

/// Returns the last error and clears it, unless it is a kernel's fault.
pub fn take() -> Status {
    let status = LAST.get();
    if !is_sticky(status) {
        LAST.set(Status::SUCCESS);
    }
    status
}

/// Clears the last error after a device reset.
pub fn clear() {
    LAST.set(Status::SUCCESS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hip_7_remembers_what_has_failed_and_tells_the_last_status_apart() {
        let call = |keeps, result| enter_as_hip(keeps, || result);
        let failure = Err(Status::INVALID_VALUE);
        call(true, failure);
        call(true, Ok(()));
        assert_eq!((take_of_hip(true), peek_as_hip()), (Status::SUCCESS, Status::INVALID_VALUE));
        assert_eq!(take_of_hip(true), Status::INVALID_VALUE, "the returned error counts as a status, too");
        assert_eq!((take(), take()), (Status::INVALID_VALUE, Status::SUCCESS));
        call(false, failure);
        assert_eq!(take_of_hip(false), Status::INVALID_VALUE);
        call(false, failure);
        call(false, Ok(()));
        assert_eq!(take(), Status::SUCCESS);
        // A kernel's fault stays.
        for keeps in [true, false] {
            call(keeps, Err(Status::ILLEGAL_ADDRESS));
            call(keeps, failure);
            assert_eq!((take(), take()), (Status::ILLEGAL_ADDRESS, Status::ILLEGAL_ADDRESS));
            clear();
        }
    }
}

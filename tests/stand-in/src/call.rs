//! Dispatches a call: checks it, then calls the CPU device.

use std::cell::Cell;

use mneme_abi::hip::types::Status;

use crate::mistake::{CallResult, report};
use crate::{books, devices, profiler};

thread_local! {
    static LAST_ERROR: Cell<Status> = const { Cell::new(Status::SUCCESS) };
}

/// Makes a call of `function`.
pub fn serve(function: &'static str, call: impl FnOnce() -> CallResult) -> Status {
    books::watch_the_end();
    profiler::hip_is_called();
    let status = devices::make_one_current().and_then(|()| call()).unwrap_or_else(|mistake| {
        report(function, &mistake);
        Status::INVALID_VALUE
    });
    LAST_ERROR.set(status);
    status
}

/// A function that the stand-in does not support. It fails, and reports that once.
pub fn missing(function: &'static str) -> Status {
    eprintln!("stand-in for libamdhip64: {function} is not served");
    LAST_ERROR.set(Status::NOT_SUPPORTED);
    Status::NOT_SUPPORTED
}

/// This thread's last error. Before version 7, it is the status of the last call, even after success.
pub fn last_error() -> Status {
    LAST_ERROR.get()
}

/// The same, and clears it.
pub fn take_last_error() -> Status {
    LAST_ERROR.replace(Status::SUCCESS)
}

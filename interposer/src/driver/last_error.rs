//! Preserves HIP's last error of a thread, as the application's own calls have left it.
//!
//! Until HIP 6 it is the status of the thread's last call, failed or not. From HIP 7 on it is the status of the last
//! call that failed, and `hipExtGetLastError` returns the status of the last call.
//!
//! The recorder's calls change it too. If one follows a call of the application, this module keeps the application's
//! status and leaves a mark in the library: a call that fails with a status that only hooked functions return. Any
//! later call of the application, hooked or not, replaces the mark by its own status. So the kept status is valid
//! exactly while the library returns the mark.

use std::cell::Cell;

use super::{Status, hip};

/// The status of a call of the application, and the mark that the library holds instead.
#[derive(Clone, Copy)]
struct Marked {
    status: Status,
    mark: Status,
}

thread_local! {
    /// The status of the application's last call.
    static LAST: Cell<Option<Marked>> = const { Cell::new(None) };
    /// From HIP 7 on: the status of the application's last failed call, while the library holds no error.
    static FAILED: Cell<Option<Status>> = const { Cell::new(None) };
}

/// The errors that the application's calls have left.
#[derive(Clone, Copy)]
struct Left {
    /// Of the last call.
    last: Status,
    /// From HIP 7 on: of the last call that failed.
    failed: Status,
}

/// Runs a handler. The last error that the application's own `call` leaves stays; those of all other calls are undone.
pub fn kept(call: &dyn Fn() -> Status, handler: impl FnOnce(&dyn Fn() -> Status) -> Status) -> Status {
    let before = if remembers_failures() { last_failure() } else { Status::SUCCESS };
    let own = Cell::new(None);
    let call = || {
        if remembers_failures() {
            // Clears the error, so an error found after the call is the call's.
            hip::take_last_error();
        }
        let status = call();
        let left = hip::peek_at_last_error();
        own.set(Some(if remembers_failures() {
            Left { last: status, failed: if left == Status::SUCCESS { before } else { left } }
        } else {
            Left { last: left, failed: left }
        }));
        status
    };
    let status = handler(&call);
    // If the recorder has served the call, the result is what the library would have left.
    let is_failure = !matches!(status, Status::SUCCESS | Status::NOT_READY);
    let served = Left { last: status, failed: if is_failure { status } else { before } };
    put_back(own.get().unwrap_or(served));
    status
}

/// The error that `hipGetLastError` would return, from HIP 7 on.
fn last_failure() -> Status {
    match hip::peek_at_last_error() {
        Status::SUCCESS => FAILED.get().unwrap_or(Status::SUCCESS),
        newer => newer,
    }
}

fn put_back(left: Left) {
    LAST.set(None);
    if remembers_failures() {
        if left.last == Status::SUCCESS {
            hip::take_status_of_last_call();
        } else {
            mark(left.last);
        }
        hip::take_last_error();
        FAILED.set((left.failed != Status::SUCCESS).then_some(left.failed));
    } else if hip::peek_at_last_error() != left.last {
        hip::take_last_error();
        // If the library keeps a fault, it returns it to every later call too, so no mark is needed.
        if left.last != Status::SUCCESS && hip::peek_at_last_error() == Status::SUCCESS {
            mark(left.last);
        }
    }
}

/// Keeps the status of the application's last call and leaves a mark in the library.
fn mark(status: Status) {
    hip::fail_on_purpose();
    LAST.set(Some(Marked { status, mark: hip::peek_at_last_error() }));
}

/// The application's status if the library has returned the mark, otherwise the library's.
fn unmarked(kept: Option<Marked>, returned: Status) -> Status {
    kept.filter(|kept| kept.mark == returned).map_or(returned, |kept| kept.status)
}

/// Whether this is HIP 7 or later. There, a successful call keeps the status of an earlier failed one.
fn remembers_failures() -> bool {
    hip::release() >= 7
}

/// [`remembers_failures`] without a call. The answer does not matter before the first call, because nothing is kept
/// yet.
fn is_known_to_remember() -> bool {
    hip::known_release().is_some_and(|release| release >= 7)
}

/// # Safety
/// The arguments are those of `hipGetLastError`.
pub unsafe fn take(call: &dyn Fn() -> Status) -> Status {
    if !is_known_to_remember() {
        return unmarked(LAST.take(), call());
    }
    match (call(), FAILED.take()) {
        (Status::SUCCESS, Some(failed)) => failed,
        (returned, _) => returned,
    }
}

/// # Safety
/// The arguments are those of `hipPeekAtLastError`.
pub unsafe fn peek(call: &dyn Fn() -> Status) -> Status {
    let returned = call();
    if !is_known_to_remember() {
        return unmarked(LAST.get(), returned);
    }
    match FAILED.get() {
        // `hipPeekAtLastError` is also the last call, with its own status.
        Some(failed) if returned == Status::SUCCESS => {
            put_back(Left { last: failed, failed });
            failed
        }
        _ => returned,
    }
}

/// # Safety
/// The arguments are those of `hipExtGetLastError`.
pub unsafe fn take_status_of_last_call(call: &dyn Fn() -> Status) -> Status {
    unmarked(LAST.take(), call())
}

/// Passes on the one function that can return the status of the mark by itself.
///
/// # Safety
/// The arguments are those of `hipDeviceGetLimit`.
pub unsafe fn limit(call: &dyn Fn() -> Status, _value: *mut usize, _limit: std::ffi::c_uint) -> Status {
    call()
}

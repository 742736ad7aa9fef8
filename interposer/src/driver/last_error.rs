//! HIP's last error of a thread, which the application finds as its own calls have left it.
//!
//! Until HIP 6 it is the status of the thread's last call, whether that failed or not. From HIP 7 on it is the status
//! of the last call that failed, and `hipExtGetLastError` tells that of the last call.
//!
//! Our own calls set it, too. Where one follows a call of the application's, the status of the application's is kept
//! here, and a call of ours that fails leaves a mark in the library: a status that only hooked functions have. Any
//! later call of the application's, hooked or not, puts its own status in the place of the mark, so that what is kept
//! counts for as long as the mark is found.

use std::cell::Cell;

use super::{Status, hip};

/// The status of a call of the application's, and the mark that is in the library instead.
#[derive(Clone, Copy)]
struct Marked {
    status: Status,
    mark: Status,
}

thread_local! {
    /// Of the application's last call.
    static LAST: Cell<Option<Marked>> = const { Cell::new(None) };
    /// From HIP 7 on, the status of the application's last call that failed, while the library has none.
    static FAILED: Cell<Option<Status>> = const { Cell::new(None) };
}

/// What the application's calls have left.
#[derive(Clone, Copy)]
struct Left {
    /// By the last one.
    last: Status,
    /// From HIP 7 on, by the last one that failed.
    failed: Status,
}

/// Runs a handler. `call` is the application's own call; what it leaves as the last error stays, and what further calls
/// leave is taken back.
pub fn kept(call: &dyn Fn() -> Status, handler: impl FnOnce(&dyn Fn() -> Status) -> Status) -> Status {
    let before = if remembers_failures() { last_failure() } else { Status::SUCCESS };
    let own = Cell::new(None);
    let call = || {
        if remembers_failures() {
            // What is found after the call is of the call then.
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
    // Served by us, it leaves what the library would leave.
    let is_failure = !matches!(status, Status::SUCCESS | Status::NOT_READY);
    let served = Left { last: status, failed: if is_failure { status } else { before } };
    put_back(own.get().unwrap_or(served));
    status
}

/// What `hipGetLastError` would tell, from HIP 7 on.
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
        // A fault that the library does not forget is what it tells from now on.
        if left.last != Status::SUCCESS && hip::peek_at_last_error() == Status::SUCCESS {
            mark(left.last);
        }
    }
}

/// Keeps the status of the application's last call, and leaves a mark in its place.
fn mark(status: Status) {
    hip::fail_on_purpose();
    LAST.set(Some(Marked { status, mark: hip::peek_at_last_error() }));
}

/// The application's status where the library has returned the mark.
fn unmarked(kept: Option<Marked>, returned: Status) -> Status {
    kept.filter(|kept| kept.mark == returned).map_or(returned, |kept| kept.status)
}

/// Whether this is HIP 7 or later, where a call that succeeds leaves the status of an earlier one that has failed.
fn remembers_failures() -> bool {
    hip::release() >= 7
}

/// The same without a call of ours: before the first one nothing is kept, so that the answer does not matter.
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
        // What it tells is its own status, too.
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

/// A function that can leave what is otherwise the mark.
///
/// # Safety
/// The arguments are those of `hipDeviceGetLimit`.
pub unsafe fn limit(call: &dyn Fn() -> Status, _value: *mut usize, _limit: std::ffi::c_uint) -> Status {
    call()
}

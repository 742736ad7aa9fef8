//! The ends of a process by `exit` and `quick_exit`.

use std::ffi::c_int;

use redhook::{hook, real};

use crate::process::reentrancy;
use crate::recorder;

/// Has the summary written when the process exits in the ordinary way.
pub fn register() {
    extern "C" fn at_exit() {
        finish();
    }
    // SAFETY: the handler does not unwind, and this library is never unloaded (it is preloaded).
    unsafe { libc::atexit(at_exit) };
}

fn finish() {
    // A signal handler that leaves in the middle of a hooked call: this thread may hold our locks, so that waiting for
    // them would be for ever. Finished instances are on disk; only the summary is lost.
    if reentrancy::inside() {
        return;
    }
    let _ = std::panic::catch_unwind(|| reentrancy::bypassing(recorder::finish));
}

hook! {
    unsafe fn quick_exit(status: c_int) -> c_int => leave_quickly {
        finish();
        // SAFETY: does not return.
        unsafe { real!(quick_exit)(status) }
    }
}

//! The ends of a process by `exit` and `quick_exit`.

use std::ffi::c_int;

use redhook::{hook, real};

use crate::process::reentrancy;
use crate::recorder;

/// Registers the end of the recording at an ordinary exit.
pub fn register() {
    extern "C" fn at_exit() {
        finish();
    }
    // SAFETY: the handler does not unwind, and this preloaded library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

fn finish() {
    // If a signal handler exits in the middle of a hooked call, this thread may hold the recorder's locks and would
    // wait for them for ever. Finished instances are on disk; only the summary is lost.
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

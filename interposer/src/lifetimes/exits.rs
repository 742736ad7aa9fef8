//! The ends of a process: `exit`, and those that run no `atexit` handlers.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use redhook::{hook, real};

use crate::process::reentrancy;
use crate::recorder::{self, signals};

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

/// [`finish`] for the functions that signal handlers may call: what the signal interrupted may hold a lock that we need
/// (the allocator's, for one), so that an alarm ends the process where we do not.
fn finish_in_time(status: c_int) {
    static STATUS: AtomicI32 = AtomicI32::new(0);
    extern "C" fn leave(_signal: c_int) {
        // SAFETY: ends the process, as the application has asked for.
        unsafe { libc::syscall(libc::SYS_exit_group, STATUS.load(Ordering::Relaxed)) };
    }
    if !recorder::has_something_to_finish() {
        return;
    }
    STATUS.store(status, Ordering::Relaxed);
    // SAFETY: all are safe in signal handlers; the application's own alarm and handler are of no more use to it.
    unsafe {
        libc::signal(libc::SIGALRM, leave as *const () as libc::sighandler_t);
        let mut alarm = std::mem::zeroed();
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &alarm, std::ptr::null_mut());
        libc::alarm(signals::PATIENCE);
    }
    finish();
}

hook! {
    unsafe fn _exit(status: c_int) -> c_int => leave_now {
        finish_in_time(status);
        // SAFETY: does not return.
        unsafe { real!(_exit)(status) }
    }
}

hook! {
    unsafe fn _Exit(status: c_int) -> c_int => leave_now_as_c99 {
        finish_in_time(status);
        // SAFETY: does not return.
        unsafe { real!(_Exit)(status) }
    }
}

hook! {
    unsafe fn quick_exit(status: c_int) -> c_int => leave_quickly {
        finish();
        // SAFETY: does not return.
        unsafe { real!(quick_exit)(status) }
    }
}

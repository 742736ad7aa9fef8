//! Signals that end the process wait for instances that are being written.

use std::ffi::c_int;

use super::is_recording_process;
use crate::snapshot::background;

/// Seconds that writing the end of a recording may take where the program expects to be gone at once.
pub const PATIENCE: libc::c_uint = 10;

/// What ends a process unless it has a handler.
const FATAL: [c_int; 8] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Has signals that end the process wait for instances that are being written, where the application has no handlers of its own.
/// The summary is lost then, the recording is not.
pub fn outlast() {
    extern "C" fn wait(signal: c_int) {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut left = u64::from(PATIENCE) * 1000;
        while left > 0 && background::is_busy() && is_recording_process() {
            // SAFETY: safe in signal handlers, with a valid duration; the other threads are doing the work.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
            left -= 1;
        }
        // SAFETY: the signal's action is the default one again, and takes place when this handler returns.
        unsafe { libc::raise(signal) };
    }
    for signal in FATAL {
        // SAFETY: both structures are valid; the handler does only what handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_DFL {
                action.sa_sigaction = wait as *const () as libc::sighandler_t;
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }
}

//! Holds signals back while a launch is recorded.
//!
//! A handler of the application may leave the interrupted call by a jump (`siglongjmp`). In the middle of a recorded
//! launch this would leave locks taken and an instance half written, so these signals arrive when the call returns.
//!
//! Three groups are not held back: faults; the signals by which a user or a job scheduler ends a program, if the
//! program has no handler for them; and those by which garbage collectors and schedulers stop threads (SIGPWR, SIGXCPU,
//! SIGURG and real-time signals), because all other threads wait for the answer.
//!
//! Linux delivers a signal for the process to the main thread or, if the main thread blocks it, to any thread that does
//! not. The handler would then run on a thread on which it never runs without the recorder, and a jump would end on the
//! wrong stack. So on the main thread a signal with a handler is held back only if all other threads block it, as the
//! recorder's threads do.

use std::mem::MaybeUninit;

use libc::{c_int, sigset_t};

use super::flags::{THREAD, ThreadFlags};
use super::other_threads;

/// Always held back.
const INTERRUPTING: [c_int; 8] = [
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGIO,
    libc::SIGCHLD,
    libc::SIGPIPE,
];
/// Held back if the application has a handler.
const ENDING: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Holds signals back for this thread until the result is dropped. `is_handled` tells whether the application has a
/// handler for a signal.
pub fn hold_back(is_handled: fn(c_int) -> bool) -> HeldBack {
    let outermost = THREAD.with(|thread| thread.mask.get().is_none());
    if outermost {
        let before = change(libc::SIG_BLOCK, &set(to_hold_back(is_handled).into_iter()));
        THREAD.with(|thread| thread.mask.set(Some(before)));
    }
    HeldBack { outermost }
}

fn to_hold_back(is_handled: fn(c_int) -> bool) -> Vec<c_int> {
    let handled: Vec<c_int> = INTERRUPTING.into_iter().chain(ENDING).filter(|signal| is_handled(*signal)).collect();
    let elsewhere = if handled.is_empty() { 0 } else { other_threads::take_from_main_thread() };
    let held = |signal: &c_int| !handled.contains(signal) || elsewhere & (1 << (signal - 1)) == 0;
    let ending = ENDING.into_iter().filter(|signal| handled.contains(signal));
    INTERRUPTING.into_iter().chain(ending).filter(held).collect()
}

/// Guard of [`hold_back`].
pub struct HeldBack {
    outermost: bool,
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        if self.outermost {
            THREAD.with(let_through);
        }
    }
}

/// Lets the held-back signals of a thread through again.
pub fn let_through(thread: &ThreadFlags) {
    if let Some(before) = thread.mask.take() {
        // Restoring the whole mask would be wrong: inside a handler, the system has added signals to it.
        let was_let_through = |signal: &c_int| {
            // SAFETY: an initialised set and a valid signal.
            unsafe { libc::sigismember(&before, *signal) == 0 }
        };
        change(libc::SIG_UNBLOCK, &set(INTERRUPTING.into_iter().chain(ENDING).filter(was_let_through)));
    }
}

fn set(signals: impl Iterator<Item = c_int>) -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first function initialises the set; the signals are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        signals.for_each(|signal| _ = libc::sigaddset(set.as_mut_ptr(), signal));
        set.assume_init()
    }
}

/// Changes the mask of this thread and returns the previous one.
fn change(how: c_int, set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: a valid set, and a place that the function fills.
    unsafe {
        libc::pthread_sigmask(how, set, before.as_mut_ptr());
        before.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: c_int) -> bool {
        let now = change(libc::SIG_BLOCK, &set(std::iter::empty()));
        // SAFETY: an initialised set and a valid signal.
        unsafe { libc::sigismember(&now, signal) == 1 }
    }

    #[test]
    fn signals_with_handlers_wait_and_faults_do_not() {
        let blocked = || [libc::SIGALRM, libc::SIGINT, libc::SIGTERM, libc::SIGSEGV].map(is_blocked);
        assert_eq!(blocked(), [false; 4]);
        {
            let _held = hold_back(|signal| signal == libc::SIGINT);
            let _again = hold_back(|_| true);
            drop(_again);
            assert_eq!(blocked(), [true, true, false, false]);
        }
        assert_eq!(blocked(), [false; 4]);
    }

    #[test]
    fn what_the_application_blocks_stays_blocked() {
        let alarm = set([libc::SIGALRM].into_iter());
        change(libc::SIG_BLOCK, &alarm);
        drop(hold_back(|_| true));
        assert!(is_blocked(libc::SIGALRM) && !is_blocked(libc::SIGUSR1));
        change(libc::SIG_UNBLOCK, &alarm);
    }
}

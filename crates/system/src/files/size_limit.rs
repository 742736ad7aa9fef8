//! Turns writes beyond the file size limit (`ulimit -f`) into errors instead of a signal.

/// From here on, a write beyond the process's file size limit (`ulimit -f`) is an error that can be reported, not a
/// signal that ends the process.
pub fn ignore_signal() {
    // SAFETY: ignoring a signal runs no handler and touches no memory.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Runs `work`, which writes files, so a write beyond the process's file size limit only fails (`EFBIG`). The signal
/// that comes with it, `SIGXFSZ`, would end an application that never wrote so much itself.
pub fn as_errors<R>(work: impl FnOnce() -> R) -> R {
    /// The thread's signal mask, and whether the signal was already pending.
    struct Before(libc::sigset_t, bool);
    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: the sets are initialised, and a wait without a place for the description is allowed.
            unsafe {
                if !self.1 && is_pending() {
                    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                    libc::sigtimedwait(&only_size(), std::ptr::null_mut(), &at_once);
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
            }
        }
    }
    // SAFETY: the set is initialised by the call that is given it.
    let _before = unsafe {
        let mut before = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &only_size(), &mut before);
        Before(before, is_pending())
    };
    work()
}

fn only_size() -> libc::sigset_t {
    // SAFETY: the set is initialised before a signal is added to it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGXFSZ);
        set
    }
}

fn is_pending() -> bool {
    // SAFETY: the set is initialised by the call that is given it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigpending(&mut set) == 0 && libc::sigismember(&set, libc::SIGXFSZ) == 1
    }
}

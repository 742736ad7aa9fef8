//! The signal mask of threads that are started in an application's process.

use nix::sys::signal::{SigSet, SigmaskHow};

/// Runs `work` with all signals blocked, so that threads it starts do not get the application's: its handlers may
/// expect a thread of its own.
pub fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    /// Also when a thread cannot be started.
    struct Restore(SigSet);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = self.0.thread_set_mask();
        }
    }
    let _restore = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map(Restore);
    work()
}

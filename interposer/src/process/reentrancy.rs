//! Marks the threads that are inside a hook, whose further calls go straight to the vendor.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::flags::{FLAGS, THREAD, ThreadFlags};

/// Whether this thread is inside a hook already.
pub fn inside() -> bool {
    THREAD.with(is_inside)
}

#[inline]
fn is_inside(thread: &ThreadFlags) -> bool {
    thread.inside.get() || FLAGS.off.load(Ordering::Relaxed)
}

/// Puts a thread's mark back to what it was.
pub struct Restore<'a>(&'a Cell<bool>, bool);

impl Drop for Restore<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs `work` with the hooks of this thread switched off; `otherwise`, where this thread is inside a hook already.
#[inline]
pub fn once<R>(work: impl FnOnce() -> R, otherwise: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| {
        let Some(_inside) = enter(thread) else { return otherwise() };
        work()
    })
}

/// Marks this thread, until the result is dropped; `None` if it is inside a hook already.
#[inline]
pub fn enter(thread: &ThreadFlags) -> Option<Restore<'_>> {
    if is_inside(thread) {
        return None;
    }
    thread.inside.set(true);
    Some(Restore(&thread.inside, false))
}

/// Runs `work` with the hooks of this thread switched off.
pub fn bypassing<R>(work: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| {
        let _restore = Restore(&thread.inside, thread.inside.replace(true));
        work()
    })
}

/// Switches the hooks off for good, also for threads that are yet to come.
pub fn switch_off() {
    FLAGS.off.store(true, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_nests_and_survives_a_panic() {
        assert!(!inside());
        assert!(once(inside, || false), "marked while it works");
        bypassing(|| {
            bypassing(|| assert!(inside()));
            assert!(inside());
        });
        let _ = std::panic::catch_unwind(|| bypassing(|| panic!("expected by the test")));
        assert!(!inside());
    }
}

//! Marks the threads that are inside a hook, whose further calls go straight to the vendor.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::asked::ASKED;

thread_local! {
    // No destructor, so that hooks called from other thread-local destructors may still look.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a hook already.
pub fn inside() -> bool {
    INSIDE.get() || ASKED.off.load(Ordering::Relaxed)
}

/// Puts a thread's mark back to what it was.
struct Restore<'a>(&'a Cell<bool>, bool);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs `work` with the hooks of this thread switched off; `otherwise`, where this thread is inside a hook already.
#[inline]
pub fn once<R>(work: impl FnOnce() -> R, otherwise: impl FnOnce() -> R) -> R {
    // The mark is looked up once: in a shared library that is a call.
    INSIDE.with(|inside| {
        if inside.get() || ASKED.off.load(Ordering::Relaxed) {
            return otherwise();
        }
        inside.set(true);
        let _restore = Restore(inside, false);
        work()
    })
}

/// Runs `work` with the hooks of this thread switched off.
pub fn bypassing<R>(work: impl FnOnce() -> R) -> R {
    INSIDE.with(|inside| {
        let _restore = Restore(inside, inside.replace(true));
        work()
    })
}

/// Switches the hooks off for good, also for threads that are yet to come.
pub fn switch_off() {
    ASKED.off.store(true, Ordering::Relaxed);
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

//! Marks the threads that are inside a hook, whose further calls go straight to the vendor.

use std::cell::Cell;

thread_local! {
    // No destructor, so that hooks called from other thread-local destructors may still look.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a hook already.
pub fn inside() -> bool {
    INSIDE.get()
}

/// Runs `work` with the hooks of this thread switched off.
pub fn bypassing<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _restore = Restore(INSIDE.replace(true));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_nests_and_survives_a_panic() {
        assert!(!inside());
        bypassing(|| {
            bypassing(|| assert!(inside()));
            assert!(inside());
        });
        let _ = std::panic::catch_unwind(|| bypassing(|| panic!("expected by the test")));
        assert!(!inside());
    }
}

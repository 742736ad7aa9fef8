//! Defers the cancellation of application threads (`pthread_cancel`) while Mneme's libraries work.
//!
//! A cancelled thread unwinds from its next cancellation point, such as `write` or `nanosleep`. Mneme's code contains
//! such points, and Rust ends the process if such an unwinding reaches it. Threads are therefore not cancelled inside
//! Mneme's code, but at the next cancellation point after it. Hooks of launches that are only counted do not contain
//! such points, and let unwinding from the vendor's code pass (`extern "C-unwind"`).

use std::ffi::c_int;

unsafe extern "C-unwind" {
    /// Enabling cancellation ends a thread with `PTHREAD_CANCEL_ASYNCHRONOUS` and a pending cancellation at once.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc.
const DISABLED: c_int = 1;

/// Prevents the cancellation of this thread until dropped.
pub struct PutOff {
    before: c_int,
}

impl PutOff {
    #[inline]
    pub fn begin() -> Self {
        Self { before: set(DISABLED) }
    }

    /// The application's setting.
    pub fn before(&self) -> c_int {
        self.before
    }
}

impl Drop for PutOff {
    #[inline]
    fn drop(&mut self) {
        set(self.before);
    }
}

/// Sets whether this thread can be cancelled; returns the previous setting.
pub fn set(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: a valid place. Every state comes from this function or is one of its two.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_before_is_set_again() {
        let before = set(0);
        {
            let outer = PutOff::begin();
            assert_eq!(outer.before(), 0);
            assert_eq!(PutOff::begin().before(), DISABLED);
            assert_eq!(set(DISABLED), DISABLED);
        }
        assert_eq!(set(before), 0);
    }
}

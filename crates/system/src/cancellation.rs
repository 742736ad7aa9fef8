//! Cancellation of the application's threads (`pthread_cancel`), put off while our libraries work.
//!
//! A thread that is cancelled unwinds from its next cancellation point, such as `write` or `nanosleep`. Our code has
//! such points, and Rust ends the process where such an unwinding reaches it. So a thread cannot be cancelled in our
//! code, and ends at its next cancellation point after that. Hooks of launches that are only counted have no such point
//! of their own, and let the vendor's unwinding pass (`extern "C-unwind"`).

use std::ffi::c_int;

unsafe extern "C-unwind" {
    /// Enabling it ends a thread that may be cancelled at any point (`PTHREAD_CANCEL_ASYNCHRONOUS`) at once.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc.
const DISABLED: c_int = 1;

/// As long as it lives, this thread is not cancelled.
pub struct PutOff {
    before: c_int,
}

impl PutOff {
    #[inline]
    pub fn begin() -> Self {
        Self { before: set(DISABLED) }
    }

    /// What the application has set.
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

/// Sets whether this thread can be cancelled; what was set before.
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

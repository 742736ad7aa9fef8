//! Marks the threads that are inside a hook, whose further calls go straight to the vendor.
//!
//! The mark is where the stack was when the thread entered, so that one is recognised that has left by a jump.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use mneme_core::cancellation::{self, PutOff};

use super::flags::{FLAGS, THREAD, ThreadFlags};
use super::held_back;

/// Whether this thread is inside a hook already.
pub fn inside() -> bool {
    THREAD.with(is_inside)
}

#[inline]
fn is_inside(thread: &ThreadFlags) -> bool {
    (thread.inside.get() != 0 && !is_abandoned(thread)) || FLAGS.off.load(Ordering::Relaxed)
}

/// Puts a thread's mark back to what it was.
pub struct Restore<'a> {
    mark: &'a Cell<usize>,
    own: usize,
    before: usize,
}

impl<'a> Restore<'a> {
    #[inline]
    fn marking(mark: &'a Cell<usize>, before: usize) -> Self {
        let own = if before == 0 { stack() } else { before };
        mark.set(own);
        Self { mark, own, before }
    }
}

impl Drop for Restore<'_> {
    #[inline]
    fn drop(&mut self) {
        // Another mark is that of a later call: this one was left by a jump, and returned to.
        if self.mark.get() == self.own {
            self.mark.set(self.before);
        }
    }
}

/// Runs `work` with the hooks of this thread switched off, and its cancellation put off; `otherwise`, where this thread
/// is inside a hook already.
#[inline]
pub fn once<R>(work: impl FnOnce() -> R, otherwise: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| {
        let Some(_inside) = enter(thread) else { return otherwise() };
        let put_off = PutOff::begin();
        let _error = KeptError::new();
        thread.cancellation.set(Some(put_off.before()));
        let result = work();
        thread.cancellation.set(None);
        result
    })
}

/// The C library's error number of this thread, put back to what it was: the application may look at it after a call
/// of the vendor's.
struct KeptError(c_int);

impl KeptError {
    #[inline]
    fn new() -> Self {
        // SAFETY: the thread's own.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeptError {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the thread's own.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Marks this thread, until the result is dropped; `None` if it is inside a hook already.
#[inline]
pub fn enter(thread: &ThreadFlags) -> Option<Restore<'_>> {
    if is_inside(thread) {
        return None;
    }
    Some(Restore::marking(&thread.inside, 0))
}

/// Runs `work` with the hooks of this thread switched off, and its cancellation put off.
pub fn bypassing<R>(work: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| {
        let _restore = Restore::marking(&thread.inside, thread.inside.get());
        let _put_off = PutOff::begin();
        work()
    })
}

/// Switches the hooks off for good, also for threads that are yet to come.
pub fn switch_off() {
    FLAGS.off.store(true, Ordering::Relaxed);
}

/// What else is undone where a hook was left by a jump.
static UNDO: OnceLock<fn(&ThreadFlags)> = OnceLock::new();

/// Has this done, too, for a thread that leaves a hook by a jump; once.
pub fn undo_also(undo: fn(&ThreadFlags)) {
    let _ = UNDO.set(undo);
}

/// Tells that this thread jumps to where its stack is at `target` (`longjmp`), which may leave the hook it is in.
pub fn note_jump(target: usize) {
    THREAD.with(|thread| {
        if thread.inside.get() != 0 && target > thread.inside.get() && !is_on_other_stack(target) {
            abandon(thread);
        }
    });
}

/// Whether the hook of this thread was left by a jump of which nobody told: a call that is made inside of another has
/// its frame below that one's.
#[cold]
fn is_abandoned(thread: &ThreadFlags) -> bool {
    let here = stack();
    let is_left = here > thread.inside.get() && !is_on_other_stack(here);
    if is_left {
        abandon(thread);
    }
    is_left
}

/// Leaves the hook that this thread is in as if it had returned. Called in signal handlers, too.
fn abandon(thread: &ThreadFlags) {
    if let Some(undo) = UNDO.get() {
        undo(thread);
    }
    thread.inside.set(0);
    if let Some(before) = thread.cancellation.take() {
        cancellation::set(before);
    }
    held_back::let_through(thread);
}

/// Where the stack is.
#[inline(always)]
fn stack() -> usize {
    let here: usize;
    // SAFETY: reads a register.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mov {}, sp", out(reg) here, options(nomem, nostack, preserves_flags));
    }
    here
}

/// Whether an address is on the stack that this thread has for signal handlers, and runs on now.
fn is_on_other_stack(address: usize) -> bool {
    let mut stack = libc::stack_t { ss_sp: std::ptr::null_mut::<c_void>(), ss_flags: 0, ss_size: 0 };
    // SAFETY: a valid place; the call is safe in signal handlers.
    let known = unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) } == 0;
    let start = stack.ss_sp as usize;
    known && stack.ss_flags & libc::SS_ONSTACK != 0 && (start..start + stack.ss_size).contains(&address)
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

    #[test]
    fn a_hook_that_was_left_by_a_jump_is_left() {
        let state = cancellation::set(0);
        // As a jump leaves it: without the end of the guards.
        let leave_behind = |told: bool| {
            let end = stack() + 1;
            THREAD.with(|thread| {
                std::mem::forget(enter(thread).unwrap());
                thread.inside.set(end - 0x1000);
                let put_off = PutOff::begin();
                thread.cancellation.set(Some(put_off.before()));
                std::mem::forget(put_off);
            });
            if told {
                note_jump(end - 0x2000);
                assert_ne!(THREAD.with(|thread| thread.inside.get()), 0, "the jump stays inside of the hook");
                note_jump(end);
            }
        };
        for told in [true, false] {
            leave_behind(told);
            assert!(!inside(), "told: {told}");
            assert_eq!(cancellation::set(0), 0, "told: {told}");
        }
        cancellation::set(state);
    }
}

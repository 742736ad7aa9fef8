//! Marks the threads that are inside a hook, so their further calls go straight to the vendor.
//!
//! The mark is the stack pointer at entry. It reveals a thread that has left the hook by a jump.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use mneme_system::cancellation::{self, PutOff};

use super::flags::{FLAGS, THREAD, ThreadFlags};
use super::held_back;

/// Whether this thread is already inside a hook.
pub fn inside() -> bool {
    THREAD.with(is_inside)
}

#[inline]
fn is_inside(thread: &ThreadFlags) -> bool {
    (thread.inside.get() != 0 && !is_abandoned(thread)) || FLAGS.off.load(Ordering::Relaxed)
}

/// Restores a thread's mark when dropped.
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
        // A different mark belongs to a later call: this hook was left by a jump and then returned to.
        if self.mark.get() == self.own {
            self.mark.set(self.before);
        }
    }
}

/// Runs `work` with the hooks of this thread switched off and its cancellation put off. Runs `otherwise` if this thread
/// is already inside a hook.
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

/// Restores the thread's `errno` when dropped, because the application may read it after a call of the vendor's.
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

/// Marks this thread until the result is dropped. Returns `None` if it is already inside a hook.
#[inline]
pub fn enter(thread: &ThreadFlags) -> Option<Restore<'_>> {
    if is_inside(thread) {
        return None;
    }
    Some(Restore::marking(&thread.inside, 0))
}

/// Runs `work` with the hooks of this thread switched off and its cancellation put off.
pub fn bypassing<R>(work: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| {
        let _restore = Restore::marking(&thread.inside, thread.inside.get());
        let _put_off = PutOff::begin();
        work()
    })
}

/// Switches the hooks off permanently, in all present and future threads.
pub fn switch_off() {
    FLAGS.off.store(true, Ordering::Relaxed);
}

/// The additional step of [`abandon`].
static UNDO: OnceLock<fn(&ThreadFlags)> = OnceLock::new();

/// Registers a step that also runs when a thread leaves a hook by a jump. Only the first registration counts.
pub fn undo_also(undo: fn(&ThreadFlags)) {
    let _ = UNDO.set(undo);
}

/// Notes that this thread jumps (`longjmp`) to a frame whose stack pointer is `target`, which may leave its hook.
pub fn note_jump(target: usize) {
    THREAD.with(|thread| {
        if thread.inside.get() != 0 && target > thread.inside.get() && !is_on_other_stack(target) {
            abandon(thread);
        }
    });
}

/// Whether this thread has left its hook by a jump that was not noted. A call from inside a hook has its frame below
/// the hook's.
#[cold]
fn is_abandoned(thread: &ThreadFlags) -> bool {
    let here = stack();
    let is_left = here > thread.inside.get() && !is_on_other_stack(here);
    if is_left {
        abandon(thread);
    }
    is_left
}

/// Leaves this thread's hook as if it had returned. Also called in signal handlers.
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

/// The stack pointer.
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

/// Whether an address is on this thread's stack for signal handlers, and the thread runs on that stack now.
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
        // A jump does not drop the guards.
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

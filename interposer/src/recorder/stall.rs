//! Waits for what is being written, in a process that expects to be gone at once.
//!
//! They are safe in signal handlers. Such a handler may have interrupted what writing needs, the lock of the heap for
//! one, so that waiting would be for ever: it ends when there is no progress.

use mneme_core::files::progress;

/// Milliseconds without a step after which writing is stuck; and while a disk is at work.
const STUCK: [u32; 2] = [2000, 30_000];

/// Waits while `goes_on`, unless writing is stuck, for at most so many milliseconds. A machine that is overloaded makes
/// each of them longer.
pub fn wait_while(goes_on: impl Fn() -> bool, most: u32) {
    wait_unless_stuck(goes_on, most, STUCK);
}

fn wait_unless_stuck(goes_on: impl Fn() -> bool, most: u32, [stuck, stuck_at_disk]: [u32; 2]) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let (mut idle, mut steps) = (0, progress::steps());
    for _ in 0..most {
        let limit = if progress::is_syncing() { stuck_at_disk } else { stuck };
        if idle >= limit || !goes_on() {
            return;
        }
        // SAFETY: safe in signal handlers, with a valid duration. Not the C library's function, which is a cancellation
        // point.
        unsafe { libc::syscall(libc::SYS_nanosleep, &pause, std::ptr::null_mut::<libc::timespec>()) };
        let now = progress::steps();
        idle = if now == steps { idle + 1 } else { 0 };
        steps = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_stuck_is_not_waited_for() {
        // Other tests make steps.
        wait_unless_stuck(|| true, u32::MAX, [5, 50]);
    }

    #[test]
    fn what_makes_progress_is_waited_for() {
        let rounds = Cell::new(0);
        let steps = |end: u32| {
            rounds.set(rounds.get() + 1);
            progress::note_step();
            rounds.get() < end
        };
        wait_while(|| steps(50), u32::MAX);
        assert_eq!(rounds.replace(0), 50);
        wait_while(|| steps(50), 20);
        assert_eq!(rounds.get(), 20);
    }
}

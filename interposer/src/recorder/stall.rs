//! Waits for writing, in a process that should end at once.
//!
//! The waits are safe in signal handlers. A handler may have interrupted the holder of a lock that writing needs, such
//! as the heap's, and then writing never ends. So each wait ends when writing makes no progress.

use mneme_system::files::progress;

/// After how many milliseconds without a step writing counts as stuck: normally, and during a sync.
const STUCK: [u32; 2] = [2000, 30_000];

/// The most that one pause counts if it took longer, ms: an overloaded machine also writes more slowly, and a stopped
/// process not at all. Twenty such pauses without a step are the end in any case.
const LONGEST_PAUSE: u32 = 100;

/// Waits while `goes_on`, unless writing is stuck, for at most this many milliseconds.
pub fn wait_while(goes_on: impl Fn() -> bool, most: u32) {
    wait_unless_stuck(goes_on, most, STUCK);
}

fn wait_unless_stuck(goes_on: impl Fn() -> bool, most: u32, [stuck, stuck_at_disk]: [u32; 2]) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let (mut waited, mut idle, mut steps, mut time) = (0_u32, 0_u32, progress::steps(), milliseconds());
    while waited < most {
        let limit = if progress::is_syncing() { stuck_at_disk } else { stuck };
        if idle >= limit || !goes_on() {
            return;
        }
        // SAFETY: safe in signal handlers, with a valid duration. The C library's function is avoided because it is a
        // cancellation point.
        unsafe { libc::syscall(libc::SYS_nanosleep, &pause, std::ptr::null_mut::<libc::timespec>()) };
        let paused = milliseconds().wrapping_sub(time).clamp(1, LONGEST_PAUSE);
        time = milliseconds();
        waited = waited.saturating_add(paused);
        let now = progress::steps();
        idle = if now == steps { idle + paused } else { 0 };
        steps = now;
    }
}

/// A clock with an arbitrary start.
fn milliseconds() -> u32 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: safe in signal handlers, with a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u32).wrapping_mul(1000).wrapping_add(now.tv_nsec as u32 / 1_000_000)
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
        assert!(rounds.get() <= 20);
    }
}

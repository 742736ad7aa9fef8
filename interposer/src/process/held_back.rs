//! Holds signals back while a launch is recorded.
//!
//! A handler of the application may leave the interrupted call by a jump (`siglongjmp`). In the middle of a recorded
//! launch this would leave locks taken and an instance half written, so these signals arrive when the call returns.
//!
//! Three groups are not held back: faults; the signals by which a user or a job scheduler ends a program, if the
//! program has no handler for them; and those by which garbage collectors and schedulers stop threads (SIGPWR, SIGXCPU,
//! SIGURG and real-time signals), because all other threads wait for the answer.
//!
//! Linux delivers a signal for the process to the main thread or, if the main thread blocks it, to any thread that does
//! not. The handler would then run on a thread on which it never runs without the recorder, and a jump would end on the
//! wrong stack. So on the main thread a signal with a handler is held back only if all other threads block it, as the
//! recorder's threads do.

use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use libc::{c_int, sigset_t};

use super::flags::{THREAD, ThreadFlags};

/// Always held back.
const INTERRUPTING: [c_int; 8] = [
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGIO,
    libc::SIGCHLD,
    libc::SIGPIPE,
];
/// Held back if the application has a handler.
const ENDING: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Holds signals back for this thread until the result is dropped. `is_handled` tells whether the application has a
/// handler for a signal.
pub fn hold_back(is_handled: fn(c_int) -> bool) -> HeldBack {
    let outermost = THREAD.with(|thread| thread.mask.get().is_none());
    if outermost {
        let before = change(libc::SIG_BLOCK, &set(to_hold_back(is_handled).into_iter()));
        THREAD.with(|thread| thread.mask.set(Some(before)));
    }
    HeldBack { outermost }
}

fn to_hold_back(is_handled: fn(c_int) -> bool) -> Vec<c_int> {
    let handled: Vec<c_int> = INTERRUPTING.into_iter().chain(ENDING).filter(|signal| is_handled(*signal)).collect();
    let elsewhere = if handled.is_empty() { 0 } else { take_from_main_thread() };
    let held = |signal: &c_int| !handled.contains(signal) || elsewhere & (1 << (signal - 1)) == 0;
    let ending = ENDING.into_iter().filter(|signal| handled.contains(signal));
    INTERRUPTING.into_iter().chain(ending).filter(held).collect()
}

/// Guard of [`hold_back`].
pub struct HeldBack {
    outermost: bool,
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        if self.outermost {
            THREAD.with(let_through);
        }
    }
}

/// Lets the held-back signals of a thread through again.
pub fn let_through(thread: &ThreadFlags) {
    if let Some(before) = thread.mask.take() {
        // Restoring the whole mask would be wrong: inside a handler, the system has added signals to it.
        let was_let_through = |signal: &c_int| {
            // SAFETY: an initialised set and a valid signal.
            unsafe { libc::sigismember(&before, *signal) == 0 }
        };
        change(libc::SIG_UNBLOCK, &set(INTERRUPTING.into_iter().chain(ENDING).filter(was_let_through)));
    }
}

fn set(signals: impl Iterator<Item = c_int>) -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first function initialises the set; the signals are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        signals.for_each(|signal| _ = libc::sigaddset(set.as_mut_ptr(), signal));
        set.assume_init()
    }
}

/// Changes the mask of this thread and returns the previous one.
fn change(how: c_int, set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: a valid set, and a place that the function fills.
    unsafe {
        libc::pthread_sigmask(how, set, before.as_mut_ptr());
        before.assume_init()
    }
}

/// How long an answer is valid while the number of threads is unchanged. It expires because a thread may change its
/// mask.
const VALID: Duration = Duration::from_millis(100);

struct Answer {
    threads: u64,
    asked: Instant,
    signals: u64,
}

static LAST: Mutex<Option<Answer>> = Mutex::new(None);

/// The signals (bit N - 1 for signal N) that another thread would take if this one blocked them. 0 unless this is the
/// main thread, which takes signals first.
fn take_from_main_thread() -> u64 {
    // SAFETY: neither call has preconditions.
    if unsafe { libc::gettid() != libc::getpid() } {
        return 0;
    }
    // The folder has a link for each subfolder, which is a thread. Without /proc the answer is unknown.
    let Ok(threads) = std::fs::metadata("/proc/self/task").map(|folder| folder.nlink()) else { return 0 };
    // The lock is held by another thread that records a launch and asks now.
    let Ok(mut last) = LAST.try_lock() else { return taken_by_others() };
    match &*last {
        Some(answer) if answer.threads == threads && answer.asked.elapsed() < VALID => answer.signals,
        _ => {
            let signals = taken_by_others();
            *last = Some(Answer { threads, asked: Instant::now(), signals });
            signals
        }
    }
}

/// The signals that at least one thread besides the main one does not block.
fn taken_by_others() -> u64 {
    let main = std::process::id().to_string();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let others = threads.flatten().filter(|thread| *thread.file_name() != *main);
    // A thread that has ended in the meantime takes no signal.
    let statuses = others.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    statuses.filter_map(|status| blocked(&status)).fold(0, |taken, blocked| taken | !blocked)
}

fn blocked(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn is_blocked(signal: c_int) -> bool {
        let now = change(libc::SIG_BLOCK, &set(std::iter::empty()));
        // SAFETY: an initialised set and a valid signal.
        unsafe { libc::sigismember(&now, signal) == 1 }
    }

    #[test]
    fn signals_with_handlers_wait_and_faults_do_not() {
        let blocked = || [libc::SIGALRM, libc::SIGINT, libc::SIGTERM, libc::SIGSEGV].map(is_blocked);
        assert_eq!(blocked(), [false; 4]);
        {
            let _held = hold_back(|signal| signal == libc::SIGINT);
            let _again = hold_back(|_| true);
            drop(_again);
            assert_eq!(blocked(), [true, true, false, false]);
        }
        assert_eq!(blocked(), [false; 4]);
    }

    #[test]
    fn what_the_application_blocks_stays_blocked() {
        let alarm = set([libc::SIGALRM].into_iter());
        change(libc::SIG_BLOCK, &alarm);
        drop(hold_back(|_| true));
        assert!(is_blocked(libc::SIGALRM) && !is_blocked(libc::SIGUSR1));
        change(libc::SIG_UNBLOCK, &alarm);
    }

    #[test]
    fn masks_are_read_as_the_system_writes_them() {
        assert_eq!(blocked("Name:\tx\nSigBlk:\t0000000000000200\nSigIgn:\t0"), Some(1 << (libc::SIGUSR1 - 1)));
        assert_eq!(blocked("Name:\tx\n"), None);
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(blocked(&status).is_some());
    }

    #[test]
    fn a_thread_takes_what_it_does_not_block_from_the_main_thread_alone() {
        let (end, ended) = sync_channel::<()>(0);
        let thread = std::thread::spawn(move || _ = ended.recv());
        assert_ne!(taken_by_others() & (1 << (libc::SIGUSR1 - 1)), 0);
        assert_eq!(take_from_main_thread(), 0, "tests are other threads");
        drop(end);
        thread.join().unwrap();
    }
}

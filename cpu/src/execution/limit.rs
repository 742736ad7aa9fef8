//! The time limit of launches.
//!
//! Threads that wait for each other through memory look like threads that work, so only a time limit ends a launch that
//! hangs.
//!
//! When the time is over, threads that yield see that the launch was stopped. For the others, the worker gets a signal.
//! It ends the launch like an invalid access would, but only if the worker is in the kernel's own code, because
//! elsewhere it may hold a lock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mneme_system::environment;

/// Seconds, unless `MNEME_CPU_TIME_LIMIT` is set.
const DEFAULT: u64 = 300;

/// One of the signals of faults, so workers do not block it and the handler of faults handles it.
pub const SIGNAL: i32 = libc::SIGILL;

/// The interval at which a worker that does not stop gets the signal again.
pub const AGAIN: Duration = Duration::from_millis(2);

/// The limit of one launch, from its creation on.
pub struct LaunchTimeLimit {
    /// Seconds, if there is a limit.
    seconds: Option<u64>,
    start: Instant,
}

/// The limit in seconds that `MNEME_CPU_TIME_LIMIT` sets, `None` for no limit.
pub fn setting() -> Option<u64> {
    static SETTING: OnceLock<u64> = OnceLock::new();
    let seconds = *SETTING.get_or_init(|| {
        environment::variable("MNEME_CPU_TIME_LIMIT").and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
    });
    (seconds > 0).then_some(seconds)
}

impl LaunchTimeLimit {
    pub fn new(seconds: Option<u64>) -> Self {
        Self { seconds, start: Instant::now() }
    }

    /// How long to wait for the workers before calling [`LaunchTimeLimit::over`]; `None` without a limit.
    pub fn patience(&self) -> Option<Duration> {
        let left = Duration::from_secs(self.seconds?).saturating_sub(self.start.elapsed());
        Some(if left.is_zero() { AGAIN } else { left })
    }

    /// The limit in seconds, if the time is over.
    pub fn over(&self) -> Option<u64> {
        self.seconds.filter(|seconds| self.start.elapsed() >= Duration::from_secs(*seconds))
    }
}

/// Linux's `siginfo_t` of a queued signal, on 64-bit systems.
#[repr(C)]
struct Queued {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    process: i32,
    user: u32,
    value: usize,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>() && std::mem::offset_of!(Queued, value) == 24);

/// Asks a worker, by its thread id, to leave the kernel.
pub fn request_exit(worker: libc::pid_t) {
    // SAFETY: queries without pointers.
    let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let value = mark();
    let info =
        Queued { signal: SIGNAL, error: 0, code: libc::SI_QUEUE, padding: 0, process, user, value, rest: [0; 12] };
    // SAFETY: a signal of this process to one of its threads, which handles it. `info` is valid for the call.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, worker, SIGNAL, &raw const info) };
}

/// A value that only the device's own signals carry.
fn mark() -> usize {
    static MARK: u8 = 0;
    &raw const MARK as usize
}

/// Whether a signal asks the worker to leave the kernel. For the signal handler.
///
/// # Safety
/// `info` must be what a handler of [`SIGNAL`] received.
pub unsafe fn requests_exit(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: promised by the caller; a queued signal has a value.
    unsafe { (*info).si_code == libc::SI_QUEUE && (*info).si_value().sival_ptr as usize == mark() }
}

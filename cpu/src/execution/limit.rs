//! The time that a launch may take.
//!
//! Threads that wait for one another through memory look like threads that work, so nothing else ends a launch that
//! hangs.
//!
//! When it is over, threads that give way find the launch stopped. For those that do not, the worker gets a signal,
//! which ends the launch like an invalid access would, but only where it finds the kernel's own code: elsewhere a lock
//! may be held.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mneme_core::environment;

/// Seconds, where `MNEME_CPU_TIME_LIMIT` does not say.
const DEFAULT: u64 = 300;

/// The signal that faults come with, so that workers take it and the handler of faults handles it.
pub const SIGNAL: i32 = libc::SIGILL;

/// How often a worker that goes on is asked to stop.
pub const AGAIN: Duration = Duration::from_millis(2);

/// The limit of one launch, which begins now.
pub struct LaunchTimeLimit {
    /// Seconds, if there is a limit.
    seconds: Option<u64>,
    start: Instant,
}

/// The seconds that `MNEME_CPU_TIME_LIMIT` allows a launch, `None` for any number.
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

    /// How long to wait for the workers before [`LaunchTimeLimit::over`] is to be asked; `None` for as long as it
    /// takes.
    pub fn patience(&self) -> Option<Duration> {
        let left = Duration::from_secs(self.seconds?).saturating_sub(self.start.elapsed());
        Some(if left.is_zero() { AGAIN } else { left })
    }

    /// The limit in seconds, if it is over.
    pub fn over(&self) -> Option<u64> {
        self.seconds.filter(|seconds| self.start.elapsed() >= Duration::from_secs(*seconds))
    }
}

/// `siginfo_t` of a queued signal on Linux, for 64 bits.
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

/// Requests a worker, by its thread id, to leave the kernel.
pub fn request_exit(worker: libc::pid_t) {
    // SAFETY: asks for numbers.
    let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let value = mark();
    let info =
        Queued { signal: SIGNAL, error: 0, code: libc::SI_QUEUE, padding: 0, process, user, value, rest: [0; 12] };
    // SAFETY: a signal of this process to one of its threads, which handles it; `info` is valid for the call.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, worker, SIGNAL, &raw const info) };
}

/// The value that only our signals carry.
fn mark() -> usize {
    static MARK: u8 = 0;
    &raw const MARK as usize
}

/// Whether a signal requests to leave the kernel. For the signal handler.
///
/// # Safety
/// `info` is what a handler of [`SIGNAL`] got.
pub unsafe fn requests_exit(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: by the contract above; a queued signal has a value.
    unsafe { (*info).si_code == libc::SI_QUEUE && (*info).si_value().sival_ptr as usize == mark() }
}

//! The time that a launch may take.
//!
//! Threads that wait for one another through memory look like threads that work, so nothing else ends a launch that
//! hangs.
//!
//! When it is over, threads that give way find the launch stopped. For those that do not, the worker gets a signal,
//! which ends the launch like an invalid access would, but only where it finds the kernel's own code: elsewhere a lock
//! may be held.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mneme_core::environment;

/// Seconds, where `MNEME_CPU_TIME_LIMIT` does not say.
const DEFAULT: u64 = 300;

/// The signal that faults come with, so that workers take it and the handler of faults handles it.
pub const SIGNAL: i32 = libc::SIGILL;

/// How often a worker that goes on is asked to stop.
const AGAIN: Duration = Duration::from_millis(2);

/// The code that is to be left, first and last address; both 0 while no launch is over its time.
static OVERDUE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// The limit of one launch.
pub struct LaunchTimeLimit<'a> {
    /// Seconds, if there is a limit.
    seconds: Option<u64>,
    start: Instant,
    code: Range<usize>,
    /// Told once, with the limit in seconds.
    over: &'a (dyn Fn(u64) + Sync),
}

/// The seconds that `MNEME_CPU_TIME_LIMIT` allows a launch, `None` for any number.
pub fn setting() -> Option<u64> {
    static SETTING: OnceLock<u64> = OnceLock::new();
    let seconds = *SETTING.get_or_init(|| {
        environment::variable("MNEME_CPU_TIME_LIMIT").and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
    });
    (seconds > 0).then_some(seconds)
}

impl<'a> LaunchTimeLimit<'a> {
    pub fn new(seconds: Option<u64>, code: &Range<usize>, over: &'a (dyn Fn(u64) + Sync)) -> Self {
        Self { seconds, start: Instant::now(), code: code.clone(), over }
    }

    /// The launch begins now.
    pub fn begin(&mut self) {
        self.start = Instant::now();
    }

    /// How long to wait for the workers before [`LaunchTimeLimit::is_over`] is to be asked; `None` for as long as it
    /// takes.
    pub fn patience(&self) -> Option<Duration> {
        let left = Duration::from_secs(self.seconds?).saturating_sub(self.start.elapsed());
        Some(if left.is_zero() { AGAIN } else { left })
    }

    /// Ends the launch if its time is over, which it tells; whether the workers are to be [asked](ask) to leave the
    /// kernel.
    pub fn is_over(&self) -> bool {
        let Some(seconds) = self.seconds.filter(|seconds| self.start.elapsed() >= Duration::from_secs(*seconds)) else {
            return false;
        };
        if OVERDUE[1].load(Ordering::Relaxed) == 0 {
            (self.over)(seconds);
            OVERDUE[0].store(self.code.start, Ordering::Relaxed);
            OVERDUE[1].store(self.code.end, Ordering::Release);
        }
        true
    }
}

impl Drop for LaunchTimeLimit<'_> {
    fn drop(&mut self) {
        OVERDUE[1].store(0, Ordering::Release);
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
    OVERDUE.as_ptr() as usize
}

/// Whether a signal requests to leave the kernel. For the signal handler.
///
/// # Safety
/// `info` is what a handler of [`SIGNAL`] got.
pub unsafe fn requests_exit(info: *mut libc::siginfo_t) -> bool {
    // SAFETY: by the contract above; a queued signal has a value.
    unsafe { (*info).si_code == libc::SI_QUEUE && (*info).si_value().sival_ptr as usize == mark() }
}

/// Whether the instruction at this address may be left for good now. For the signal handler.
pub fn may_leave(instruction: usize) -> bool {
    let end = OVERDUE[1].load(Ordering::Acquire);
    (OVERDUE[0].load(Ordering::Relaxed)..end).contains(&instruction)
}

//! `MNEME_MODE=profile`: which kernels take the GPU's time.
//!
//! Two events ([`timing`](crate::driver::timing)) time a launch; a thread reads them when they have been reached, so
//! the application never waits. Two events cost a few microseconds, so only a sample of a kernel's short launches is
//! timed. The sample is random, because a program's launches repeat in patterns.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::driver::timing::EventPair;
use crate::driver::{self, CUcontext, Status, captures, streams};
use crate::kernels::kernel::{FunctionHandle, Kernel};
use crate::kernels::request::LaunchRequest;
use crate::process::reentrancy;
use crate::process::settings::settings;
use crate::process::threads;
use crate::recorder::is_recording_process;

/// How many first launches of a kernel are all timed.
const FIRST: u64 = 256;
/// The mean time from which on all launches are timed, ns: a hundred times the cost of timing one.
const LONG: u64 = 200_000;
/// At least one in this many launches is timed.
const RAREST: u64 = 64;
/// The most pairs of events of a context. If all are in use, a launch is not timed.
const PAIRS: usize = 4096;
/// How often to look at events in use.
const INTERVAL: Duration = Duration::from_millis(5);

/// The timers of one context.
#[derive(Default)]
struct Ring {
    free: Vec<EventPair>,
    pending: VecDeque<(EventPair, Arc<Kernel>)>,
    created: usize,
}

static RINGS: Mutex<Option<HashMap<usize, Ring>>> = Mutex::new(None);
/// A thread reads events and may have taken them out of their rings.
static COLLECTING: AtomicBool = AtomicBool::new(false);
/// The last look has begun.
static ENDED: AtomicBool = AtomicBool::new(false);

fn rings<R>(work: impl FnOnce(&mut HashMap<usize, Ring>) -> R) -> R {
    work(RINGS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Counts a launch, and times it if that is due and possible.
pub fn launch(call: &dyn Fn() -> Status, request: &LaunchRequest, function: &FunctionHandle, number: u64) -> Status {
    let running = begin(request, function, number);
    let status = call();
    let Some((context, timer)) = running else { return status };
    if status == Status::SUCCESS && timer.stop(request.stream) {
        rings(|rings| rings.entry(context).or_default().pending.push_back((timer, function.kernel.clone())));
        watch();
    } else {
        give_back(context, timer);
    }
    status
}

/// Counts a launch that is about to happen, and begins to time it. Returns the context of the timer, and the timer.
fn begin(request: &LaunchRequest, function: &FunctionHandle, number: u64) -> Option<(usize, EventPair)> {
    let mean = function.kernel.progress.profile.count(request);
    if !is_due(number, mean, settings().sample) || captures::in_progress() {
        return None;
    }
    let context = streams::context_of(request.stream).or_else(driver::current_context)?;
    let timer = timer(context)?;
    if timer.start(request.stream) {
        return Some((context, timer));
    }
    give_back(context, timer);
    None
}

/// Whether to time the launch with this number (from 0). `every` is the user's choice, or 0.
fn is_due(number: u64, mean: u64, every: u64) -> bool {
    if every > 0 {
        return number.is_multiple_of(every);
    }
    if number < FIRST || mean >= LONG {
        return true;
    }
    let one_in = (LONG / mean.max(1)).min(RAREST);
    random().is_multiple_of(one_in)
}

/// The next number of a generator (SplitMix64) that all threads share.
fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let mut word = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A timer of a context, which must be the current one or the stream's.
fn timer(context: usize) -> Option<EventPair> {
    let (free, may_create) = rings(|rings| {
        let ring = rings.entry(context).or_default();
        let free = ring.free.pop();
        let may_create = free.is_none() && ring.created < PAIRS && driver::current_context() == Some(context);
        ring.created += usize::from(may_create);
        (free, may_create)
    });
    free.or_else(|| may_create.then(EventPair::create).flatten())
}

fn give_back(context: usize, timer: EventPair) {
    rings(|rings| rings.entry(context).or_default().free.push(timer));
}

/// Starts the thread that reads events, once, and arranges for the last look at exit.
fn watch() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    look_before_the_vendor_ends();
    let work = || {
        streams::with_relaxed_captures(|| {
            while !ENDED.load(Ordering::Acquire) {
                collect();
                std::thread::sleep(INTERVAL);
            }
        })
    };
    // Without the thread, times are read when the process or a context ends.
    threads::start("mneme-profile", threads::LARGE, work);
}

/// Registers a last look before the vendor's own end. Handlers of `exit` run in reverse order, and the driver has
/// registered its handler before the first launch. After the driver's handler a call fails or never returns.
fn look_before_the_vendor_ends() {
    extern "C" fn at_exit() {
        // If a signal handler exits in the middle of a hooked call, this thread may hold the recorder's locks.
        if is_recording_process() && !reentrancy::inside() {
            let _ = std::panic::catch_unwind(|| reentrancy::bypassing(collect_at_end));
        }
    }
    // SAFETY: the handler does not unwind, and this preloaded library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Takes the last look, once, on a separate thread: at the end of a process this thread's thread-local state, including
/// the vendor's, may be gone already.
pub fn collect_at_end() {
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    let is_busy = COLLECTING.load(Ordering::Acquire);
    if !is_busy && rings(|rings| rings.values().all(|ring| ring.pending.is_empty())) {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let work = move || {
        streams::with_relaxed_captures(collect);
        let _ = sender.send(());
    };
    if threads::start("mneme-profile", threads::LARGE, work) {
        let _ = receiver.recv_timeout(Duration::from_secs(1));
    }
}

/// Reads the events that have been reached. The recorder's thread calls it, and threads that are about to destroy a
/// context.
pub fn collect() {
    // A call that ends a context waits for a thread that may be using it. This is not a lock, because the vendor is
    // called during that time.
    for _ in 0..10_000 {
        if !COLLECTING.swap(true, Ordering::AcqRel) {
            if !captures::in_progress() {
                collect_contexts();
            }
            COLLECTING.store(false, Ordering::Release);
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn collect_contexts() {
    let before = driver::current_context();
    for context in rings(|rings| rings.keys().copied().collect::<Vec<_>>()) {
        let mut pending =
            rings(|rings| rings.get_mut(&context).map(|ring| std::mem::take(&mut ring.pending)).unwrap_or_default());
        // SAFETY: the context is alive: a thread that destroys it collects first, and then forgets it.
        if pending.is_empty() || unsafe { driver::cuCtxSetCurrent(context as CUcontext) } != Status::SUCCESS {
            put_back(context, pending, Vec::new());
            continue;
        }
        let mut reached = Vec::new();
        let mut waiting = VecDeque::new();
        while let Some((timer, kernel)) = pending.pop_front() {
            match timer.elapsed() {
                Some(time) => {
                    kernel.progress.profile.add(time);
                    reached.push(timer);
                }
                None => waiting.push_back((timer, kernel)),
            }
            // Later launches of these streams are not done either.
            if waiting.len() >= 64 {
                break;
            }
        }
        waiting.append(&mut pending);
        put_back(context, waiting, reached);
    }
    // SAFETY: the context was current a moment ago.
    unsafe { driver::cuCtxSetCurrent(before.unwrap_or_default() as CUcontext) };
}

fn put_back(context: usize, mut waiting: VecDeque<(EventPair, Arc<Kernel>)>, reached: Vec<EventPair>) {
    rings(|rings| {
        // If a context was forgotten in the meantime, its events are gone too.
        if let Some(ring) = rings.get_mut(&context) {
            waiting.append(&mut ring.pending);
            ring.pending = waiting;
            ring.free.extend(reached);
        }
    });
}

/// Forgets the timers of a dead context, or of every context for `None`.
pub fn forget(context: Option<usize>) {
    rings(|rings| rings.retain(|known, _| context.is_some_and(|context| context != *known)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_launches_and_long_ones_are_timed() {
        assert!((0..FIRST).all(|number| is_due(number, 1000, 0)));
        assert!((FIRST..2 * FIRST).all(|number| is_due(number, LONG, 0)));
    }

    #[test]
    fn short_launches_are_sampled_at_random() {
        let timed = (FIRST..FIRST + 64_000).filter(|number| is_due(*number, 2000, 0)).count();
        assert!((700..1300).contains(&timed), "{timed} of 64000");
        let middle = (FIRST..FIRST + 64_000).filter(|number| is_due(*number, 20_000, 0)).count();
        assert!((5800..7000).contains(&middle), "{middle} of 64000");
    }

    #[test]
    fn the_user_may_choose() {
        assert_eq!((0..100).filter(|number| is_due(*number, 0, 1)).count(), 100);
        assert_eq!((0..100).filter(|number| is_due(*number, 0, 10)).count(), 10);
    }
}

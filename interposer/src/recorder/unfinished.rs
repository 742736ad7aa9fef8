//! Work that still ran when the recorder went on.
//!
//! A launch that did not finish while the application was held, later launches of its kernel, and a device that did not
//! become idle. While any of it runs the device is not idle, and waiting for it would be in vain again: nothing is
//! recorded until all of it is done, which asking the driver tells without waiting.
//!
//! In a wary process (see `patience`) launches of other kernels are looked after too, for a kernel
//! to be seen to finish.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_abi::cuda::sys::CUevent_flags;

use crate::driver::idle::{self, IdleQuestion};
use crate::driver::{self, CUevent, CUstream, Status, captures, contexts, streams, waiting};
use crate::kernels::kernel::Kernel;
use crate::kernels::request::LaunchRequest;

const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
/// So much is looked after at a time.
const MOST: usize = 64;

/// What is looked after.
struct Work {
    of: Of,
    /// The device is busy for as long as it runs.
    _running: Option<Running>,
}

enum Of {
    Launch(Launch),
    Device(IdleQuestion),
}

/// The last launch of a kernel into a stream.
struct Launch {
    kernel: Arc<Kernel>,
    stream: usize,
    context: usize,
    /// Behind the launch.
    event: CUevent,
}

// SAFETY: driver handles may be used from any thread; one has the launch at a time.
unsafe impl Send for Launch {}

/// Counts what the device is busy with.
struct Running;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

impl Running {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

static WORK: Mutex<Vec<Work>> = Mutex::new(Vec::new());
/// Somebody has taken the work out to ask about it: the driver is called without the lock.
static ASKING: AtomicBool = AtomicBool::new(false);

fn work() -> MutexGuard<'static, Vec<Work>> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the work of the list, while nobody else has; `None` where somebody does.
fn with_all<R>(change: impl FnOnce(&mut Vec<Work>) -> R) -> Option<R> {
    if ASKING.swap(true, Ordering::Acquire) {
        return None;
    }
    let mut all = std::mem::take(&mut *work());
    let result = change(&mut all);
    work().extend(all);
    ASKING.store(false, Ordering::Release);
    Some(result)
}

/// Whether the device is still busy with something that was waited for in vain. Asks the driver.
pub fn is_busy() -> bool {
    if RUNNING.load(Ordering::SeqCst) > 0 {
        settle();
    }
    RUNNING.load(Ordering::SeqCst) > 0
}

/// Forgets what is done, and notes whose launches have finished.
pub fn settle() {
    with_all(|all| all.retain_mut(|work| !work.is_done()));
}

impl Work {
    fn is_done(&mut self) -> bool {
        match &mut self.of {
            Of::Device(question) => question.answer().is_some(),
            Of::Launch(launch) => {
                let Launch { context, event, ref kernel, .. } = *launch;
                let answer = contexts::within(context, || waiting::reached(event));
                if answer == Some(None) {
                    return false;
                }
                if answer == Some(Some(Status::SUCCESS)) {
                    kernel.progress.note_finished();
                }
                idle::destroy(context, event);
                true
            }
        }
    }

    fn is_of(&self, kernel: &Arc<Kernel>, stream: usize) -> bool {
        matches!(&self.of, Of::Launch(launch) if Arc::ptr_eq(&launch.kernel, kernel) && launch.stream == stream)
    }
}

/// Keeps the question about a device that did not become idle.
pub fn keep_device(question: IdleQuestion) {
    work().push(Work { of: Of::Device(question), _running: Some(Running::new()) });
}

/// Keeps the event behind a launch, in a context, that did not finish in time.
pub fn keep_launch(kernel: &Arc<Kernel>, stream: usize, context: usize, event: CUevent) {
    let launch = Launch { kernel: kernel.clone(), stream, context, event };
    work().push(Work { of: Of::Launch(launch), _running: Some(Running::new()) });
}

/// Looks after a launch that has just been made and is not recorded.
pub fn look_after(request: &LaunchRequest, kernel: &Arc<Kernel>) {
    // An event in a stream that is captured would become part of the graph.
    if captures::in_progress() || streams::is_capturing(request.stream) {
        return;
    }
    let keeps_busy = kernel.progress.is_unfinished();
    let stream = request.stream;
    with_all(|all| {
        all.retain_mut(|work| !work.is_done());
        let known = all.iter().find(|work| work.is_of(kernel, stream));
        match known.map(|known| &known.of) {
            // The event moves behind the new launch. To see whether a kernel finishes, it stays behind the first.
            Some(Of::Launch(launch)) if keeps_busy => {
                contexts::within(launch.context, || record(launch.event, stream));
            }
            Some(_) => {}
            None if all.len() >= MOST => {}
            None => {
                if let Some((context, event)) = event_behind(stream) {
                    let launch = Launch { kernel: kernel.clone(), stream, context, event };
                    all.push(Work { of: Of::Launch(launch), _running: keeps_busy.then(Running::new) });
                }
            }
        }
    });
}

fn record(event: CUevent, stream: usize) -> Status {
    // SAFETY: an event of ours in the current context, and the stream that the application has just launched into.
    unsafe { driver::cuEventRecord(event, stream as CUstream) }
}

/// A new event behind the work of a stream, with its context.
fn event_behind(stream: usize) -> Option<(usize, CUevent)> {
    let context = streams::context_of(stream).or_else(driver::current_context)?;
    let recorded = contexts::within(context, || {
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: a valid place.
        if unsafe { driver::cuEventCreate(&mut event, DISABLE_TIMING) } != Status::SUCCESS {
            return None;
        }
        if record(event, stream) == Status::SUCCESS {
            return Some(event);
        }
        // SAFETY: our own, just made.
        unsafe { driver::cuEventDestroy_v2(event) };
        None
    });
    Some((context, recorded??))
}

/// Forgets everything, before a context ends: its events end with it. Whoever is asking about it is let finish, which
/// takes microseconds on a machine that is not overloaded.
pub fn forget_all() {
    for _ in 0..10_000 {
        if with_all(Vec::clear).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

//! Tracks work that still ran when the recorder stopped waiting for it.
//!
//! That is a launch that did not finish within the limit, later launches of its kernel, and a device that did not
//! become idle. While any of it runs the device is busy, and another wait would also reach the limit. So no launch is
//! recorded until all of it is done, which the driver reports without waiting.
//!
//! In a wary process (see `patience`) launches of other kernels are tracked too, so they can be seen to finish.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_abi::cuda::sys::CUevent_flags;

use crate::driver::idle::{self, IdleQuestion};
use crate::driver::{self, CUevent, CUstream, Status, captures, contexts, streams, waiting};
use crate::kernels::kernel::Kernel;
use crate::kernels::request::LaunchRequest;

const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
/// How much work is tracked at a time.
const MOST: usize = 64;

/// Tracked work.
struct Work {
    of: Of,
    /// Keeps the device counted as busy.
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
    /// Recorded after the launch.
    event: CUevent,
}

// SAFETY: driver handles may be used from any thread, and one thread at a time has the launch.
unsafe impl Send for Launch {}

/// Counts the work that keeps the device busy.
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
/// A thread has taken the list to ask about it, because the driver is called without the lock.
static ASKING: AtomicBool = AtomicBool::new(false);

fn work() -> MutexGuard<'static, Vec<Work>> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `change` on the whole list. `None` if another thread has the list.
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

/// Whether the device is still busy with work that exceeded a limit. Asks the driver.
pub fn is_busy() -> bool {
    if RUNNING.load(Ordering::SeqCst) > 0 {
        settle();
    }
    RUNNING.load(Ordering::SeqCst) > 0
}

/// Forgets finished work, and notes which kernels' launches have finished.
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

/// Keeps the event after a launch that did not finish in time.
pub fn keep_launch(kernel: &Arc<Kernel>, stream: usize, context: usize, event: CUevent) {
    let launch = Launch { kernel: kernel.clone(), stream, context, event };
    work().push(Work { of: Of::Launch(launch), _running: Some(Running::new()) });
}

/// Tracks a launch that has just been made and is not recorded.
pub fn look_after(request: &LaunchRequest, kernel: &Arc<Kernel>) {
    // An event in a captured stream would become part of the graph.
    if captures::in_progress() || streams::is_capturing(request.stream) {
        return;
    }
    let keeps_busy = kernel.progress.is_unfinished();
    let stream = request.stream;
    with_all(|all| {
        all.retain_mut(|work| !work.is_done());
        let known = all.iter().find(|work| work.is_of(kernel, stream));
        match known.map(|known| &known.of) {
            // To track a busy device, move the event after the new launch. To see a kernel finish, leave it after the
            // first launch.
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
    // SAFETY: an event of the recorder in the current context, and the stream that the application has just launched
    // into.
    unsafe { driver::cuEventRecord(event, stream as CUstream) }
}

/// Records a new event after the work of a stream. Returns it with its context.
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
        // SAFETY: made above, and not used again.
        unsafe { driver::cuEventDestroy_v2(event) };
        None
    });
    Some((context, recorded??))
}

/// Forgets all work, before a context ends, because its events end with it. Lets another thread finish asking, which
/// takes microseconds unless the machine is overloaded.
pub fn forget_all() {
    for _ in 0..10_000 {
        if with_all(Vec::clear).is_some() {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

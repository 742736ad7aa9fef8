//! Loads code on a thread of the recorder, and keeps contexts from ending during that time.
//!
//! Only this thread and threads that end a context take this lock, while the driver loads the code of one kernel;
//! launches never wait for it. The loading thread waits for the end of a context without a limit. The application waits
//! for the loading thread with a limit, because the driver may load code only when the device is idle.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::driver::{self, CUcontext, Status};

static LOADING: Mutex<()> = Mutex::new(());
/// The process that has the loading thread. In a forked child the thread does not exist, and the lock may be held for
/// ever.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// How many contexts have ended.
static ENDS: AtomicU64 = AtomicU64::new(0);
/// The process ends, so the driver must not be called.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// How many contexts have ended.
pub fn ends() -> u64 {
    ENDS.load(Ordering::SeqCst)
}

/// Notes that this process has a loading thread.
pub fn begin() {
    OWNER.store(std::process::id(), Ordering::SeqCst);
}

/// Runs `work` in a context. `None` if the context may have ended since `ends_then`, or ends now.
pub fn in_context<T>(context: usize, ends_then: u64, work: impl FnOnce() -> T) -> Option<T> {
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if IS_STOPPED.load(Ordering::SeqCst) || ends() != ends_then {
        return None;
    }
    // SAFETY: no context has ended since this one was current, and none ends before the lock is released.
    if unsafe { driver::cuCtxSetCurrent(context as CUcontext) } != Status::SUCCESS {
        return None;
    }
    let done = work();
    // SAFETY: leaves no context current, as before.
    unsafe { driver::cuCtxSetCurrent(std::ptr::null_mut()) };
    Some(done)
}

/// Guard of [`end_of_context`].
pub struct ContextEnd {
    _alone: Option<MutexGuard<'static, ()>>,
}

/// Waits for the loading thread, with a limit, and keeps it from loading until the result is dropped.
pub fn end_of_context() -> ContextEnd {
    const LIMIT: Duration = Duration::from_secs(10);
    if !is_here() {
        return ContextEnd { _alone: None };
    }
    let alone = lock_within(LIMIT);
    ENDS.fetch_add(1, Ordering::SeqCst);
    ContextEnd { _alone: alone }
}

/// For the end of the process: waits a short time for code that is being loaded, and prevents further loading.
pub fn stop() {
    const LIMIT: Duration = Duration::from_millis(500);
    IS_STOPPED.store(true, Ordering::SeqCst);
    if is_here() {
        drop(lock_within(LIMIT));
    }
}

fn lock_within(limit: Duration) -> Option<MutexGuard<'static, ()>> {
    let start = Instant::now();
    loop {
        match LOADING.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() >= limit => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Whether this process has the loading thread.
fn is_here() -> bool {
    let owner = OWNER.load(Ordering::SeqCst);
    owner != 0 && owner == std::process::id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_loads_is_not_waited_for_without_end() {
        let limit = Duration::from_millis(20);
        let held = lock_within(limit).unwrap();
        std::thread::scope(|scope| assert!(scope.spawn(|| lock_within(limit).is_none()).join().unwrap()));
        drop(held);
        assert!(lock_within(limit).is_some());
    }
}

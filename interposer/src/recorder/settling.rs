//! Writes the recording to disk for a process that continues, or ends without handlers of `exit`.
//!
//! A thread does it. A caller wakes the thread and waits without a lock, and only while there is progress, because the
//! caller may be a signal handler that has interrupted the holder of the heap's lock. The thread starts with the first
//! launch.

use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use super::{ending, has_something_to_finish, is_recording_process, output, profile, stall};
use crate::driver::{gate, streams};
use crate::process::settings::settings;
use crate::process::threads;
use crate::snapshot::background;

static REQUESTED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// The process ends.
static ENDS: AtomicBool = AtomicBool::new(false);
/// The thread runs, or is about to.
static STARTED: AtomicBool = AtomicBool::new(false);
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Starts the thread, once.
pub fn start() {
    if !STARTED.swap(true, Ordering::AcqRel) {
        let work = || {
            let _ = THREAD.set(std::thread::current());
            serve();
        };
        STARTED.store(threads::start("mneme-settle", threads::SMALL, work), Ordering::Release);
    }
}

fn serve() {
    loop {
        let requested = REQUESTED.load(Ordering::Acquire);
        if requested == DONE.load(Ordering::Relaxed) {
            std::thread::park();
            continue;
        }
        let _ = catch_unwind(if ENDS.load(Ordering::Acquire) { ending::finish } else { write });
        DONE.store(requested, Ordering::Release);
    }
}

/// Writes what the end of the process would write.
fn write() {
    // Lets a recorded launch of another thread finish.
    drop(gate::close(Duration::from_millis(200)));
    let is_recording = output::settle();
    if is_recording {
        ending::write_occurrences();
    }
    if is_recording || settings().summary.is_some() {
        streams::with_relaxed_captures(profile::collect);
        ending::deliver();
    }
}

/// Waits until everything that is being written is on disk, unless writing is stuck. Safe in signal handlers.
pub fn settle() {
    if has_something_to_finish() {
        request();
    }
}

/// Ends the recording, unless writing is stuck. Safe in signal handlers.
pub fn end() {
    if has_something_to_finish() {
        ENDS.store(true, Ordering::Release);
        request();
    } else if is_recording_process() {
        // Another thread is ending the process too.
        stall::wait_while(background::is_busy, u32::MAX);
    }
}

/// Wakes the thread and waits for it.
fn request() {
    if !STARTED.load(Ordering::Acquire) {
        return;
    }
    let number = REQUESTED.fetch_add(1, Ordering::AcqRel) + 1;
    let is_undone = || {
        THREAD.get().into_iter().for_each(Thread::unpark);
        DONE.load(Ordering::Acquire) < number
    };
    stall::wait_while(is_undone, u32::MAX);
}

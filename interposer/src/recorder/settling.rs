//! Puts what was recorded on disk while the process goes on.
//!
//! A thread does it, whom a caller wakes and waits for without a lock and with a time limit: the caller may be a signal
//! handler, which has interrupted what holds the lock of the heap. The thread is there as soon as something is
//! recorded.

use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use super::{ending, has_something_to_finish, output, signals};
use crate::driver::gate;
use crate::snapshot::background::start_thread;

static REQUESTED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// The thread is there, or about to be.
static STARTED: AtomicBool = AtomicBool::new(false);
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Starts the thread, once.
pub fn start() {
    if !STARTED.swap(true, Ordering::AcqRel) {
        let work = || {
            let _ = THREAD.set(std::thread::current());
            serve();
        };
        STARTED.store(start_thread("mneme-settle", work), Ordering::Release);
    }
}

fn serve() {
    loop {
        let requested = REQUESTED.load(Ordering::Acquire);
        if requested == DONE.load(Ordering::Relaxed) {
            std::thread::park();
            continue;
        }
        let _ = catch_unwind(write);
        DONE.store(requested, Ordering::Release);
    }
}

/// Writes what a process that ends would leave behind.
fn write() {
    // A recorded launch of another thread is let finish.
    drop(gate::close(Duration::from_millis(200)));
    if output::settle() {
        ending::write_occurrences();
        ending::deliver();
    }
}

/// Has everything on disk that is being written, for up to [`signals::PATIENCE`] seconds. Safe in signal handlers.
pub fn settle() {
    if !STARTED.load(Ordering::Acquire) || !has_something_to_finish() {
        return;
    }
    let number = REQUESTED.fetch_add(1, Ordering::AcqRel) + 1;
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for _ in 0..signals::PATIENCE * 1000 {
        if DONE.load(Ordering::Acquire) >= number {
            break;
        }
        THREAD.get().into_iter().for_each(Thread::unpark);
        // SAFETY: safe in signal handlers, with a valid duration.
        unsafe { libc::syscall(libc::SYS_nanosleep, &pause, std::ptr::null_mut::<libc::timespec>()) };
    }
}

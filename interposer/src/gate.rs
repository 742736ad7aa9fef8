//! The gate: a recorded launch has the device to itself.
//!
//! Every hooked call that can touch device memory holds the gate for reading while it is in the vendor's library; a
//! recorded launch holds it for writing from before its prologue until after its epilogue. Waiting writers go first, else
//! a program that never pauses could never be recorded; and a writer waits with a time limit, because a call that is in the
//! vendor's library may itself wait for the launch. It is the one lock held across vendor calls.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::vendor::Status;

/// Set in [`Gate::readers`] while a writer is inside or waits.
const CLOSED: u32 = 1 << 31;

#[derive(Default)]
struct Writers {
    inside: bool,
    waiting: usize,
}

/// Passing an open gate is one addition and one subtraction; everything else goes by the lock.
#[derive(Default)]
pub struct Gate {
    /// How many are inside, and [`CLOSED`].
    readers: AtomicU32,
    writers: Mutex<Writers>,
    changed: Condvar,
}

/// Null until the first fork: the gate of the process that was started.
static GATE_OF_CHILD: AtomicPtr<Gate> = AtomicPtr::new(std::ptr::null_mut());

fn gate() -> &'static Gate {
    static GATE: Gate = Gate::new();
    // SAFETY: null, or leaked and never changed but through its lock.
    unsafe { GATE_OF_CHILD.load(Ordering::Acquire).as_ref() }.unwrap_or(&GATE)
}

/// Gives a forked child a gate of its own: whoever had closed the parent's does not exist in it, and would never open it.
pub fn renew_in_children() {
    extern "C" fn renew() {
        GATE_OF_CHILD.store(Box::into_raw(Box::default()), Ordering::Release);
        crate::recorder::note_fork();
    }
    // SAFETY: the handler does not unwind, allocates (which glibc allows in the child), and is never unloaded (we are preloaded).
    unsafe { libc::pthread_atfork(None, None, Some(renew)) };
}

/// Runs a call that may touch device memory.
pub fn passing(call: &dyn Fn() -> Status) -> Status {
    let _pass = gate().enter();
    call()
}

/// The gate for a recorded launch; `None` when the calls in progress do not end in time.
pub fn close(limit: Duration) -> Option<Closed<'static>> {
    gate().close(limit)
}

pub struct Pass<'a>(&'a Gate);
pub struct Closed<'a>(&'a Gate);

impl Gate {
    pub const fn new() -> Self {
        Self { readers: AtomicU32::new(0), writers: Mutex::new(Writers { inside: false, waiting: 0 }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Writers> {
        // The state is counters, valid after any panic.
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self) -> Pass<'_> {
        while self.readers.fetch_add(1, Ordering::SeqCst) & CLOSED != 0 {
            self.leave();
            let mut writers = self.lock();
            // The mark changes under the lock only.
            while self.readers.load(Ordering::SeqCst) & CLOSED != 0 {
                writers = self.changed.wait(writers).unwrap_or_else(PoisonError::into_inner);
            }
        }
        Pass(self)
    }

    fn leave(&self) {
        if self.readers.fetch_sub(1, Ordering::SeqCst) == CLOSED + 1 {
            // A writer that has looked before is waiting when we have the lock.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    pub fn close(&self, limit: Duration) -> Option<Closed<'_>> {
        let mut deadline = Instant::now() + limit;
        let mut writers = self.lock();
        writers.waiting += 1;
        self.readers.fetch_or(CLOSED, Ordering::SeqCst);
        while writers.inside || self.readers.load(Ordering::SeqCst) != CLOSED {
            if writers.inside {
                // Another recorded launch is under way; it has time limits of its own.
                writers = self.changed.wait(writers).unwrap_or_else(PoisonError::into_inner);
                deadline = Instant::now() + limit;
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                writers.waiting -= 1;
                self.open(writers);
                return None;
            }
            writers = self.changed.wait_timeout(writers, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        writers.waiting -= 1;
        writers.inside = true;
        Some(Closed(self))
    }

    /// Lets readers in again, unless another writer wants it.
    fn open(&self, writers: MutexGuard<'_, Writers>) {
        if !writers.inside && writers.waiting == 0 {
            self.readers.fetch_and(!CLOSED, Ordering::SeqCst);
        }
        drop(writers);
        self.changed.notify_all();
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut writers = self.0.lock();
        writers.inside = false;
        self.0.open(writers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_closed_gate_is_exclusive() {
        let gate = Gate::new();
        let (inside, passes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _pass = gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        passes.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _closed = gate.close(LONG).unwrap();
                        assert_eq!(inside.fetch_add(1000, Ordering::SeqCst), 0);
                        inside.fetch_sub(1000, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(passes.into_inner(), 2000);
    }

    #[test]
    fn closing_gives_up_and_lets_the_others_in_again() {
        let gate = Gate::new();
        let pass = gate.enter();
        assert!(gate.close(Duration::from_millis(10)).is_none());
        let _second = gate.enter();
        drop(pass);
        assert!(gate.close(Duration::from_millis(10)).is_none());
        drop(_second);
        assert!(gate.close(LONG).is_some());
    }
}

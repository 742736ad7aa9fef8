//! The flags of the process and of each thread, which every launch reads.
//!
//! They share as few cache lines as possible: by the next launch the driver has evicted most of the recorder's data
//! from the processor's caches.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The flags of the process, on one cache line.
#[repr(align(64))]
pub struct ProcessFlags {
    /// The hooks of all threads are switched off.
    pub off: AtomicBool,
    /// This process has begun to launch, records, and is still running.
    pub records: AtomicBool,
    /// `MNEME_SKIP_RECORDINGS` or `MNEME_SAMPLE` leaves out some launches.
    pub leaves_out: AtomicBool,
    /// The gate is closed: a launch is being recorded or waits to be.
    pub closed: AtomicBool,
}

pub static FLAGS: ProcessFlags = ProcessFlags {
    off: AtomicBool::new(false),
    records: AtomicBool::new(false),
    leaves_out: AtomicBool::new(false),
    closed: AtomicBool::new(false),
};

/// The flags of a thread. Looking them up is a function call in a shared library, so a launch does it once.
pub struct ThreadFlags {
    /// The stack pointer at entry to the hook that this thread is inside, or 0.
    pub inside: Cell<usize>,
    /// Its slot at the gate.
    pub slot: Cell<OwnSlot>,
    /// How many passes the thread holds through the counter that threads without a slot share.
    pub shared_passes: Cell<u32>,
    /// The number of the recorded launch for which the thread has closed the gate, or 0.
    pub closed: Cell<u64>,
    /// The cancellation state to restore when the thread leaves the hook, if the hook changed it.
    pub cancellation: Cell<Option<c_int>>,
    /// The signal mask from before signals were held back.
    pub mask: Cell<Option<libc::sigset_t>>,
}

impl ThreadFlags {
    const fn new() -> Self {
        Self {
            inside: Cell::new(0),
            slot: Cell::new(OwnSlot::Unknown),
            shared_passes: Cell::new(0),
            closed: Cell::new(0),
            cancellation: Cell::new(None),
            mask: Cell::new(None),
        }
    }
}

thread_local! {
    // Without a destructor, hooks called from other thread-local destructors can still read it.
    pub static THREAD: ThreadFlags = const { ThreadFlags::new() };
}

/// Returns the flags of this thread, without a closure. The pointer must not leave the thread.
#[inline]
pub fn this_thread() -> *const ThreadFlags {
    THREAD.with(std::ptr::from_ref)
}

/// The slot of a thread at the gate.
#[derive(Clone, Copy)]
pub enum OwnSlot {
    Unknown,
    Slot(&'static GateSlot),
    /// All slots were taken, or the thread is ending.
    None,
}

/// How many passes through the gate one thread holds. Each slot has a cache line for itself.
#[repr(align(64))]
#[derive(Default)]
pub struct GateSlot {
    pub depth: AtomicU32,
    pub taken: AtomicBool,
}

//! The flags of the process and of each thread that every launch reads.
//!
//! They lie in as few places as can be: what the driver does in between leaves little of ours in the processor's
//! caches.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The flags of the process, on one line of the cache.
#[repr(align(64))]
pub struct ProcessFlags {
    /// The hooks of all threads are switched off.
    pub off: AtomicBool,
    /// This process has begun to launch, records, and has not ended.
    pub records: AtomicBool,
    /// Some launches are left out by their number.
    pub leaves_out: AtomicBool,
    /// The gate is closed: a launch is recorded, or waits to be.
    pub closed: AtomicBool,
}

pub static FLAGS: ProcessFlags = ProcessFlags {
    off: AtomicBool::new(false),
    records: AtomicBool::new(false),
    leaves_out: AtomicBool::new(false),
    closed: AtomicBool::new(false),
};

/// The flags of a thread. Looking them up is a call in a shared library, and is done once in a launch.
pub struct ThreadFlags {
    /// Where the stack was when it entered the hook that it is inside of, or 0.
    pub inside: Cell<usize>,
    /// Its slot at the gate.
    pub slot: Cell<OwnSlot>,
    /// How many passes it has by the counter that threads without a slot share.
    pub shared_passes: Cell<u32>,
    /// The number of the recorded launch for which it has closed the gate, or 0.
    pub closed: Cell<u64>,
    /// Whether it can be cancelled when it leaves the hook, where that was changed.
    pub cancellation: Cell<Option<c_int>>,
    /// Its mask of before signals were held back.
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
    // No destructor, so that hooks called from other thread-local destructors may still look.
    pub static THREAD: ThreadFlags = const { ThreadFlags::new() };
}

/// The flags of this thread, without a closure around them; the pointer must not leave the thread.
#[inline]
pub fn this_thread() -> *const ThreadFlags {
    THREAD.with(std::ptr::from_ref)
}

/// The slot of a thread at the gate.
#[derive(Clone, Copy)]
pub enum OwnSlot {
    Unknown,
    Slot(&'static GateSlot),
    /// All were taken, or the thread is ending.
    None,
}

/// Where one thread says that it is inside of the gate: how deep. On a line of the cache of its own.
#[repr(align(64))]
#[derive(Default)]
pub struct GateSlot {
    pub depth: AtomicU32,
    pub taken: AtomicBool,
}

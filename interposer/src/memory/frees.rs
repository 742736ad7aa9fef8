//! Freeing memory of the arena as the vendor frees its own.
//!
//! `cuMemFree` waits for the context that owns the memory; applications rely on it. `cuMemFreeAsync`, which takes
//! memory of `cuMemAlloc` too, waits for nothing: such memory is kept until something else has waited.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_core::recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, LiveAllocation};
use super::arena::vmm;
use super::sharing::{exports, imports};
use crate::driver::{self, CUcontext, CUdevice, Status, captures};

/// Freed by the application, but perhaps still in use by work that was enqueued before.
static DEFERRED: Mutex<Vec<LiveAllocation>> = Mutex::new(Vec::new());

fn deferred() -> MutexGuard<'static, Vec<LiveAllocation>> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an allocation until its context has been waited for.
pub fn defer(live: LiveAllocation) {
    deferred().push(live);
}

/// Has memory belong to another context than the one in which it was allocated, which is gone.
pub fn inherit(from: usize, to: usize) {
    let belong = |live: &mut LiveAllocation| {
        if live.context == from {
            live.context = to;
        }
    };
    ALLOCATIONS.change(belong);
    deferred().iter_mut().for_each(belong);
    imports::inherit(from, to);
}

/// Waits for a context (0 for the current one), and gives back what was deferred in it before.
pub fn wait(context: usize) -> Status {
    let before: Vec<LiveAllocation> = take(|live| live.context == context);
    let status = in_context(context, wait_as_the_vendor_does);
    if status == Status::SUCCESS {
        before.iter().for_each(release);
    } else {
        deferred().extend(before);
    }
    status
}

/// Waits for the contexts that deferred memory belongs to; whether there was any.
pub fn reclaim() -> bool {
    let mut contexts: Vec<usize> = deferred().iter().map(|live| live.context).collect();
    contexts.sort_unstable();
    contexts.dedup();
    contexts.into_iter().fold(false, |any, context| (wait(context) == Status::SUCCESS) | any)
}

/// Takes out what was deferred and matches.
pub fn take(mut matches: impl FnMut(&LiveAllocation) -> bool) -> Vec<LiveAllocation> {
    deferred().extract_if(.., |live| matches(live)).collect()
}

/// Puts memory that nothing uses any more back into its arena.
pub fn release(live: &LiveAllocation) {
    if let Some(arena) = vmm::of_address(live.address) {
        exports::forget(live.address);
        arena.arena.free(&arena.mapper, live.address, live.size);
    }
}

fn wait_as_the_vendor_does() -> Status {
    if !captures::in_progress() {
        // SAFETY: no arguments.
        return unsafe { driver::cuCtxSynchronize() };
    }
    // That would end the capture. A free does not where the thread's capture mode allows it, else it fails.
    try_vendors().err().unwrap_or(Status::SUCCESS)
}

/// Allocates memory of the vendor's and frees it, which only the vendor knows whether a capture in progress allows.
pub fn try_vendors() -> Result<(), Status> {
    let mut address = 0;
    // SAFETY: a valid place; what is freed has just been allocated.
    let status = unsafe {
        match driver::hooked::cuMemAlloc_v2::call(&mut address, 1) {
            Status::SUCCESS => driver::hooked::cuMemFree_v2::call(address),
            error => error,
        }
    };
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

/// Runs a call with a context current that is alive, and puts the thread's own back.
fn in_context(context: usize, call: impl FnOnce() -> Status) -> Status {
    let own = driver::current_context();
    if context == 0 || own == Some(context) || own.is_none() {
        return call();
    }
    // SAFETY: a context frees its memory, and there is memory of this one; the thread's own was current a moment ago.
    unsafe {
        match driver::cuCtxSetCurrent(context as CUcontext) {
            Status::SUCCESS => {
                let status = call();
                driver::cuCtxSetCurrent(own.unwrap_or_default() as CUcontext);
                status
            }
            error => error,
        }
    }
}

/// Forgets what was destroyed with a context of a device, and gives its memory back: nothing says that a mapping
/// outlives the context in which it was made.
pub fn forget(device: Option<CUdevice>, mut died: impl FnMut(&LiveAllocation) -> bool) {
    let mut arenas: Vec<CUdevice> = device.into_iter().collect();
    let deferred = take(&mut died);
    for live in ALLOCATIONS.remove_where(died).into_iter().chain(deferred) {
        if live.kind == AllocationKind::Arena {
            release(&live);
            arenas.push(live.device);
        } else {
            imports::forget(live.address);
        }
    }
    arenas.sort_unstable();
    arenas.dedup();
    for arena in arenas.into_iter().filter_map(vmm::reserved) {
        arena.arena.trim(&arena.mapper);
    }
}

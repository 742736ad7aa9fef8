//! The live contexts of each device.
//!
//! A recorded launch needs an idle device, and all contexts of a device can keep it busy. A context is noted when it is
//! made, and when it is used, because an application may get one in a way that is not hooked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{self as driver, CUcontext, CUdevice, Status};

#[derive(Default)]
struct Contexts {
    devices: BTreeMap<usize, CUdevice>,
    primary: BTreeMap<CUdevice, usize>,
    /// The device of every context that was made from a green one.
    green: BTreeMap<usize, CUdevice>,
}

/// A live context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveContext {
    /// `CUcontext`
    pub handle: usize,
    pub device: CUdevice,
}

static CONTEXTS: Mutex<Option<Contexts>> = Mutex::new(None);

fn with<R>(work: impl FnOnce(&mut Contexts) -> R) -> R {
    work(CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

static IN_USE: AtomicBool = AtomicBool::new(false);

/// Whether this process has used a device, or its parent had when it forked. Takes no lock.
pub fn are_in_use() -> bool {
    IN_USE.load(Ordering::Relaxed)
}

/// Notes that a context is in use.
pub fn note(context: usize, device: CUdevice) {
    IN_USE.store(true, Ordering::Relaxed);
    with(|contexts| contexts.devices.insert(context, device));
}

/// Notes a context that was made from a green one.
pub fn note_green(context: usize, device: CUdevice) {
    with(|contexts| contexts.green.insert(context, device));
    note(context, device);
}

/// Whether a context was made from a green one of this device.
pub fn is_green_of(context: usize, device: CUdevice) -> bool {
    with(|contexts| contexts.green.get(&context) == Some(&device))
}

/// Forgets that a context was made from a green one, which has been destroyed.
pub fn forget_green(context: usize) {
    with(|contexts| contexts.green.remove(&context));
}

/// Forgets the contexts made from green ones of a device whose primary context has died.
pub fn forget_all_green_of(device: CUdevice) {
    with(|contexts| contexts.green.retain(|_, of| *of != device));
}

/// Forgets a context that has died.
pub fn forget(context: usize) {
    with(|contexts| contexts.devices.remove(&context));
}

/// Forgets a device's primary context, which has died, and returns it if it is known. If it is unknown (it was retained
/// before the recorder was loaded, or in a way that is not hooked), forgets all contexts of the device; live ones are
/// noted again when they are used.
pub fn forget_primary(device: CUdevice) -> Option<usize> {
    with(|contexts| {
        let primary = contexts.primary.remove(&device);
        match primary {
            Some(context) => _ = contexts.devices.remove(&context),
            None => contexts.devices.retain(|_, other| *other != device),
        }
        primary
    })
}

/// The primary context of a device, or 0 if it was retained in a way that is not hooked.
pub fn primary_of(device: CUdevice) -> usize {
    with(|contexts| contexts.primary.get(&device).copied().unwrap_or(0))
}

/// Whether a context is known to be alive.
#[cfg(test)]
pub fn device_is_known(context: usize) -> bool {
    with(|contexts| contexts.devices.contains_key(&context))
}

/// All live contexts.
pub fn all() -> Vec<LiveContext> {
    with(|contexts| {
        contexts.devices.iter().map(|(handle, device)| LiveContext { handle: *handle, device: *device }).collect()
    })
}

/// How many contexts there are.
pub fn count() -> usize {
    with(|contexts| contexts.devices.len())
}

/// Runs `work` with a context current and then restores the thread's own. Returns `None` if the driver does not know
/// the context.
pub fn within<R>(context: usize, work: impl FnOnce() -> R) -> Option<R> {
    let own = driver::current_context();
    if own == Some(context) {
        return Some(work());
    }
    // SAFETY: the driver reports an error for a dead context; the thread's own was current a moment ago.
    unsafe {
        if driver::cuCtxSetCurrent(context as CUcontext) != Status::SUCCESS {
            return None;
        }
        let result = work();
        driver::cuCtxSetCurrent(own.unwrap_or_default() as CUcontext);
        Some(result)
    }
}

/// The device of a live context.
pub fn device_of(context: usize) -> Option<CUdevice> {
    if let Some(device) = with(|contexts| contexts.devices.get(&context).copied()) {
        return Some(device);
    }
    let own = driver::current_context();
    // SAFETY: the application has just used the context, and its own is restored.
    unsafe {
        if driver::cuCtxSetCurrent(context as CUcontext) != Status::SUCCESS {
            return None;
        }
        let device = driver::current_device();
        driver::cuCtxSetCurrent(own.unwrap_or_default() as CUcontext);
        device
    }
}

/// # Safety
/// After a success `context` must be readable.
pub unsafe fn create(call: &dyn Fn() -> Status, context: *const CUcontext, device: CUdevice) -> Status {
    call().on_success(|| {
        // SAFETY: the caller's promise.
        note(unsafe { *context } as usize, device);
    })
}

/// # Safety
/// The arguments are those of `cuDevicePrimaryCtxRetain`.
pub unsafe fn retain_primary(call: &dyn Fn() -> Status, context: *mut CUcontext, device: CUdevice) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { create(call, context, device) }.on_success(|| {
        // SAFETY: the vendor has just written it.
        let context = unsafe { *context } as usize;
        with(|contexts| contexts.primary.insert(device, context));
    })
}

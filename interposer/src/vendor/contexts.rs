//! The live contexts of each device, and which devices' memory each device reaches.
//!
//! A recorded launch needs its device idle, and a device is as busy as all of its contexts together. Contexts are learnt where
//! they are made, and where they are used by whoever got one in a way that is not hooked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::CUmemAccessDesc;

use super::{self as vendor, CUcontext, CUdevice, SUCCESS, Status};

#[derive(Default)]
struct Contexts {
    devices: BTreeMap<usize, CUdevice>,
    primary: BTreeMap<CUdevice, usize>,
    /// (accessor, owner): kernels on the first device may touch memory of the second.
    peers: BTreeSet<(CUdevice, CUdevice)>,
    /// Owner of each memory pool (`CUmemoryPool`).
    pools: BTreeMap<usize, CUdevice>,
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

/// Forgets a context that has died.
pub fn forget(context: usize) {
    with(|contexts| contexts.devices.remove(&context));
}

/// Forgets a device's primary context that has died, and gives it, where it is known. Where not (it was retained before the recorder was
/// there, or by a way around it), all of the device's are forgotten; those that live are noted again when they are used.
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

/// Whether a context is among those that live.
#[cfg(test)]
pub fn device_is_known(context: usize) -> bool {
    with(|contexts| contexts.devices.contains_key(&context))
}

/// The contexts whose kernels may touch memory of these devices: their own, and those of devices that were given access.
pub fn that_touch(devices: &[CUdevice]) -> Vec<usize> {
    with(|contexts| {
        let peers = contexts.peers.iter().filter(|(_, owner)| devices.contains(owner)).map(|(accessor, _)| *accessor);
        let touching: BTreeSet<CUdevice> = devices.iter().copied().chain(peers).collect();
        contexts.devices.iter().filter(|(_, device)| touching.contains(device)).map(|(context, _)| *context).collect()
    })
}

/// How many contexts there are.
pub fn count() -> usize {
    with(|contexts| contexts.devices.len())
}

/// Notes that kernels on one device may touch memory of another.
pub fn grant(accessor: CUdevice, owner: CUdevice) {
    if accessor != owner {
        with(|contexts| contexts.peers.insert((accessor, owner)));
    }
}

/// The devices whose memory a kernel on this device may touch, itself first.
pub fn reached_from(device: CUdevice) -> Vec<CUdevice> {
    with(|contexts| {
        let peers = contexts.peers.iter().filter(|(accessor, _)| *accessor == device).map(|(_, owner)| *owner);
        std::iter::once(device).chain(peers).collect()
    })
}

/// The device of a context that is alive.
pub fn device_of(context: usize) -> Option<CUdevice> {
    if let Some(device) = with(|contexts| contexts.devices.get(&context).copied()) {
        return Some(device);
    }
    let own = vendor::current_context();
    // SAFETY: the context is one that the application has just used, and its own is put back.
    unsafe {
        if vendor::cuCtxSetCurrent(context as CUcontext) != SUCCESS {
            return None;
        }
        let device = vendor::current_device();
        vendor::cuCtxSetCurrent(own.unwrap_or_default() as CUcontext);
        device
    }
}

/// # Safety
/// After a success `context` must be readable.
unsafe fn created(call: &dyn Fn() -> Status, context: *const CUcontext, device: CUdevice) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the caller's promise.
        note(unsafe { *context } as usize, device);
    }
    status
}

/// # Safety
/// The arguments are those of `cuCtxCreate_v2`.
pub unsafe fn create(call: &dyn Fn() -> Status, context: *mut CUcontext, _flags: c_uint, device: CUdevice) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { created(call, context, device) }
}

/// # Safety
/// The arguments are those of `cuCtxCreate_v3`.
pub unsafe fn create_with_affinity(
    call: &dyn Fn() -> Status,
    context: *mut CUcontext,
    _affinity: *mut c_void,
    _count: c_int,
    _flags: c_uint,
    device: CUdevice,
) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { created(call, context, device) }
}

/// # Safety
/// The arguments are those of `cuCtxCreate_v4`.
pub unsafe fn create_with_parameters(
    call: &dyn Fn() -> Status,
    context: *mut CUcontext,
    _parameters: *mut c_void,
    _flags: c_uint,
    device: CUdevice,
) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { created(call, context, device) }
}

/// # Safety
/// The arguments are those of `cuDevicePrimaryCtxRetain`.
pub unsafe fn retain_primary(call: &dyn Fn() -> Status, context: *mut CUcontext, device: CUdevice) -> Status {
    // SAFETY: the vendor writes it.
    let status = unsafe { created(call, context, device) };
    if status == SUCCESS {
        // SAFETY: the vendor has just written it.
        let context = unsafe { *context } as usize;
        with(|contexts| contexts.primary.insert(device, context));
    }
    status
}

/// # Safety
/// After a success `pool` must be readable.
unsafe fn pool_of(call: &dyn Fn() -> Status, pool: *const usize, device: CUdevice) -> Status {
    let status = call();
    if status == SUCCESS {
        // SAFETY: the caller's promise.
        let pool = unsafe { *pool };
        with(|contexts| contexts.pools.insert(pool, device));
    }
    status
}

/// # Safety
/// The arguments are those of `cuDeviceGetDefaultMemPool` or `cuDeviceGetMemPool`.
pub unsafe fn device_pool(call: &dyn Fn() -> Status, pool: *mut usize, device: CUdevice) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { pool_of(call, pool, device) }
}

/// # Safety
/// The arguments are those of `cuMemPoolCreate`; `properties` is a `CUmemPoolProps`.
pub unsafe fn create_pool(call: &dyn Fn() -> Status, pool: *mut usize, properties: *const c_uint) -> Status {
    // SAFETY: the structure begins with four words: allocation type, handle types, kind of location, device.
    let device = if properties.is_null() { 0 } else { unsafe { *properties.add(3) as CUdevice } };
    // SAFETY: the vendor writes it.
    unsafe { pool_of(call, pool, device) }
}

/// # Safety
/// The arguments are those of `cuMemPoolSetAccess`.
pub unsafe fn share_pool(call: &dyn Fn() -> Status, pool: usize, accesses: *const CUmemAccessDesc, count: usize) -> Status {
    let status = call();
    if status == SUCCESS
        && let Some(owner) = with(|contexts| contexts.pools.get(&pool).copied())
    {
        // SAFETY: the driver has taken the array.
        unsafe { grant_all(accesses, count, owner) };
    }
    status
}

/// Notes every device of a list of accesses.
///
/// # Safety
/// The array must have `count` elements.
pub unsafe fn grant_all(accesses: *const CUmemAccessDesc, count: usize, owner: CUdevice) {
    for index in 0..count {
        // SAFETY: inside the array; an element begins with the kind of location (1: device) and its number.
        let [kind, device] = unsafe { accesses.add(index).cast::<[i32; 2]>().read() };
        if kind == 1 {
            grant(device, owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_reach_what_was_granted_and_no_more() {
        grant(40, 41);
        grant(40, 40);
        assert_eq!(reached_from(40), [40, 41]);
        assert_eq!(reached_from(41), [41]);
        note(0xa0, 40);
        note(0xa1, 40);
        note(0xa2, 41);
        assert_eq!(that_touch(&[40]), [0xa0, 0xa1]);
        assert_eq!(that_touch(&reached_from(40)), [0xa0, 0xa1, 0xa2]);
        assert_eq!(that_touch(&[41]), [0xa0, 0xa1, 0xa2], "a peer may write to it");
        with(|contexts| contexts.devices.clear());
    }
}

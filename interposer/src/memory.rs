//! Handlers of the memory functions: the arena for `cuMemAlloc`, bookkeeping for everything else.
//!
//! Each is `unsafe fn(call, arguments of the driver function)`; `call` executes the vendor's function with the same arguments.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUdevice_attribute, CUmemAccessDesc, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemoryPool};
use mneme_core::recording::manifest::AllocationKind;

use crate::allocations::{ALLOCATIONS, Live, Reach};
use crate::arena::{ALIGNMENT, vmm};
use crate::log::warning;
use crate::settings::settings;
use crate::vendor::{self, CUcontext, CUdevice, CUdeviceptr, CUstream, INVALID_VALUE, NOT_FOUND, SUCCESS, Status};
use crate::{captures, contexts, frees, gate};

/// Pointer attributes that a mapping answers differently from an allocation.
mod attribute {
    use cudarc::driver::sys::CUpointer_attribute;
    pub const CONTEXT: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT as u32;
    pub const DEVICE_ORDINAL: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32;
    pub const RANGE_START_ADDR: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR as u32;
    pub const RANGE_SIZE: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE as u32;
}

/// Flags of page-locked memory that the application asks to be mapped for kernels.
const ALLOCATED_MAPPED: c_uint = cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;
const REGISTERED_MAPPED: c_uint = cudarc::driver::sys::CU_MEMHOSTREGISTER_DEVICEMAP;
/// Flag of registered memory that belongs to another device.
const REGISTERS: c_uint = cudarc::driver::sys::CU_MEMHOSTREGISTER_IOMEMORY;

/// Notes an allocation of the current device.
fn track(address: u64, size: u64, kind: AllocationKind) {
    track_as(address, size, kind, Reach::Device, vendor::current_device());
}

fn track_as(address: u64, size: u64, kind: AllocationKind, reach: Reach, device: Option<CUdevice>) {
    if let (Some(device), Some(own), Some(context)) = (device, vendor::current_device(), vendor::current_context()) {
        contexts::note(context, own);
        ALLOCATIONS.insert(Live { address, size, kind, reach, device, context });
    }
}

/// The device that the vendor says owns an address; the current one where it does not say.
fn owner(address: u64) -> Option<CUdevice> {
    let mut device = -1i32;
    // SAFETY: the attribute is an `int`.
    let status = unsafe { vendor::hooked::cuPointerGetAttribute::call((&raw mut device).cast(), attribute::DEVICE_ORDINAL, address) };
    if status == SUCCESS && device >= 0 { Some(device) } else { vendor::current_device() }
}

/// Allocates from the arena of the current device; not in a context that is broken, where the vendor has an error to report.
fn from_arena(bytes: u64) -> Option<u64> {
    if !vendor::context_is_sound() || (SHARES.load(Ordering::Relaxed) && !settings().arena_forced) {
        return None;
    }
    let arena = vmm::of_device(vendor::current_device()?)?;
    let take = || arena.arena.allocate(&arena.mapper, bytes);
    let address = take().or_else(|| if frees::reclaim() { take() } else { None })?;
    track(address, bytes, AllocationKind::Arena);
    Some(address)
}

/// # Safety
/// The arguments are those of `cuMemAlloc_v2`.
pub unsafe fn allocate(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, bytes: usize) -> Status {
    gate::passing(&|| {
        if !address.is_null()
            && bytes > 0
            && let Some(found) = from_arena(bytes as u64)
        {
            // SAFETY: not null, and the application's place for the result.
            unsafe { *address = found };
            return SUCCESS;
        }
        let status = call();
        if status == SUCCESS {
            // SAFETY: the vendor has just written it.
            track(unsafe { *address }, bytes as u64, AllocationKind::Vendor);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMemAllocPitch_v2`.
pub unsafe fn allocate_pitched(
    call: &dyn Fn() -> Status,
    address: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: c_uint,
) -> Status {
    gate::passing(&|| {
        let valid = !address.is_null() && !pitch.is_null() && width > 0 && height > 0 && matches!(element, 4 | 8 | 16);
        let row = width.checked_next_multiple_of(ALIGNMENT as usize);
        let limit =
            vendor::current_device().and_then(|device| vendor::device_attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH, device));
        if let (true, Some(row), Some(limit)) = (valid, row, limit)
            && row <= limit as usize
            && let Some(bytes) = row.checked_mul(height)
            && let Some(found) = from_arena(bytes as u64)
        {
            // SAFETY: neither is null, and both are the application's places for the results.
            unsafe {
                *address = found;
                *pitch = row;
            }
            return SUCCESS;
        }
        let status = call();
        if status == SUCCESS {
            // SAFETY: the vendor has just written both.
            let (address, pitch) = unsafe { (*address, *pitch) };
            track(address, (pitch * height) as u64, AllocationKind::Vendor);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMemFree_v2`.
pub unsafe fn free(call: &dyn Fn() -> Status, address: CUdeviceptr) -> Status {
    gate::passing(&|| {
        if vmm::of_address(address).is_none() {
            let status = call();
            if status == SUCCESS {
                ALLOCATIONS.remove(address);
            }
            return status;
        }
        let Some(live) = ALLOCATIONS.containing(address).filter(|live| live.address == address) else { return INVALID_VALUE };
        let status = frees::wait(live.context);
        if status != SUCCESS {
            return status;
        }
        // Whoever removes it frees it: a second free on another thread finds nothing.
        match ALLOCATIONS.remove(address) {
            Some(live) => {
                frees::release(&live);
                SUCCESS
            }
            None => INVALID_VALUE,
        }
    })
}

/// # Safety
/// The arguments are those of `cuMemGetAddressRange_v2`.
pub unsafe fn address_range(call: &dyn Fn() -> Status, base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) -> Status {
    if vmm::of_address(address).is_none() {
        return call();
    }
    let Some(live) = ALLOCATIONS.containing(address) else { return NOT_FOUND };
    // SAFETY: either may be null, else it is the application's place for the result.
    unsafe {
        if !base.is_null() {
            *base = live.address;
        }
        if !size.is_null() {
            *size = live.size as usize;
        }
    }
    SUCCESS
}

/// What an allocation would answer where a mapping does not.
fn answer(attribute: u32, live: &Live) -> Option<u64> {
    match attribute {
        attribute::CONTEXT => Some(live.context as u64),
        attribute::RANGE_START_ADDR => Some(live.address),
        attribute::RANGE_SIZE => Some(live.size),
        _ => None,
    }
}

/// # Safety
/// The arguments are those of `cuPointerGetAttribute`.
pub unsafe fn pointer_attribute(call: &dyn Fn() -> Status, data: *mut c_void, attribute: c_uint, address: CUdeviceptr) -> Status {
    let live = vmm::of_address(address).and_then(|_| ALLOCATIONS.containing(address));
    if let Some(value) = live.and_then(|live| answer(attribute, &live))
        && !data.is_null()
    {
        // SAFETY: these attributes are 8 bytes wide, a pointer or a size.
        unsafe { data.cast::<u64>().write_unaligned(value) };
        return SUCCESS;
    }
    call()
}

/// # Safety
/// The arguments are those of `cuPointerGetAttributes`.
pub unsafe fn pointer_attributes(
    call: &dyn Fn() -> Status,
    count: c_uint,
    attributes: *mut c_uint,
    data: *mut *mut c_void,
    address: CUdeviceptr,
) -> Status {
    let status = call();
    let live = vmm::of_address(address).and_then(|_| ALLOCATIONS.containing(address));
    if let (SUCCESS, Some(live)) = (status, live) {
        for index in 0..count as usize {
            // SAFETY: after a success both arrays have `count` elements, and each place fits its attribute.
            unsafe {
                if let Some(value) = answer(*attributes.add(index), &live) {
                    (*data.add(index)).cast::<u64>().write_unaligned(value);
                }
            }
        }
    }
    status
}

/// # Safety
/// The arguments are those of `cuMemGetInfo_v2`.
pub unsafe fn information(call: &dyn Fn() -> Status, free: *mut usize, _total: *mut usize) -> Status {
    let status = call();
    if status == SUCCESS
        && !free.is_null()
        && let Some(arena) = vendor::current_device().and_then(vmm::of_device)
    {
        // SAFETY: the vendor has just written it.
        unsafe { *free += arena.arena.cached() as usize };
    }
    status
}

/// # Safety
/// The arguments are those of `cuCtxEnablePeerAccess`.
pub unsafe fn enable_peer_access(call: &dyn Fn() -> Status, peer: CUcontext, _flags: c_uint) -> Status {
    let status = call();
    if status == SUCCESS
        && let (Some(own), Some(owner)) = (vendor::current_device(), contexts::device_of(peer as usize))
    {
        contexts::grant(own, owner);
        if let Some(arena) = vmm::of_device(owner) {
            arena.grant(own);
        }
    }
    status
}

/// `CUipcMemHandle`
pub type IpcHandle = cudarc::driver::sys::CUipcMemHandle;

/// This process shares memory with others, which only the vendor's own can do.
static SHARES: AtomicBool = AtomicBool::new(false);

/// Memory of the arena cannot be shared between processes; what is allocated from now on can, and the user is told how to have
/// all of it so.
///
/// # Safety
/// The arguments are those of `cuIpcGetMemHandle`.
pub unsafe fn share(call: &dyn Fn() -> Status, _handle: *mut c_void, address: CUdeviceptr) -> Status {
    static TOLD: Once = Once::new();
    let status = call();
    SHARES.store(true, Ordering::Relaxed);
    if status != SUCCESS && vmm::of_address(address).is_some() {
        TOLD.call_once(|| warning!("this program shares device memory between processes (CUDA IPC); record it with MNEME_ARENA=off"));
    }
    status
}

/// Tracks memory of another process, whose size the vendor knows.
///
/// # Safety
/// After a success `address` must be readable.
unsafe fn opened(call: &dyn Fn() -> Status, address: *const CUdeviceptr) -> Status {
    gate::passing(&|| {
        let status = call();
        SHARES.store(true, Ordering::Relaxed);
        if status == SUCCESS {
            let (mut base, mut size) = (0, 0);
            // SAFETY: the caller's promise, and valid places.
            let (address, known) =
                unsafe { (*address, vendor::hooked::cuMemGetAddressRange_v2::call(&mut base, &mut size, *address) == SUCCESS) };
            if known {
                track_as(address, (base + size as u64).saturating_sub(address), AllocationKind::Vendor, Reach::Device, owner(address));
            }
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuIpcOpenMemHandle`.
pub unsafe fn open_shared(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, _handle: IpcHandle, _flags: c_uint) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe { opened(call, address) }
}

/// # Safety
/// The arguments are those of `cuMemPoolImportPointer`.
pub unsafe fn import_pointer(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, _pool: CUmemoryPool, _data: *mut c_void) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe { opened(call, address) }
}

/// # Safety
/// The arguments are those of `cuIpcCloseMemHandle`.
pub unsafe fn close_shared(call: &dyn Fn() -> Status, address: CUdeviceptr) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            ALLOCATIONS.remove(address);
        }
        status
    })
}

/// Passes the gate and tracks what the vendor allocated.
///
/// # Safety
/// After a success `address` must be readable.
unsafe fn tracked(call: &dyn Fn() -> Status, address: *const u64, bytes: usize, kind: AllocationKind, reach: Reach) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            // SAFETY: the caller's promise.
            let address = unsafe { *address };
            // A pool or a stream may belong to another device than the current one.
            let device = if reach == Reach::Device { owner(address) } else { vendor::current_device() };
            track_as(address, bytes as u64, kind, reach, device);
        }
        status
    })
}

/// A stream-ordered allocation. One that is captured has an address, but no memory until its graph is launched.
///
/// # Safety
/// After a success `address` must be readable.
unsafe fn enqueued(call: &dyn Fn() -> Status, address: *const u64, bytes: usize, stream: CUstream) -> Status {
    if captures::captures(stream) {
        return gate::passing(call);
    }
    // SAFETY: the caller's promise.
    unsafe { tracked(call, address, bytes, AllocationKind::Vendor, Reach::Device) }
}

/// # Safety
/// The arguments are those of `cuMemAllocAsync`.
pub unsafe fn allocate_async(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe { enqueued(call, address, bytes, stream) }
}

/// # Safety
/// The arguments are those of `cuMemAllocFromPoolAsync`.
pub unsafe fn allocate_from_pool(
    call: &dyn Fn() -> Status,
    address: *mut CUdeviceptr,
    bytes: usize,
    _pool: CUmemoryPool,
    stream: CUstream,
) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe { enqueued(call, address, bytes, stream) }
}

/// # Safety
/// The arguments are those of `cuMemFreeAsync`.
pub unsafe fn free_async(call: &dyn Fn() -> Status, address: CUdeviceptr, stream: CUstream) -> Status {
    gate::passing(&|| {
        if vmm::of_address(address).is_some() && !captures::captures(stream) {
            // The vendor takes memory of `cuMemAlloc` here, but would not take the arena's.
            return match ALLOCATIONS.containing(address).filter(|live| live.address == address).and_then(|_| ALLOCATIONS.remove(address)) {
                Some(live) => {
                    frees::defer(live);
                    SUCCESS
                }
                None => INVALID_VALUE,
            };
        }
        let status = call();
        if status == SUCCESS {
            ALLOCATIONS.remove(address);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMemAllocManaged`.
pub unsafe fn allocate_managed(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, bytes: usize, _flags: c_uint) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe { tracked(call, address, bytes, AllocationKind::Vendor, Reach::Everywhere) }
}

/// Page-locked memory is for copies (staging buffers of libraries, tens of gigabytes) unless the application says, or an argument
/// shows, that kernels are to see it.
fn host_reach(mapped: bool) -> Reach {
    if mapped { Reach::Everywhere } else { Reach::Arguments }
}

/// # Safety
/// The arguments are those of `cuMemAllocHost_v2`.
pub unsafe fn allocate_host(call: &dyn Fn() -> Status, host: *mut *mut c_void, bytes: usize) -> Status {
    // SAFETY: the vendor writes the address; with unified addressing it is the device's too.
    unsafe { tracked(call, host.cast(), bytes, AllocationKind::Host, Reach::Arguments) }
}

/// # Safety
/// The arguments are those of `cuMemHostAlloc`.
pub unsafe fn allocate_host_with_flags(call: &dyn Fn() -> Status, host: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    // SAFETY: as for `cuMemAllocHost_v2`.
    unsafe { tracked(call, host.cast(), bytes, AllocationKind::Host, host_reach(flags & ALLOCATED_MAPPED != 0)) }
}

/// # Safety
/// The arguments are those of `cuMemHostRegister_v2`.
pub unsafe fn register_host(call: &dyn Fn() -> Status, host: *mut c_void, bytes: usize, flags: c_uint) -> Status {
    gate::passing(&|| {
        let status = call();
        // Reading a device's registers may change its state.
        if status == SUCCESS && flags & REGISTERS == 0 {
            let reach = host_reach(flags & REGISTERED_MAPPED != 0);
            track_as(host as u64, bytes as u64, AllocationKind::Host, reach, vendor::current_device());
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMemFreeHost` or `cuMemHostUnregister`.
pub unsafe fn forget_host(call: &dyn Fn() -> Status, host: *mut c_void) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            ALLOCATIONS.remove(host as u64);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMemMap`.
pub unsafe fn map(
    call: &dyn Fn() -> Status,
    address: CUdeviceptr,
    bytes: usize,
    _offset: usize,
    handle: CUmemGenericAllocationHandle,
    _flags: c_ulonglong,
) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            // SAFETY: a structure of integers and pointers, of which all zero is a value.
            let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
            // SAFETY: a valid place, and the handle has just been mapped.
            let known = unsafe { vendor::cuMemGetAllocationPropertiesFromHandle(&mut properties, handle) } == SUCCESS;
            let device = if known { Some(properties.location.id) } else { vendor::current_device() };
            track_as(address, bytes as u64, AllocationKind::Vendor, Reach::Device, device);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMemSetAccess`.
pub unsafe fn set_access(
    call: &dyn Fn() -> Status,
    address: CUdeviceptr,
    _bytes: usize,
    accesses: *const CUmemAccessDesc,
    count: usize,
) -> Status {
    let status = call();
    if status == SUCCESS
        && let Some(live) = ALLOCATIONS.containing(address)
    {
        // SAFETY: the driver has taken the array.
        unsafe { contexts::grant_all(accesses, count, live.device) };
    }
    status
}

/// # Safety
/// The arguments are those of `cuMemUnmap`.
pub unsafe fn unmap(call: &dyn Fn() -> Status, address: CUdeviceptr, bytes: usize) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            let end = address.saturating_add(bytes as u64);
            ALLOCATIONS.remove_where(|live| (address..end).contains(&live.address));
        }
        status
    })
}

/// Forgets what died with a context of a device, and gives its memory back: nothing says that a mapping outlives the
/// context in which it was made.
pub fn bury(device: Option<CUdevice>, mut died: impl FnMut(&Live) -> bool) {
    let mut arenas: Vec<CUdevice> = device.into_iter().collect();
    let deferred = frees::take(&mut died);
    for live in ALLOCATIONS.remove_where(died).into_iter().chain(deferred) {
        if live.kind == AllocationKind::Arena {
            frees::release(&live);
            arenas.push(live.device);
        }
    }
    arenas.sort_unstable();
    arenas.dedup();
    for arena in arenas.into_iter().filter_map(vmm::reserved) {
        arena.arena.trim(&arena.mapper);
    }
}

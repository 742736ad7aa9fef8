//! Handlers of the functions whose memory stays the vendor's: it is recorded at its own address.
//!
//! Each is `unsafe fn(call, arguments of the driver function)`; `call` executes the vendor's function with the same arguments.

use std::ffi::{c_uint, c_ulonglong, c_void};

use cudarc::driver::sys::{CUmemAccessDesc, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemoryPool, CUpointer_attribute};
use mneme_core::recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, Live, Reach};
use super::arena::vmm;
use super::frees;
use crate::vendor::{self, CUdevice, CUdeviceptr, CUstream, INVALID_VALUE, SUCCESS, Status, captures, contexts, gate};

/// Flags of page-locked memory that the application asks to be mapped for kernels.
const ALLOCATED_MAPPED: c_uint = cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;
const REGISTERED_MAPPED: c_uint = cudarc::driver::sys::CU_MEMHOSTREGISTER_DEVICEMAP;
/// Flag of registered memory that belongs to another device.
const REGISTERS: c_uint = cudarc::driver::sys::CU_MEMHOSTREGISTER_IOMEMORY;
const DEVICE_ORDINAL: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32;

/// Notes an allocation of the current device.
pub fn track(address: u64, size: u64, kind: AllocationKind) {
    track_as(address, size, kind, Reach::Device, vendor::current_device());
}

pub fn track_as(address: u64, size: u64, kind: AllocationKind, reach: Reach, device: Option<CUdevice>) {
    if let (Some(device), Some(own), Some(context)) = (device, vendor::current_device(), vendor::current_context()) {
        contexts::note(context, own);
        ALLOCATIONS.insert(Live { address, size, kind, reach, device, context });
    }
}

/// The device that the vendor says owns an address; the current one where it does not say.
pub fn owner(address: u64) -> Option<CUdevice> {
    let mut device = -1i32;
    // SAFETY: the attribute is an `int`.
    let status = unsafe { vendor::hooked::cuPointerGetAttribute::call((&raw mut device).cast(), DEVICE_ORDINAL, address) };
    if status == SUCCESS && device >= 0 { Some(device) } else { vendor::current_device() }
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
/// The arguments are those of `cuMemAllocHost` without a version.
pub unsafe fn allocate_little_host(call: &dyn Fn() -> Status, host: *mut *mut c_void, bytes: c_uint) -> Status {
    // SAFETY: passed on; only the size has another type.
    unsafe { allocate_host(call, host, bytes as usize) }
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

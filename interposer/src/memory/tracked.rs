//! Handlers of the functions whose memory the vendor serves, which is recorded at its own address.
//!
//! Each is `unsafe fn(call, arguments of the driver function)`; `call` executes the vendor's function with the same
//! arguments.

use std::ffi::{c_uint, c_void};

use mneme_abi::cuda::sys::{CUmemGenericAllocationHandle, CUmemoryPool, CUpointer_attribute};
use mneme_recording::manifest::AllocationKind;

use super::access;
use super::allocations::{ALLOCATIONS, Devices, HOST, KernelAccess, LiveAllocation};
use super::arena::vmm;
use super::frees;
use super::sharing::physical;
use crate::driver::{self, CUdevice, CUdeviceptr, CUmemLocation, CUstream, Status, captures, contexts, gate};

/// Flags with which the application asks for page-locked memory that is mapped for kernels.
const ALLOCATED_MAPPED: c_uint = mneme_abi::cuda::sys::CU_MEMHOSTALLOC_DEVICEMAP;
const REGISTERED_MAPPED: c_uint = mneme_abi::cuda::sys::CU_MEMHOSTREGISTER_DEVICEMAP;
/// The flag of registered memory that belongs to another device.
const REGISTERS: c_uint = mneme_abi::cuda::sys::CU_MEMHOSTREGISTER_IOMEMORY;
const DEVICE_ORDINAL: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32;
const POOL: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE as u32;

/// Notes an allocation on the current device, in the current context.
pub fn track(address: u64, size: u64, kind: AllocationKind, access: KernelAccess) {
    track_on(driver::current_device(), address, size, kind, access);
}

/// Notes an allocation on a device, in the current context if the thread has one.
fn track_on(device: Option<CUdevice>, address: u64, size: u64, kind: AllocationKind, access: KernelAccess) {
    // HIP returns null for a request of 0 bytes.
    if address == 0 {
        return;
    }
    let context = driver::current_context();
    if let (Some(context), Some(own)) = (context, driver::current_device()) {
        contexts::note(context, own);
    }
    let (device, context) = (device.unwrap_or(HOST), context.unwrap_or(0));
    ALLOCATIONS.insert(LiveAllocation { address, size, kind, access, device, context, shared: false });
}

/// The device that owns an address according to the vendor, or the current one if the vendor does not know.
pub fn owner(address: u64) -> Option<CUdevice> {
    let mut device = -1i32;
    // SAFETY: the attribute is an `int`.
    let status =
        unsafe { driver::hooked::cuPointerGetAttribute::call((&raw mut device).cast(), DEVICE_ORDINAL, address) };
    if status == Status::SUCCESS && device >= 0 { Some(device) } else { driver::current_device() }
}

/// Passes the gate and tracks memory of the host, or managed memory.
///
/// # Safety
/// After a success `address` must be readable.
unsafe fn tracked(
    call: &dyn Fn() -> Status,
    address: *const u64,
    bytes: usize,
    kind: AllocationKind,
    access: KernelAccess,
) -> Status {
    // SAFETY: the caller's promise.
    gate::passing(&|| call().on_success(|| track(unsafe { *address }, bytes as u64, kind, access)))
}

/// Tracks memory of a pool, which may be on another device. Asks the vendor for the pool if it is not given.
pub fn track_pooled(address: u64, bytes: u64, pool: Option<CUmemoryPool>) {
    let device = owner(address);
    let pool = pool.map_or_else(
        || {
            let mut pool = 0usize;
            // SAFETY: the attribute is a handle, 8 bytes.
            let status = unsafe { driver::hooked::cuPointerGetAttribute::call((&raw mut pool).cast(), POOL, address) };
            if status == Status::SUCCESS { pool } else { 0 }
        },
        |pool| pool as usize,
    );
    track_on(device, address, bytes, AllocationKind::Vendor, access::of_pool(pool, device.unwrap_or(HOST)));
}

/// Tracks a stream-ordered allocation. A captured one has an address, but no memory until its graph is launched.
///
/// # Safety
/// After a success `address` must be readable.
pub unsafe fn allocate_on(
    call: &dyn Fn() -> Status,
    address: *const u64,
    bytes: usize,
    pool: Option<CUmemoryPool>,
    stream: CUstream,
) -> Status {
    gate::passing(&|| {
        let is_captured = captures::captures(stream);
        let status = call();
        if status == Status::SUCCESS && !is_captured {
            // SAFETY: the caller's promise.
            track_pooled(unsafe { *address }, bytes as u64, pool);
        }
        status
    })
}

/// Frees memory in a stream. A null stream means `default`.
pub fn free_on(call: &dyn Fn() -> Status, address: CUdeviceptr, stream: CUstream, default: usize) -> Status {
    gate::passing(&|| {
        if vmm::of_address(address).is_some() && !captures::captures(stream) {
            // The vendor accepts memory of `cuMemAlloc` here, but would refuse the arena's.
            return match ALLOCATIONS
                .containing(address)
                .filter(|live| live.address == address)
                .and_then(|_| ALLOCATIONS.remove(address))
            {
                Some(live) => {
                    frees::give_back_passed();
                    frees::defer(live, if stream.is_null() { default } else { stream as usize });
                    Status::SUCCESS
                }
                None => driver::answer(Status::INVALID_VALUE),
            };
        }
        ALLOCATIONS.without(address..address.saturating_add(1), call)
    })
}

/// # Safety
/// The arguments are those of `cuMemAllocManaged`.
pub unsafe fn allocate_managed(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, bytes: usize) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe { tracked(call, address, bytes, AllocationKind::Vendor, KernelAccess::Everywhere) }
}

/// The access to page-locked memory. It is for copies (staging buffers of libraries, tens of gigabytes) unless the
/// application asks to map it for kernels. Kernels can nevertheless reach all of it, so an address in an argument or in
/// memory counts too.
fn host_access(mapped: bool) -> KernelAccess {
    if mapped { KernelAccess::Everywhere } else { KernelAccess::Arguments }
}

/// # Safety
/// The arguments are those of `cuMemHostAlloc`, or of `cuMemAllocHost_v2` and no flags.
pub unsafe fn allocate_host(call: &dyn Fn() -> Status, host: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    // SAFETY: the vendor writes the address; with unified addressing it is the device's too.
    unsafe { tracked(call, host.cast(), bytes, AllocationKind::Host, host_access(flags & ALLOCATED_MAPPED != 0)) }
}

/// Handles `cuMemHostRegister_v2`.
pub fn register_host(call: &dyn Fn() -> Status, host: *mut c_void, bytes: usize, flags: c_uint) -> Status {
    gate::passing(&|| {
        let status = call();
        // Registers of a device are not tracked, because reading them may change its state.
        if status == Status::SUCCESS && flags & REGISTERS == 0 {
            track(host as u64, bytes as u64, AllocationKind::Host, host_access(flags & REGISTERED_MAPPED != 0));
        }
        status
    })
}

/// Handles `cuMemFreeHost` and `cuMemHostUnregister`.
pub fn forget_host(call: &dyn Fn() -> Status, host: *mut c_void) -> Status {
    gate::passing(&|| ALLOCATIONS.without(host as u64..(host as u64).saturating_add(1), call))
}

/// Handles `cuMemMap`.
pub fn map(
    call: &dyn Fn() -> Status,
    address: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
) -> Status {
    let mapped = || {
        let owner = physical::device_of(handle);
        let device = owner.unwrap_or(HOST);
        let is_readable = owner.is_some() && !physical::is_multicast(handle);
        let access = if is_readable { KernelAccess::Mapped(Devices::default()) } else { KernelAccess::Multicast };
        let (size, shared) = (bytes as u64, physical::map(address, bytes as u64, offset as u64, handle));
        let kind = AllocationKind::Vendor;
        // Mapping needs no context, and the mapping does not die with one.
        ALLOCATIONS.insert(LiveAllocation { address, size, kind, access, device, context: 0, shared });
    };
    gate::passing(&|| call().on_success(mapped))
}

/// Forgets mappings that the driver no longer knows after a context has died. Its documentation does not say whether a
/// context ends them.
pub fn forget_lost_mappings() {
    let is_lost = |live: &LiveAllocation| {
        let (mut flags, location) = (0, CUmemLocation::device(if live.device == HOST { 0 } else { live.device }));
        matches!(live.access, KernelAccess::Mapped(_))
            // SAFETY: valid places.
            && unsafe { driver::cuMemGetAccess(&mut flags, &location, live.address) } != Status::SUCCESS
    };
    for live in ALLOCATIONS.all().into_iter().filter(is_lost) {
        ALLOCATIONS.remove(live.address);
    }
}

/// Handles `cuMemUnmap`.
pub fn unmap(call: &dyn Fn() -> Status, address: CUdeviceptr, bytes: usize) -> Status {
    gate::passing(&|| {
        let range = address..address.saturating_add(bytes as u64);
        ALLOCATIONS.without(range.clone(), call).on_success(|| physical::unmap(range))
    })
}

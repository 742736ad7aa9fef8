//! Handlers of the functions that the arena serves: `cuMemAlloc`, and queries about its memory.
//!
//! Each is `unsafe fn(call, arguments of the driver function)`; `call` executes the vendor's function with the same
//! arguments.

use std::ffi::{c_uint, c_void};

use mneme_abi::cuda::sys::CUdevice_attribute;
use mneme_abi::hip::structures::PointerAttributes;
use mneme_abi::hip::types::{Extent, PitchedPointer};
use mneme_recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, KernelAccess, LiveAllocation};
use super::arena::{ALIGNMENT, vmm};
use super::frees;
use super::ipc;
use super::sharing::imports;
use super::tracked::{forget_host, track};
use crate::driver::contexts::LiveContext;
use crate::driver::{self, CUdeviceptr, Status, captures, gate};
use crate::process::recorded_family;
use crate::process::settings::settings;

/// Pointer attributes for which a mapping gives a different answer from an allocation.
mod attribute {
    use mneme_abi::cuda::sys::CUpointer_attribute;
    pub const CONTEXT: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT as u32;
    pub const DEVICE_POINTER: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER as u32;
    pub const RANGE_START_ADDR: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR as u32;
    pub const ALLOWED_HANDLE_TYPES: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES as u32;
    pub const IS_LEGACY_CUDA_IPC_CAPABLE: u32 =
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE as u32;
    pub const RANGE_SIZE: u32 = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE as u32;
}

/// Allocates from the arena of the current device. Returns `None` to leave it to the vendor, for example to let it
/// report a broken context. An error is the vendor's and forbids the allocation.
fn from_arena(bytes: u64) -> Result<Option<u64>, Status> {
    if !driver::context_is_sound() || (ipc::is_in_use() && !settings().arena_forced) {
        return Ok(None);
    }
    let Some(arena) = driver::current_device().and_then(vmm::of_device) else { return Ok(None) };
    // The capture modes of the thread and of the captures decide whether an allocation is allowed; a forbidden one ends
    // a capture.
    if captures::in_progress() {
        frees::try_vendors()?;
    }
    frees::give_back_passed();
    let take = || arena.arena.allocate(&arena.mapper, bytes);
    let address = take().or_else(|| if frees::reclaim() { take() } else { None });
    if let Some(address) = address {
        track(address, bytes, AllocationKind::Arena, KernelAccess::Peers);
    }
    Ok(address)
}

/// # Safety
/// The arguments are those of `cuMemAlloc_v2`.
pub unsafe fn allocate(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, bytes: usize) -> Status {
    gate::passing(&|| {
        if !address.is_null() && bytes > 0 {
            match from_arena(bytes as u64) {
                Ok(Some(found)) => {
                    // SAFETY: not null, and the application's place for the result.
                    unsafe { *address = found };
                    return Status::SUCCESS;
                }
                Ok(None) => {}
                Err(status) => return status,
            }
        }
        call().on_success(|| {
            // SAFETY: the vendor has just written it.
            track(unsafe { *address }, bytes as u64, AllocationKind::Vendor, KernelAccess::Peers);
        })
    })
}

/// The vendor's pitch for rows of `width` bytes.
fn pitch_of(width: usize) -> Option<usize> {
    let device = driver::current_device()?;
    let attribute =
        |attribute| driver::device_attribute(attribute, device).and_then(|value| usize::try_from(value).ok());
    // HIP aligns rows like those of images.
    let of_images = recorded_family::is_hip()
        .then(|| attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT))
        .flatten()
        .filter(|alignment| *alignment > 0);
    let pitch = width.checked_next_multiple_of(of_images.unwrap_or(ALIGNMENT as usize))?;
    (pitch <= attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH)?).then_some(pitch)
}

/// Allocates rows from the arena: their address and pitch. Otherwise as [`from_arena`].
fn rows_of_arena(width: usize, rows: usize) -> Result<Option<(u64, usize)>, Status> {
    let Some((pitch, bytes)) = pitch_of(width).and_then(|pitch| Some((pitch, pitch.checked_mul(rows)?))) else {
        return Ok(None);
    };
    Ok(from_arena(bytes as u64)?.map(|address| (address, pitch)))
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
        match if valid { rows_of_arena(width, height) } else { Ok(None) } {
            Ok(Some((found, row))) => {
                // SAFETY: neither is null, and both are the application's places for the results.
                unsafe {
                    *address = found;
                    *pitch = row;
                }
                return Status::SUCCESS;
            }
            Ok(None) => {}
            Err(status) => return status,
        }
        let status = call();
        // HIP returns neither memory nor a pitch if a dimension is 0.
        if status == Status::SUCCESS && width > 0 && height > 0 {
            // SAFETY: the vendor has just written both.
            let (address, pitch) = unsafe { (*address, *pitch) };
            track(address, pitch.saturating_mul(height) as u64, AllocationKind::Vendor, KernelAccess::Peers);
        }
        status
    })
}

/// Handles `cuMemFree_v2`.
pub fn free(call: &dyn Fn() -> Status, address: CUdeviceptr) -> Status {
    gate::passing(&|| {
        if vmm::of_address(address).is_none() {
            return ALLOCATIONS.without(address..address.saturating_add(1), call);
        }
        let Some(live) = ALLOCATIONS.containing(address).filter(|live| live.address == address) else {
            return driver::answer(Status::INVALID_VALUE);
        };
        let status = frees::wait(live.context);
        if status != Status::SUCCESS {
            return status;
        }
        // The thread that removes it frees it, so a second free on another thread fails.
        match ALLOCATIONS.remove(address) {
            Some(live) => {
                frees::release(&live);
                Status::SUCCESS
            }
            None => Status::INVALID_VALUE,
        }
    })
}

/// Frees memory of the host, or of the device: `hipHostFree` accepts both.
pub fn free_of_host(call: &dyn Fn() -> Status, address: *mut c_void) -> Status {
    if vmm::of_address(address as u64).is_some() { free(call, address as u64) } else { forget_host(call, address) }
}

/// # Safety
/// The arguments are those of `hipMalloc3D`.
pub unsafe fn allocate_volume(call: &dyn Fn() -> Status, pitched: *mut PitchedPointer, extent: Extent) -> Status {
    let rows = extent.height.checked_mul(extent.depth).filter(|_| !pitched.is_null());
    let Some(rows) = rows else { return call() };
    let vendors = || {
        let status = call();
        if status == Status::SUCCESS && extent.width > 0 && rows > 0 {
            // SAFETY: not null, and the vendor has just written it.
            let PitchedPointer { address, pitch, .. } = unsafe { *pitched };
            track(address, pitch.saturating_mul(rows) as u64, AllocationKind::Vendor, KernelAccess::Peers);
        }
        status
    };
    gate::passing(&|| {
        let found = if extent.width > 0 && rows > 0 { rows_of_arena(extent.width, rows) } else { Ok(None) };
        let (address, pitch) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return vendors(),
            Err(status) => return status,
        };
        // SAFETY: not null, and the application's place for the result.
        unsafe { *pitched = PitchedPointer { address, pitch, width: extent.width, rows: extent.height } };
        Status::SUCCESS
    })
}

/// Allocates with flags. Only `hipDeviceMallocDefault` (0) is served from the arena.
///
/// # Safety
/// The arguments are those of `hipExtMallocWithFlags`.
pub unsafe fn allocate_with_flags(
    call: &dyn Fn() -> Status,
    address: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> Status {
    let address: *mut CUdeviceptr = address.cast();
    if flags == 0 {
        // SAFETY: passed on.
        return unsafe { allocate(call, address, bytes) };
    }
    gate::passing(&|| {
        let status = call();
        if status == Status::SUCCESS && !address.is_null() {
            // SAFETY: the vendor has just written it.
            track(unsafe { *address }, bytes as u64, AllocationKind::Vendor, KernelAccess::PeersAndThreads);
        }
        status
    })
}

/// Whether an address is in memory that is an allocation to the application and a mapping to the vendor.
fn is_ours(address: u64) -> bool {
    vmm::of_address(address).is_some() || imports::contains(address)
}

/// # Safety
/// The arguments are those of `cuMemGetAddressRange_v2`.
pub unsafe fn address_range(
    call: &dyn Fn() -> Status,
    base: *mut CUdeviceptr,
    size: *mut usize,
    address: CUdeviceptr,
) -> Status {
    if !is_ours(address) {
        return call();
    }
    let Some(device) = driver::current_device() else { return Status::INVALID_CONTEXT };
    // CUDA does not report memory of another device (seen with driver 580).
    let is_reported = |live: &LiveAllocation| live.device == device || recorded_family::is_hip();
    let live = ALLOCATIONS.containing(address).filter(is_reported);
    let status = driver::answer(if live.is_some() { Status::SUCCESS } else { Status::NOT_FOUND });
    let (Status::SUCCESS, Some(live)) = (status, live) else { return status };
    // SAFETY: either may be null, else it is the application's place for the result.
    unsafe {
        if !base.is_null() {
            *base = live.address;
        }
        if !size.is_null() {
            *size = live.size as usize;
        }
    }
    Status::SUCCESS
}

/// # Safety
/// The arguments are those of `hipMemPtrGetInfo`.
pub unsafe fn size_of(call: &dyn Fn() -> Status, address: *mut c_void, size: *mut usize) -> Status {
    let address = address as CUdeviceptr;
    if size.is_null() || !is_ours(address) {
        return call();
    }
    let live = ALLOCATIONS.containing(address);
    let status = driver::answer(if live.is_some() { Status::SUCCESS } else { Status::INVALID_VALUE });
    let (Status::SUCCESS, Some(live)) = (status, live) else { return status };
    // SAFETY: not null, and the application's place for the result.
    unsafe { *size = live.size as usize };
    status
}

/// The answer for an allocation if the vendor's, for the mapping, would differ. HIP has no contexts.
fn answer(attribute: u32, live: &LiveAllocation) -> Option<u64> {
    match attribute {
        attribute::CONTEXT if recorded_family::is_hip() => None,
        attribute::CONTEXT => Some(live.context as u64),
        attribute::RANGE_START_ADDR => Some(live.address),
        attribute::RANGE_SIZE => Some(live.size),
        _ => None,
    }
}

/// Whether the attribute is the address for kernels of the current context, and these cannot reach the allocation. CUDA
/// then reports no address for memory of another device without peer access, but always reports one for a mapping
/// (driver 580).
fn has_no_address_here(attribute: u32, live: &LiveAllocation) -> bool {
    if attribute != attribute::DEVICE_POINTER || recorded_family::is_hip() {
        return false;
    }
    let current = driver::current_context().zip(driver::current_device());
    current.is_some_and(|(handle, device)| !live.is_accessible_from(LiveContext { handle, device }))
}

/// The lowest byte of an allocation's answer about sharing. The vendor answers for the mapping; an arena allocation can
/// be shared only by `cuIpcGetMemHandle`.
fn sharing_answer(attribute: u32, address: u64) -> Option<u8> {
    let device = vmm::of_address(address)?;
    match attribute {
        attribute::IS_LEGACY_CUDA_IPC_CAPABLE => Some(device.mapper.is_shareable().into()),
        attribute::ALLOWED_HANDLE_TYPES => Some(0),
        _ => None,
    }
}

/// Whether an address is in the arena but in no allocation. The vendor knows the mapping there, but must answer as for
/// unknown memory.
fn is_nobodys(address: u64) -> bool {
    vmm::of_address(address).is_some() && ALLOCATIONS.containing(address).is_none()
}

/// An address of memory that the vendor does not know.
fn unknown() -> CUdeviceptr {
    static UNKNOWN: u64 = 0;
    (&raw const UNKNOWN) as CUdeviceptr
}

/// # Safety
/// The arguments are those of `cuPointerGetAttribute`.
pub unsafe fn pointer_attribute(
    call: &dyn Fn() -> Status,
    data: *mut c_void,
    attribute: c_uint,
    address: CUdeviceptr,
) -> Status {
    if is_nobodys(address) {
        // SAFETY: passed on with another address, which the vendor does not dereference.
        return unsafe { driver::hooked::cuPointerGetAttribute::call(data, attribute, unknown()) };
    }
    let live = is_ours(address).then(|| ALLOCATIONS.containing(address)).flatten();
    if live.is_some_and(|live| has_no_address_here(attribute, &live)) {
        return driver::answer(Status::INVALID_VALUE);
    }
    if let Some(value) = live.and_then(|live| answer(attribute, &live))
        && !data.is_null()
    {
        // SAFETY: these attributes are 8 bytes wide, a pointer or a size.
        unsafe { data.cast::<u64>().write_unaligned(value) };
        return Status::SUCCESS;
    }
    let status = call();
    if status == Status::SUCCESS
        && let Some(value) = sharing_answer(attribute, address)
    {
        // SAFETY: the vendor has just written a number below 256, of whatever width, there.
        unsafe { data.cast::<u8>().write(value) };
    }
    status
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
    if is_nobodys(address) {
        // SAFETY: passed on with another address, which the vendor does not dereference.
        return unsafe { driver::hooked::cuPointerGetAttributes::call(count, attributes, data, unknown()) };
    }
    let status = call();
    let live = is_ours(address).then(|| ALLOCATIONS.containing(address)).flatten();
    if let (Status::SUCCESS, Some(live)) = (status, live) {
        for index in 0..count as usize {
            // SAFETY: after a success both arrays have `count` elements, and each place fits its attribute.
            unsafe {
                // An attribute that does not apply reads as zero.
                let none = has_no_address_here(*attributes.add(index), &live).then_some(0);
                if let Some(value) = none.or_else(|| answer(*attributes.add(index), &live)) {
                    (*data.add(index)).cast::<u64>().write_unaligned(value);
                }
                if let Some(value) = sharing_answer(*attributes.add(index), address) {
                    (*data.add(index)).cast::<u8>().write(value);
                }
            }
        }
    }
    status
}

/// # Safety
/// The arguments are those of `hipPointerGetAttributes`.
pub unsafe fn attributes_of_hip(call: &dyn Fn() -> Status, attributes: *mut c_void, address: *const c_void) -> Status {
    if is_nobodys(address as u64) {
        // SAFETY: passed on with another address, which the vendor does not dereference.
        return unsafe { driver::hooked::hipPointerGetAttributes::call(attributes, unknown() as *const c_void) };
    }
    let status = call();
    let live = is_ours(address as u64).then(|| ALLOCATIONS.containing(address as u64)).flatten();
    if let (Status::SUCCESS, Some(live)) = (status, live) {
        // SAFETY: the vendor has just written the structure.
        unsafe { (*attributes.cast::<PointerAttributes>()).device = live.device };
    }
    status
}

/// # Safety
/// The arguments are those of `cuMemGetInfo_v2`.
pub unsafe fn information(call: &dyn Fn() -> Status, free: *mut usize) -> Status {
    gate::passing(&|| {
        frees::give_back_passed();
        Status::SUCCESS
    });
    let status = call();
    if status == Status::SUCCESS
        && !free.is_null()
        && let Some(arena) = driver::current_device().and_then(vmm::of_device)
    {
        // SAFETY: the vendor has just written it.
        unsafe { *free += arena.arena.cached() as usize };
    }
    status
}

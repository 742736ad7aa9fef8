//! Memory of other interfaces (Vulkan, Direct3D, OpenGL) that is mapped for kernels.
//!
//! It is recorded at its own address while it is mapped.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, KernelAccess};
use super::tracked;
use crate::driver::{CUdeviceptr, Status, gate};

/// The address at which each graphics resource (`CUgraphicsResource`) is mapped.
static MAPPED: Mutex<BTreeMap<usize, u64>> = Mutex::new(BTreeMap::new());

fn mapped() -> MutexGuard<'static, BTreeMap<usize, u64>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tracks memory as shared, because the other interface may write to it at any time.
fn track(address: u64, bytes: u64) {
    tracked::track(address, bytes, AllocationKind::Vendor, KernelAccess::Peers);
    ALLOCATIONS.share(address);
}

/// Tracks a buffer, which stays memory until `cuMemFree`.
///
/// # Safety
/// The arguments are those of `cuExternalMemoryGetMappedBuffer`; `description` is a `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`.
pub unsafe fn map_buffer(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, description: *const c_void) -> Status {
    gate::passing(&|| {
        call().on_success(|| {
            // SAFETY: the driver has written the one and read the other, which begins with offset and size in bytes.
            let (address, bytes) = unsafe { (*address, *description.cast::<u64>().add(1)) };
            track(address, bytes);
        })
    })
}

/// # Safety
/// The arguments are those of `cuGraphicsResourceGetMappedPointer_v2`.
pub unsafe fn mapped_pointer(
    call: &dyn Fn() -> Status,
    address: *mut CUdeviceptr,
    bytes: *mut usize,
    resource: *mut c_void,
) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == Status::SUCCESS && !address.is_null() && !bytes.is_null() {
            // SAFETY: the driver has just written both.
            let (address, bytes) = unsafe { (*address, *bytes as u64) };
            // A second query may return another address.
            forget(resource as usize);
            mapped().insert(resource as usize, address);
            track(address, bytes);
        }
        status
    })
}

fn forget(resource: usize) {
    let address = mapped().remove(&resource);
    if let Some(address) = address {
        ALLOCATIONS.remove(address);
    }
}

/// # Safety
/// The arguments are those of `cuGraphicsUnmapResources`.
pub unsafe fn unmap_resources(call: &dyn Fn() -> Status, count: c_uint, resources: *mut *mut c_void) -> Status {
    // SAFETY: the driver has just read the array.
    let unmapped = || (0..count as usize).for_each(|index| forget(unsafe { *resources.add(index) } as usize));
    gate::passing(&|| call().on_success(unmapped))
}

/// Handles `cuGraphicsUnregisterResource`.
pub fn unregister_resource(call: &dyn Fn() -> Status, resource: *mut c_void) -> Status {
    gate::passing(&|| call().on_success(|| forget(resource as usize)))
}

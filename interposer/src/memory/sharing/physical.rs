//! Physical memory (`CUmemGenericAllocationHandle`) that others may write to: exported, imported, or bound to a multicast object. What
//! is mapped of it is marked, whichever comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUmemGenericAllocationHandle as Handle;

use crate::memory::allocations::ALLOCATIONS;
use crate::vendor::{CUdevice, CUdeviceptr, SUCCESS, Status, gate};

#[derive(Default)]
struct Physical {
    shared: BTreeSet<Handle>,
    multicast: BTreeSet<Handle>,
    /// What is mapped at an address.
    mapped: BTreeMap<u64, Handle>,
}

static PHYSICAL: Mutex<Physical> = Mutex::new(Physical { shared: BTreeSet::new(), multicast: BTreeSet::new(), mapped: BTreeMap::new() });

fn physical() -> MutexGuard<'static, Physical> {
    PHYSICAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a handle is a multicast object, which ordinary loads cannot read.
pub fn is_multicast(handle: Handle) -> bool {
    physical().multicast.contains(&handle)
}

/// Notes a mapping; whether others may write to it.
pub fn map(address: u64, handle: Handle) -> bool {
    let mut physical = physical();
    physical.mapped.insert(address, handle);
    physical.shared.contains(&handle)
}

/// Forgets mappings.
pub fn unmap(addresses: Range<u64>) {
    physical().mapped.retain(|address, _| !addresses.contains(address));
}

/// Notes that others may write to physical memory, and to what is mapped of it.
fn share(handle: Handle) {
    let mapped: Vec<u64> = {
        let mut physical = physical();
        physical.shared.insert(handle);
        physical.mapped.iter().filter(|(_, mapped)| **mapped == handle).map(|(address, _)| *address).collect()
    };
    mapped.into_iter().for_each(|address| ALLOCATIONS.share(address));
}

/// A handle that the vendor has written, under the gate.
///
/// # Safety
/// After a success `handle` must be readable.
unsafe fn with_new(call: &dyn Fn() -> Status, handle: *const Handle, note: impl Fn(Handle)) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            // SAFETY: the caller's promise.
            note(unsafe { *handle });
        }
        status
    })
}

/// New memory is nobody else's; its handle may have been that of memory that was released.
///
/// # Safety
/// The arguments are those of `cuMemCreate`.
pub unsafe fn create(call: &dyn Fn() -> Status, handle: *mut Handle, _bytes: usize, _properties: *const c_void, _flags: u64) -> Status {
    let forget = |new| {
        let mut physical = physical();
        physical.shared.remove(&new);
        physical.multicast.remove(&new);
        physical.mapped.retain(|_, mapped| *mapped != new);
    };
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, forget) }
}

/// # Safety
/// The arguments are those of `cuMemImportFromShareableHandle`.
pub unsafe fn import(call: &dyn Fn() -> Status, handle: *mut Handle, _shareable: *mut c_void, _kind: c_uint) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, share) }
}

/// # Safety
/// The arguments are those of `cuMemExportToShareableHandle`.
pub unsafe fn export(call: &dyn Fn() -> Status, _shareable: *mut c_void, handle: Handle, _kind: c_uint, _flags: u64) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            share(handle);
        }
        status
    })
}

/// A further handle to what is mapped at an address.
///
/// # Safety
/// The arguments are those of `cuMemRetainAllocationHandle`.
pub unsafe fn retain(call: &dyn Fn() -> Status, handle: *mut Handle, address: *mut c_void) -> Status {
    let note = |new| {
        let Some(live) = ALLOCATIONS.containing(address as u64) else { return };
        physical().mapped.insert(live.address, new);
        if live.shared {
            share(new);
        }
    };
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, note) }
}

/// # Safety
/// The arguments are those of `cuMulticastCreate`.
pub unsafe fn create_multicast(call: &dyn Fn() -> Status, handle: *mut Handle, _properties: *const c_void) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, |new| _ = physical().multicast.insert(new)) }
}

/// What is bound is written to by whoever writes to the multicast object.
///
/// # Safety
/// The arguments are those of `cuMulticastBindMem`.
pub unsafe fn bind(
    call: &dyn Fn() -> Status,
    _multicast: Handle,
    _multicast_offset: usize,
    memory: Handle,
    _memory_offset: usize,
    _bytes: usize,
    _flags: u64,
) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            share(memory);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMulticastBindMem_v2`.
#[expect(clippy::too_many_arguments, reason = "the driver's")]
pub unsafe fn bind_on(
    call: &dyn Fn() -> Status,
    multicast: Handle,
    _device: CUdevice,
    multicast_offset: usize,
    memory: Handle,
    memory_offset: usize,
    bytes: usize,
    flags: u64,
) -> Status {
    // SAFETY: the caller's promise; which device binds changes nothing about whose memory is bound.
    unsafe { bind(call, multicast, multicast_offset, memory, memory_offset, bytes, flags) }
}

/// # Safety
/// The arguments are those of `cuMulticastBindAddr`.
pub unsafe fn bind_address(
    call: &dyn Fn() -> Status,
    _multicast: Handle,
    _multicast_offset: usize,
    address: CUdeviceptr,
    bytes: usize,
    _flags: u64,
) -> Status {
    gate::passing(&|| {
        let status = call();
        if status == SUCCESS {
            let end = address.saturating_add(bytes as u64);
            ALLOCATIONS.change(|live| live.shared |= live.address < end && address < live.address + live.size);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMulticastBindAddr_v2`.
pub unsafe fn bind_address_on(
    call: &dyn Fn() -> Status,
    multicast: Handle,
    _device: CUdevice,
    multicast_offset: usize,
    address: CUdeviceptr,
    bytes: usize,
    flags: u64,
) -> Status {
    // SAFETY: the caller's promise; which device binds changes nothing about whose memory is bound.
    unsafe { bind_address(call, multicast, multicast_offset, address, bytes, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::access::Access;
    use crate::memory::allocations::Live;
    use mneme_core::recording::manifest::AllocationKind;

    fn mapping(address: u64, handle: Handle) {
        let shared = map(address, handle);
        let (kind, access) = (AllocationKind::Vendor, Access::Mapped(Default::default()));
        ALLOCATIONS.insert(Live { address, size: 4096, kind, access, device: 0, context: 0, shared });
    }

    fn is_shared(address: u64) -> bool {
        ALLOCATIONS.containing(address).unwrap().shared
    }

    #[test]
    fn memory_is_shared_whether_it_is_mapped_before_or_after() {
        let base = 0x7300_0000_0000u64;
        mapping(base, 70);
        mapping(base + 4096, 71);
        // SAFETY: valid places; nothing else is touched.
        unsafe {
            export(&|| SUCCESS, std::ptr::null_mut(), 70, 1, 0);
            assert_eq!([is_shared(base), is_shared(base + 4096)], [true, false]);
            import(&|| SUCCESS, &mut { 72 }, std::ptr::null_mut(), 1);
            mapping(base + 8192, 72);
            assert!(is_shared(base + 8192));
            retain(&|| SUCCESS, &mut { 73 }, (base + 4096) as *mut c_void);
            bind(&|| SUCCESS, 90, 0, 73, 0, 4096, 0);
            assert!(is_shared(base + 4096), "by a further handle");
            create_multicast(&|| SUCCESS, &mut { 90 }, std::ptr::null());
            assert!(is_multicast(90));
            create(&|| SUCCESS, &mut { 90 }, 4096, std::ptr::null(), 0);
            assert!(!is_multicast(90), "another of the same number");
            create(&|| SUCCESS, &mut { 72 }, 4096, std::ptr::null(), 0);
            mapping(base + 12288, 72);
            assert!(!is_shared(base + 12288));
            bind_address(&|| SUCCESS, 91, 0, base + 12288, 4096, 0);
            assert!(is_shared(base + 12288));
        }
        for address in [base, base + 4096, base + 8192, base + 12288] {
            ALLOCATIONS.remove(address);
        }
        unmap(base..base + 16384);
    }
}

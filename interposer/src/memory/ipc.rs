//! Handlers of the functions that share memory between processes (CUDA IPC).
//!
//! The driver can share only its own memory. For memory of the arena, the process passes out handles of the recorder's,
//! which the recorder in the other process understands. If that is impossible, the program gets the driver's error, and
//! the driver serves all further allocations.

use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use mneme_abi::cuda::sys::{CUipcMemHandle, CUmemoryPool};
use mneme_recording::manifest::AllocationKind;

use super::allocations::{ALLOCATIONS, KernelAccess};
use super::arena::vmm;
use super::frees;
use super::sharing::handle::SharedHandle;
use super::sharing::{exports, imports};
use super::tracked::{track, track_pooled};
use crate::driver::{self, CUdeviceptr, Status, gate};
use crate::process::log::warning;

/// Whether this process shares memory in ways that require the vendor's own allocations.
static SHARES: AtomicBool = AtomicBool::new(false);

/// Whether this process shares memory in ways that require the vendor's own allocations.
pub fn is_in_use() -> bool {
    SHARES.load(Ordering::Relaxed)
}

/// # Safety
/// The arguments are those of `cuIpcGetMemHandle`.
pub unsafe fn share(call: &dyn Fn() -> Status, handle: *mut c_void, address: CUdeviceptr) -> Status {
    static TOLD: Once = Once::new();
    // The vendor reports a broken or missing context.
    if !driver::context_is_sound() {
        return call();
    }
    let live = vmm::of_address(address).and_then(|_| ALLOCATIONS.containing(address));
    if !handle.is_null()
        && let Some(ours) = live.and_then(|live| exports::handle_of(&live))
    {
        ALLOCATIONS.share(address);
        // SAFETY: not null, and the application's place for a handle.
        unsafe { handle.cast::<CUipcMemHandle>().write_unaligned(ours) };
        return Status::SUCCESS;
    }
    let status = call();
    SHARES.store(true, Ordering::Relaxed);
    if status == Status::SUCCESS {
        ALLOCATIONS.share(address);
    }
    if status != Status::SUCCESS && vmm::of_address(address).is_some() {
        TOLD.call_once(|| {
            warning!(
                "this program shares device memory between processes (CUDA IPC) and gets an error for memory that the recorder has served; \
                 record it with MNEME_ARENA=off"
            )
        });
    }
    status
}

/// Tracks memory of another process. The current device may access it on any device.
fn track_opened(address: u64, bytes: u64) {
    track(address, bytes, AllocationKind::Vendor, KernelAccess::Peers);
    ALLOCATIONS.share(address);
}

/// Passes the gate and tracks memory of another process. The vendor knows its size.
///
/// # Safety
/// After a success `address` must be readable.
unsafe fn opened(call: &dyn Fn() -> Status, address: *const CUdeviceptr, track: impl Fn(u64, u64)) -> Status {
    gate::passing(&|| {
        let status = call();
        SHARES.store(true, Ordering::Relaxed);
        if status == Status::SUCCESS {
            let (mut base, mut size) = (0, 0);
            // SAFETY: the caller's promise, and valid places.
            let (address, known) = unsafe {
                (
                    *address,
                    driver::hooked::cuMemGetAddressRange_v2::call(&mut base, &mut size, *address) == Status::SUCCESS,
                )
            };
            if known {
                track(address, (base + size as u64).saturating_sub(address));
            }
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuIpcOpenMemHandle`.
pub unsafe fn open_shared(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, handle: CUipcMemHandle) -> Status {
    if !address.is_null()
        && let Some(handle) = SharedHandle::decode(&handle)
    {
        // The vendor reports a broken or missing context.
        let Some(context) = driver::current_context().filter(|_| driver::context_is_sound()) else { return call() };
        // SAFETY: not null, and the application's place for the result.
        let put = |opened: u64| unsafe { *address = opened };
        if let Some((opened, _)) = imports::reopen(handle, context) {
            put(opened);
            return Status::SUCCESS;
        }
        // The request may take long, so it is made outside the gate.
        return match imports::request(handle) {
            Ok(offer) => gate::passing(&|| match offer.map(context) {
                Ok((opened, bytes)) => {
                    track_opened(opened, bytes);
                    put(opened);
                    Status::SUCCESS
                }
                Err(status) => status,
            }),
            Err(status) => status,
        };
    }
    // SAFETY: the vendor writes the address.
    unsafe { opened(call, address, track_opened) }
}

/// # Safety
/// The arguments are those of `cuMemPoolImportPointer`.
pub unsafe fn import_pointer(call: &dyn Fn() -> Status, address: *mut CUdeviceptr, pool: CUmemoryPool) -> Status {
    // SAFETY: the vendor writes the address.
    unsafe {
        opened(call, address, |address, bytes| {
            track_pooled(address, bytes, Some(pool));
            ALLOCATIONS.share(address);
        })
    }
}

/// Handles `cuMemPoolExportPointer`.
pub fn export_pointer(call: &dyn Fn() -> Status, address: CUdeviceptr) -> Status {
    call().on_success(|| ALLOCATIONS.share(address))
}

/// Handles `cuIpcCloseMemHandle`.
pub fn close_shared(call: &dyn Fn() -> Status, address: CUdeviceptr) -> Status {
    gate::passing(&|| {
        if let Some(status) = imports::close(address, frees::wait) {
            return status;
        }
        ALLOCATIONS.without(address..address.saturating_add(1), call)
    })
}

//! Host memory that the device accesses directly, at its own address.
//!
//! The memory is mapped here and only registered with the driver, so it outlives the context: threads of the recorder
//! may still read it when the application destroys the context.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::driver::{self, Status};
use crate::process::linker;
use crate::process::log::debug;

/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
const FLAGS: u32 =
    mneme_abi::cuda::sys::CU_MEMHOSTREGISTER_PORTABLE | mneme_abi::cuda::sys::CU_MEMHOSTREGISTER_DEVICEMAP;
/// Pages of this size, if the system provides them, are registered fifty times faster; bytes.
const HUGE: usize = 2 << 20;

/// Memory that is page-locked if possible, until its context dies.
pub struct Pinned {
    /// The mapping to unmap.
    mapping: (NonNull<c_void>, usize),
    start: NonNull<u8>,
    length: usize,
    /// The address on the device, or 0 if it is not registered. The CPU device needs no registration.
    device: u64,
}

// SAFETY: plain memory that this object owns.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates at least `length` bytes, registered in the current context. If the driver refuses (a limit on locked
    /// memory, a system that cannot lock), the memory is ordinary: copies are slower, and kernels cannot reach it.
    pub fn new(length: usize) -> Result<Self, Status> {
        let length = length.next_multiple_of(HUGE);
        let mapped = length + HUGE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice replaces nothing.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        let base = NonNull::new(base).filter(|base| base.as_ptr() != libc::MAP_FAILED).ok_or(Status::OUT_OF_MEMORY)?;
        // SAFETY: the mapping is `HUGE` bytes longer than the used part.
        let start = unsafe { base.cast::<u8>().add(base.as_ptr().align_offset(HUGE).min(HUGE)) };
        let mut pinned = Self { mapping: (base, mapped), start, length, device: 0 };
        // SAFETY: the mapping is this object's. Both calls are advice; a fork must not share pages that the device
        // writes.
        unsafe {
            libc::madvise(start.as_ptr().cast(), length, libc::MADV_HUGEPAGE);
            libc::madvise(base.as_ptr(), mapped, libc::MADV_DONTFORK);
        }
        if linker::cpu_device().is_none() {
            // SAFETY: the range is mapped, page-aligned and owned here; the place for the result is valid.
            let status = unsafe {
                match driver::hooked::cuMemHostRegister_v2::call(start.as_ptr().cast(), length, FLAGS) {
                    Status::SUCCESS => {
                        driver::cuMemHostGetDevicePointer_v2(&mut pinned.device, start.as_ptr().cast(), 0)
                    }
                    error => error,
                }
            };
            if status != Status::SUCCESS {
                debug!("cannot page-lock {length} bytes (CUDA error {status})");
                pinned.device = 0;
            }
        }
        Ok(pinned)
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The address for kernels, if they can reach it.
    pub fn device(&self) -> Option<u64> {
        (self.device != 0).then_some(self.device)
    }

    /// Unregisters the memory. Its context must be current, and the device must have finished with it.
    pub fn unregister(self) {
        if self.device != 0 {
            // SAFETY: registered by `new`.
            unsafe { driver::hooked::cuMemHostUnregister::call(self.start.as_ptr().cast()) };
        }
    }

    /// The contents of the memory.
    ///
    /// # Safety
    /// No other thread and no device may write to it while the result is in use.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for this length; the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's and has no references any more.
        unsafe { libc::munmap(self.mapping.0.as_ptr(), self.mapping.1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_nobody_locks_is_memory_all_the_same() {
        // Unit tests run without a driver.
        let memory = Pinned::new(HUGE + 1).unwrap();
        assert!(memory.as_ptr().addr().is_multiple_of(HUGE) && memory.device().is_none());
        // SAFETY: owned by this test alone.
        unsafe {
            memory.as_ptr().add(2 * HUGE - 1).write(7);
            assert_eq!(memory.bytes()[2 * HUGE - 1], 7);
        }
    }
}

//! Recognises pointers to ordinary host memory among a kernel's arguments.
//!
//! A device that shares the host's page tables lets kernels touch any memory of the process: stack, heap, files. The
//! bounds of such memory are unknown, so it cannot be recorded. On other devices such an argument is only a number.

use mneme_abi::cuda::sys::{CUdevice_attribute, CUpointer_attribute};

use super::allocations::ALLOCATIONS;
use super::arena::vmm;
use crate::driver::{self, CUdevice, Status};
use crate::process::own_memory;

/// Whether kernels on a device can touch ordinary host memory.
pub fn is_accessible_from(device: CUdevice) -> bool {
    driver::device_attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device)
        .is_some_and(|value| value != 0)
}

/// Whether an address is in ordinary, readable memory of this process.
pub fn is_pageable(address: u64) -> bool {
    address != 0
        && ALLOCATIONS.containing(address).is_none()
        && vmm::of_address(address).is_none()
        && !is_known_to_vendor(address)
        && own_memory::read(address, &mut [0])
}

fn is_known_to_vendor(address: u64) -> bool {
    let mut kind = 0u32;
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32;
    // SAFETY: the attribute is an enumerator, 4 bytes.
    let status = unsafe { driver::hooked::cuPointerGetAttribute::call((&raw mut kind).cast(), attribute, address) };
    status == Status::SUCCESS && kind != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_memory_is_recognised() {
        let on_heap = Box::new(7u64);
        let on_stack = 7u64;
        assert!(is_pageable(&raw const *on_heap as u64) && is_pageable(&raw const on_stack as u64));
        assert!(!is_pageable(0) && !is_pageable(8) && !is_pageable(u64::MAX));
    }
}

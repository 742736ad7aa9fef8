//! Device memory and page-locked host memory.

use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::types::*;

use crate::books::{MemorySource, Use, books};
use crate::mistake::{CallResult, place, wrong};

/// The flags of `hipHostMalloc`: portable, mapped, write-combined, NUMA, coherent, non-coherent.
const HOST_FLAGS: u32 = 0x1 | 0x2 | 0x4 | 0x2000_0000 | 0x4000_0000 | 0x8000_0000;
/// Flags that the CPU device supports too.
const SHARED_HOST_FLAGS: u32 = 0x7;
/// `hipHostRegister`: portable, mapped, for device I/O, read-only.
const REGISTER_FLAGS: u32 = 0xf;
/// `hipMemAttachGlobal`, `…Host`, `…Single`.
const ATTACH_FLAGS: [u32; 3] = [1, 2, 4];

pub unsafe fn malloc(driver: pointers::cuMemAlloc_v2, address: *mut CUdeviceptr, bytes: usize) -> CallResult {
    place(address, "the address")?;
    // SAFETY: the place was checked.
    unsafe {
        if bytes == 0 {
            *address = 0;
            return Ok(Status::SUCCESS);
        }
        let status = driver(address, bytes);
        if status == Status::SUCCESS {
            books().allocated(*address, bytes as u64, MemorySource::Malloc);
        }
        Ok(status)
    }
}

pub unsafe fn malloc_managed(
    driver: pointers::cuMemAllocManaged,
    address: *mut CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> CallResult {
    place(address, "the address")?;
    if !ATTACH_FLAGS.contains(&flags) {
        return wrong(format!("{flags} is no flag for managed memory"));
    }
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(address, bytes, flags);
        if status == Status::SUCCESS {
            books().allocated(*address, bytes as u64, MemorySource::Managed);
        }
        Ok(status)
    }
}

pub unsafe fn free(driver: pointers::cuMemFree_v2, address: CUdeviceptr) -> CallResult {
    if address == 0 {
        return Ok(Status::SUCCESS);
    }
    books().release(address, &[MemorySource::Malloc, MemorySource::Managed, MemorySource::Pool])?;
    // SAFETY: the books say that it is allocated.
    Ok(unsafe { driver(address) })
}

pub unsafe fn host_malloc(
    driver: pointers::cuMemHostAlloc,
    host: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> CallResult {
    place(host, "the address")?;
    if flags & !HOST_FLAGS != 0 {
        return wrong(format!("0x{flags:x} has flags that hipHostMalloc does not know"));
    }
    // SAFETY: the place was checked.
    unsafe {
        let status = driver(host, bytes, flags & SHARED_HOST_FLAGS);
        if status == Status::SUCCESS {
            books().allocated(*host as u64, bytes as u64, MemorySource::Host);
        }
        Ok(status)
    }
}

pub unsafe fn malloc_host(driver: pointers::cuMemHostAlloc, host: *mut *mut c_void, bytes: usize) -> CallResult {
    // SAFETY: as for the caller.
    unsafe { host_malloc(driver, host, bytes, 0) }
}

pub unsafe fn host_free(driver: pointers::cuMemFreeHost, host: *mut c_void) -> CallResult {
    if host.is_null() {
        return Ok(Status::SUCCESS);
    }
    books().release(host as u64, &[MemorySource::Host])?;
    // SAFETY: the books say that it is allocated.
    Ok(unsafe { driver(host) })
}

pub unsafe fn host_register(
    driver: pointers::cuMemHostRegister_v2,
    host: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> CallResult {
    if host.is_null() || bytes == 0 {
        return wrong("there is nothing to register");
    }
    if flags & !REGISTER_FLAGS != 0 {
        return wrong(format!("0x{flags:x} has flags that hipHostRegister does not know"));
    }
    let start = host as u64;
    if let Some((other, block)) = crate::books::overlapping(&books().blocks, start, bytes as u64, |block| block.size) {
        return wrong(format!(
            "0x{start:x}+0x{bytes:x} overlaps 0x{other:x}+0x{:x}, which is page-locked already",
            block.size
        ));
    }
    // SAFETY: the caller's memory.
    let status = unsafe { driver(host, bytes, flags & SHARED_HOST_FLAGS) };
    if status == Status::SUCCESS {
        books().allocated(start, bytes as u64, MemorySource::Registered);
    }
    Ok(status)
}

pub unsafe fn host_unregister(driver: pointers::cuMemHostUnregister, host: *mut c_void) -> CallResult {
    books().release(host as u64, &[MemorySource::Registered])?;
    // SAFETY: the books say that it is registered.
    Ok(unsafe { driver(host) })
}

pub unsafe fn host_device_pointer(
    driver: pointers::cuMemHostGetDevicePointer_v2,
    address: *mut CUdeviceptr,
    host: *mut c_void,
    flags: c_uint,
) -> CallResult {
    place(address, "the address")?;
    if flags != 0 {
        return wrong("the flags must be 0");
    }
    books().check_use(host as u64, 1, Use::Read)?;
    // SAFETY: the place was checked.
    Ok(unsafe { driver(address, host, flags) })
}

pub unsafe fn get_info(driver: pointers::cuMemGetInfo_v2, free: *mut usize, total: *mut usize) -> CallResult {
    place(free, "the free memory")?;
    place(total, "the memory in all")?;
    // SAFETY: both places were checked.
    Ok(unsafe { driver(free, total) })
}

pub unsafe fn address_range(
    driver: pointers::cuMemGetAddressRange_v2,
    base: *mut CUdeviceptr,
    size: *mut usize,
    address: CUdeviceptr,
) -> CallResult {
    if !books().knows(address) {
        // Programs use this query to test an address.
        return Ok(Status::NOT_FOUND);
    }
    // SAFETY: the driver writes only to places that are not null.
    Ok(unsafe { driver(base, size, address) })
}

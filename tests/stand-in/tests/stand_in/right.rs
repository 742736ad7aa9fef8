//! Right calls.

use std::ffi::CStr;
use std::ptr::null_mut;

use mneme_abi::hip::types::*;

use crate::library::Hip;
use crate::{code, done};

pub const PAGE: usize = 2 << 20;
pub const KERNEL: &CStr = c"add_step";

/// Memory of device 0, as `hipMemCreate` expects it.
pub fn properties() -> CUmemAllocationProp {
    CUmemAllocationProp::pinned(0)
}

/// Access of device 0.
pub fn access(flags: u32) -> CUmemAccessDesc {
    CUmemAccessDesc { location: CUmemLocation::device(0), flags }
}

pub fn reserve(hip: &Hip, size: usize) -> CUdeviceptr {
    let mut address = 0;
    done!(hip, hipMemAddressReserve(&mut address, size, 0, 0, 0));
    address
}

pub fn create(hip: &Hip, size: usize) -> CUmemGenericAllocationHandle {
    let mut handle = 0;
    done!(hip, hipMemCreate(&mut handle, size, &properties(), 0));
    handle
}

/// A mapped page of memory with read and write access.
pub fn mapped(hip: &Hip) -> CUdeviceptr {
    let (address, handle) = (reserve(hip, PAGE), create(hip, PAGE));
    done!(hip, hipMemMap(address, PAGE, 0, handle, 0));
    done!(hip, hipMemSetAccess(address, PAGE, &access(3), 1));
    done!(hip, hipMemRelease(handle));
    address
}

pub fn malloc(hip: &Hip, bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    done!(hip, hipMalloc(&mut address, bytes));
    address
}

pub fn stream(hip: &Hip) -> CUstream {
    let mut stream = null_mut();
    done!(hip, hipStreamCreateWithFlags(&mut stream, 0));
    stream
}

pub fn event(hip: &Hip) -> CUevent {
    let mut event = null_mut();
    done!(hip, hipEventCreateWithFlags(&mut event, 0));
    event
}

pub fn module(hip: &Hip) -> CUmodule {
    let mut module = null_mut();
    let object = code::gfx90a();
    done!(hip, hipModuleLoadData(&mut module, object.as_ptr().cast()));
    module
}

pub fn function(hip: &Hip, module: CUmodule) -> CUfunction {
    let mut function = null_mut();
    done!(hip, hipModuleGetFunction(&mut function, module, KERNEL.as_ptr()));
    function
}

pub fn everything(hip: &Hip) {
    done!(hip, hipInit(0));
    done!(hip, hipSetDevice(0));
    // Memory at a chosen address, as the replayer uses it.
    let chosen = 0x10_0000_0000_u64;
    let mut address = 0;
    done!(hip, hipMemAddressReserve(&mut address, 2 * PAGE, 0, chosen, 0));
    assert_eq!(address, chosen);
    let handle = create(hip, PAGE);
    done!(hip, hipMemMap(address, PAGE, 0, handle, 0));
    done!(hip, hipMemSetAccess(address, PAGE, &access(3), 1));
    done!(hip, hipMemRelease(handle));
    let values: Vec<u32> = (0..100).collect();
    done!(hip, hipMemcpyHtoD(address, values.as_ptr().cast(), 400));
    // A kernel reads there and writes elsewhere.
    let out = malloc(hip, 400);
    done!(hip, hipMemsetD32(out, 7, 100));
    let module = module(hip);
    let function = function(hip, module);
    let (mut step, mut size) = (0, 0);
    done!(hip, hipModuleGetGlobal(&mut step, &mut size, module, c"step".as_ptr()));
    assert_eq!(size, 4);
    done!(hip, hipMemcpyHtoD(step, (&raw const values[5]).cast(), 4));
    let stream = stream(hip);
    let (before, after) = (event(hip), event(hip));
    let (mut to, mut from, mut count) = (out, address, 90_u32);
    let mut places: [*mut c_void; 3] = [(&raw mut to).cast(), (&raw mut from).cast(), (&raw mut count).cast()];
    done!(hip, hipEventRecord(before, stream));
    done!(hip, hipModuleLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, stream, places.as_mut_ptr(), null_mut()));
    done!(hip, hipEventRecord(after, stream));
    done!(hip, hipStreamSynchronize(stream));
    let mut milliseconds = -1.0;
    done!(hip, hipEventElapsedTime(&mut milliseconds, before, after));
    assert!(milliseconds >= 0.0);
    let mut read = vec![0_u32; 100];
    done!(hip, hipMemcpyDtoH(read.as_mut_ptr().cast(), out, 400));
    assert!((0..90).all(|index| read[index] == index as u32 + 5) && read[90..].iter().all(|value| *value == 7));
    // Copies with an explicit direction, or with an inferred one.
    let (mut there, mut back) = (vec![1_u32; 100], vec![0_u32; 100]);
    done!(hip, hipMemcpy(out as *mut c_void, there.as_ptr().cast(), 400, 1));
    done!(hip, hipMemcpyAsync(back.as_mut_ptr().cast(), out as *const c_void, 400, 2, stream));
    assert_eq!(there, back);
    done!(hip, hipMemset(out as *mut c_void, 0, 400));
    for kind in [2, 4] {
        back.fill(7);
        done!(hip, hipMemcpy(back.as_mut_ptr().cast(), out as *const c_void, 400, kind));
        assert_eq!(back, vec![0; 100]);
    }
    done!(hip, hipMemcpy(there.as_mut_ptr().cast(), back.as_ptr().cast(), 400, 4));
    assert_eq!(there, back);
    // Page-locked memory, managed memory, and memory from a pool.
    let mut host = null_mut();
    done!(hip, hipHostMalloc(&mut host, 4096, 0));
    done!(hip, hipMemcpyDtoH(host, out, 400));
    done!(hip, hipHostFree(host));
    let (mut managed, mut pooled) = (0, 0);
    done!(hip, hipMallocManaged(&mut managed, 4096, 1));
    done!(hip, hipFree(managed));
    done!(hip, hipMallocAsync(&mut pooled, 4096, stream));
    done!(hip, hipMemsetD8Async(pooled, 0, 4096, stream));
    done!(hip, hipFreeAsync(pooled, stream));
    // Releases everything.
    done!(hip, hipMemUnmap(address, PAGE));
    done!(hip, hipMemAddressFree(address, 2 * PAGE));
    done!(hip, hipFree(out));
    done!(hip, hipEventDestroy(before));
    done!(hip, hipEventDestroy(after));
    done!(hip, hipStreamDestroy(stream));
    done!(hip, hipModuleUnload(module));
}

pub fn leave_something(hip: &Hip) {
    malloc(hip, 100);
    malloc(hip, 100);
    stream(hip);
}

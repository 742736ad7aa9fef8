//! Wrong calls: the function that reports the mistake, a part of its sentence, and the call.

use std::ptr::{null, null_mut};

use mneme_abi::hip::types::*;

use crate::library::Hip;
use crate::right::*;
use crate::{code, done, hip};

pub type Mistake = (&'static str, &'static str, fn(&Hip));

/// Loads an image.
fn load(hip: &Hip, image: &[u8]) {
    let mut module = null_mut();
    hip!(hip, hipModuleLoadData(&mut module, image.as_ptr().cast()));
}

fn set_access(hip: &Hip, address: CUdeviceptr, flags: u32, count: usize) {
    hip!(hip, hipMemSetAccess(address, PAGE, &access(flags), count));
}

/// Launches the kernel in one block.
fn launch(hip: &Hip, function: CUfunction, block: [u32; 3], shared: u32, stream: CUstream) {
    let (mut to, mut from, mut count) = (0_u64, 0_u64, 0_u32);
    let mut places: [*mut c_void; 3] = [(&raw mut to).cast(), (&raw mut from).cast(), (&raw mut count).cast()];
    let [x, y, z] = block;
    hip!(hip, hipModuleLaunchKernel(function, 1, 1, 1, x, y, z, shared, stream, places.as_mut_ptr(), null_mut()));
}

pub const MISTAKES: &[Mistake] = &[
    // Memory
    ("hipFree", "was never allocated", |hip| {
        hip!(hip, hipFree(0x1234_5000));
    }),
    ("hipFree", "was freed before", |hip| {
        let address = malloc(hip, 100);
        done!(hip, hipFree(address));
        hip!(hip, hipFree(address));
    }),
    ("hipFree", "and not its start", |hip| {
        hip!(hip, hipFree(malloc(hip, 100) + 8));
    }),
    ("hipFree", "is freed by hipHostFree", |hip| {
        let mut host = null_mut();
        done!(hip, hipHostMalloc(&mut host, 100, 0));
        hip!(hip, hipFree(host as u64));
    }),
    ("hipMalloc", "the place for the address is null", |hip| {
        hip!(hip, hipMalloc(null_mut(), 100));
    }),
    ("hipHostMalloc", "flags that hipHostMalloc does not know", |hip| {
        hip!(hip, hipHostMalloc(&mut null_mut(), 100, 0x100));
    }),
    ("hipMallocManaged", "0 is no flag", |hip| {
        hip!(hip, hipMallocManaged(&mut 0, 100, 0));
    }),
    ("hipHostRegister", "page-locked already", |hip| {
        let memory = [0_u8; 100];
        let place = memory.as_ptr().cast_mut().cast();
        done!(hip, hipHostRegister(place, 100, 0));
        hip!(hip, hipHostRegister(place, 50, 0));
    }),
    ("hipHostUnregister", "was never allocated", |hip| {
        hip!(hip, hipHostUnregister(0x1234_5000 as *mut c_void));
    }),
    ("hipFreeAsync", "was freed before", |hip| {
        let mut address = 0;
        done!(hip, hipMallocAsync(&mut address, 100, null_mut()));
        done!(hip, hipFreeAsync(address, null_mut()));
        hip!(hip, hipFreeAsync(address, null_mut()));
    }),
    // Copies and fills
    ("hipMemcpyHtoD", "ends behind its allocation", |hip| {
        hip!(hip, hipMemcpyHtoD(malloc(hip, 100), [0_u8; 200].as_ptr().cast(), 101));
    }),
    ("hipMemcpyDtoH", "was freed", |hip| {
        let address = malloc(hip, 100);
        done!(hip, hipFree(address));
        hip!(hip, hipMemcpyDtoH([0_u8; 200].as_mut_ptr().cast(), address, 100));
    }),
    ("hipMemcpyDtoH", "the host's memory is null", |hip| {
        hip!(hip, hipMemcpyDtoH(null_mut(), malloc(hip, 100), 100));
    }),
    ("hipMemcpyDtoD", "is no memory of the device", |hip| {
        hip!(hip, hipMemcpyDtoD(malloc(hip, 100), 0x1234_5000, 100));
    }),
    ("hipMemcpy", "is no direction", |hip| {
        let address = malloc(hip, 100) as *mut c_void;
        hip!(hip, hipMemcpy(address, address.cast_const(), 100, 9));
    }),
    ("hipMemcpy", "is no memory of the device", |hip| {
        let (mut host, address) = ([0_u8; 100], malloc(hip, 100) as *const c_void);
        hip!(hip, hipMemcpy(host.as_mut_ptr().cast(), address, 100, 1));
    }),
    ("hipMemsetD32", "no multiple of the 4 bytes", |hip| {
        hip!(hip, hipMemsetD32(malloc(hip, 100) + 2, 0, 4));
    }),
    ("hipMemsetD8", "ends behind its allocation", |hip| {
        hip!(hip, hipMemsetD8(malloc(hip, 100), 0, 200));
    }),
    // Virtual memory
    ("hipMemAddressReserve", "no multiple of the granularity", |hip| {
        hip!(hip, hipMemAddressReserve(&mut 0, PAGE + 4096, 0, 0, 0));
    }),
    ("hipMemAddressReserve", "the size is 0", |hip| {
        hip!(hip, hipMemAddressReserve(&mut 0, 0, 0, 0, 0));
    }),
    ("hipMemAddressReserve", "the address that is asked for", |hip| {
        hip!(hip, hipMemAddressReserve(&mut 0, PAGE, 0, 0x10_0000_1000, 0));
    }),
    ("hipMemAddressReserve", "no power of two", |hip| {
        hip!(hip, hipMemAddressReserve(&mut 0, PAGE, 3 * PAGE, 0, 0));
    }),
    ("hipMemAddressReserve", "the flags must be 0", |hip| {
        hip!(hip, hipMemAddressReserve(&mut 0, PAGE, 0, 0, 1));
    }),
    ("hipMemAddressFree", "is not the start of a reservation", |hip| {
        hip!(hip, hipMemAddressFree(reserve(hip, 2 * PAGE) + PAGE as u64, PAGE));
    }),
    ("hipMemAddressFree", "bytes are reserved at", |hip| {
        hip!(hip, hipMemAddressFree(reserve(hip, 2 * PAGE), PAGE));
    }),
    ("hipMemAddressFree", "hipMemUnmap comes first", |hip| {
        hip!(hip, hipMemAddressFree(mapped(hip), PAGE));
    }),
    ("hipMemCreate", "no multiple of the granularity", |hip| {
        hip!(hip, hipMemCreate(&mut 0, 4096, &properties(), 0));
    }),
    ("hipMemCreate", "the type of memory is 0", |hip| {
        hip!(hip, hipMemCreate(&mut 0, PAGE, [0_u64; 8].as_ptr().cast(), 0));
    }),
    ("hipMemCreate", "the properties are null", |hip| {
        hip!(hip, hipMemCreate(&mut 0, PAGE, null(), 0));
    }),
    ("hipMemMap", "is not inside a reservation", |hip| {
        hip!(hip, hipMemMap(reserve(hip, PAGE) + PAGE as u64, PAGE, 0, create(hip, PAGE), 0));
    }),
    ("hipMemMap", "is not inside a reservation", |hip| {
        hip!(hip, hipMemMap(reserve(hip, PAGE), 2 * PAGE, 0, create(hip, 2 * PAGE), 0));
    }),
    ("hipMemMap", "are mapped of memory that has", |hip| {
        hip!(hip, hipMemMap(reserve(hip, 2 * PAGE), 2 * PAGE, 0, create(hip, PAGE), 0));
    }),
    ("hipMemMap", "mapped there already", |hip| {
        hip!(hip, hipMemMap(mapped(hip), PAGE, 0, create(hip, PAGE), 0));
    }),
    ("hipMemMap", "was released before", |hip| {
        let (address, handle) = (reserve(hip, PAGE), create(hip, PAGE));
        done!(hip, hipMemRelease(handle));
        hip!(hip, hipMemMap(address, PAGE, 0, handle, 0));
    }),
    ("hipMemMap", "the offset must be 0", |hip| {
        hip!(hip, hipMemMap(reserve(hip, PAGE), PAGE, PAGE, create(hip, 2 * PAGE), 0));
    }),
    ("hipMemRelease", "was released before", |hip| {
        let handle = create(hip, PAGE);
        done!(hip, hipMemRelease(handle));
        hip!(hip, hipMemRelease(handle));
    }),
    ("hipMemSetAccess", "no mapping starts at", |hip| set_access(hip, reserve(hip, PAGE), 3, 1)),
    ("hipMemSetAccess", "2 is no access", |hip| set_access(hip, mapped(hip), 2, 1)),
    ("hipMemSetAccess", "no access is described", |hip| set_access(hip, mapped(hip), 3, 0)),
    ("hipMemsetD8", "hipMemSetAccess has given no access", |hip| {
        let (address, handle) = (reserve(hip, PAGE), create(hip, PAGE));
        done!(hip, hipMemMap(address, PAGE, 0, handle, 0));
        hip!(hip, hipMemsetD8(address, 0, PAGE));
    }),
    ("hipMemcpyHtoD", "may only be read", |hip| {
        let address = mapped(hip);
        set_access(hip, address, 1, 1);
        hip!(hip, hipMemcpyHtoD(address, [0_u8; 8].as_ptr().cast(), 8));
    }),
    ("hipMemsetD8", "ends behind its mapping", |hip| {
        let address = reserve(hip, 2 * PAGE);
        for at in [address, address + PAGE as u64] {
            done!(hip, hipMemMap(at, PAGE, 0, create(hip, PAGE), 0));
            set_access(hip, at, 3, 1);
        }
        hip!(hip, hipMemsetD8(address, 0, 2 * PAGE));
    }),
    ("hipMemsetD8", "nothing is mapped there", |hip| {
        hip!(hip, hipMemsetD8(reserve(hip, PAGE), 0, 8));
    }),
    ("hipMemUnmap", "no mapping starts at", |hip| {
        let address = mapped(hip);
        done!(hip, hipMemUnmap(address, PAGE));
        hip!(hip, hipMemUnmap(address, PAGE));
    }),
    ("hipMemGetAllocationGranularity", "is no option", |hip| {
        hip!(hip, hipMemGetAllocationGranularity(&mut 0, &properties(), 2));
    }),
    // Code
    ("hipModuleLoadData", "the image is null", |hip| {
        hip!(hip, hipModuleLoadData(&mut null_mut(), null()));
    }),
    ("hipModuleLoadData", "neither an ELF file nor a bundle", |hip| load(hip, &[7; 64])),
    ("hipModuleLoadData", "for machine 62", |hip| load(hip, &code::object(62, 3, 0))),
    ("hipModuleLoadData", "it was not linked", |hip| load(hip, &code::object(224, 1, 0x3f))),
    ("hipModuleLoadData", "is for gfx1100, and the device is gfx90a", |hip| load(hip, &code::object(224, 3, 0x41))),
    ("hipModuleGetFunction", "was destroyed before", |hip| {
        let module = module(hip);
        done!(hip, hipModuleUnload(module));
        hip!(hip, hipModuleGetFunction(&mut null_mut(), module, KERNEL.as_ptr()));
    }),
    ("hipModuleUnload", "was destroyed before", |hip| {
        let module = module(hip);
        done!(hip, hipModuleUnload(module));
        hip!(hip, hipModuleUnload(module));
    }),
    ("hipModuleGetGlobal", "the name is empty", |hip| {
        hip!(hip, hipModuleGetGlobal(&mut 0, &mut 0, module(hip), c"".as_ptr()));
    }),
    ("hipMemcpyHtoD", "is no memory of the device", |hip| {
        let (module, mut step) = (module(hip), 0);
        done!(hip, hipModuleGetGlobal(&mut step, null_mut(), module, c"step".as_ptr()));
        done!(hip, hipModuleUnload(module));
        hip!(hip, hipMemcpyHtoD(step, [0_u8; 4].as_ptr().cast(), 4));
    }),
    ("hipFuncGetAttribute", "99 is no attribute", |hip| {
        hip!(hip, hipFuncGetAttribute(&mut 0, 99, function(hip, module(hip))));
    }),
    // Launches
    ("hipModuleLaunchKernel", "a dimension is 0", |hip| {
        launch(hip, function(hip, module(hip)), [64, 0, 1], 0, null_mut());
    }),
    ("hipModuleLaunchKernel", "a block has 2048 threads", |hip| {
        launch(hip, function(hip, module(hip)), [64, 32, 1], 0, null_mut());
    }),
    ("hipModuleLaunchKernel", "bytes of shared memory", |hip| {
        launch(hip, function(hip, module(hip)), [64, 1, 1], 65_537, null_mut());
    }),
    ("hipModuleLaunchKernel", "is no function", |hip| {
        launch(hip, 0x1234_5000 as CUfunction, [64, 1, 1], 0, null_mut());
    }),
    ("hipModuleLaunchKernel", "was unloaded before", |hip| {
        let module = module(hip);
        let function = function(hip, module);
        done!(hip, hipModuleUnload(module));
        launch(hip, function, [64, 1, 1], 0, null_mut());
    }),
    ("hipModuleLaunchKernel", "no arguments were given", |hip| {
        let function = function(hip, module(hip));
        hip!(hip, hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut()));
    }),
    ("hipModuleLaunchKernel", "argument 1 of add_step is null", |hip| {
        let (function, mut to) = (function(hip, module(hip)), 0_u64);
        let mut places: [*mut c_void; 3] = [(&raw mut to).cast(), null_mut(), null_mut()];
        hip!(hip, hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, null_mut(), places.as_mut_ptr(), null_mut()));
    }),
    ("hipModuleLaunchKernel", "have 20 bytes, and 16 were given", |hip| {
        let (function, buffer, size) = (function(hip, module(hip)), [0_u64; 2], 16_usize);
        let mut extra = [1, buffer.as_ptr() as usize, 2, &raw const size as usize, 3].map(|word| word as *mut c_void);
        hip!(hip, hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), extra.as_mut_ptr()));
    }),
    ("hipModuleLaunchKernel", "was destroyed before", |hip| {
        let (function, stream) = (function(hip, module(hip)), stream(hip));
        done!(hip, hipStreamDestroy(stream));
        launch(hip, function, [64, 1, 1], 0, stream);
    }),
    ("hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "a block of 0 threads", |hip| {
        let (function, mut blocks) = (function(hip, module(hip)), 0);
        hip!(hip, hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&mut blocks, function, 0, 0, 0));
    }),
    // Streams and events
    ("hipStreamDestroy", "was destroyed before", |hip| {
        let stream = stream(hip);
        done!(hip, hipStreamDestroy(stream));
        hip!(hip, hipStreamDestroy(stream));
    }),
    ("hipStreamCreateWithFlags", "flags that streams do not have", |hip| {
        hip!(hip, hipStreamCreateWithFlags(&mut null_mut(), 8));
    }),
    ("hipStreamSynchronize", "is no stream", |hip| {
        hip!(hip, hipStreamSynchronize(0x1234_5000 as CUstream));
    }),
    ("hipEventRecord", "was destroyed before", |hip| {
        let event = event(hip);
        done!(hip, hipEventDestroy(event));
        hip!(hip, hipEventRecord(event, null_mut()));
    }),
    ("hipEventElapsedTime", "was not recorded", |hip| {
        hip!(hip, hipEventElapsedTime(&mut 0.0, event(hip), event(hip)));
    }),
    ("hipEventElapsedTime", "without timing", |hip| {
        let mut event = null_mut();
        done!(hip, hipEventCreateWithFlags(&mut event, 2));
        done!(hip, hipEventRecord(event, null_mut()));
        hip!(hip, hipEventElapsedTime(&mut 0.0, event, event));
    }),
    // Devices
    ("hipSetDevice", "there is no device 5", |hip| {
        hip!(hip, hipSetDevice(5));
    }),
    ("hipDeviceGetAttribute", "is no attribute", |hip| {
        hip!(hip, hipDeviceGetAttribute(&mut 0, 5000, 0));
    }),
    ("hipInit", "the flags must be 0", |hip| {
        hip!(hip, hipInit(1));
    }),
    ("hipDeviceSetLimit", "99 is no limit", |hip| {
        hip!(hip, hipDeviceSetLimit(99, 0));
    }),
    ("hipCtxSynchronize", "AMD's library does not support it", |hip| {
        hip!(hip, hipCtxSynchronize());
    }),
];

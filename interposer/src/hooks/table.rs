//! The table of hooked functions: purpose { since name(arguments) => handler; … }.
//!
//! Names, argument types and the version from which a variant is current are those of `cuda.h` and `cudaTypedefs.h`;
//! enumerations and option arrays that are only passed on are written as integers and `c_void`.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUgraphExec, CUlaunchConfig, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemoryPool,
};

use super::hooks;
use crate::vendor::{CUcontext, CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUstream, Status};
use crate::{captures, code, launches, memory, proc_address};

hooks! {
    "waits at the gate while a launch is recorded" {
        4000 cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) => gated;
        7000 cuMemcpy_ptds(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) => gated;
        4000 cuMemcpyPeer(dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize) => gated;
        7000 cuMemcpyPeer_ptds(dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize) => gated;
        3020 cuMemcpyHtoD_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize) => gated;
        7000 cuMemcpyHtoD_v2_ptds(dst: CUdeviceptr, src: *const c_void, bytes: usize) => gated;
        3020 cuMemcpyDtoH_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize) => gated;
        7000 cuMemcpyDtoH_v2_ptds(dst: *mut c_void, src: CUdeviceptr, bytes: usize) => gated;
        3020 cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) => gated;
        7000 cuMemcpyDtoD_v2_ptds(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) => gated;
        3020 cuMemcpyDtoA_v2(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize) => gated;
        7000 cuMemcpyDtoA_v2_ptds(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize) => gated;
        3020 cuMemcpyAtoD_v2(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize) => gated;
        7000 cuMemcpyAtoD_v2_ptds(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize) => gated;
        3020 cuMemcpyHtoA_v2(dst: CUarray, offset: usize, src: *const c_void, bytes: usize) => gated;
        7000 cuMemcpyHtoA_v2_ptds(dst: CUarray, offset: usize, src: *const c_void, bytes: usize) => gated;
        3020 cuMemcpyAtoH_v2(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize) => gated;
        7000 cuMemcpyAtoH_v2_ptds(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize) => gated;
        3020 cuMemcpyAtoA_v2(dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize, bytes: usize) => gated;
        7000 cuMemcpyAtoA_v2_ptds(dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize, bytes: usize) => gated;
        3020 cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D) => gated;
        7000 cuMemcpy2D_v2_ptds(copy: *const CUDA_MEMCPY2D) => gated;
        3020 cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D) => gated;
        7000 cuMemcpy2DUnaligned_v2_ptds(copy: *const CUDA_MEMCPY2D) => gated;
        3020 cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D) => gated;
        7000 cuMemcpy3D_v2_ptds(copy: *const CUDA_MEMCPY3D) => gated;
        4000 cuMemcpy3DPeer(copy: *const CUDA_MEMCPY3D_PEER) => gated;
        7000 cuMemcpy3DPeer_ptds(copy: *const CUDA_MEMCPY3D_PEER) => gated;
    }
    "waits at the gate while a launch is recorded" {
        4000 cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyAsync_ptsz(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) => gated;
        4000 cuMemcpyPeerAsync(dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyPeerAsync_ptsz(dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize, stream: CUstream) => gated;
        3020 cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyHtoDAsync_v2_ptsz(dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream) => gated;
        3020 cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyDtoHAsync_v2_ptsz(dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream) => gated;
        3020 cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyDtoDAsync_v2_ptsz(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) => gated;
        3020 cuMemcpyHtoAAsync_v2(dst: CUarray, offset: usize, src: *const c_void, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyHtoAAsync_v2_ptsz(dst: CUarray, offset: usize, src: *const c_void, bytes: usize, stream: CUstream) => gated;
        3020 cuMemcpyAtoHAsync_v2(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize, stream: CUstream) => gated;
        7000 cuMemcpyAtoHAsync_v2_ptsz(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize, stream: CUstream) => gated;
        3020 cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) => gated;
        7000 cuMemcpy2DAsync_v2_ptsz(copy: *const CUDA_MEMCPY2D, stream: CUstream) => gated;
        3020 cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream) => gated;
        7000 cuMemcpy3DAsync_v2_ptsz(copy: *const CUDA_MEMCPY3D, stream: CUstream) => gated;
        4000 cuMemcpy3DPeerAsync(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) => gated;
        7000 cuMemcpy3DPeerAsync_ptsz(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) => gated;
        12080 cuMemcpyBatchAsync(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void, indices: *mut usize, attribute_count: usize, failed: *mut usize, stream: CUstream) => gated;
        12080 cuMemcpyBatchAsync_ptsz(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void, indices: *mut usize, attribute_count: usize, failed: *mut usize, stream: CUstream) => gated;
        13000 cuMemcpyBatchAsync_v2(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void, indices: *mut usize, attribute_count: usize, stream: CUstream) => gated;
        13000 cuMemcpyBatchAsync_v2_ptsz(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void, indices: *mut usize, attribute_count: usize, stream: CUstream) => gated;
        12080 cuMemcpy3DBatchAsync(count: usize, operations: *mut c_void, failed: *mut usize, flags: c_ulonglong, stream: CUstream) => gated;
        12080 cuMemcpy3DBatchAsync_ptsz(count: usize, operations: *mut c_void, failed: *mut usize, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemcpy3DBatchAsync_v2(count: usize, operations: *mut c_void, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemcpy3DBatchAsync_v2_ptsz(count: usize, operations: *mut c_void, flags: c_ulonglong, stream: CUstream) => gated;
        8000 cuMemPrefetchAsync(address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream) => gated;
        8000 cuMemPrefetchAsync_ptsz(address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream) => gated;
        12020 cuMemPrefetchAsync_v2(address: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream) => gated;
        12020 cuMemPrefetchAsync_v2_ptsz(address: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream) => gated;
    }
    "waits at the gate while a launch is recorded" {
        3020 cuMemsetD8_v2(dst: CUdeviceptr, value: c_uchar, count: usize) => gated;
        7000 cuMemsetD8_v2_ptds(dst: CUdeviceptr, value: c_uchar, count: usize) => gated;
        3020 cuMemsetD16_v2(dst: CUdeviceptr, value: c_ushort, count: usize) => gated;
        7000 cuMemsetD16_v2_ptds(dst: CUdeviceptr, value: c_ushort, count: usize) => gated;
        3020 cuMemsetD32_v2(dst: CUdeviceptr, value: c_uint, count: usize) => gated;
        7000 cuMemsetD32_v2_ptds(dst: CUdeviceptr, value: c_uint, count: usize) => gated;
        3020 cuMemsetD2D8_v2(dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize) => gated;
        7000 cuMemsetD2D8_v2_ptds(dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize) => gated;
        3020 cuMemsetD2D16_v2(dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize) => gated;
        7000 cuMemsetD2D16_v2_ptds(dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize) => gated;
        3020 cuMemsetD2D32_v2(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) => gated;
        7000 cuMemsetD2D32_v2_ptds(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize) => gated;
    }
    "waits at the gate while a launch is recorded" {
        3020 cuMemsetD8Async(dst: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream) => gated;
        7000 cuMemsetD8Async_ptsz(dst: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream) => gated;
        3020 cuMemsetD16Async(dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream) => gated;
        7000 cuMemsetD16Async_ptsz(dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream) => gated;
        3020 cuMemsetD32Async(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) => gated;
        7000 cuMemsetD32Async_ptsz(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) => gated;
        3020 cuMemsetD2D8Async(dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize, stream: CUstream) => gated;
        7000 cuMemsetD2D8Async_ptsz(dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize, stream: CUstream) => gated;
        3020 cuMemsetD2D16Async(dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize, stream: CUstream) => gated;
        7000 cuMemsetD2D16Async_ptsz(dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize, stream: CUstream) => gated;
        3020 cuMemsetD2D32Async(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream) => gated;
        7000 cuMemsetD2D32Async_ptsz(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream) => gated;
    }
    "waits at the gate; its kernels and writes are not recorded" {
        10000 cuGraphLaunch(graph: CUgraphExec, stream: CUstream) => gated;
        10000 cuGraphLaunch_ptsz(graph: CUgraphExec, stream: CUstream) => gated;
        10000 cuLaunchHostFunc(stream: CUstream, function: *mut c_void, data: *mut c_void) => gated;
        10000 cuLaunchHostFunc_ptsz(stream: CUstream, function: *mut c_void, data: *mut c_void) => gated;
        8000 cuStreamWriteValue32(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        8000 cuStreamWriteValue32_ptsz(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        11070 cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        11070 cuStreamWriteValue32_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        8000 cuStreamWriteValue64(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        8000 cuStreamWriteValue64_ptsz(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        11070 cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        11070 cuStreamWriteValue64_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        8000 cuStreamBatchMemOp(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
        8000 cuStreamBatchMemOp_ptsz(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
        11070 cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
        11070 cuStreamBatchMemOp_v2_ptsz(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
    }
    "tracked, because nothing may synchronise while a stream is captured" {
        10000 cuStreamBeginCapture(stream: CUstream) => captures::begin;
        10000 cuStreamBeginCapture_ptsz(stream: CUstream) => captures::begin;
        10010 cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) => captures::begin_in_mode;
        10010 cuStreamBeginCapture_v2_ptsz(stream: CUstream, mode: c_uint) => captures::begin_in_mode;
        12030 cuStreamBeginCaptureToGraph(stream: CUstream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_uint) => captures::begin_to_graph;
        12030 cuStreamBeginCaptureToGraph_ptsz(stream: CUstream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_uint) => captures::begin_to_graph;
        10000 cuStreamEndCapture(stream: CUstream, graph: *mut *mut c_void) => captures::end;
        10000 cuStreamEndCapture_ptsz(stream: CUstream, graph: *mut *mut c_void) => captures::end;
    }
    "served from the arena" {
        3020 cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) => memory::allocate;
        3020 cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint) => memory::allocate_pitched;
        3020 cuMemFree_v2(address: CUdeviceptr) => memory::free;
    }
    "answers for the arena's allocations as the vendor would for its own" {
        3020 cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) => memory::address_range;
        4000 cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr) => memory::pointer_attribute;
        7000 cuPointerGetAttributes(count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, address: CUdeviceptr) => memory::pointer_attributes;
        3020 cuMemGetInfo_v2(free: *mut usize, total: *mut usize) => memory::information;
        4000 cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) => memory::enable_peer_access;
    }
    "tells the user that the arena's memory cannot be shared" {
        4010 cuIpcGetMemHandle(handle: *mut c_void, address: CUdeviceptr) => memory::share;
    }
    "tracked, so that the memory is recorded at its own address" {
        11020 cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) => memory::allocate_async;
        11020 cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) => memory::allocate_async;
        11020 cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream) => memory::allocate_from_pool;
        11020 cuMemAllocFromPoolAsync_ptsz(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream) => memory::allocate_from_pool;
        11020 cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) => memory::free_async;
        11020 cuMemFreeAsync_ptsz(address: CUdeviceptr, stream: CUstream) => memory::free_async;
        6000 cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint) => memory::allocate_managed;
        3020 cuMemAllocHost_v2(host: *mut *mut c_void, bytes: usize) => memory::allocate_host;
        2020 cuMemHostAlloc(host: *mut *mut c_void, bytes: usize, flags: c_uint) => memory::allocate_host_with_flags;
        6050 cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint) => memory::register_host;
        4000 cuMemHostUnregister(host: *mut c_void) => memory::forget_host;
        2000 cuMemFreeHost(host: *mut c_void) => memory::forget_host;
        10020 cuMemMap(address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong) => memory::map;
        10020 cuMemUnmap(address: CUdeviceptr, bytes: usize) => memory::unmap;
        4000 cuCtxDestroy_v2(context: CUcontext) => memory::destroy_context;
        11000 cuDevicePrimaryCtxReset_v2(device: CUdevice) => memory::reset_device;
        11000 cuDevicePrimaryCtxRelease_v2(device: CUdevice) => memory::release_device;
    }
    "tracked, to know a kernel's code" {
        2000 cuModuleLoad(module: *mut CUmodule, file: *const c_char) => code::load_module_file;
        2000 cuModuleLoadData(module: *mut CUmodule, image: *const c_void) => code::load_module;
        2010 cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_void, values: *mut *mut c_void) => code::load_module_with_options;
        2000 cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) => code::load_module;
        2000 cuModuleUnload(module: CUmodule) => code::unload_module;
        2000 cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) => code::module_function;
        12000 cuLibraryLoadData(library: *mut CUlibrary, image: *const c_void, jit_options: *mut c_void, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint) => code::load_library;
        12000 cuLibraryLoadFromFile(library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_void, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint) => code::load_library_file;
        12000 cuLibraryUnload(library: CUlibrary) => code::unload_library;
        12000 cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) => code::library_kernel;
        12000 cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) => code::library_module;
        12000 cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) => code::kernel_function;
    }
    "counted, and recorded where it is selected" {
        4000 cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => launches::kernel;
        7000 cuLaunchKernel_ptsz(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => launches::kernel_per_thread;
        11060 cuLaunchKernelEx(configuration: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => launches::kernel_ex;
        11060 cuLaunchKernelEx_ptsz(configuration: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => launches::kernel_ex_per_thread;
        9000 cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) => launches::cooperative;
        9000 cuLaunchCooperativeKernel_ptsz(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) => launches::cooperative_per_thread;
    }
    "gives out the hooks of this table" {
        11030 cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64) => proc_address::get;
        12000 cuGetProcAddress_v2(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint) => proc_address::get_with_status;
    }
}

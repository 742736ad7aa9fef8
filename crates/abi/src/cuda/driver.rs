//! The CUDA driver functions that Mneme calls, hooks or implements, each declared once.
//!
//! An entry is `since name(arguments)`, followed by version and name of the form for the per-thread default stream, if
//! any. `since` is the CUDA version from which `cuGetProcAddress` returns this variant for its base name, in that
//! function's numbering (12000 is 12.0). Names, types and versions match `cuda.h` and `cudaTypedefs.h`, as a test
//! checks. Statuses and enumerations are integers, because a newer driver's values must not become invalid
//! enumerations, and opaque option arrays are `c_void`.
//!
//! Each entry generates a macro with the function's name at the top of this crate, which passes the declaration to the
//! caller's macro: `mneme_abi::cuMemFree_v2! { callback { anything } }` is `callback! { { anything } 3020
//! cuMemFree_v2(address: CUdeviceptr) }`. The caller's macro turns it into an exported hook, a typed call, or a field
//! of a table. The types are those of [`types`](crate::cuda::types).

use super::types::*;
use crate::declare::declare;

declare! { ($)
    // Versions, errors, entry points
    11030 cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64);
    12000 cuGetProcAddress_v2(
        symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint
    );
    2000 cuInit(flags: c_uint);
    2020 cuDriverGetVersion(version: *mut c_int);
    6000 cuGetErrorName(status: Status, name: *mut *const c_char);
    6000 cuGetErrorString(status: Status, text: *mut *const c_char);
    3000 cuGetExportTable(table: *mut *const c_void, id: *const CUuuid);
    4000 cuProfilerStart();
    4000 cuProfilerStop();

    // Devices
    2000 cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    2000 cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
    2000 cuDeviceGetCount(count: *mut c_int);
    2000 cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    4010 cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: CUdevice);
    9020 cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
    11040 cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    10000 cuDeviceGetLuid(luid: *mut c_char, mask: *mut c_uint, device: CUdevice);
    3020 cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    2000 cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice);
    2000 cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice);
    4010 cuDeviceGetByPCIBusId(device: *mut CUdevice, id: *const c_char);
    4000 cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
    8000 cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, from: CUdevice, to: CUdevice);
    11040 cuDeviceGetExecAffinitySupport(value: *mut c_int, kind: c_uint, device: CUdevice);

    // Contexts
    4000 cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
    4000 cuCtxDisablePeerAccess(peer: CUcontext);
    2000 cuCtxCreate(context: *mut CUcontext, flags: c_uint, device: CUdevice);
    3020 cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice);
    11040 cuCtxCreate_v3(context: *mut CUcontext, affinity: *mut c_void, count: c_int, flags: c_uint, device: CUdevice);
    12050 cuCtxCreate_v4(context: *mut CUcontext, parameters: *mut c_void, flags: c_uint, device: CUdevice);
    7000 cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    2000 cuCtxDestroy(context: CUcontext);
    2000 cuCtxDetach(context: CUcontext);
    4000 cuCtxDestroy_v2(context: CUcontext);
    7000 cuDevicePrimaryCtxReset(device: CUdevice);
    7000 cuDevicePrimaryCtxRelease(device: CUdevice);
    11000 cuDevicePrimaryCtxReset_v2(device: CUdevice);
    11000 cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    12050 cuCtxRecordEvent(context: CUcontext, event: CUevent);
    12040 cuGreenCtxCreate(green: *mut *mut c_void, description: *mut c_void, device: CUdevice, flags: c_uint);
    12040 cuCtxFromGreenCtx(context: *mut CUcontext, green: *mut c_void);
    12040 cuGreenCtxDestroy(green: *mut c_void);
    4000 cuCtxGetCurrent(context: *mut CUcontext);
    4000 cuCtxSetCurrent(context: CUcontext);
    2000 cuCtxGetDevice(device: *mut CUdevice);
    5050 cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    3010 cuCtxGetLimit(value: *mut usize, limit: c_uint);
    2000 cuCtxSynchronize();
    7000 cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    10010 cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    3010 cuCtxSetLimit(limit: c_uint, value: usize);
    11000 cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);
    4000 cuCtxPushCurrent_v2(context: CUcontext);
    4000 cuCtxPopCurrent_v2(context: *mut CUcontext);
    12000 cuCtxGetId(context: CUcontext, id: *mut c_ulonglong);
    7000 cuCtxGetFlags(flags: *mut c_uint);
    12010 cuCtxSetFlags(flags: c_uint);
    3020 cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint);
    3020 cuCtxGetCacheConfig(value: *mut c_uint);
    3020 cuCtxSetCacheConfig(value: c_uint);
    4020 cuCtxGetSharedMemConfig(value: *mut c_uint);
    4020 cuCtxSetSharedMemConfig(value: c_uint);
    11000 cuCtxResetPersistingL2Cache();

    // Code
    2000 cuModuleLoad(module: *mut CUmodule, file: *const c_char);
    2000 cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    2010 cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_void, values: *mut *mut c_void
    );
    2000 cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void);
    2000 cuModuleUnload(module: CUmodule);
    2000 cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    12000 cuLibraryLoadData(
        library: *mut CUlibrary, image: *const c_void, jit_options: *mut c_void, jit_values: *mut *mut c_void,
        jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint
    );
    12000 cuLibraryLoadFromFile(
        library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_void, jit_values: *mut *mut c_void,
        jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint
    );
    12000 cuLibraryUnload(library: CUlibrary);
    12000 cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
    12000 cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary);
    12000 cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
    2020 cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
    11000 cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
    12030 cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    12000 cuKernelGetAttribute(value: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice);
    12050 cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel);
    12030 cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    12000 cuLibraryGetGlobal(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char);
    12000 cuLibraryGetManaged(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char);
    6050 cuLinkAddData_v2(
        linker: *mut c_void, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char, count: c_uint,
        options: *mut c_uint, values: *mut *mut c_void
    );
    5050 cuLinkComplete(linker: *mut c_void, cubin: *mut *mut c_void, bytes: *mut usize);
    6050 cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, linker: *mut *mut c_void);
    5050 cuLinkDestroy(linker: *mut c_void);
    3020 cuModuleGetGlobal_v2(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char);
    7000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize, flags: c_uint
    );
    9000 cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
    12040 cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
    12040 cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule);
    11070 cuModuleGetLoadingMode(mode: *mut c_uint);
    12040 cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary);
    12040 cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary);
    3000 cuFuncSetCacheConfig(function: CUfunction, config: c_uint);
    4020 cuFuncSetSharedMemConfig(function: CUfunction, config: c_uint);
    12040 cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
    12040 cuFuncIsLoaded(state: *mut c_uint, function: CUfunction);
    12040 cuFuncLoad(function: CUfunction);
    12040 cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize);
    12000 cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: CUkernel, device: CUdevice);
    12000 cuKernelSetCacheConfig(kernel: CUkernel, config: c_uint, device: CUdevice);
    6050 cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize
    );
    6050 cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: CUfunction, shared_of: *mut c_void, shared: usize,
        limit: c_int
    );
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut c_int, block: *mut c_int, function: CUfunction, shared_of: *mut c_void, shared: usize,
        limit: c_int, flags: c_uint
    );
    10020 cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: CUfunction, blocks: c_int, threads: c_int
    );

    // Launches
    4000 cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void
    ), 7000 cuLaunchKernel_ptsz;
    11060 cuLaunchKernelEx(
        configuration: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    ), 11060 cuLaunchKernelEx_ptsz;
    9000 cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void
    ), 9000 cuLaunchCooperativeKernel_ptsz;
    2000 cuLaunch(function: CUfunction);
    2000 cuLaunchGrid(function: CUfunction, width: c_int, height: c_int);
    2000 cuLaunchGridAsync(function: CUfunction, width: c_int, height: c_int, stream: CUstream);
    9000 cuLaunchCooperativeKernelMultiDevice(list: *mut c_void, count: c_uint, flags: c_uint);

    // Copies, sets, prefetches
    4000 cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize), 7000 cuMemcpy_ptds;
    4000 cuMemcpyPeer(
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize
    ), 7000 cuMemcpyPeer_ptds;
    3020 cuMemcpyHtoD_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize), 7000 cuMemcpyHtoD_v2_ptds;
    3020 cuMemcpyDtoH_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize), 7000 cuMemcpyDtoH_v2_ptds;
    3020 cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize), 7000 cuMemcpyDtoD_v2_ptds;
    3020 cuMemcpyDtoA_v2(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize), 7000 cuMemcpyDtoA_v2_ptds;
    3020 cuMemcpyAtoD_v2(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize), 7000 cuMemcpyAtoD_v2_ptds;
    3020 cuMemcpyHtoA_v2(dst: CUarray, offset: usize, src: *const c_void, bytes: usize), 7000 cuMemcpyHtoA_v2_ptds;
    3020 cuMemcpyAtoH_v2(dst: *mut c_void, src: CUarray, offset: usize, bytes: usize), 7000 cuMemcpyAtoH_v2_ptds;
    3020 cuMemcpyAtoA_v2(
        dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize, bytes: usize
    ), 7000 cuMemcpyAtoA_v2_ptds;
    3020 cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D), 7000 cuMemcpy2D_v2_ptds;
    3020 cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D), 7000 cuMemcpy2DUnaligned_v2_ptds;
    3020 cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D), 7000 cuMemcpy3D_v2_ptds;
    4000 cuMemcpy3DPeer(copy: *const CUDA_MEMCPY3D_PEER), 7000 cuMemcpy3DPeer_ptds;
    4000 cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream), 7000 cuMemcpyAsync_ptsz;
    4000 cuMemcpyPeerAsync(
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize,
        stream: CUstream
    ), 7000 cuMemcpyPeerAsync_ptsz;
    3020 cuMemcpyHtoDAsync_v2(
        dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream
    ), 7000 cuMemcpyHtoDAsync_v2_ptsz;
    3020 cuMemcpyDtoHAsync_v2(
        dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream
    ), 7000 cuMemcpyDtoHAsync_v2_ptsz;
    3020 cuMemcpyDtoDAsync_v2(
        dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream
    ), 7000 cuMemcpyDtoDAsync_v2_ptsz;
    3020 cuMemcpyHtoAAsync_v2(
        dst: CUarray, offset: usize, src: *const c_void, bytes: usize, stream: CUstream
    ), 7000 cuMemcpyHtoAAsync_v2_ptsz;
    3020 cuMemcpyAtoHAsync_v2(
        dst: *mut c_void, src: CUarray, offset: usize, bytes: usize, stream: CUstream
    ), 7000 cuMemcpyAtoHAsync_v2_ptsz;
    3020 cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream), 7000 cuMemcpy2DAsync_v2_ptsz;
    3020 cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream), 7000 cuMemcpy3DAsync_v2_ptsz;
    4000 cuMemcpy3DPeerAsync(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream), 7000 cuMemcpy3DPeerAsync_ptsz;
    12080 cuMemcpyBatchAsync(
        dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void,
        indices: *mut usize, attribute_count: usize, failed: *mut usize, stream: CUstream
    ), 12080 cuMemcpyBatchAsync_ptsz;
    13000 cuMemcpyBatchAsync_v2(
        dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void,
        indices: *mut usize, attribute_count: usize, stream: CUstream
    ), 13000 cuMemcpyBatchAsync_v2_ptsz;
    12080 cuMemcpy3DBatchAsync(
        count: usize, operations: *mut c_void, failed: *mut usize, flags: c_ulonglong, stream: CUstream
    ), 12080 cuMemcpy3DBatchAsync_ptsz;
    13000 cuMemcpy3DBatchAsync_v2(
        count: usize, operations: *mut c_void, flags: c_ulonglong, stream: CUstream
    ), 13000 cuMemcpy3DBatchAsync_v2_ptsz;
    8000 cuMemPrefetchAsync(
        address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream
    ), 8000 cuMemPrefetchAsync_ptsz;
    12020 cuMemPrefetchAsync_v2(
        address: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream
    ), 12020 cuMemPrefetchAsync_v2_ptsz;
    13020 cuMemcpyWithAttributesAsync(
        dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, attributes: *mut c_void, stream: CUstream
    ), 13020 cuMemcpyWithAttributesAsync_ptsz;
    13020 cuMemcpy3DWithAttributesAsync(
        operation: *mut c_void, flags: c_ulonglong, stream: CUstream
    ), 13020 cuMemcpy3DWithAttributesAsync_ptsz;
    13050 cuFabricCpyBatchAsync(
        count: usize, operations: *mut c_void, flags: c_ulonglong, stream: CUstream
    ), 13050 cuFabricCpyBatchAsync_ptsz;
    12060 cuMemBatchDecompressAsync(
        operations: *mut c_void, count: usize, flags: c_uint, failed: *mut usize, stream: CUstream
    ), 12060 cuMemBatchDecompressAsync_ptsz;
    13000 cuMemPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut c_void, indices: *mut usize,
        location_count: usize, flags: c_ulonglong, stream: CUstream
    ), 13000 cuMemPrefetchBatchAsync_ptsz;
    13000 cuMemDiscardBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: c_ulonglong, stream: CUstream
    ), 13000 cuMemDiscardBatchAsync_ptsz;
    13000 cuMemDiscardAndPrefetchBatchAsync(
        addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut c_void, indices: *mut usize,
        location_count: usize, flags: c_ulonglong, stream: CUstream
    ), 13000 cuMemDiscardAndPrefetchBatchAsync_ptsz;
    3020 cuMemsetD8_v2(dst: CUdeviceptr, value: c_uchar, count: usize), 7000 cuMemsetD8_v2_ptds;
    3020 cuMemsetD16_v2(dst: CUdeviceptr, value: c_ushort, count: usize), 7000 cuMemsetD16_v2_ptds;
    3020 cuMemsetD32_v2(dst: CUdeviceptr, value: c_uint, count: usize), 7000 cuMemsetD32_v2_ptds;
    3020 cuMemsetD2D8_v2(
        dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize
    ), 7000 cuMemsetD2D8_v2_ptds;
    3020 cuMemsetD2D16_v2(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize
    ), 7000 cuMemsetD2D16_v2_ptds;
    3020 cuMemsetD2D32_v2(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize
    ), 7000 cuMemsetD2D32_v2_ptds;
    3020 cuMemsetD8Async(dst: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream), 7000 cuMemsetD8Async_ptsz;
    3020 cuMemsetD16Async(
        dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream
    ), 7000 cuMemsetD16Async_ptsz;
    3020 cuMemsetD32Async(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream), 7000 cuMemsetD32Async_ptsz;
    3020 cuMemsetD2D8Async(
        dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize, stream: CUstream
    ), 7000 cuMemsetD2D8Async_ptsz;
    3020 cuMemsetD2D16Async(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize, stream: CUstream
    ), 7000 cuMemsetD2D16Async_ptsz;
    3020 cuMemsetD2D32Async(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream
    ), 7000 cuMemsetD2D32Async_ptsz;

    // Memory for other processes and interfaces
    3000 cuGraphicsMapResources(
        count: c_uint, resources: *mut *mut c_void, stream: CUstream
    ), 7000 cuGraphicsMapResources_ptsz;
    11020 cuMemPoolImportFromShareableHandle(pool: *mut usize, handle: *mut c_void, kind: c_uint, flags: c_ulonglong);
    4010 cuIpcGetMemHandle(handle: *mut c_void, address: CUdeviceptr);
    4010 cuIpcOpenMemHandle(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
    11000 cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
    4010 cuIpcCloseMemHandle(address: CUdeviceptr);
    11020 cuMemPoolImportPointer(address: *mut CUdeviceptr, pool: CUmemoryPool, data: *mut c_void);
    11020 cuMemPoolExportPointer(data: *mut c_void, address: CUdeviceptr);
    10020 cuMemExportToShareableHandle(
        shareable: *mut c_void, handle: CUmemGenericAllocationHandle, kind: c_uint, flags: c_ulonglong
    );
    10020 cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle, shareable: *mut c_void, kind: c_uint
    );
    12010 cuMulticastCreate(handle: *mut CUmemGenericAllocationHandle, properties: *const c_void);
    12010 cuMulticastBindMem(
        multicast: CUmemGenericAllocationHandle, multicast_offset: usize, memory: CUmemGenericAllocationHandle,
        memory_offset: usize, bytes: usize, flags: c_ulonglong
    );
    13010 cuMulticastBindMem_v2(
        multicast: CUmemGenericAllocationHandle, device: CUdevice, multicast_offset: usize,
        memory: CUmemGenericAllocationHandle, memory_offset: usize, bytes: usize, flags: c_ulonglong
    );
    12010 cuMulticastBindAddr(
        multicast: CUmemGenericAllocationHandle, multicast_offset: usize, address: CUdeviceptr, bytes: usize,
        flags: c_ulonglong
    );
    13010 cuMulticastBindAddr_v2(
        multicast: CUmemGenericAllocationHandle, device: CUdevice, multicast_offset: usize, address: CUdeviceptr,
        bytes: usize, flags: c_ulonglong
    );
    10000 cuExternalMemoryGetMappedBuffer(address: *mut CUdeviceptr, memory: *mut c_void, description: *const c_void);
    3020 cuGraphicsResourceGetMappedPointer_v2(address: *mut CUdeviceptr, bytes: *mut usize, resource: *mut c_void);
    3000 cuGraphicsUnmapResources(
        count: c_uint, resources: *mut *mut c_void, stream: CUstream
    ), 7000 cuGraphicsUnmapResources_ptsz;
    3000 cuGraphicsUnregisterResource(resource: *mut c_void);

    // Memory
    11010 cuMemMapArrayAsync(mappings: *mut c_void, count: c_uint, stream: CUstream), 11010 cuMemMapArrayAsync_ptsz;
    3020 cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    3020 cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    3020 cuMemFree_v2(address: CUdeviceptr);
    3020 cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr);
    4000 cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr);
    7000 cuPointerGetAttributes(count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, address: CUdeviceptr);
    3020 cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    10020 cuMemSetAccess(address: CUdeviceptr, bytes: usize, accesses: *const CUmemAccessDesc, count: usize);
    11020 cuMemPoolSetAccess(pool: usize, accesses: *const CUmemAccessDesc, count: usize);
    11020 cuMemPoolCreate(pool: *mut usize, properties: *const c_uint);
    11020 cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream), 11020 cuMemAllocAsync_ptsz;
    11020 cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream
    ), 11020 cuMemAllocFromPoolAsync_ptsz;
    11020 cuMemFreeAsync(address: CUdeviceptr, stream: CUstream), 11020 cuMemFreeAsync_ptsz;
    6000 cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint);
    2000 cuMemAllocHost(host: *mut *mut c_void, bytes: c_uint);
    3020 cuMemAllocHost_v2(host: *mut *mut c_void, bytes: usize);
    2020 cuMemHostAlloc(host: *mut *mut c_void, bytes: usize, flags: c_uint);
    4000 cuMemHostRegister(host: *mut c_void, bytes: usize, flags: c_uint);
    6050 cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint);
    4000 cuMemHostUnregister(host: *mut c_void);
    2000 cuMemFreeHost(host: *mut c_void);
    10020 cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle, bytes: usize, properties: *const CUmemAllocationProp,
        flags: c_ulonglong
    );
    11000 cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, address: *mut c_void);
    10020 cuMemMap(
        address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong
    );
    10020 cuMemUnmap(address: CUdeviceptr, bytes: usize);
    10020 cuMemAddressFree(address: CUdeviceptr, size: usize);
    10020 cuMemAddressReserve(
        address: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr, flags: c_ulonglong
    );
    10020 cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr);
    10020 cuMemGetAllocationGranularity(
        granularity: *mut usize, properties: *const CUmemAllocationProp, option: c_uint
    );
    10020 cuMemGetAllocationPropertiesFromHandle(
        properties: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle
    );
    10020 cuMemRelease(handle: CUmemGenericAllocationHandle);
    3020 cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
    2030 cuMemHostGetFlags(flags: *mut c_uint, address: *mut c_void);
    11020 cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);
    11020 cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice);
    11020 cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool);
    11020 cuMemPoolDestroy(pool: CUmemoryPool);
    11020 cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    11020 cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    11020 cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    11020 cuMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation);
    6000 cuPointerSetAttribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr);
    8000 cuMemAdvise(address: CUdeviceptr, bytes: usize, advice: c_uint, device: CUdevice);

    // Streams
    6000 cuStreamAttachMemAsync(
        stream: CUstream, address: CUdeviceptr, bytes: usize, flags: c_uint
    ), 7000 cuStreamAttachMemAsync_ptsz;
    10000 cuLaunchHostFunc(stream: CUstream, function: *mut c_void, data: *mut c_void), 10000 cuLaunchHostFunc_ptsz;
    13010 cuLaunchHostFunc_v2(
        stream: CUstream, function: *mut c_void, data: *mut c_void, mode: c_uint
    ), 13010 cuLaunchHostFunc_v2_ptsz;
    5000 cuStreamAddCallback(
        stream: CUstream, callback: *mut c_void, data: *mut c_void, flags: c_uint
    ), 7000 cuStreamAddCallback_ptsz;
    8000 cuStreamWriteValue32(
        stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint
    ), 8000 cuStreamWriteValue32_ptsz;
    11070 cuStreamWriteValue32_v2(
        stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint
    ), 11070 cuStreamWriteValue32_v2_ptsz;
    9000 cuStreamWriteValue64(
        stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint
    ), 9000 cuStreamWriteValue64_ptsz;
    11070 cuStreamWriteValue64_v2(
        stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint
    ), 11070 cuStreamWriteValue64_v2_ptsz;
    8000 cuStreamBatchMemOp(
        stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint
    ), 8000 cuStreamBatchMemOp_ptsz;
    11070 cuStreamBatchMemOp_v2(
        stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint
    ), 11070 cuStreamBatchMemOp_v2_ptsz;
    10000 cuStreamBeginCapture(stream: CUstream), 10000 cuStreamBeginCapture_ptsz;
    10010 cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint), 10010 cuStreamBeginCapture_v2_ptsz;
    12030 cuStreamBeginCaptureToGraph(
        stream: CUstream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize,
        mode: c_uint
    ), 12030 cuStreamBeginCaptureToGraph_ptsz;
    13030 cuStreamBeginRecaptureToGraph(
        stream: CUstream, mode: c_uint, graph: *mut c_void, callback: *mut c_void, data: *mut c_void
    ), 13030 cuStreamBeginRecaptureToGraph_ptsz;
    13010 cuStreamBeginCaptureToCig(stream: CUstream, parameters: *mut c_void), 13010 cuStreamBeginCaptureToCig_ptsz;
    13010 cuStreamEndCaptureToCig(stream: CUstream), 13010 cuStreamEndCaptureToCig_ptsz;
    10000 cuStreamEndCapture(stream: CUstream, graph: *mut *mut c_void), 10000 cuStreamEndCapture_ptsz;
    2000 cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    9020 cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    10000 cuStreamIsCapturing(stream: CUstream, status: *mut c_uint);
    2000 cuStreamSynchronize(stream: CUstream);
    5050 cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    2000 cuStreamDestroy(stream: CUstream);
    4000 cuStreamDestroy_v2(stream: CUstream);
    2000 cuStreamQuery(stream: CUstream);
    3020 cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    5050 cuStreamGetFlags(stream: CUstream, flags: *mut c_uint);
    5050 cuStreamGetPriority(stream: CUstream, priority: *mut c_int);
    12080 cuStreamGetDevice(stream: CUstream, device: *mut CUdevice);
    12000 cuStreamGetId(stream: CUstream, id: *mut c_ulonglong);
    10010 cuStreamGetCaptureInfo(stream: CUstream, status: *mut c_uint, id: *mut u64);
    11030 cuStreamGetCaptureInfo_v2(
        stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut *mut c_void,
        dependencies: *mut *const *mut c_void, count: *mut usize
    );
    12030 cuStreamGetCaptureInfo_v3(
        stream: CUstream, status: *mut c_uint, id: *mut u64, graph: *mut *mut c_void,
        dependencies: *mut *const *mut c_void, edges: *mut *const c_void, count: *mut usize
    );

    // Events
    2000 cuEventCreate(event: *mut CUevent, flags: c_uint);
    4000 cuEventDestroy_v2(event: CUevent);
    2000 cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    2000 cuEventQuery(event: CUevent);
    2000 cuEventRecord(event: CUevent, stream: CUstream);
    2000 cuEventSynchronize(event: CUevent);
    11010 cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
    12080 cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent);

    // Graphs
    11010 cuGraphUpload(executable: *mut c_void, stream: CUstream), 11010 cuGraphUpload_ptsz;
    10000 cuGraphLaunch(executable: *mut c_void, stream: CUstream), 10000 cuGraphLaunch_ptsz;
    10000 cuGraphInstantiate(
        executable: *mut *mut c_void, graph: *mut c_void, node: *mut *mut c_void, log: *mut c_char, size: usize
    );
    11000 cuGraphInstantiate_v2(
        executable: *mut *mut c_void, graph: *mut c_void, node: *mut *mut c_void, log: *mut c_char, size: usize
    );
    11040 cuGraphInstantiateWithFlags(executable: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong);
    12000 cuGraphInstantiateWithParams(
        executable: *mut *mut c_void, graph: *mut c_void, parameters: *mut c_void
    ), 12000 cuGraphInstantiateWithParams_ptsz;
    10020 cuGraphExecUpdate(executable: *mut c_void, graph: *mut c_void, node: *mut *mut c_void, result: *mut c_uint);
    12000 cuGraphExecUpdate_v2(executable: *mut c_void, graph: *mut c_void, result: *mut c_void);
    12000 cuGraphExecKernelNodeSetParams_v2(
        executable: *mut c_void, node: *mut c_void, parameters: *const CUDA_KERNEL_NODE_PARAMS
    );
    10000 cuGraphExecDestroy(executable: *mut c_void);
    11030 cuGraphRetainUserObject(graph: *mut c_void, object: *mut c_void, count: c_uint, flags: c_uint);
    10010 cuGraphExecKernelNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void);
    10020 cuGraphExecMemcpyNodeSetParams(
        executable: *mut c_void, node: *mut c_void, parameters: *const c_void, context: CUcontext
    );
    10020 cuGraphExecMemsetNodeSetParams(
        executable: *mut c_void, node: *mut c_void, parameters: *const c_void, context: CUcontext
    );
    10020 cuGraphExecHostNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void);
    11010 cuGraphExecChildGraphNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void);
    12020 cuGraphExecNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void);
    11010 cuGraphExecEventRecordNodeSetEvent(executable: *mut c_void, node: *mut c_void, event: CUevent);
    11010 cuGraphExecEventWaitNodeSetEvent(executable: *mut c_void, node: *mut c_void, event: CUevent);
    11060 cuGraphNodeSetEnabled(executable: *mut c_void, node: *mut c_void, enabled: c_uint);
    10000 cuGraphChildGraphNodeGetGraph(node: *mut c_void, graph: *mut *mut c_void);
    10000 cuGraphClone(clone: *mut *mut c_void, graph: *mut c_void);
    10000 cuGraphDestroy(graph: *mut c_void);
    10000 cuGraphGetEdges(graph: *mut c_void, from: *mut *mut c_void, to: *mut *mut c_void, count: *mut usize);
    10000 cuGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize);
    10000 cuGraphHostNodeGetParams(node: *mut c_void, parameters: *mut CUDA_HOST_NODE_PARAMS);
    11000 cuGraphKernelNodeGetAttribute(node: *mut c_void, attribute: c_uint, value: *mut c_void);
    12000 cuGraphKernelNodeGetParams_v2(node: *mut c_void, parameters: *mut CUDA_KERNEL_NODE_PARAMS);
    12000 cuGraphKernelNodeSetParams_v2(node: *mut c_void, parameters: *const CUDA_KERNEL_NODE_PARAMS);
    10000 cuGraphMemcpyNodeGetParams(node: *mut c_void, parameters: *mut [u64; 25]);
    10000 cuGraphMemsetNodeGetParams(node: *mut c_void, parameters: *mut CUDA_MEMSET_NODE_PARAMS);
    10000 cuGraphNodeFindInClone(twin: *mut *mut c_void, node: *mut c_void, clone: *mut c_void);
    10000 cuGraphNodeGetType(node: *mut c_void, kind: *mut c_uint);
    11010 cuGraphEventRecordNodeGetEvent(node: *mut c_void, event: *mut CUevent);
    11010 cuGraphEventWaitNodeGetEvent(node: *mut c_void, event: *mut CUevent);
    10000 cuGraphMemcpyNodeSetParams(node: *mut c_void, parameters: *const c_void);
    10000 cuGraphMemsetNodeSetParams(node: *mut c_void, parameters: *const c_void);
    10000 cuGraphHostNodeSetParams(node: *mut c_void, parameters: *const c_void);
    11010 cuGraphEventRecordNodeSetEvent(node: *mut c_void, event: CUevent);
    11010 cuGraphEventWaitNodeSetEvent(node: *mut c_void, event: CUevent);
    12020 cuGraphNodeSetParams(node: *mut c_void, parameters: *mut c_void);
    // Arrays, textures and surfaces
    3020 cuArrayCreate_v2(array: *mut CUarray, description: *const CUDA_ARRAY_DESCRIPTOR);
    3020 cuArrayGetDescriptor_v2(description: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray);
    3020 cuArray3DCreate_v2(array: *mut CUarray, description: *const CUDA_ARRAY3D_DESCRIPTOR);
    3020 cuArray3DGetDescriptor_v2(description: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray);
    2000 cuArrayDestroy(array: CUarray);
    5000 cuTexObjectCreate(
        texture: *mut c_ulonglong, resource: *const CUDA_RESOURCE_DESC, description: *const CUDA_TEXTURE_DESC,
        view: *const c_void
    );
    5000 cuTexObjectDestroy(texture: c_ulonglong);
    5000 cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, texture: c_ulonglong);
    5000 cuTexObjectGetTextureDesc(description: *mut CUDA_TEXTURE_DESC, texture: c_ulonglong);
    5000 cuSurfObjectCreate(surface: *mut c_ulonglong, resource: *const CUDA_RESOURCE_DESC);
    5000 cuSurfObjectDestroy(surface: c_ulonglong);
    5000 cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, surface: c_ulonglong);

    // Graphs that are built
    10000 cuGraphCreate(graph: *mut *mut c_void, flags: c_uint);
    12000 cuGraphAddKernelNode_v2(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize,
        parameters: *const CUDA_KERNEL_NODE_PARAMS
    );
    10000 cuGraphAddMemcpyNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize,
        parameters: *const CUDA_MEMCPY3D, context: CUcontext
    );
    10000 cuGraphAddMemsetNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize,
        parameters: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext
    );
    10000 cuGraphAddHostNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize,
        parameters: *const CUDA_HOST_NODE_PARAMS
    );
    10000 cuGraphAddEmptyNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize);
    10000 cuGraphAddChildGraphNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, child: *mut c_void
    );
    11010 cuGraphAddEventRecordNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, event: CUevent
    );
    11010 cuGraphAddEventWaitNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, event: CUevent
    );
    11040 cuGraphAddMemAllocNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize,
        parameters: *mut CUDA_MEM_ALLOC_NODE_PARAMS
    );
    11040 cuGraphAddMemFreeNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, address: CUdeviceptr
    );
}

//! The functions of CUDA's runtime, libcudart, that the CPU device serves, each declared once.
//!
//! Entries have the same form as in [`cuda::driver`](crate::cuda::driver), and also generate a macro with the
//! function's name. `since` is the CUDA version of this declaration, as named by CUPTI (`cudaMalloc_v3020`). Names and
//! types match `cuda_runtime_api.h` of CUDA 12, as a test checks; enumerations are integers, as for the driver, and
//! opaque structures, graphs, and application functions are `c_void`. Functions that programs never call directly are
//! omitted.

use super::types::*;
use crate::declare::declare;

declare! { ($)
    // Devices
    3020 cudaGetDeviceCount(count: *mut c_int);
    3020 cudaGetDevice(device: *mut c_int);
    3020 cudaSetDevice(device: c_int);
    12000 cudaInitDevice(device: c_int, device_flags: c_uint, flags: c_uint);
    3020 cudaSetDeviceFlags(flags: c_uint);
    7000 cudaGetDeviceFlags(flags: *mut c_uint);
    3020 cudaSetValidDevices(devices: *mut c_int, count: c_int);
    3020 cudaChooseDevice(device: *mut c_int, wanted: *const c_void);
    3020 cudaGetDeviceProperties(properties: *mut c_void, device: c_int);
    12000 cudaGetDeviceProperties_v2(properties: *mut c_void, device: c_int);
    5000 cudaDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int);
    4010 cudaDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int);
    4000 cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    4000 cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint);
    4000 cudaDeviceDisablePeerAccess(peer: c_int);
    3020 cudaDeviceSynchronize();
    3020 cudaThreadSynchronize();
    3020 cudaDeviceReset();
    3020 cudaDeviceGetLimit(value: *mut usize, limit: c_uint);
    3020 cudaDeviceSetLimit(limit: c_uint, value: usize);
    3020 cudaDeviceGetCacheConfig(value: *mut c_uint);
    3020 cudaDeviceSetCacheConfig(value: c_uint);
    4020 cudaDeviceGetSharedMemConfig(value: *mut c_uint);
    4020 cudaDeviceSetSharedMemConfig(value: c_uint);
    5050 cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);

    // Pools
    11020 cudaDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: c_int);
    11020 cudaDeviceGetMemPool(pool: *mut CUmemoryPool, device: c_int);
    11020 cudaDeviceSetMemPool(device: c_int, pool: CUmemoryPool);
    11020 cudaMemPoolCreate(pool: *mut CUmemoryPool, properties: *const c_void);
    11020 cudaMemPoolDestroy(pool: CUmemoryPool);
    11020 cudaMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    11020 cudaMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    11020 cudaMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    11020 cudaMemPoolSetAccess(pool: CUmemoryPool, accesses: *const c_void, count: usize);

    // Versions, entry points
    11030 cudaGetDriverEntryPoint(
        name: *const c_char, address: *mut *mut c_void, flags: c_ulonglong, result: *mut c_uint
    ), 11030 cudaGetDriverEntryPoint_ptsz;
    12050 cudaGetDriverEntryPointByVersion(
        name: *const c_char, address: *mut *mut c_void, version: c_uint, flags: c_ulonglong, result: *mut c_uint
    ), 12050 cudaGetDriverEntryPointByVersion_ptsz;

    // Deprecated names
    3020 cudaThreadExit();
    3020 cudaThreadGetLimit(value: *mut usize, limit: c_uint);
    3020 cudaThreadSetLimit(limit: c_uint, value: usize);
    3020 cudaThreadGetCacheConfig(value: *mut c_uint);
    3020 cudaThreadSetCacheConfig(value: c_uint);
    11000 cudaCtxResetPersistingL2Cache();
    3020 cudaSetDoubleForDevice(value: *mut f64);
    3020 cudaSetDoubleForHost(value: *mut f64);
    3020 cudaDriverGetVersion(version: *mut c_int);
    3020 cudaRuntimeGetVersion(version: *mut c_int);
    4000 cudaProfilerStart();
    4000 cudaProfilerStop();

    // Errors
    3020 cudaGetLastError();
    3020 cudaPeekAtLastError();
    6050 cudaGetErrorName(error: Status) -> *const c_char;
    3020 cudaGetErrorString(error: Status) -> *const c_char;

    // Allocation
    3020 cudaMalloc(address: *mut *mut c_void, bytes: usize);
    3020 cudaFree(address: *mut c_void);
    3020 cudaMallocPitch(address: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize);
    6000 cudaMallocManaged(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    3020 cudaMallocHost(address: *mut *mut c_void, bytes: usize);
    3020 cudaHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    4010 cudaIpcGetMemHandle(handle: *mut CUipcMemHandle, address: *mut c_void);
    4010 cudaIpcOpenMemHandle(address: *mut *mut c_void, handle: CUipcMemHandle, flags: c_uint);
    4010 cudaIpcCloseMemHandle(address: *mut c_void);
    3020 cudaFreeHost(address: *mut c_void);
    4000 cudaHostRegister(address: *mut c_void, bytes: usize, flags: c_uint);
    4000 cudaHostUnregister(address: *mut c_void);
    3020 cudaHostGetDevicePointer(out: *mut *mut c_void, address: *mut c_void, flags: c_uint);
    11020 cudaMallocAsync(address: *mut *mut c_void, bytes: usize, stream: CUstream), 11020 cudaMallocAsync_ptsz;
    11020 cudaMallocFromPoolAsync(
        address: *mut *mut c_void, bytes: usize, pool: CUmemoryPool, stream: CUstream
    ), 11020 cudaMallocFromPoolAsync_ptsz;
    11020 cudaFreeAsync(address: *mut c_void, stream: CUstream), 11020 cudaFreeAsync_ptsz;
    3020 cudaMemGetInfo(free: *mut usize, total: *mut usize);
    8000 cudaMemAdvise(address: *const c_void, bytes: usize, advice: c_uint, device: c_int);
    8000 cudaMemPrefetchAsync(
        address: *const c_void, bytes: usize, device: c_int, stream: CUstream
    ), 8000 cudaMemPrefetchAsync_ptsz;
    12020 cudaMemPrefetchAsync_v2(
        address: *const c_void, bytes: usize, place: CUmemLocation, flags: c_uint, stream: CUstream
    ), 12020 cudaMemPrefetchAsync_v2_ptsz;
    12020 cudaMemAdvise_v2(address: *const c_void, bytes: usize, advice: c_uint, place: CUmemLocation);
    3020 cudaMalloc3D(out: *mut PitchedPointer, extent: Extent);
    3020 cudaMemset3D(what: PitchedPointer, value: c_int, extent: Extent), 7000 cudaMemset3D_ptds;
    3020 cudaMemset3DAsync(
        what: PitchedPointer, value: c_int, extent: Extent, stream: CUstream
    ), 7000 cudaMemset3DAsync_ptsz;
    3020 cudaMemcpy3D(what: *const c_void), 7000 cudaMemcpy3D_ptds;
    3020 cudaMemcpy3DAsync(what: *const c_void, stream: CUstream), 7000 cudaMemcpy3DAsync_ptsz;
    4000 cudaPointerGetAttributes(attributes: *mut c_void, address: *const c_void);
    3020 cudaCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, kind: c_uint) -> ChannelFormat;

    // Arrays, textures and surfaces
    3020 cudaMallocArray(array: *mut CUarray, format: *const ChannelFormat, width: usize, height: usize, flags: c_uint);
    3020 cudaMalloc3DArray(array: *mut CUarray, format: *const ChannelFormat, extent: Extent, flags: c_uint);
    3020 cudaFreeArray(array: CUarray);
    4010 cudaArrayGetInfo(format: *mut ChannelFormat, extent: *mut Extent, flags: *mut c_uint, array: CUarray);
    3020 cudaGetChannelDesc(format: *mut ChannelFormat, array: CUarray);
    5000 cudaCreateTextureObject(
        texture: *mut c_ulonglong, resource: *const c_void, description: *const c_void, view: *const c_void
    );
    5000 cudaDestroyTextureObject(texture: c_ulonglong);
    5000 cudaCreateSurfaceObject(surface: *mut c_ulonglong, resource: *const c_void);
    5000 cudaDestroySurfaceObject(surface: c_ulonglong);
    3020 cudaMemcpyToArray(
        array: CUarray, x: usize, y: usize, from: *const c_void, bytes: usize, kind: c_uint
    ), 7000 cudaMemcpyToArray_ptds;
    3020 cudaMemcpyToArrayAsync(
        array: CUarray, x: usize, y: usize, from: *const c_void, bytes: usize, kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpyToArrayAsync_ptsz;
    3020 cudaMemcpyFromArray(
        to: *mut c_void, array: CUarray, x: usize, y: usize, bytes: usize, kind: c_uint
    ), 7000 cudaMemcpyFromArray_ptds;
    3020 cudaMemcpyFromArrayAsync(
        to: *mut c_void, array: CUarray, x: usize, y: usize, bytes: usize, kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpyFromArrayAsync_ptsz;
    3020 cudaMemcpyArrayToArray(
        to: CUarray, to_x: usize, to_y: usize, from: CUarray, from_x: usize, from_y: usize, bytes: usize, kind: c_uint
    ), 7000 cudaMemcpyArrayToArray_ptds;
    3020 cudaMemcpy2DToArray(
        array: CUarray, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: c_uint
    ), 7000 cudaMemcpy2DToArray_ptds;
    3020 cudaMemcpy2DToArrayAsync(
        array: CUarray, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpy2DToArrayAsync_ptsz;
    3020 cudaMemcpy2DFromArray(
        to: *mut c_void, pitch: usize, array: CUarray, x: usize, y: usize, width: usize, height: usize, kind: c_uint
    ), 7000 cudaMemcpy2DFromArray_ptds;
    3020 cudaMemcpy2DFromArrayAsync(
        to: *mut c_void, pitch: usize, array: CUarray, x: usize, y: usize, width: usize, height: usize, kind: c_uint,
        stream: CUstream
    ), 7000 cudaMemcpy2DFromArrayAsync_ptsz;
    3020 cudaMemcpy2DArrayToArray(
        to: CUarray, to_x: usize, to_y: usize, from: CUarray, from_x: usize, from_y: usize, width: usize,
        height: usize, kind: c_uint
    ), 7000 cudaMemcpy2DArrayToArray_ptds;

    // Copies and fills
    3020 cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint), 7000 cudaMemcpy_ptds;
    3020 cudaMemcpyAsync(
        to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpyAsync_ptsz;
    4000 cudaMemcpyPeer(to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, bytes: usize);
    4000 cudaMemcpyPeerAsync(
        to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, bytes: usize, stream: CUstream
    );
    3020 cudaMemcpy2D(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: c_uint
    ), 7000 cudaMemcpy2D_ptds;
    3020 cudaMemcpy2DAsync(
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpy2DAsync_ptsz;
    3020 cudaMemcpyToSymbol(
        symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: c_uint
    ), 7000 cudaMemcpyToSymbol_ptds;
    3020 cudaMemcpyToSymbolAsync(
        symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpyToSymbolAsync_ptsz;
    3020 cudaMemcpyFromSymbol(
        to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_uint
    ), 7000 cudaMemcpyFromSymbol_ptds;
    3020 cudaMemcpyFromSymbolAsync(
        to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: CUstream
    ), 7000 cudaMemcpyFromSymbolAsync_ptsz;
    3020 cudaGetSymbolAddress(address: *mut *mut c_void, symbol: *const c_void);
    3020 cudaGetSymbolSize(size: *mut usize, symbol: *const c_void);
    3020 cudaMemset(address: *mut c_void, value: c_int, bytes: usize), 7000 cudaMemset_ptds;
    3020 cudaMemsetAsync(address: *mut c_void, value: c_int, bytes: usize, stream: CUstream), 7000 cudaMemsetAsync_ptsz;
    3020 cudaMemset2D(
        address: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize
    ), 7000 cudaMemset2D_ptds;
    3020 cudaMemset2DAsync(
        address: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: CUstream
    ), 7000 cudaMemset2DAsync_ptsz;

    // Streams
    3020 cudaStreamCreate(stream: *mut CUstream);
    5000 cudaStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint);
    5050 cudaStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    5050 cudaStreamDestroy(stream: CUstream);
    3020 cudaStreamQuery(stream: CUstream), 7000 cudaStreamQuery_ptsz;
    3020 cudaStreamSynchronize(stream: CUstream), 7000 cudaStreamSynchronize_ptsz;
    3020 cudaStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint), 7000 cudaStreamWaitEvent_ptsz;
    5050 cudaStreamGetFlags(stream: CUstream, flags: *mut c_uint), 7000 cudaStreamGetFlags_ptsz;
    12080 cudaStreamGetDevice(stream: CUstream, device: *mut c_int), 12080 cudaStreamGetDevice_ptsz;
    6000 cudaStreamAttachMemAsync(
        stream: CUstream, address: *mut c_void, bytes: usize, flags: c_uint
    ), 7000 cudaStreamAttachMemAsync_ptsz;
    5050 cudaStreamGetPriority(stream: CUstream, priority: *mut c_int), 7000 cudaStreamGetPriority_ptsz;
    10000 cudaStreamIsCapturing(stream: CUstream, status: *mut c_uint), 10000 cudaStreamIsCapturing_ptsz;
    10000 cudaStreamBeginCapture(stream: CUstream, mode: c_uint), 10000 cudaStreamBeginCapture_ptsz;
    10000 cudaStreamEndCapture(stream: CUstream, graph: *mut *mut c_void), 10000 cudaStreamEndCapture_ptsz;
    10010 cudaThreadExchangeStreamCaptureMode(mode: *mut c_uint);

    // Graphs
    10000 cudaGraphCreate(graph: *mut *mut c_void, flags: c_uint);
    10000 cudaGraphAddKernelNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, parameters: *const c_void
    );
    11010 cudaGraphAddMemcpyNode1D(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, to: *mut c_void,
        from: *const c_void, bytes: usize, kind: c_uint
    );
    10000 cudaGraphAddMemsetNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, parameters: *const c_void
    );
    10000 cudaGraphAddHostNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, parameters: *const c_void
    );
    10000 cudaGraphAddEmptyNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize);
    11040 cudaGraphAddMemAllocNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, parameters: *mut c_void
    );
    11040 cudaGraphAddMemFreeNode(
        node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, address: *mut c_void
    );
    10000 cudaGraphDestroy(graph: *mut c_void);
    10000 cudaGraphClone(copy: *mut *mut c_void, graph: *mut c_void);
    10000 cudaGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize);
    12000 cudaGraphInstantiate(executable: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong);
    11040 cudaGraphInstantiateWithFlags(executable: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong);
    10020 cudaGraphExecUpdate(executable: *mut c_void, graph: *mut c_void, result: *mut c_void);
    10000 cudaGraphExecDestroy(executable: *mut c_void);
    10000 cudaGraphLaunch(executable: *mut c_void, stream: CUstream), 10000 cudaGraphLaunch_ptsz;

    // Functions of the application
    5000 cudaStreamAddCallback(
        stream: CUstream, function: *mut c_void, data: *mut c_void, flags: c_uint
    ), 7000 cudaStreamAddCallback_ptsz;
    10000 cudaLaunchHostFunc(stream: CUstream, function: *mut c_void, data: *mut c_void), 10000 cudaLaunchHostFunc_ptsz;

    // Events
    3020 cudaEventCreate(event: *mut CUevent);
    3020 cudaEventCreateWithFlags(event: *mut CUevent, flags: c_uint);
    3020 cudaEventDestroy(event: CUevent);
    3020 cudaEventRecord(event: CUevent, stream: CUstream), 7000 cudaEventRecord_ptsz;
    11010 cudaEventRecordWithFlags(
        event: CUevent, stream: CUstream, flags: c_uint
    ), 11010 cudaEventRecordWithFlags_ptsz;
    3020 cudaEventQuery(event: CUevent);
    3020 cudaEventSynchronize(event: CUevent);
    3020 cudaEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    12080 cudaEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent);

    // Launches
    7000 cudaLaunchKernel(
        function: *const c_void, grid: Dimensions, block: Dimensions, arguments: *mut *mut c_void, shared: usize,
        stream: CUstream
    ), 7000 cudaLaunchKernel_ptsz;
    11060 cudaLaunchKernelExC(
        configuration: *const c_void, function: *const c_void, arguments: *mut *mut c_void
    ), 11060 cudaLaunchKernelExC_ptsz;
    9000 cudaLaunchCooperativeKernel(
        function: *const c_void, grid: Dimensions, block: Dimensions, arguments: *mut *mut c_void, shared: usize,
        stream: CUstream
    ), 9000 cudaLaunchCooperativeKernel_ptsz;
    3020 cudaFuncGetAttributes(attributes: *mut c_void, function: *const c_void);
    9000 cudaFuncSetAttribute(function: *const c_void, attribute: c_uint, value: c_int);
    3020 cudaFuncSetCacheConfig(function: *const c_void, config: c_uint);
    4020 cudaFuncSetSharedMemConfig(function: *const c_void, config: c_uint);
    12000 cudaGetKernel(kernel: *mut CUkernel, function: *const c_void);
    11000 cudaGetFuncBySymbol(out: *mut CUfunction, function: *const c_void);
    6050 cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: *const c_void, threads: c_int, shared: usize
    );
    7000 cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: *const c_void, threads: c_int, shared: usize, flags: c_uint
    );
    10200 cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: *const c_void, blocks: c_int, threads: c_int
    );

    // Functions called by nvcc's launch code (crt/host_runtime.h); `since` is the oldest version known to have it
    12090 __cudaGetKernel(kernel: *mut CUkernel, function: *const c_void);
    12090 __cudaLaunchKernel(
        kernel: *mut c_void, grid: Dimensions, block: Dimensions, arguments: *mut *mut c_void, shared: usize,
        stream: CUstream
    ), 12090 __cudaLaunchKernel_ptsz;
    9020 __cudaPushCallConfiguration(grid: Dimensions, block: Dimensions, shared: usize, stream: CUstream) -> c_uint;
    9020 __cudaPopCallConfiguration(
        grid: *mut Dimensions, block: *mut Dimensions, shared: *mut usize, stream: *mut CUstream
    );
}

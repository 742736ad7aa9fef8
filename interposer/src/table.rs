//! The functions that are hooked, one list: purpose, tests that cover it { since name(arguments) => handler; … }.
//!
//! It is made into typed calls of the vendor's functions by [`driver`](crate::driver), and into exported functions by
//! [`hooks`](crate::hooks).
//!
//! Names, argument types and the version from which a variant is current are those of `cuda.h` and `cudaTypedefs.h`;
//! enumerations and option arrays that are only passed on are written as integers and `c_void`.

/// Passes the list to a macro.
macro_rules! every_hook {
    ($($macro:tt)*) => { $($macro)*! {
    "waits at the gate while a launch is recorded" ["interposer/src/driver/gate.rs: a_closed_gate_is_exclusive"] {
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
        13020 cuMemcpyWithAttributesAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, attributes: *mut c_void, stream: CUstream) => gated;
        13020 cuMemcpyWithAttributesAsync_ptsz(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, attributes: *mut c_void, stream: CUstream) => gated;
        13020 cuMemcpy3DWithAttributesAsync(operation: *mut c_void, flags: c_ulonglong, stream: CUstream) => gated;
        13020 cuMemcpy3DWithAttributesAsync_ptsz(operation: *mut c_void, flags: c_ulonglong, stream: CUstream) => gated;
        13050 cuFabricCpyBatchAsync(count: usize, operations: *mut c_void, flags: c_ulonglong, stream: CUstream) => gated;
        13050 cuFabricCpyBatchAsync_ptsz(count: usize, operations: *mut c_void, flags: c_ulonglong, stream: CUstream) => gated;
        12060 cuMemBatchDecompressAsync(operations: *mut c_void, count: usize, flags: c_uint, failed: *mut usize, stream: CUstream) => gated;
        12060 cuMemBatchDecompressAsync_ptsz(operations: *mut c_void, count: usize, flags: c_uint, failed: *mut usize, stream: CUstream) => gated;
        13000 cuMemPrefetchBatchAsync(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut c_void, indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemPrefetchBatchAsync_ptsz(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut c_void, indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemDiscardBatchAsync(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemDiscardBatchAsync_ptsz(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemDiscardAndPrefetchBatchAsync(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut c_void, indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream) => gated;
        13000 cuMemDiscardAndPrefetchBatchAsync_ptsz(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut c_void, indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream) => gated;
        11010 cuMemMapArrayAsync(mappings: *mut c_void, count: c_uint, stream: CUstream) => gated;
        11010 cuMemMapArrayAsync_ptsz(mappings: *mut c_void, count: c_uint, stream: CUstream) => gated;
        6000 cuStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, bytes: usize, flags: c_uint) => gated;
        7000 cuStreamAttachMemAsync_ptsz(stream: CUstream, address: CUdeviceptr, bytes: usize, flags: c_uint) => gated;
        11010 cuGraphUpload(executable: *mut c_void, stream: CUstream) => gated;
        11010 cuGraphUpload_ptsz(executable: *mut c_void, stream: CUstream) => gated;
        3000 cuGraphicsMapResources(count: c_uint, resources: *mut *mut c_void, stream: CUstream) => gated;
        7000 cuGraphicsMapResources_ptsz(count: c_uint, resources: *mut *mut c_void, stream: CUstream) => gated;
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
    "waits at the gate; what it writes is not recorded" ["interposer/src/driver/gate.rs: a_closed_gate_is_exclusive"] {
        10000 cuLaunchHostFunc(stream: CUstream, function: *mut c_void, data: *mut c_void) => gated;
        10000 cuLaunchHostFunc_ptsz(stream: CUstream, function: *mut c_void, data: *mut c_void) => gated;
        13010 cuLaunchHostFunc_v2(stream: CUstream, function: *mut c_void, data: *mut c_void, mode: c_uint) => gated;
        13010 cuLaunchHostFunc_v2_ptsz(stream: CUstream, function: *mut c_void, data: *mut c_void, mode: c_uint) => gated;
        5000 cuStreamAddCallback(stream: CUstream, callback: *mut c_void, data: *mut c_void, flags: c_uint) => gated;
        7000 cuStreamAddCallback_ptsz(stream: CUstream, callback: *mut c_void, data: *mut c_void, flags: c_uint) => gated;
        8000 cuStreamWriteValue32(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        8000 cuStreamWriteValue32_ptsz(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        11070 cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        11070 cuStreamWriteValue32_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint) => gated;
        9000 cuStreamWriteValue64(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        9000 cuStreamWriteValue64_ptsz(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        11070 cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        11070 cuStreamWriteValue64_v2_ptsz(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint) => gated;
        8000 cuStreamBatchMemOp(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
        8000 cuStreamBatchMemOp_ptsz(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
        11070 cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
        11070 cuStreamBatchMemOp_v2_ptsz(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint) => gated;
    }
    "tracked, because nothing may synchronise while a stream is captured" ["interposer/tests/recording.rs: nothing_waits_while_another_stream_is_captured", "tests/tests/e2e/coverage.rs: graphs"] {
        10000 cuStreamBeginCapture(stream: CUstream) => captures::begin;
        10000 cuStreamBeginCapture_ptsz(stream: CUstream) => captures::begin;
        10010 cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) => captures::begin_in_mode;
        10010 cuStreamBeginCapture_v2_ptsz(stream: CUstream, mode: c_uint) => captures::begin_in_mode;
        12030 cuStreamBeginCaptureToGraph(stream: CUstream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_uint) => captures::begin_to_graph;
        12030 cuStreamBeginCaptureToGraph_ptsz(stream: CUstream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_uint) => captures::begin_to_graph;
        13030 cuStreamBeginRecaptureToGraph(stream: CUstream, mode: c_uint, graph: *mut c_void, callback: *mut c_void, data: *mut c_void) => captures::begin_again;
        13030 cuStreamBeginRecaptureToGraph_ptsz(stream: CUstream, mode: c_uint, graph: *mut c_void, callback: *mut c_void, data: *mut c_void) => captures::begin_again;
        13010 cuStreamBeginCaptureToCig(stream: CUstream, parameters: *mut c_void) => captures::begin_for_graphics;
        13010 cuStreamBeginCaptureToCig_ptsz(stream: CUstream, parameters: *mut c_void) => captures::begin_for_graphics;
        13010 cuStreamEndCaptureToCig(stream: CUstream) => captures::end_for_graphics;
        13010 cuStreamEndCaptureToCig_ptsz(stream: CUstream) => captures::end_for_graphics;
        10000 cuStreamEndCapture(stream: CUstream, graph: *mut *mut c_void) => captures::end;
        10000 cuStreamEndCapture_ptsz(stream: CUstream, graph: *mut *mut c_void) => captures::end;
    }
    "launched whole, its kernels not recorded; with `MNEME_GRAPHS=expand` node by node, each kernel as if launched alone" ["tests/tests/e2e/coverage.rs: graphs", "tests/tests/e2e/coverage.rs: graphs_are_expanded_on_request"] {
        10000 cuGraphLaunch(executable: *mut c_void, stream: CUstream) => graphs::launch;
        10000 cuGraphLaunch_ptsz(executable: *mut c_void, stream: CUstream) => graphs::launch_per_thread;
    }
    "followed for `MNEME_GRAPHS=expand`" ["tests/tests/e2e/coverage.rs: graphs_are_expanded_on_request"] {
        10000 cuGraphInstantiate(executable: *mut *mut c_void, graph: *mut c_void, node: *mut *mut c_void, log: *mut c_char, size: usize) => graphs::instantiate;
        11000 cuGraphInstantiate_v2(executable: *mut *mut c_void, graph: *mut c_void, node: *mut *mut c_void, log: *mut c_char, size: usize) => graphs::instantiate;
        11040 cuGraphInstantiateWithFlags(executable: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong) => graphs::instantiate_with_flags;
        12000 cuGraphInstantiateWithParams(executable: *mut *mut c_void, graph: *mut c_void, parameters: *mut c_void) => graphs::instantiate_with_parameters;
        12000 cuGraphInstantiateWithParams_ptsz(executable: *mut *mut c_void, graph: *mut c_void, parameters: *mut c_void) => graphs::instantiate_with_parameters;
        10020 cuGraphExecUpdate(executable: *mut c_void, graph: *mut c_void, node: *mut *mut c_void, result: *mut c_uint) => graphs::update_until_11;
        12000 cuGraphExecUpdate_v2(executable: *mut c_void, graph: *mut c_void, result: *mut c_void) => graphs::update;
        12000 cuGraphExecKernelNodeSetParams_v2(executable: *mut c_void, node: *mut c_void, parameters: *const CUDA_KERNEL_NODE_PARAMS) => graphs::set_kernel;
        10000 cuGraphExecDestroy(executable: *mut c_void) => graphs::destroy;
    }
    "followed for `MNEME_GRAPHS=expand`, which it ends for this graph" ["tests/tests/e2e/coverage.rs: graphs_are_expanded_on_request"] {
        10010 cuGraphExecKernelNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void) => graphs::change;
        10020 cuGraphExecMemcpyNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void, context: CUcontext) => graphs::change_in_context;
        10020 cuGraphExecMemsetNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void, context: CUcontext) => graphs::change_in_context;
        10020 cuGraphExecHostNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void) => graphs::change;
        11010 cuGraphExecChildGraphNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void) => graphs::change;
        12020 cuGraphExecNodeSetParams(executable: *mut c_void, node: *mut c_void, parameters: *const c_void) => graphs::change;
        11060 cuGraphNodeSetEnabled(executable: *mut c_void, node: *mut c_void, enabled: c_uint) => graphs::enable;
    }
    "served from the arena" ["tests/tests/e2e/programs.rs: memory", "interposer/tests/recording.rs: every_door_is_watched_and_the_recording_is_complete"] {
        3020 cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) => served::allocate;
        3020 cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint) => served::allocate_pitched;
        3020 cuMemFree_v2(address: CUdeviceptr) => served::free;
    }
    "answers for the arena's allocations as the vendor would for its own" ["tests/tests/e2e/programs.rs: memory", "interposer/tests/recording.rs: every_door_is_watched_and_the_recording_is_complete"] {
        3020 cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) => served::address_range;
        4000 cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr) => served::pointer_attribute;
        7000 cuPointerGetAttributes(count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, address: CUdeviceptr) => served::pointer_attributes;
        3020 cuMemGetInfo_v2(free: *mut usize, total: *mut usize) => served::information;
    }
    "gives the arena's memory to peers, and notes which devices can touch an allocation" ["tests/tests/e2e/coverage.rs: several_devices", "tests/tests/e2e/coverage.rs: access"] {
        4000 cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) => access::enable_peer;
        4000 cuCtxDisablePeerAccess(peer: CUcontext) => access::disable_peer;
        10020 cuMemSetAccess(address: CUdeviceptr, bytes: usize, accesses: *const CUmemAccessDesc, count: usize) => access::set;
        11020 cuMemPoolSetAccess(pool: usize, accesses: *const CUmemAccessDesc, count: usize) => access::set_pool;
        11020 cuMemPoolCreate(pool: *mut usize, properties: *const c_uint) => access::create_pool;
        11020 cuMemPoolImportFromShareableHandle(pool: *mut usize, handle: *mut c_void, kind: c_uint, flags: c_ulonglong) => access::import_pool;
    }
    "gives the arena's memory a handle that the recorder of another process knows; where that cannot be, leaves further allocations to the vendor" ["tests/tests/e2e/coverage.rs: sharing_between_processes", "interposer/tests/recording.rs: memory_for_other_processes_is_the_vendors"] {
        4010 cuIpcGetMemHandle(handle: *mut c_void, address: CUdeviceptr) => sharing::share;
    }
    "opens what another process' recorder shares; beside processes without one, leaves further allocations to the vendor" ["tests/tests/e2e/coverage.rs: sharing_between_processes", "interposer/tests/recording.rs: memory_for_other_processes_is_the_vendors"] {
        4010 cuIpcOpenMemHandle(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) => sharing::open_shared;
        11000 cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) => sharing::open_shared;
        4010 cuIpcCloseMemHandle(address: CUdeviceptr) => sharing::close_shared;
    }
    "the process shares memory with others: further allocations are left to the vendor" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        11020 cuMemPoolImportPointer(address: *mut CUdeviceptr, pool: CUmemoryPool, data: *mut c_void) => sharing::import_pointer;
    }
    "tracked, so that the memory is recorded at its own address" ["tests/tests/e2e/coverage.rs: pools"] {
        11020 cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) => tracked::allocate_async;
        11020 cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) => tracked::allocate_async;
        11020 cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream) => tracked::allocate_from_pool;
        11020 cuMemAllocFromPoolAsync_ptsz(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream) => tracked::allocate_from_pool;
        11020 cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) => tracked::free_async;
        11020 cuMemFreeAsync_ptsz(address: CUdeviceptr, stream: CUstream) => tracked::free_async;
    }
    "tracked, so that the memory is recorded at its own address" ["tests/tests/e2e/coverage.rs: managed"] {
        6000 cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint) => tracked::allocate_managed;
    }
    "tracked, so that the memory is recorded at its own address" ["tests/tests/e2e/coverage.rs: mapped"] {
        2000 cuMemAllocHost(host: *mut *mut c_void, bytes: c_uint) => tracked::allocate_little_host;
        3020 cuMemAllocHost_v2(host: *mut *mut c_void, bytes: usize) => tracked::allocate_host;
        2020 cuMemHostAlloc(host: *mut *mut c_void, bytes: usize, flags: c_uint) => tracked::allocate_host_with_flags;
        4000 cuMemHostRegister(host: *mut c_void, bytes: usize, flags: c_uint) => tracked::register_host;
        6050 cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint) => tracked::register_host;
        4000 cuMemHostUnregister(host: *mut c_void) => tracked::forget_host;
        2000 cuMemFreeHost(host: *mut c_void) => tracked::forget_host;
    }
    "notes that others may write to the memory" ["interposer/src/memory/sharing/physical.rs: memory_is_shared_whether_it_is_mapped_before_or_after", "tests/tests/e2e/coverage.rs: memory_that_another_process_writes_to"] {
        11020 cuMemPoolExportPointer(data: *mut c_void, address: CUdeviceptr) => sharing::export_pointer;
        10020 cuMemCreate(handle: *mut CUmemGenericAllocationHandle, bytes: usize, properties: *const c_void, flags: c_ulonglong) => physical::create;
        10020 cuMemExportToShareableHandle(shareable: *mut c_void, handle: CUmemGenericAllocationHandle, kind: c_uint, flags: c_ulonglong) => physical::export;
        10020 cuMemImportFromShareableHandle(handle: *mut CUmemGenericAllocationHandle, shareable: *mut c_void, kind: c_uint) => physical::import;
        12010 cuMulticastCreate(handle: *mut CUmemGenericAllocationHandle, properties: *const c_void) => physical::create_multicast;
        12010 cuMulticastBindMem(multicast: CUmemGenericAllocationHandle, multicast_offset: usize, memory: CUmemGenericAllocationHandle, memory_offset: usize, bytes: usize, flags: c_ulonglong) => physical::bind;
        13010 cuMulticastBindMem_v2(multicast: CUmemGenericAllocationHandle, device: CUdevice, multicast_offset: usize, memory: CUmemGenericAllocationHandle, memory_offset: usize, bytes: usize, flags: c_ulonglong) => physical::bind_on;
        12010 cuMulticastBindAddr(multicast: CUmemGenericAllocationHandle, multicast_offset: usize, address: CUdeviceptr, bytes: usize, flags: c_ulonglong) => physical::bind_address;
        13010 cuMulticastBindAddr_v2(multicast: CUmemGenericAllocationHandle, device: CUdevice, multicast_offset: usize, address: CUdeviceptr, bytes: usize, flags: c_ulonglong) => physical::bind_address_on;
    }
    "tracked, to know what is mapped at two addresses; memory that the recorder serves has no handle, as that of cuMemAlloc has none" ["tests/tests/e2e/coverage.rs: memory_that_is_mapped_at_two_addresses_is_refused"] {
        11000 cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, address: *mut c_void) => physical::retain;
    }
    "tracked, so that the memory is recorded at its own address, and what is mapped at two is refused" ["tests/tests/e2e/coverage.rs: vmm", "tests/tests/e2e/coverage.rs: memory_that_is_mapped_at_two_addresses_is_refused"] {
        10020 cuMemMap(address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong) => tracked::map;
        10020 cuMemUnmap(address: CUdeviceptr, bytes: usize) => tracked::unmap;
    }
    "tracked, so that the memory is recorded at its own address while it is mapped" ["interposer/tests/recording.rs: memory_of_other_interfaces_is_recorded_while_it_is_mapped"] {
        10000 cuExternalMemoryGetMappedBuffer(address: *mut CUdeviceptr, memory: *mut c_void, description: *const c_void) => external::map_buffer;
        3020 cuGraphicsResourceGetMappedPointer_v2(address: *mut CUdeviceptr, bytes: *mut usize, resource: *mut c_void) => external::mapped_pointer;
        3000 cuGraphicsUnmapResources(count: c_uint, resources: *mut *mut c_void, stream: CUstream) => external::unmap_resources;
        7000 cuGraphicsUnmapResources_ptsz(count: c_uint, resources: *mut *mut c_void, stream: CUstream) => external::unmap_resources;
        3000 cuGraphicsUnregisterResource(resource: *mut c_void) => external::unregister_resource;
    }
    "tracked, to wait for every context of a device and to forget what dies with one" ["tests/tests/e2e/coverage.rs: contexts"] {
        2000 cuCtxCreate(context: *mut CUcontext, flags: c_uint, device: CUdevice) => contexts::create;
        3020 cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) => contexts::create;
        11040 cuCtxCreate_v3(context: *mut CUcontext, affinity: *mut c_void, count: c_int, flags: c_uint, device: CUdevice) => contexts::create_with_affinity;
        12050 cuCtxCreate_v4(context: *mut CUcontext, parameters: *mut c_void, flags: c_uint, device: CUdevice) => contexts::create_with_parameters;
        7000 cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) => contexts::retain_primary;
        2000 cuCtxDestroy(context: CUcontext) => ends::destroy;
        2000 cuCtxDetach(context: CUcontext) => ends::detach;
        4000 cuCtxDestroy_v2(context: CUcontext) => ends::destroy;
        7000 cuDevicePrimaryCtxReset(device: CUdevice) => ends::reset_primary;
        7000 cuDevicePrimaryCtxRelease(device: CUdevice) => ends::release_primary;
        11000 cuDevicePrimaryCtxReset_v2(device: CUdevice) => ends::reset_primary;
        11000 cuDevicePrimaryCtxRelease_v2(device: CUdevice) => ends::release_primary;
    }
    "tracked, to wait for every context of a device and to forget what dies with one" ["interposer/src/lifetimes/green.rs: contexts_of_green_ones_are_known_as_long_as_those_live"] {
        12040 cuGreenCtxCreate(green: *mut *mut c_void, description: *mut c_void, device: CUdevice, flags: c_uint) => green::create;
        12040 cuCtxFromGreenCtx(context: *mut CUcontext, green: *mut c_void) => green::make_context;
        12040 cuGreenCtxDestroy(green: *mut c_void) => green::destroy;
    }
    "tracked, to know a kernel's code" ["tests/tests/e2e/coverage.rs: contexts", "tests/tests/e2e/programs.rs: rdc"] {
        2000 cuModuleLoad(module: *mut CUmodule, file: *const c_char) => loading::load_module_file;
        2000 cuModuleLoadData(module: *mut CUmodule, image: *const c_void) => loading::load_module;
        2010 cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_void, values: *mut *mut c_void) => loading::load_module_with_options;
        2000 cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) => loading::load_module;
        2000 cuModuleUnload(module: CUmodule) => loading::unload_module;
        2000 cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) => loading::module_function;
        12000 cuLibraryLoadData(library: *mut CUlibrary, image: *const c_void, jit_options: *mut c_void, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint) => loading::load_library;
        12000 cuLibraryLoadFromFile(library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_void, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint) => loading::load_library_file;
        12000 cuLibraryUnload(library: CUlibrary) => loading::unload_library;
        12000 cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) => loading::library_kernel;
        12000 cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) => loading::library_module;
        12000 cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) => loading::kernel_function;
    }
    "counted, and recorded where it is selected" ["tests/tests/e2e/coverage.rs: launch_forms"] {
        4000 cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => [forms::kernel];
        7000 cuLaunchKernel_ptsz(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => [forms::kernel_per_thread];
        11060 cuLaunchKernelEx(configuration: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => [forms::kernel_ex];
        11060 cuLaunchKernelEx_ptsz(configuration: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => [forms::kernel_ex_per_thread];
        9000 cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) => [forms::cooperative];
        9000 cuLaunchCooperativeKernel_ptsz(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void) => [forms::cooperative_per_thread];
    }
    "the launches of the time before CUDA 4.0: what they set is kept, and the launch recorded like any other" ["tests/tests/e2e/coverage.rs: launch_forms"] {
        2000 cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) => legacy::set_block;
        2000 cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) => legacy::set_shared;
        2000 cuParamSetSize(function: CUfunction, bytes: c_uint) => legacy::set_size;
        2000 cuParamSeti(function: CUfunction, offset: c_int, value: c_uint) => legacy::set_integer;
        2000 cuParamSetf(function: CUfunction, offset: c_int, value: f32) => legacy::set_float;
        2000 cuParamSetv(function: CUfunction, offset: c_int, bytes: *mut c_void, count: c_uint) => legacy::set_bytes;
        2000 cuLaunch(function: CUfunction) => legacy::launch;
        2000 cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) => legacy::launch_grid;
        2000 cuLaunchGridAsync(function: CUfunction, width: c_int, height: c_int, stream: CUstream) => legacy::launch_grid_async;
    }
    "counted; refused by name, because no replay on one device can repeat it" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        9000 cuLaunchCooperativeKernelMultiDevice(list: *mut c_void, count: c_uint, flags: c_uint) => legacy::launch_on_devices;
    }
    "gives out the hooks of this table" ["interposer/tests/recording.rs: every_door_is_watched_and_the_recording_is_complete"] {
        11030 cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64) => proc_address::get;
        12000 cuGetProcAddress_v2(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint) => proc_address::get_with_status;
    }
    } };
}
pub(crate) use every_hook;

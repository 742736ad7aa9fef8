//! The functions of HIP's library libamdhip64, each declared once.
//!
//! Entries have the same form as in [`cuda::driver`](crate::cuda::driver), and also generate a macro with the
//! function's name. `since` is the version of the symbol in libamdhip64 (402 is `hip_4.2`, the oldest); the second
//! number is that of the form for the per-thread default stream (`_spt`). Names and types match `hip_runtime_api.h` and
//! `hip_ext.h` of HIP 5.2, 6.4 and 7.2. A function with the same meaning as a driver function has the same arguments,
//! see [`equivalent`](super::equivalent). Opaque structures and graphs are `c_void`. Before version 5, the functions of
//! `hip_ext.h` have C++ names.
//!
//! Textures, surfaces, mipmapped arrays, OpenGL and hiprtc are omitted, because Mneme does not call, hook or implement
//! them.

use super::types::*;
use crate::declare::declare;

declare! { ($)
    // Versions, errors, devices
    402 hipInit(flags: c_uint);
    402 hipDriverGetVersion(version: *mut c_int);
    402 hipRuntimeGetVersion(runtime_version: *mut c_int);
    402 hipDeviceGet(device: *mut CUdevice, ordinal: c_int);
    402 hipDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CUdevice);
    402 hipDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
    501 hipDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
    402 hipDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, src_device: c_int, dst_device: c_int);
    402 hipDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: CUdevice);
    402 hipDeviceGetByPCIBusId(device: *mut CUdevice, id: *const c_char);
    402 hipDeviceTotalMem(bytes: *mut usize, device: CUdevice);
    402 hipDeviceSynchronize();
    402 hipDeviceReset();
    402 hipSetDevice(device: c_int);
    402 hipGetDevice(device: *mut c_int);
    402 hipGetDeviceCount(count: *mut c_int);
    402 hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int);
    501 hipDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);
    501 hipDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool);
    501 hipDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice);
    402 hipGetDeviceProperties(properties: *mut c_void, device: c_int);
    402 hipDeviceSetCacheConfig(cache_config: c_uint);
    402 hipDeviceGetCacheConfig(cache_config: *mut c_uint);
    402 hipDeviceGetLimit(value: *mut usize, limit: c_uint);
    402 hipDeviceGetSharedMemConfig(config: *mut c_uint);
    402 hipGetDeviceFlags(flags: *mut c_uint);
    402 hipDeviceSetSharedMemConfig(config: c_uint);
    402 hipSetDeviceFlags(flags: c_uint);
    402 hipChooseDevice(device: *mut c_int, properties: *const c_void);
    402 hipExtGetLinkTypeAndHopCount(device1: c_int, device2: c_int, linktype: *mut u32, hopcount: *mut u32);
    402 hipGetLastError();
    402 hipPeekAtLastError();
    402 hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    402 hipDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
    402 hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint);
    402 hipDeviceDisablePeerAccess(peer: c_int);
    402 hipDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    402 hipDevicePrimaryCtxRelease(device: CUdevice);
    402 hipDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    402 hipDevicePrimaryCtxReset(device: CUdevice);
    402 hipDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint);
    402 hipProfilerStart();
    402 hipProfilerStop();
    602 hipSetValidDevices(device_arr: *mut c_int, len: c_int);
    600 hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int);
    503 hipDeviceSetLimit(limit: c_uint, value: usize);
    600 hipChooseDeviceR0600(device: *mut c_int, properties: *const c_void);
    600 hipExtGetLastError();
    402 hipGetErrorName(status: Status) -> *const c_char;
    402 hipGetErrorString(status: Status) -> *const c_char;
    402 hipCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, kind: c_uint) -> ChannelFormat;
    503 hipDrvGetErrorName(status: Status, name: *mut *const c_char);
    503 hipDrvGetErrorString(status: Status, text: *mut *const c_char);
    601 hipGetProcAddress(
        symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint
    );
    405 hipDeviceGetGraphMemAttribute(device: c_int, attribute: c_uint, value: *mut c_void);
    405 hipDeviceSetGraphMemAttribute(device: c_int, attribute: c_uint, value: *mut c_void);
    405 hipDeviceGraphMemTrim(device: c_int);
    402 hipGetDevicePropertiesR0000(properties: *mut c_void, device: c_int);
    402 hipChooseDeviceR0000(device: *mut c_int, properties: *const c_void);

    // Contexts
    402 hipCtxCreate(context: *mut CUcontext, flags: c_uint, device: CUdevice);
    402 hipCtxDestroy(context: CUcontext);
    402 hipCtxPopCurrent(context: *mut CUcontext);
    402 hipCtxPushCurrent(context: CUcontext);
    402 hipCtxSetCurrent(context: CUcontext);
    402 hipCtxGetCurrent(context: *mut CUcontext);
    402 hipCtxGetDevice(device: *mut CUdevice);
    402 hipCtxGetApiVersion(ctx: CUcontext, api_version: *mut c_int);
    402 hipCtxGetCacheConfig(cache_config: *mut c_uint);
    402 hipCtxSetCacheConfig(cache_config: c_uint);
    402 hipCtxSetSharedMemConfig(config: c_uint);
    402 hipCtxGetSharedMemConfig(config: *mut c_uint);
    402 hipCtxSynchronize();
    402 hipCtxGetFlags(flags: *mut c_uint);
    402 hipCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
    402 hipCtxDisablePeerAccess(peer: CUcontext);

    // Registration and launches by the address of a host function
    402 hipModuleLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    402 hipLaunchCooperativeKernel(
        function: *const c_void, grid: Dimensions, block: Dimensions, parameters: *mut *mut c_void,
        shared: c_uint, stream: CUstream
    ), 502 hipLaunchCooperativeKernel_spt;
    402 hipLaunchCooperativeKernelMultiDevice(launch_params_list: *mut c_void, num_devices: c_uint, flags: c_uint);
    402 hipExtLaunchMultiKernelMultiDevice(launch_params_list: *mut c_void, num_devices: c_uint, flags: c_uint);
    402 hipLaunchByPtr(func: *const c_void);
    402 __hipPushCallConfiguration(grid: Dimensions, block: Dimensions, shared_mem: usize, stream: CUstream);
    402 __hipPopCallConfiguration(
        grid: *mut Dimensions, block: *mut Dimensions, shared_mem: *mut usize, stream: *mut CUstream
    );
    402 hipLaunchKernel(
        function_address: *const c_void, num_blocks: Dimensions, dim_blocks: Dimensions, args: *mut *mut c_void,
        shared: usize, stream: CUstream
    ), 502 hipLaunchKernel_spt;
    402 hipExtLaunchKernel(
        function_address: *const c_void, num_blocks: Dimensions, dim_blocks: Dimensions, args: *mut *mut c_void,
        shared: usize, stream: CUstream, start_event: CUevent, stop_event: CUevent, flags: c_int
    );
    503 hipLaunchHostFunc(stream: CUstream, function: *mut c_void, data: *mut c_void), 503 hipLaunchHostFunc_spt;
    403 hipGraphLaunch(executable: *mut c_void, stream: CUstream), 503 hipGraphLaunch_spt;
    402 hipExtModuleLaunchKernel(
        function: CUfunction, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
        local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32, shared: usize,
        h_stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void, start_event: CUevent,
        stop_event: CUevent, flags: u32
    );
    402 hipHccModuleLaunchKernel(
        function: CUfunction, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
        local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32, shared: usize,
        h_stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void, start_event: CUevent,
        stop_event: CUevent
    );
    402 _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
        function: CUfunction, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
        local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32, shared: usize,
        h_stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void, start_event: CUevent,
        stop_event: CUevent, flags: u32
    );
    402 _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(
        function: CUfunction, global_work_size_x: u32, global_work_size_y: u32, global_work_size_z: u32,
        local_work_size_x: u32, local_work_size_y: u32, local_work_size_z: u32, shared: usize,
        h_stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void, start_event: CUevent,
        stop_event: CUevent
    );
    505 hipModuleLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: CUstream, parameters: *mut *mut c_void
    );
    505 hipModuleLaunchCooperativeKernelMultiDevice(
        launch_params_list: *mut c_void, num_devices: c_uint, flags: c_uint
    );

    // Code
    402 hipFuncSetAttribute(func: *const c_void, attribute: c_uint, value: c_int);
    402 hipFuncSetCacheConfig(func: *const c_void, config: c_uint);
    402 hipFuncSetSharedMemConfig(func: *const c_void, config: c_uint);
    402 hipModuleGetGlobal(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char);
    402 hipGetSymbolAddress(address: *mut *mut c_void, symbol: *const c_void);
    402 hipGetSymbolSize(size: *mut usize, symbol: *const c_void);
    402 hipModuleLoad(module: *mut CUmodule, file: *const c_char);
    402 hipModuleUnload(module: CUmodule);
    402 hipModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    402 hipFuncGetAttributes(attribute: *mut c_void, func: *const c_void);
    402 hipFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
    402 hipModuleLoadData(module: *mut CUmodule, image: *const c_void);
    402 hipModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_void, values: *mut *mut c_void
    );
    402 hipModuleOccupancyMaxPotentialBlockSize(
        grid_size: *mut c_int, block_size: *mut c_int, function: CUfunction, dyn_shared_mem_per_blk: usize,
        block_size_limit: c_int
    );
    402 hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
        grid_size: *mut c_int, block_size: *mut c_int, function: CUfunction, dyn_shared_mem_per_blk: usize,
        block_size_limit: c_int, flags: c_uint
    );
    402 hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize
    );
    402 hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize, flags: c_uint
    );
    402 hipOccupancyMaxActiveBlocksPerMultiprocessor(
        num_blocks: *mut c_int, function: *const c_void, block_size: c_int, dyn_shared_mem_per_blk: usize
    );
    402 hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        num_blocks: *mut c_int, function: *const c_void, block_size: c_int, dyn_shared_mem_per_blk: usize, flags: c_uint
    );
    402 hipOccupancyMaxPotentialBlockSize(
        grid_size: *mut c_int, block_size: *mut c_int, function: *const c_void, dyn_shared_mem_per_blk: usize,
        block_size_limit: c_int
    );
    602 hipGetFuncBySymbol(function_ptr: *mut CUfunction, symbol_ptr: *const c_void);
    604 hipLinkAddData(
        state: *mut c_void, kind: c_uint, data: *mut c_void, size: usize, name: *const c_char, num_options: c_uint,
        options: *mut c_uint, option_values: *mut *mut c_void
    );
    604 hipLinkAddFile(
        state: *mut c_void, kind: c_uint, path: *const c_char, num_options: c_uint, options: *mut c_uint,
        option_values: *mut *mut c_void
    );
    604 hipLinkComplete(state: *mut c_void, hip_bin_out: *mut *mut c_void, size_out: *mut usize);
    604 hipLinkCreate(
        num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void, state_out: *mut *mut c_void
    );
    604 hipLinkDestroy(state: *mut c_void);

    // Graphs
    403 hipGraphCreate(graph: *mut *mut c_void, flags: c_uint);
    403 hipGraphDestroy(graph: *mut c_void);
    404 hipGraphAddDependencies(
        graph: *mut c_void, from: *const *mut c_void, to: *const *mut c_void, num_dependencies: usize
    );
    405 hipGraphRemoveDependencies(
        graph: *mut c_void, from: *const *mut c_void, to: *const *mut c_void, num_dependencies: usize
    );
    405 hipGraphGetEdges(graph: *mut c_void, from: *mut *mut c_void, to: *mut *mut c_void, count: *mut usize);
    404 hipGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize);
    404 hipGraphGetRootNodes(graph: *mut c_void, p_root_nodes: *mut *mut c_void, p_num_root_nodes: *mut usize);
    405 hipGraphNodeGetDependencies(
        node: *mut c_void, p_dependencies: *mut *mut c_void, p_num_dependencies: *mut usize
    );
    405 hipGraphNodeGetDependentNodes(
        node: *mut c_void, p_dependent_nodes: *mut *mut c_void, p_num_dependent_nodes: *mut usize
    );
    405 hipGraphNodeGetType(node: *mut c_void, kind: *mut c_uint);
    405 hipGraphDestroyNode(node: *mut c_void);
    405 hipGraphClone(clone: *mut *mut c_void, graph: *mut c_void);
    405 hipGraphNodeFindInClone(twin: *mut *mut c_void, node: *mut c_void, clone: *mut c_void);
    403 hipGraphInstantiate(
        executable: *mut *mut c_void, graph: *mut c_void, node: *mut *mut c_void, log: *mut c_char, size: usize
    );
    405 hipGraphInstantiateWithFlags(executable: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong);
    403 hipGraphExecDestroy(executable: *mut c_void);
    405 hipGraphExecUpdate(executable: *mut c_void, graph: *mut c_void, node: *mut *mut c_void, result: *mut c_uint);
    403 hipGraphAddKernelNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        p_node_params: *const c_void
    );
    404 hipGraphKernelNodeGetParams(node: *mut c_void, p_node_params: *mut c_void);
    404 hipGraphKernelNodeSetParams(node: *mut c_void, p_node_params: *const c_void);
    404 hipGraphExecKernelNodeSetParams(h_graph_exec: *mut c_void, node: *mut c_void, p_node_params: *const c_void);
    403 hipGraphAddMemcpyNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        p_copy_params: *const c_void
    );
    404 hipGraphMemcpyNodeGetParams(node: *mut c_void, p_node_params: *mut c_void);
    404 hipGraphMemcpyNodeSetParams(node: *mut c_void, p_node_params: *const c_void);
    500 hipGraphKernelNodeSetAttribute(h_node: *mut c_void, attribute: c_uint, value: *const c_void);
    500 hipGraphKernelNodeGetAttribute(h_node: *mut c_void, attribute: c_uint, value: *mut c_void);
    405 hipGraphExecMemcpyNodeSetParams(h_graph_exec: *mut c_void, node: *mut c_void, p_node_params: *mut c_void);
    403 hipGraphAddMemcpyNode1D(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        dst: *mut c_void, src: *const c_void, count: usize, kind: c_uint
    );
    405 hipGraphMemcpyNodeSetParams1D(
        node: *mut c_void, dst: *mut c_void, src: *const c_void, count: usize, kind: c_uint
    );
    405 hipGraphExecMemcpyNodeSetParams1D(
        h_graph_exec: *mut c_void, node: *mut c_void, dst: *mut c_void, src: *const c_void, count: usize, kind: c_uint
    );
    405 hipGraphAddMemcpyNodeFromSymbol(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_uint
    );
    405 hipGraphMemcpyNodeSetParamsFromSymbol(
        node: *mut c_void, dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_uint
    );
    405 hipGraphExecMemcpyNodeSetParamsFromSymbol(
        h_graph_exec: *mut c_void, node: *mut c_void, dst: *mut c_void, symbol: *const c_void, count: usize,
        offset: usize, kind: c_uint
    );
    405 hipGraphAddMemcpyNodeToSymbol(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_uint
    );
    405 hipGraphMemcpyNodeSetParamsToSymbol(
        node: *mut c_void, symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_uint
    );
    405 hipGraphExecMemcpyNodeSetParamsToSymbol(
        h_graph_exec: *mut c_void, node: *mut c_void, symbol: *const c_void, src: *const c_void, count: usize,
        offset: usize, kind: c_uint
    );
    403 hipGraphAddMemsetNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        p_memset_params: *const c_void
    );
    404 hipGraphMemsetNodeGetParams(node: *mut c_void, p_node_params: *mut c_void);
    404 hipGraphMemsetNodeSetParams(node: *mut c_void, p_node_params: *const c_void);
    405 hipGraphExecMemsetNodeSetParams(h_graph_exec: *mut c_void, node: *mut c_void, p_node_params: *const c_void);
    405 hipGraphAddHostNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        p_node_params: *const c_void
    );
    405 hipGraphHostNodeGetParams(node: *mut c_void, p_node_params: *mut c_void);
    405 hipGraphHostNodeSetParams(node: *mut c_void, p_node_params: *const c_void);
    405 hipGraphExecHostNodeSetParams(h_graph_exec: *mut c_void, node: *mut c_void, p_node_params: *const c_void);
    405 hipGraphAddChildGraphNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        child_graph: *mut c_void
    );
    405 hipGraphChildGraphNodeGetGraph(node: *mut c_void, graph: *mut *mut c_void);
    405 hipGraphExecChildGraphNodeSetParams(h_graph_exec: *mut c_void, node: *mut c_void, child_graph: *mut c_void);
    404 hipGraphAddEmptyNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize);
    405 hipGraphAddEventRecordNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        event: CUevent
    );
    405 hipGraphEventRecordNodeGetEvent(node: *mut c_void, event_out: *mut CUevent);
    405 hipGraphEventRecordNodeSetEvent(node: *mut c_void, event: CUevent);
    405 hipGraphExecEventRecordNodeSetEvent(h_graph_exec: *mut c_void, h_node: *mut c_void, event: CUevent);
    405 hipGraphAddEventWaitNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        event: CUevent
    );
    405 hipGraphEventWaitNodeGetEvent(node: *mut c_void, event_out: *mut CUevent);
    405 hipGraphEventWaitNodeSetEvent(node: *mut c_void, event: CUevent);
    405 hipGraphExecEventWaitNodeSetEvent(h_graph_exec: *mut c_void, h_node: *mut c_void, event: CUevent);
    604 hipGraphAddBatchMemOpNode(
        ph_graph_node: *mut *mut c_void, h_graph: *mut c_void, dependencies: *const *mut c_void,
        num_dependencies: usize, node_params: *const c_void
    );
    604 hipGraphBatchMemOpNodeGetParams(h_node: *mut c_void, node_params_out: *mut c_void);
    604 hipGraphBatchMemOpNodeSetParams(h_node: *mut c_void, node_params: *mut c_void);
    604 hipGraphExecBatchMemOpNodeSetParams(h_graph_exec: *mut c_void, h_node: *mut c_void, node_params: *const c_void);
    601 hipStreamBeginCaptureToGraph(
        stream: CUstream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize,
        mode: c_uint
    );
    601 hipGraphInstantiateWithParams(executable: *mut *mut c_void, graph: *mut c_void, parameters: *mut c_void);
    503 hipGraphUpload(executable: *mut c_void, stream: CUstream);
    505 hipGraphAddNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        node_params: *mut c_void
    );
    602 hipGraphExecGetFlags(graph_exec: *mut c_void, flags: *mut c_ulonglong);
    602 hipGraphNodeSetParams(node: *mut c_void, node_params: *mut c_void);
    602 hipGraphExecNodeSetParams(graph_exec: *mut c_void, node: *mut c_void, node_params: *mut c_void);
    506 hipDrvGraphAddMemcpyNode(
        ph_graph_node: *mut *mut c_void, h_graph: *mut c_void, dependencies: *const *mut c_void,
        num_dependencies: usize, copy_params: *const c_void, ctx: CUcontext
    );
    505 hipGraphAddMemAllocNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        p_node_params: *mut c_void
    );
    505 hipGraphMemAllocNodeGetParams(node: *mut c_void, p_node_params: *mut c_void);
    505 hipGraphAddMemFreeNode(
        p_graph_node: *mut *mut c_void, graph: *mut c_void, p_dependencies: *const *mut c_void, num_dependencies: usize,
        address: *mut c_void
    );
    505 hipGraphMemFreeNodeGetParams(node: *mut c_void, address: *mut c_void);
    503 hipGraphDebugDotPrint(graph: *mut c_void, path: *const c_char, flags: c_uint);
    503 hipGraphKernelNodeCopyAttributes(h_src: *mut c_void, h_dst: *mut c_void);
    503 hipGraphNodeSetEnabled(executable: *mut c_void, node: *mut c_void, enabled: c_uint);
    503 hipGraphNodeGetEnabled(h_graph_exec: *mut c_void, h_node: *mut c_void, is_enabled: *mut c_uint);
    600 hipDrvGraphMemcpyNodeGetParams(h_node: *mut c_void, node_params: *mut c_void);
    600 hipDrvGraphMemcpyNodeSetParams(h_node: *mut c_void, node_params: *const c_void);
    506 hipDrvGraphAddMemsetNode(
        ph_graph_node: *mut *mut c_void, h_graph: *mut c_void, dependencies: *const *mut c_void,
        num_dependencies: usize, memset_params: *const c_void, ctx: CUcontext
    );
    602 hipDrvGraphAddMemFreeNode(
        ph_graph_node: *mut *mut c_void, h_graph: *mut c_void, dependencies: *const *mut c_void,
        num_dependencies: usize, dptr: CUdeviceptr
    );
    602 hipDrvGraphExecMemcpyNodeSetParams(
        h_graph_exec: *mut c_void, h_node: *mut c_void, copy_params: *const c_void, ctx: CUcontext
    );
    602 hipDrvGraphExecMemsetNodeSetParams(
        h_graph_exec: *mut c_void, h_node: *mut c_void, memset_params: *const c_void, ctx: CUcontext
    );

    // Copies, sets, prefetches
    402 hipMemPrefetchAsync(address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream);
    402 hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint), 502 hipMemcpy_spt;
    402 hipMemcpyWithStream(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint, stream: CUstream);
    402 hipMemcpyHtoD(dst: CUdeviceptr, src: *const c_void, bytes: usize);
    402 hipMemcpyDtoH(dst: *mut c_void, src: CUdeviceptr, bytes: usize);
    402 hipMemcpyDtoD(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
    402 hipMemcpyHtoDAsync(dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream);
    402 hipMemcpyDtoHAsync(dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream);
    402 hipMemcpyDtoDAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);
    402 hipMemcpyToSymbol(
        symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_uint
    ), 502 hipMemcpyToSymbol_spt;
    402 hipMemcpyToSymbolAsync(
        symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: CUstream
    ), 503 hipMemcpyToSymbolAsync_spt;
    402 hipMemcpyFromSymbol(
        dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_uint
    ), 502 hipMemcpyFromSymbol_spt;
    402 hipMemcpyFromSymbolAsync(
        dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: CUstream
    ), 503 hipMemcpyFromSymbolAsync_spt;
    402 hipMemcpyAsync(
        dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint, stream: CUstream
    ), 502 hipMemcpyAsync_spt;
    402 hipMemset(dst: *mut c_void, value: c_int, bytes: usize), 502 hipMemset_spt;
    402 hipMemsetD8(dst: CUdeviceptr, value: c_uchar, count: usize);
    402 hipMemsetD8Async(dst: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream);
    402 hipMemsetD16(dst: CUdeviceptr, value: c_ushort, count: usize);
    402 hipMemsetD16Async(dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream);
    402 hipMemsetD32(dst: CUdeviceptr, value: c_uint, count: usize);
    402 hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: CUstream), 503 hipMemsetAsync_spt;
    402 hipMemsetD32Async(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
    402 hipMemset2D(dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize), 502 hipMemset2D_spt;
    402 hipMemset2DAsync(
        dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: CUstream
    ), 503 hipMemset2DAsync_spt;
    402 hipMemset3D(pitched_dev_ptr: PitchedPointer, value: c_int, extent: Extent), 502 hipMemset3D_spt;
    402 hipMemset3DAsync(
        pitched_dev_ptr: PitchedPointer, value: c_int, extent: Extent, stream: CUstream
    ), 503 hipMemset3DAsync_spt;
    402 hipMemcpy2D(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: c_uint
    ), 502 hipMemcpy2D_spt;
    402 hipMemcpyParam2D(p_copy: *const c_void);
    402 hipMemcpyParam2DAsync(p_copy: *const c_void, stream: CUstream);
    402 hipMemcpy2DAsync(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: c_uint,
        stream: CUstream
    ), 503 hipMemcpy2DAsync_spt;
    402 hipMemcpy2DToArray(
        dst: CUarray, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: c_uint
    ), 502 hipMemcpy2DToArray_spt;
    403 hipMemcpy2DToArrayAsync(
        dst: CUarray, w_offset: usize, h_offset: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: c_uint, stream: CUstream
    ), 503 hipMemcpy2DToArrayAsync_spt;
    402 hipMemcpyToArray(
        dst: CUarray, w_offset: usize, h_offset: usize, src: *const c_void, count: usize, kind: c_uint
    );
    402 hipMemcpyFromArray(
        dst: *mut c_void, src_array: *mut c_void, w_offset: usize, h_offset: usize, count: usize, kind: c_uint
    ), 503 hipMemcpyFromArray_spt;
    402 hipMemcpy2DFromArray(
        dst: *mut c_void, dpitch: usize, src: *mut c_void, w_offset: usize, h_offset: usize, width: usize,
        height: usize, kind: c_uint
    ), 502 hipMemcpy2DFromArray_spt;
    402 hipMemcpy2DFromArrayAsync(
        dst: *mut c_void, dpitch: usize, src: *mut c_void, w_offset: usize, h_offset: usize, width: usize,
        height: usize, kind: c_uint, stream: CUstream
    ), 503 hipMemcpy2DFromArrayAsync_spt;
    402 hipMemcpyAtoH(dst: *mut c_void, src_array: CUarray, src_offset: usize, count: usize);
    402 hipMemcpyHtoA(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, count: usize);
    402 hipMemcpy3D(p: *const c_void), 502 hipMemcpy3D_spt;
    402 hipMemcpy3DAsync(p: *const c_void, stream: CUstream), 503 hipMemcpy3DAsync_spt;
    402 hipDrvMemcpy3D(p_copy: *const c_void);
    402 hipDrvMemcpy3DAsync(p_copy: *const c_void, stream: CUstream);
    701 hipMemPrefetchAsync_v2(
        address: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream
    );
    402 hipMemcpyPeer(dst: *mut c_void, dst_device_id: c_int, src: *const c_void, src_device_id: c_int, bytes: usize);
    402 hipMemcpyPeerAsync(
        dst: *mut c_void, dst_device_id: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: CUstream
    );
    403 hipDrvMemcpy2DUnaligned(p_copy: *const c_void);
    602 hipMemcpyAtoD(dst_device: CUdeviceptr, src_array: CUarray, src_offset: usize, byte_count: usize);
    602 hipMemcpyDtoA(dst_array: CUarray, dst_offset: usize, src_device: CUdeviceptr, byte_count: usize);
    602 hipMemcpyAtoA(dst_array: CUarray, dst_offset: usize, src_array: CUarray, src_offset: usize, byte_count: usize);
    602 hipMemcpyAtoHAsync(
        dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize, stream: CUstream
    );
    602 hipMemcpyHtoAAsync(
        dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize, stream: CUstream
    );
    602 hipMemcpy2DArrayToArray(
        dst: CUarray, w_offset_dst: usize, h_offset_dst: usize, src: *mut c_void, w_offset_src: usize,
        h_offset_src: usize, width: usize, height: usize, kind: c_uint
    );

    // Streams and events
    402 hipIpcGetEventHandle(handle: *mut c_void, event: CUevent);
    402 hipStreamCreate(stream: *mut CUstream);
    402 hipStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint);
    402 hipStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    402 hipStreamDestroy(stream: CUstream);
    402 hipStreamQuery(stream: CUstream), 502 hipStreamQuery_spt;
    402 hipStreamSynchronize(stream: CUstream), 502 hipStreamSynchronize_spt;
    402 hipStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint), 502 hipStreamWaitEvent_spt;
    402 hipStreamGetFlags(stream: CUstream, flags: *mut c_uint), 502 hipStreamGetFlags_spt;
    402 hipStreamGetPriority(stream: CUstream, priority: *mut c_int), 502 hipStreamGetPriority_spt;
    402 hipExtStreamCreateWithCUMask(stream: *mut CUstream, cu_mask_size: u32, cu_mask: *const u32);
    402 hipExtStreamGetCUMask(stream: CUstream, cu_mask_size: u32, cu_mask: *mut u32);
    402 hipStreamAddCallback(
        stream: CUstream, callback: *mut c_void, data: *mut c_void, flags: c_uint
    ), 503 hipStreamAddCallback_spt;
    404 hipStreamWaitValue32(stream: CUstream, address: *mut c_void, value: u32, flags: c_uint, mask: u32);
    404 hipStreamWaitValue64(stream: CUstream, address: *mut c_void, value: u64, flags: c_uint, mask: u64);
    404 hipStreamWriteValue32(stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint);
    404 hipStreamWriteValue64(stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint);
    402 hipEventCreateWithFlags(event: *mut CUevent, flags: c_uint);
    402 hipEventCreate(event: *mut CUevent);
    402 hipEventRecord(event: CUevent, stream: CUstream), 502 hipEventRecord_spt;
    402 hipEventDestroy(event: CUevent);
    402 hipEventSynchronize(event: CUevent);
    402 hipEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    402 hipEventQuery(event: CUevent);
    402 hipStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, bytes: usize, flags: c_uint);
    403 hipStreamBeginCapture(stream: CUstream, mode: c_uint), 503 hipStreamBeginCapture_spt;
    403 hipStreamEndCapture(stream: CUstream, graph: *mut *mut c_void), 503 hipStreamEndCapture_spt;
    405 hipStreamGetCaptureInfo(
        stream: CUstream, p_capture_status: *mut c_uint, p_id: *mut c_ulonglong
    ), 503 hipStreamGetCaptureInfo_spt;
    405 hipStreamGetCaptureInfo_v2(
        stream: CUstream, capture_status_out: *mut c_uint, id_out: *mut c_ulonglong, graph_out: *mut *mut c_void,
        dependencies_out: *mut *const *mut c_void, num_dependencies_out: *mut usize
    ), 503 hipStreamGetCaptureInfo_v2_spt;
    403 hipStreamIsCapturing(stream: CUstream, status: *mut c_uint), 503 hipStreamIsCapturing_spt;
    405 hipStreamUpdateCaptureDependencies(
        stream: CUstream, dependencies: *mut *mut c_void, num_dependencies: usize, flags: c_uint
    );
    500 hipThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    402 hipStreamGetDevice(stream: CUstream, device: *mut CUdevice);
    604 hipStreamBatchMemOp(stream: CUstream, count: c_uint, operations: *mut c_void, flags: c_uint);
    604 hipEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);

    // Memory
    402 hipIpcGetMemHandle(handle: *mut c_void, address: CUdeviceptr);
    402 hipIpcOpenMemHandle(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
    402 hipIpcCloseMemHandle(address: CUdeviceptr);
    402 hipPointerGetAttributes(attributes: *mut c_void, address: *const c_void);
    500 hipPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr);
    500 hipDrvPointerGetAttributes(
        count: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, address: CUdeviceptr
    );
    403 hipImportExternalMemory(ext_mem_out: *mut *mut c_void, mem_handle_desc: *const c_void);
    403 hipExternalMemoryGetMappedBuffer(address: *mut CUdeviceptr, memory: *mut c_void, description: *const c_void);
    403 hipDestroyExternalMemory(ext_mem: *mut c_void);
    402 hipMalloc(address: *mut CUdeviceptr, bytes: usize);
    402 hipExtMallocWithFlags(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    402 hipMallocHost(host: *mut *mut c_void, bytes: usize);
    402 hipMemAllocHost(address: *mut *mut c_void, size: usize);
    402 hipHostMalloc(host: *mut *mut c_void, bytes: usize, flags: c_uint);
    402 hipMallocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint);
    402 hipMemAdvise(address: CUdeviceptr, bytes: usize, advice: c_uint, device: CUdevice);
    402 hipMemRangeGetAttribute(
        data: *mut c_void, data_size: usize, attribute: c_uint, address: *const c_void, count: usize
    );
    402 hipMemRangeGetAttributes(
        data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut c_uint, num_attributes: usize,
        address: *const c_void, count: usize
    );
    501 hipMallocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    501 hipFreeAsync(address: CUdeviceptr, stream: CUstream);
    501 hipMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    501 hipMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    501 hipMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    501 hipMemPoolSetAccess(pool: usize, accesses: *const CUmemAccessDesc, count: usize);
    501 hipMemPoolGetAccess(flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation);
    501 hipMemPoolCreate(pool: *mut usize, properties: *const c_uint);
    501 hipMemPoolDestroy(pool: CUmemoryPool);
    501 hipMallocFromPoolAsync(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream);
    501 hipMemPoolExportToShareableHandle(
        shared_handle: *mut c_void, mem_pool: CUmemoryPool, handle_type: c_uint, flags: c_uint
    );
    501 hipMemPoolImportFromShareableHandle(
        mem_pool: *mut usize, shared_handle: *mut c_void, handle_type: c_uint, flags: c_uint
    );
    501 hipMemPoolExportPointer(data: *mut c_void, address: CUdeviceptr);
    501 hipMemPoolImportPointer(address: *mut CUdeviceptr, pool: CUmemoryPool, data: *mut c_void);
    402 hipHostAlloc(address: *mut *mut c_void, size: usize, flags: c_uint);
    402 hipHostGetDevicePointer(address: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
    402 hipHostGetFlags(flags: *mut c_uint, address: *mut c_void);
    402 hipHostRegister(host: *mut c_void, bytes: usize, flags: c_uint);
    402 hipHostUnregister(host: *mut c_void);
    402 hipMallocPitch(address: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize);
    402 hipMemAllocPitch(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    402 hipFree(address: CUdeviceptr);
    402 hipFreeHost(address: *mut c_void);
    402 hipHostFree(host: *mut c_void);
    402 hipMemGetInfo(free: *mut usize, total: *mut usize);
    402 hipMemPtrGetInfo(address: *mut c_void, size: *mut usize);
    402 hipMallocArray(array: *mut CUarray, desc: *const c_void, width: usize, height: usize, flags: c_uint);
    402 hipArrayCreate(p_handle: *mut CUarray, p_allocate_array: *const c_void);
    403 hipArrayDestroy(array: CUarray);
    402 hipArray3DCreate(array: *mut CUarray, p_allocate_array: *const c_void);
    402 hipMalloc3D(pitched_dev_ptr: *mut PitchedPointer, extent: Extent);
    402 hipFreeArray(array: CUarray);
    402 hipMalloc3DArray(array: *mut CUarray, desc: *const c_void, extent: Extent, flags: c_uint);
    402 hipMemGetAddressRange(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr);
    501 hipMemAddressFree(address: CUdeviceptr, size: usize);
    501 hipMemAddressReserve(
        address: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr, flags: c_ulonglong
    );
    501 hipMemCreate(
        handle: *mut CUmemGenericAllocationHandle, bytes: usize, properties: *const CUmemAllocationProp,
        flags: c_ulonglong
    );
    501 hipMemExportToShareableHandle(
        shareable: *mut c_void, handle: CUmemGenericAllocationHandle, kind: c_uint, flags: c_ulonglong
    );
    501 hipMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr);
    501 hipMemGetAllocationGranularity(granularity: *mut usize, properties: *const CUmemAllocationProp, option: c_uint);
    501 hipMemGetAllocationPropertiesFromHandle(
        properties: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle
    );
    501 hipMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle, shareable: *mut c_void, kind: c_uint
    );
    501 hipMemMap(
        address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong
    );
    501 hipMemMapArrayAsync(map_info_list: *mut c_void, count: c_uint, stream: CUstream);
    501 hipMemRelease(handle: CUmemGenericAllocationHandle);
    501 hipMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, address: *mut c_void);
    501 hipMemSetAccess(address: CUdeviceptr, bytes: usize, accesses: *const CUmemAccessDesc, count: usize);
    501 hipMemUnmap(address: CUdeviceptr, bytes: usize);
    403 hipGraphicsMapResources(count: c_int, resources: *mut *mut c_void, stream: CUstream);
    405 hipGraphicsSubResourceGetMappedArray(
        array: *mut CUarray, resource: *mut c_void, array_index: c_uint, mip_level: c_uint
    );
    403 hipGraphicsResourceGetMappedPointer(address: *mut CUdeviceptr, size: *mut usize, resource: *mut c_void);
    403 hipGraphicsUnmapResources(count: c_uint, resources: *mut *mut c_void, stream: CUstream);
    403 hipGraphicsUnregisterResource(resource: *mut c_void);
    402 hipPointerSetAttribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr);
    506 hipArrayGetInfo(desc: *mut c_void, extent: *mut Extent, flags: *mut c_uint, array: CUarray);
    506 hipArrayGetDescriptor(p_array_descriptor: *mut c_void, array: CUarray);
    506 hipArray3DGetDescriptor(p_array_descriptor: *mut c_void, array: CUarray);

    // From ROCm 6.5 to 7.2, as declared in the runtime's own function table
    605 hipLaunchKernelExC(
        configuration: *const LaunchConfiguration, function: *const c_void, parameters: *mut *mut c_void
    );
    605 hipDrvLaunchKernelEx(
        configuration: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    );
    700 hipMemGetHandleForAddressRange(
        handle: *mut c_void, address: CUdeviceptr, bytes: usize, kind: c_uint, flags: c_ulonglong
    );
    700 hipMemsetD2D8(dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize);
    700 hipMemsetD2D8Async(
        dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize, stream: CUstream
    );
    700 hipMemsetD2D16(dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize);
    700 hipMemsetD2D16Async(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize, stream: CUstream
    );
    700 hipMemsetD2D32(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize);
    700 hipMemsetD2D32Async(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream
    );
    700 hipStreamGetAttribute(stream: CUstream, attribute: c_uint, value: *mut c_void);
    700 hipStreamSetAttribute(stream: CUstream, attribute: c_uint, value: *const c_void);
    701 hipMemcpyBatchAsync(
        dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void,
        indices: *mut usize, attribute_count: usize, failed: *mut usize, stream: CUstream
    );
    701 hipMemcpy3DBatchAsync(
        count: usize, operations: *mut c_void, failed: *mut usize, flags: c_ulonglong, stream: CUstream
    );
    701 hipMemcpy3DPeer(copy: *mut c_void);
    701 hipMemcpy3DPeerAsync(copy: *mut c_void, stream: CUstream);
    701 hipGetDriverEntryPoint(
        symbol: *const c_char, function: *mut *mut c_void, flags: c_ulonglong, status: *mut c_uint
    ), 701 hipGetDriverEntryPoint_spt;
    701 hipMemAdvise_v2(address: CUdeviceptr, bytes: usize, advice: c_uint, location: CUmemLocation);
    701 hipModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
    701 hipModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void);
    701 hipStreamGetId(stream: CUstream, id: *mut c_ulonglong);
    702 hipLibraryLoadData(
        library: *mut CUlibrary, image: *const c_void, jit_options: *mut c_void, jit_values: *mut *mut c_void,
        jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint
    );
    702 hipLibraryLoadFromFile(
        library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_void, jit_values: *mut *mut c_void,
        jit_count: c_uint, options: *mut c_void, values: *mut *mut c_void, count: c_uint
    );
    702 hipLibraryUnload(library: CUlibrary);
    702 hipLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
    702 hipLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary);
    702 hipLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary);
    702 hipKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
    702 hipKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel);
    702 hipKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    702 hipOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize, function: *const c_void, blocks: c_int, block_size: c_int
    );
    702 hipStreamCopyAttributes(to: CUstream, from: CUstream);
}

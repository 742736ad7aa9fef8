//! The table of the driver's functions.
//!
//! It has the symbol, the CUDA version from which on its base name means it, arguments, and what does the work. Export, look-up and
//! versions come from this one place.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::{c_char, c_void};

use super::graph_nodes::{self, At};
use super::launch::Configuration;
use super::lookup::Export;
use super::work::End::{Any, Device, Host};
use super::work::{Copy2d, Copy3d, Fill, HostFunction, Shape};
use super::{
    context, copy, device, event, executable, function, graph, launch, legacy, lookup, memory, module, sharing, stream, virtual_memory,
    waiting, work,
};
use crate::abi::{In, Out, Text, enter};
use crate::status::Status;

macro_rules! driver_exports {
    ($($since:literal $symbol:ident($($argument:ident: $type:ty),* $(,)?) => $body:expr;)*) => {
        $(
            /// # Safety
            /// Arguments as the CUDA driver API demands them: pointers are null or valid for their type.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $symbol($($argument: $type),*) -> Status {
                enter(|| $body)
            }
        )*

        /// Every exported function.
        pub static TABLE: &[Export] = &[$(Export { symbol: stringify!($symbol), since: $since, address: $symbol as *const c_void }),*];
    };
}

type Ignored = *const c_void;

driver_exports! {
    2000 cuInit(flags: u32) => context::initialise(flags);
    2020 cuDriverGetVersion(version: Out<i32>) => device::driver_version(version);
    11030 cuGetProcAddress(name: Text, function: Out<*const c_void>, version: i32, flags: u64) => lookup::get(TABLE, name, function, version, flags, Out::nowhere());
    12000 cuGetProcAddress_v2(name: Text, function: Out<*const c_void>, version: i32, flags: u64, result: Out<u32>) => lookup::get(TABLE, name, function, version, flags, result);
    6000 cuGetErrorName(error: Status, name: Out<*const c_char>) => lookup::error_name(error, name);
    6000 cuGetErrorString(error: Status, text: Out<*const c_char>) => lookup::error_text(error, text);
    3000 cuGetExportTable(table: Out<*const c_void>, _id: Ignored) => lookup::no_table(table);
    4000 cuProfilerStart() => device::accept();
    4000 cuProfilerStop() => device::accept();

    2000 cuDeviceGet(device: Out<i32>, ordinal: i32) => device::get(device, ordinal);
    2000 cuDeviceGetCount(count: Out<i32>) => device::count(count);
    2000 cuDeviceGetName(name: Out<c_char>, length: i32, device: i32) => device::name(name, length, device);
    9020 cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) => device::uuid(uuid, device);
    11040 cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) => device::uuid(uuid, device);
    10000 cuDeviceGetLuid(luid: Out<c_char>, mask: Out<u32>, device: i32) => device::luid(luid, mask, device);
    3020 cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) => device::total_memory(bytes, device);
    2000 cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) => device::attribute(value, attribute, device);
    2000 cuDeviceGetProperties(properties: Out<device::Properties>, device: i32) => device::properties(properties, device);
    2000 cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) => device::compute_capability(major, minor, device);
    4010 cuDeviceGetPCIBusId(id: Out<c_char>, length: i32, device: i32) => device::bus_id(id, length, device);
    4010 cuDeviceGetByPCIBusId(device: Out<i32>, id: Text) => device::by_bus_id(device, id);
    4000 cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) => device::can_access_peer(can, device, peer);
    8000 cuDeviceGetP2PAttribute(value: Out<i32>, attribute: u32, from: i32, to: i32) => device::peer_attribute(value, attribute, from, to);
    11040 cuDeviceGetExecAffinitySupport(value: Out<i32>, _kind: u32, _device: i32) => device::put_zero(value);

    7000 cuDevicePrimaryCtxRetain(context: Out<usize>, device: i32) => context::retain_primary(context, device);
    7000 cuDevicePrimaryCtxRelease(device: i32) => context::release_primary(device);
    7000 cuDevicePrimaryCtxReset(device: i32) => context::reset_primary(device);
    11000 cuDevicePrimaryCtxRelease_v2(device: i32) => context::release_primary(device);
    11000 cuDevicePrimaryCtxReset_v2(device: i32) => context::reset_primary(device);
    7000 cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) => context::primary_state(device, flags, active);
    11000 cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) => context::set_primary_flags(device, flags);
    2000 cuCtxCreate(context: Out<usize>, flags: u32, device: i32) => context::create(context, flags, device);
    2000 cuCtxDestroy(context: usize) => context::destroy(context);
    2000 cuCtxDetach(context: usize) => context::destroy(context);
    3020 cuCtxCreate_v2(context: Out<usize>, flags: u32, device: i32) => context::create(context, flags, device);
    11040 cuCtxCreate_v3(context: Out<usize>, _affinity: Ignored, _count: i32, flags: u32, device: i32) => context::create(context, flags, device);
    12050 cuCtxCreate_v4(context: Out<usize>, _parameters: Ignored, flags: u32, device: i32) => context::create(context, flags, device);
    4000 cuCtxDestroy_v2(context: usize) => context::destroy(context);
    4000 cuCtxPushCurrent_v2(context: usize) => context::push(context);
    4000 cuCtxPopCurrent_v2(context: Out<usize>) => context::pop(context);
    4000 cuCtxSetCurrent(context: usize) => context::set_current(context);
    4000 cuCtxGetCurrent(context: Out<usize>) => context::get_current(context);
    2000 cuCtxGetDevice(device: Out<i32>) => context::get_device(device);
    2000 cuCtxSynchronize() => waiting::context();
    12000 cuCtxGetId(context: usize, id: Out<u64>) => context::get_id(context, id);
    7000 cuCtxGetFlags(flags: Out<u32>) => context::get_flags(flags);
    12010 cuCtxSetFlags(flags: u32) => context::set_flags(flags);
    3020 cuCtxGetApiVersion(context: usize, version: Out<u32>) => context::get_api_version(context, version);
    3010 cuCtxGetLimit(value: Out<usize>, limit: u32) => context::get_limit(value, limit);
    3010 cuCtxSetLimit(limit: u32, value: usize) => context::set_limit(limit, value);
    3020 cuCtxGetCacheConfig(value: Out<u32>) => context::get_preference(value);
    3020 cuCtxSetCacheConfig(_value: u32) => context::accept_preference();
    4020 cuCtxGetSharedMemConfig(value: Out<u32>) => context::get_preference(value);
    4020 cuCtxSetSharedMemConfig(_value: u32) => context::accept_preference();
    11000 cuCtxResetPersistingL2Cache() => context::accept_preference();
    5050 cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) => context::priority_range(least, greatest);
    4000 cuCtxEnablePeerAccess(context: usize, flags: u32) => context::enable_peer(context, flags);
    4000 cuCtxDisablePeerAccess(context: usize) => context::disable_peer(context);

    3020 cuMemAlloc_v2(address: Out<u64>, bytes: usize) => memory::allocate(address, bytes);
    3020 cuMemFree_v2(address: u64) => memory::free(address);
    3020 cuMemAllocPitch_v2(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) => memory::allocate_pitched(address, pitch, width, height, element);
    3020 cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) => memory::information(free, total);
    3020 cuMemGetAddressRange_v2(base: Out<u64>, size: Out<usize>, address: u64) => memory::address_range(base, size, address);
    6000 cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: u32) => memory::allocate_managed(address, bytes, flags);
    2000 cuMemAllocHost(address: Out<u64>, bytes: u32) => memory::allocate_host(address, bytes as usize);
    3020 cuMemAllocHost_v2(address: Out<u64>, bytes: usize) => memory::allocate_host(address, bytes);
    2020 cuMemHostAlloc(address: Out<u64>, bytes: usize, _flags: u32) => memory::allocate_host(address, bytes);
    2000 cuMemFreeHost(address: u64) => memory::free_host(address);
    4000 cuMemHostRegister(address: u64, bytes: usize, flags: u32) => memory::register_host(address, bytes, flags);
    6050 cuMemHostRegister_v2(address: u64, bytes: usize, flags: u32) => memory::register_host(address, bytes, flags);
    4000 cuMemHostUnregister(address: u64) => memory::unregister_host(address);
    3020 cuMemHostGetDevicePointer_v2(out: Out<u64>, address: u64, flags: u32) => memory::host_device_pointer(out, address, flags);
    2030 cuMemHostGetFlags(flags: Out<u32>, address: u64) => memory::host_flags(flags, address);
    4010 cuIpcGetMemHandle(handle: Out<sharing::Handle>, address: u64) => sharing::share(handle, address);
    4010 cuIpcOpenMemHandle(address: Out<u64>, handle: sharing::Handle, flags: u32) => sharing::open(address, handle, flags);
    11000 cuIpcOpenMemHandle_v2(address: Out<u64>, handle: sharing::Handle, flags: u32) => sharing::open(address, handle, flags);
    4010 cuIpcCloseMemHandle(address: u64) => sharing::close(address);
    11020 cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: usize) => memory::allocate_on_stream(address, bytes, stream);
    11020 cuMemFreeAsync(address: u64, stream: usize) => memory::free_on_stream(address, stream);
    11020 cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: usize, stream: usize) => memory::allocate_from_pool(address, bytes, pool, stream);
    11020 cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) => memory::pool(pool, device);
    11020 cuDeviceGetMemPool(pool: Out<usize>, device: i32) => memory::current_pool(pool, device);
    11020 cuDeviceSetMemPool(device: i32, pool: usize) => memory::set_current_pool(device, pool);
    11020 cuMemPoolCreate(pool: Out<usize>, properties: In<[i32; 4]>) => memory::create_pool(pool, properties);
    11020 cuMemPoolDestroy(pool: usize) => memory::destroy_pool(pool);
    11020 cuMemPoolTrimTo(pool: usize, _keep: usize) => memory::check_pool(pool);
    11020 cuMemPoolSetAttribute(pool: usize, _attribute: u32, _value: Ignored) => memory::check_pool(pool);
    11020 cuMemPoolGetAttribute(pool: usize, attribute: u32, value: Out<u64>) => memory::pool_attribute(pool, attribute, value);
    11020 cuMemPoolSetAccess(pool: usize, accesses: In<virtual_memory::Access>, count: usize) => memory::set_pool_access(pool, accesses, count);
    11020 cuMemPoolGetAccess(flags: Out<u32>, pool: usize, location: In<virtual_memory::Location>) => memory::pool_access(flags, pool, location);
    4000 cuPointerGetAttribute(value: Out<u8>, attribute: u32, address: u64) => memory::pointer_attribute(value, attribute, address);
    7000 cuPointerGetAttributes(count: u32, attributes: In<u32>, data: In<usize>, address: u64) => memory::pointer_attributes(count, attributes, data, address);
    6000 cuPointerSetAttribute(_value: Ignored, _attribute: u32, address: u64) => copy::accept_hint(address, 1);
    8000 cuMemAdvise(address: u64, bytes: usize, _advice: u32, _device: i32) => copy::accept_hint(address, bytes);
    8000 cuMemPrefetchAsync(address: u64, bytes: usize, _device: i32, _stream: usize) => copy::accept_hint(address, bytes);

    13000 cuMemPrefetchBatchAsync(addresses: In<u64>, sizes: In<usize>, count: usize, _places: Ignored, _indices: Ignored, _place_count: usize, _flags: u64, _stream: usize) =>
        copy::accept_hints(addresses, sizes, count);
    13000 cuMemDiscardBatchAsync(addresses: In<u64>, sizes: In<usize>, count: usize, _flags: u64, _stream: usize) => copy::accept_hints(addresses, sizes, count);
    13000 cuMemDiscardAndPrefetchBatchAsync(addresses: In<u64>, sizes: In<usize>, count: usize, _places: Ignored, _indices: Ignored, _place_count: usize, _flags: u64, _stream: usize) =>
        copy::accept_hints(addresses, sizes, count);

    4000 cuMemcpy(to: u64, from: u64, bytes: usize) => copy::copy(Any(to), Any(from), bytes);
    4000 cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) => copy::copy_on(Any(to), Any(from), bytes, stream);
    13020 cuMemcpyWithAttributesAsync(to: u64, from: u64, bytes: usize, _attributes: Ignored, stream: usize) => copy::copy_on(Any(to), Any(from), bytes, stream);
    3020 cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize) => copy::copy(Device(to), Host(from), bytes);
    3020 cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) => copy::copy_on(Device(to), Host(from), bytes, stream);
    3020 cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize) => copy::copy(Host(to), Device(from), bytes);
    3020 cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) => copy::copy_on(Host(to), Device(from), bytes, stream);
    3020 cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) => copy::copy(Device(to), Device(from), bytes);
    3020 cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) => copy::copy_on(Device(to), Device(from), bytes, stream);
    4000 cuMemcpyPeer(to: u64, _to_context: usize, from: u64, _from_context: usize, bytes: usize) => copy::copy(Device(to), Device(from), bytes);
    4000 cuMemcpyPeerAsync(to: u64, _to_context: usize, from: u64, _from_context: usize, bytes: usize, stream: usize) => copy::copy_on(Device(to), Device(from), bytes, stream);
    3020 cuMemcpy2D_v2(what: In<Copy2d>) => copy::copy_2d(what);
    3020 cuMemcpy2DUnaligned_v2(what: In<Copy2d>) => copy::copy_2d(what);
    3020 cuMemcpy2DAsync_v2(what: In<Copy2d>, stream: usize) => copy::copy_2d_on(what, stream);
    3020 cuMemcpy3D_v2(what: In<Copy3d>) => copy::copy_3d(what);
    3020 cuMemcpy3DAsync_v2(what: In<Copy3d>, stream: usize) => copy::copy_3d_on(what, stream);
    3020 cuMemsetD8_v2(address: u64, value: u8, count: usize) => copy::fill(address, value, count);
    3020 cuMemsetD16_v2(address: u64, value: u16, count: usize) => copy::fill(address, value, count);
    3020 cuMemsetD32_v2(address: u64, value: u32, count: usize) => copy::fill(address, value, count);
    3020 cuMemsetD8Async(address: u64, value: u8, count: usize, stream: usize) => copy::fill_on(address, value, count, stream);
    3020 cuMemsetD16Async(address: u64, value: u16, count: usize, stream: usize) => copy::fill_on(address, value, count, stream);
    3020 cuMemsetD32Async(address: u64, value: u32, count: usize, stream: usize) => copy::fill_on(address, value, count, stream);
    3020 cuMemsetD2D8_v2(address: u64, pitch: usize, value: u8, width: usize, height: usize) => copy::fill_2d(address, pitch, value, width, height);
    3020 cuMemsetD2D16_v2(address: u64, pitch: usize, value: u16, width: usize, height: usize) => copy::fill_2d(address, pitch, value, width, height);
    3020 cuMemsetD2D32_v2(address: u64, pitch: usize, value: u32, width: usize, height: usize) => copy::fill_2d(address, pitch, value, width, height);
    3020 cuMemsetD2D8Async(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize) => copy::fill_2d_on(address, pitch, value, width, height, stream);
    3020 cuMemsetD2D16Async(address: u64, pitch: usize, value: u16, width: usize, height: usize, stream: usize) => copy::fill_2d_on(address, pitch, value, width, height, stream);
    3020 cuMemsetD2D32Async(address: u64, pitch: usize, value: u32, width: usize, height: usize, stream: usize) => copy::fill_2d_on(address, pitch, value, width, height, stream);

    10020 cuMemAddressReserve(address: Out<u64>, size: usize, alignment: usize, hint: u64, flags: u64) => virtual_memory::reserve(address, size, alignment, hint, flags);
    10020 cuMemAddressFree(address: u64, size: usize) => virtual_memory::free_reservation(address, size);
    10020 cuMemCreate(handle: Out<u64>, size: usize, properties: In<virtual_memory::Properties>, flags: u64) => virtual_memory::create(handle, size, properties, flags);
    10020 cuMemRelease(handle: u64) => virtual_memory::release(handle);
    10020 cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) => virtual_memory::map(address, size, offset, handle, flags);
    10020 cuMemUnmap(address: u64, size: usize) => virtual_memory::unmap(address, size);
    10020 cuMemSetAccess(address: u64, size: usize, accesses: In<virtual_memory::Access>, count: usize) => virtual_memory::set_access(address, size, accesses, count);
    10020 cuMemGetAccess(flags: Out<u64>, location: In<virtual_memory::Location>, address: u64) => virtual_memory::get_access(flags, location, address);
    10020 cuMemExportToShareableHandle(descriptor: Out<i32>, handle: u64, kind: u32, flags: u64) => virtual_memory::export(descriptor, handle, kind, flags);
    10020 cuMemImportFromShareableHandle(handle: Out<u64>, descriptor: usize, kind: u32) => virtual_memory::import(handle, descriptor, kind);
    10020 cuMemGetAllocationGranularity(granularity: Out<usize>, properties: In<virtual_memory::Properties>, option: u32) => virtual_memory::granularity(granularity, properties, option);
    10020 cuMemGetAllocationPropertiesFromHandle(properties: Out<virtual_memory::Properties>, handle: u64) => virtual_memory::properties_of(properties, handle);
    11000 cuMemRetainAllocationHandle(handle: Out<u64>, address: u64) => virtual_memory::retain(handle, address);

    2000 cuStreamCreate(stream: Out<usize>, flags: u32) => stream::create(stream, flags, 0);
    5050 cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: i32) => stream::create(stream, flags, priority);
    4000 cuStreamDestroy_v2(stream: usize) => stream::destroy(stream);
    2000 cuStreamQuery(stream: usize) => waiting::stream(stream);
    2000 cuStreamSynchronize(stream: usize) => waiting::stream(stream);
    3020 cuStreamWaitEvent(stream: usize, event: usize, _flags: u32) => waiting::stream_waits(stream, event);
    5050 cuStreamGetFlags(stream: usize, flags: Out<u32>) => stream::get_flags(stream, flags);
    5050 cuStreamGetPriority(stream: usize, priority: Out<i32>) => stream::get_priority(stream, priority);
    9020 cuStreamGetCtx(stream: usize, context: Out<usize>) => stream::get_context(stream, context);
    12080 cuStreamGetDevice(stream: usize, device: Out<i32>) => stream::get_device(stream, device);
    12000 cuStreamGetId(stream: usize, id: Out<u64>) => stream::get_id(stream, id);
    5000 cuStreamAddCallback(stream: usize, function: stream::Callback, data: *mut c_void, _flags: u32) => stream::add_callback(stream, function, data);
    10000 cuLaunchHostFunc(stream: usize, function: HostFunction, data: *mut c_void) => launch::launch_on_host(stream, function, data);
    13010 cuLaunchHostFunc_v2(stream: usize, function: HostFunction, data: *mut c_void, _mode: u32) => launch::launch_on_host(stream, function, data);
    6000 cuStreamAttachMemAsync(stream: usize, _address: u64, _length: usize, _flags: u32) => waiting::stream(stream);
    10000 cuStreamIsCapturing(stream: usize, status: Out<u32>) => graph::is_capturing(stream, status);
    10010 cuStreamGetCaptureInfo(stream: usize, status: Out<u32>, id: Out<u64>) => graph::capture_info(stream, status, id);
    11030 cuStreamGetCaptureInfo_v2(stream: usize, status: Out<u32>, id: Out<u64>, _graph: Ignored, _dependencies: Ignored, _count: Ignored) => graph::capture_info(stream, status, id);
    12030 cuStreamGetCaptureInfo_v3(stream: usize, status: Out<u32>, id: Out<u64>, _graph: Ignored, _dependencies: Ignored, _edges: Ignored, _count: Ignored) => graph::capture_info(stream, status, id);
    10010 cuThreadExchangeStreamCaptureMode(mode: Out<u32>) => stream::exchange_capture_mode(mode);
    10010 cuStreamBeginCapture_v2(stream: usize, _mode: u32) => graph::begin_capture(stream);
    13030 cuStreamBeginRecaptureToGraph(stream: usize, _mode: u32, graph: usize, _callback: Ignored, _data: Ignored) => graph::begin_recapture(stream, graph);
    10000 cuStreamEndCapture(stream: usize, graph: Out<usize>) => graph::end_capture(stream, graph);

    10000 cuGraphCreate(graph: Out<usize>, _flags: u32) => graph::create(graph);
    10000 cuGraphDestroy(graph: usize) => graph::destroy(graph);
    12000 cuGraphAddKernelNode_v2(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<graph_nodes::KernelParameters>) =>
        graph_nodes::kernel(node, At { graph, after, count }, parameters);
    10000 cuGraphAddMemcpyNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Copy3d>, _context: usize) =>
        graph_nodes::copy(node, At { graph, after, count }, parameters);
    10000 cuGraphAddMemsetNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Fill>, _context: usize) =>
        graph_nodes::fill(node, At { graph, after, count }, parameters);
    10000 cuGraphAddHostNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<work::Host>) =>
        graph_nodes::host(node, At { graph, after, count }, parameters);
    10000 cuGraphAddEmptyNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize) => graph_nodes::empty(node, At { graph, after, count });
    11040 cuGraphAddMemAllocNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: Out<graph_nodes::Allocation>) =>
        graph_nodes::allocation(node, At { graph, after, count }, parameters);
    11040 cuGraphAddMemFreeNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, address: u64) =>
        graph_nodes::free(node, At { graph, after, count }, address);
    10000 cuGraphClone(copy: Out<usize>, graph: usize) => graph::clone(copy, graph);
    10000 cuGraphNodeFindInClone(twin: Out<usize>, node: usize, copy: usize) => graph::find_in_clone(twin, node, copy);
    10000 cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) => graph::nodes(graph, nodes, count);
    10000 cuGraphGetEdges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) => graph::edges(graph, from, to, count);
    10000 cuGraphNodeGetType(node: usize, kind: Out<u32>) => graph::node_type(node, kind);
    12000 cuGraphKernelNodeGetParams_v2(node: usize, parameters: Out<graph_nodes::KernelParameters>) => graph_nodes::kernel_parameters(node, parameters);
    12000 cuGraphKernelNodeSetParams_v2(node: usize, parameters: In<graph_nodes::KernelParameters>) => graph_nodes::set_kernel_parameters(node, parameters);
    11000 cuGraphKernelNodeGetAttribute(node: usize, attribute: u32, value: Out<[u32; 16]>) => graph_nodes::kernel_attribute(node, attribute, value);
    10000 cuGraphMemcpyNodeGetParams(node: usize, parameters: Out<Copy3d>) => graph_nodes::copy_parameters(node, parameters);
    10000 cuGraphMemsetNodeGetParams(node: usize, parameters: Out<Fill>) => graph_nodes::fill_parameters(node, parameters);
    10000 cuGraphHostNodeGetParams(node: usize, parameters: Out<work::Host>) => graph_nodes::host_parameters(node, parameters);
    12000 cuGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, _flags: u64) => executable::instantiate(executable, graph);
    12000 cuGraphExecUpdate_v2(executable: usize, graph: usize, result: Out<u32>) => executable::update(executable, graph, result);
    12000 cuGraphExecKernelNodeSetParams_v2(executable: usize, node: usize, parameters: In<graph_nodes::KernelParameters>) => executable::set_kernel(executable, node, parameters);
    10000 cuGraphExecDestroy(executable: usize) => executable::destroy(executable);
    10000 cuGraphLaunch(executable: usize, stream: usize) => executable::launch(executable, stream);

    2000 cuEventCreate(event: Out<usize>, flags: u32) => event::create(event, flags);
    4000 cuEventDestroy_v2(event: usize) => event::destroy(event);
    2000 cuEventRecord(event: usize, stream: usize) => event::record(event, stream);
    11010 cuEventRecordWithFlags(event: usize, stream: usize, _flags: u32) => event::record(event, stream);
    2000 cuEventQuery(event: usize) => event::reached(event);
    2000 cuEventSynchronize(event: usize) => event::reached(event);
    2000 cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) => event::elapsed(milliseconds, start, end);
    12080 cuEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) => event::elapsed(milliseconds, start, end);

    2000 cuModuleLoad(module: Out<usize>, path: Text) => module::load_file(module, path);
    2000 cuModuleLoadData(module: Out<usize>, image: *const c_void) => module::load_data(module, image);
    2010 cuModuleLoadDataEx(module: Out<usize>, image: *const c_void, _count: u32, _options: Ignored, _values: Ignored) => module::load_data(module, image);
    2000 cuModuleLoadFatBinary(module: Out<usize>, image: *const c_void) => module::load_data(module, image);
    2000 cuModuleUnload(module: usize) => module::unload(module);
    2000 cuModuleGetFunction(function: Out<usize>, module: usize, name: Text) => module::get_function(function, module, name);
    3020 cuModuleGetGlobal_v2(address: Out<u64>, size: Out<usize>, module: usize, name: Text) => module::get_global(address, size, module, name);
    12040 cuModuleGetFunctionCount(count: Out<u32>, module: usize) => module::function_count(count, module);
    12040 cuModuleEnumerateFunctions(functions: Out<usize>, count: u32, module: usize) => module::enumerate(functions, count, module);
    11070 cuModuleGetLoadingMode(mode: Out<u32>) => module::loading_mode(mode);
    12000 cuLibraryLoadData(library: Out<usize>, image: *const c_void, _jit: Ignored, _jit_values: Ignored, _jit_count: u32, _options: Ignored, _values: Ignored, _count: u32) => module::load_library(library, image);
    12000 cuLibraryLoadFromFile(library: Out<usize>, path: Text, _jit: Ignored, _jit_values: Ignored, _jit_count: u32, _options: Ignored, _values: Ignored, _count: u32) => module::load_library_file(library, path);
    12000 cuLibraryUnload(library: usize) => module::unload_library(library);
    12000 cuLibraryGetKernel(kernel: Out<usize>, library: usize, name: Text) => module::get_kernel(kernel, library, name);
    12000 cuLibraryGetModule(module: Out<usize>, library: usize) => module::get_module(module, library);
    12000 cuLibraryGetGlobal(address: Out<u64>, size: Out<usize>, library: usize, name: Text) => module::library_global(address, size, library, name);
    12000 cuLibraryGetManaged(address: Out<u64>, size: Out<usize>, library: usize, name: Text) => module::library_managed(address, size, library, name);
    12040 cuLibraryGetKernelCount(count: Out<u32>, library: usize) => module::kernel_count(count, library);
    12040 cuLibraryEnumerateKernels(kernels: Out<usize>, count: u32, library: usize) => module::enumerate_kernels(kernels, count, library);

    2020 cuFuncGetAttribute(value: Out<i32>, attribute: u32, function: usize) => function::attribute(value, attribute, function);
    9000 cuFuncSetAttribute(function: usize, attribute: u32, value: i32) => function::set_attribute(function, attribute, value);
    3000 cuFuncSetCacheConfig(function: usize, _config: u32) => function::accept(function);
    4020 cuFuncSetSharedMemConfig(function: usize, _config: u32) => function::accept(function);
    11000 cuFuncGetModule(module: Out<usize>, function: usize) => function::owner(module, function);
    12030 cuFuncGetName(name: Out<*const c_char>, function: usize) => function::name(name, function);
    12040 cuFuncGetParamInfo(function: usize, index: usize, offset: Out<usize>, size: Out<usize>) => function::parameter(function, index, offset, size);
    12040 cuFuncIsLoaded(state: Out<u32>, function: usize) => function::is_loaded(state, function);
    12040 cuFuncLoad(function: usize) => function::accept(function);
    12000 cuKernelGetFunction(function: Out<usize>, kernel: usize) => function::of_kernel(function, kernel);
    12050 cuKernelGetLibrary(library: Out<usize>, kernel: usize) => function::owner(library, kernel);
    12030 cuKernelGetName(name: Out<*const c_char>, kernel: usize) => function::name(name, kernel);
    12040 cuKernelGetParamInfo(kernel: usize, index: usize, offset: Out<usize>, size: Out<usize>) => function::parameter(kernel, index, offset, size);
    12000 cuKernelGetAttribute(value: Out<i32>, attribute: u32, kernel: usize, _device: i32) => function::attribute(value, attribute, kernel);
    12000 cuKernelSetAttribute(attribute: u32, value: i32, kernel: usize, _device: i32) => function::set_attribute(kernel, attribute, value);
    12000 cuKernelSetCacheConfig(kernel: usize, _config: u32, _device: i32) => function::accept(kernel);
    6050 cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: usize, threads: i32, shared: usize) => function::occupancy(blocks, function, threads, shared);
    7000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<i32>, function: usize, threads: i32, shared: usize, _flags: u32) => function::occupancy(blocks, function, threads, shared);
    6050 cuOccupancyMaxPotentialBlockSize(grid: Out<i32>, block: Out<i32>, function: usize, _shared_of: Ignored, _shared: usize, limit: i32) => function::potential_block(grid, block, function, limit);
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<i32>, block: Out<i32>, function: usize, _shared_of: Ignored, _shared: usize, limit: i32, _flags: u32) => function::potential_block(grid, block, function, limit);
    11000 cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: usize, _blocks: i32, _threads: i32) => function::available_shared(bytes, function);

    4000 cuLaunchKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: usize,
        parameters: In<*const u8>, extra: In<usize>,
    ) => launch::launch(function, Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared }, stream, parameters, extra);
    11060 cuLaunchKernelEx(configuration: In<Configuration>, function: usize, parameters: In<*const u8>, extra: In<usize>) => launch::launch_extended(configuration, function, parameters, extra);
    9000 cuLaunchCooperativeKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: usize,
        parameters: In<*const u8>,
    ) => launch::launch_cooperative(function, Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared }, stream, parameters, In::of_place(0));

    2000 cuFuncSetBlockShape(function: usize, x: i32, y: i32, z: i32) => legacy::set_block(function, [x, y, z]);
    2000 cuFuncSetSharedSize(function: usize, bytes: u32) => legacy::set_shared(function, bytes);
    2000 cuParamSetSize(function: usize, bytes: u32) => legacy::set_size(function, bytes);
    2000 cuParamSeti(function: usize, offset: i32, value: u32) => legacy::set_word(function, offset, value);
    2000 cuParamSetf(function: usize, offset: i32, value: f32) => legacy::set_word(function, offset, value.to_bits());
    2000 cuParamSetv(function: usize, offset: i32, bytes: In<u8>, count: u32) => legacy::set_bytes(function, offset, bytes, count as usize);
    2000 cuLaunch(function: usize) => legacy::launch(function, 1, 1, 0);
    2000 cuLaunchGrid(function: usize, width: i32, height: i32) => legacy::launch(function, width, height, 0);
    2000 cuLaunchGridAsync(function: usize, width: i32, height: i32, stream: usize) => legacy::launch(function, width, height, stream);
}

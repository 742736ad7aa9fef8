//! The driver's functions, declared in [`mneme_abi`], each with its handler.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::c_void;

use mneme_abi::cuda::types::*;

use super::graph_nodes::{self, At};
use super::lookup::Export;
use super::memory::Reach;
use super::work::CopyEnd::{Any, Device, Host};
use super::work::{LaunchExtents, Line, Work};
use super::{
    arrays, context, copy, device, ends, event, executable, function, graph, launch, lookup, memory, module, sharing,
    stream, textures, virtual_memory, waiting,
};
use crate::abi::{In, Out, enter, take};
use crate::refusal::refused;

/// An entry is `symbol(arguments) => handler`; an argument that the handler does not use is `_`.
macro_rules! driver_exports {
    ($($symbol:ident $arguments:tt => $handler:expr;)*) => {
        $( mneme_abi::$symbol! { export { $arguments => $handler } } )*

        /// Every exported function.
        pub static TABLE: &[Export] = &[$( mneme_abi::$symbol! { row {} } ),*];
    };
}

macro_rules! export {
    ({ ($($argument:tt),*) => $handler:expr } $since:literal $symbol:ident($($raw:ident: $type:ty),*)) => {
        /// # Safety
        /// Arguments must be as the CUDA driver API demands: pointers are null or valid for their type.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($raw: $type),*) -> Status {
            $( take! { $argument $raw } )*
            enter(|| {
                context::alive()?;
                $handler
            })
        }
    };
}

macro_rules! row {
    ({} $since:literal $symbol:ident $arguments:tt) => {
        Export { symbol: stringify!($symbol), since: $since, address: $symbol as *const c_void }
    };
}

driver_exports! {
    cuInit(flags) => context::initialise(flags);
    cuDriverGetVersion(version) => device::driver_version(version);
    cuGetProcAddress(name, function, version, flags) =>
        lookup::get(TABLE, name, function, version, flags, Out::nowhere());
    cuGetProcAddress_v2(name, function, version, flags, result) =>
        lookup::get(TABLE, name, function, version, flags, result);
    cuGetErrorName(error, name) => lookup::error_name(error, name);
    cuGetErrorString(error, text) => lookup::error_text(error, text);
    cuGetExportTable(table, _) => lookup::no_table(table);
    cuProfilerStart() => device::accept();
    cuProfilerStop() => device::accept();

    cuDeviceGet(device, ordinal) => device::get(device, ordinal);
    cuDeviceGetCount(count) => device::count(count);
    cuDeviceGetName(name, length, device) => device::name(name, length, device);
    cuDeviceGetUuid(uuid, device) => device::uuid(uuid, device);
    cuDeviceGetUuid_v2(uuid, device) => device::uuid(uuid, device);
    cuDeviceGetLuid(luid, mask, device) => device::luid(luid, mask, device);
    cuDeviceTotalMem_v2(bytes, device) => device::total_memory(bytes, device);
    cuDeviceGetAttribute(value, attribute, device) => device::attribute(value, attribute, device);
    cuDeviceGetProperties(properties, device) => device::properties(properties, device);
    cuDeviceComputeCapability(major, minor, device) => device::compute_capability(major, minor, device);
    cuDeviceGetPCIBusId(id, length, device) => device::bus_id(id, length, device);
    cuDeviceGetByPCIBusId(device, id) => device::by_bus_id(device, id);
    cuDeviceCanAccessPeer(can, device, peer) => device::can_access_peer(can, device, peer);
    cuDeviceGetP2PAttribute(value, attribute, from, to) => device::peer_attribute(value, attribute, from, to);
    cuDeviceGetExecAffinitySupport(value, _, _) => device::put_zero(value);

    cuDevicePrimaryCtxRetain(context, device) => context::retain_primary(context, device);
    cuDevicePrimaryCtxRelease(device) => ends::release_primary(device);
    cuDevicePrimaryCtxReset(device) => ends::reset_primary(device);
    cuDevicePrimaryCtxRelease_v2(device) => ends::release_primary(device);
    cuDevicePrimaryCtxReset_v2(device) => ends::reset_primary(device);
    cuDevicePrimaryCtxGetState(device, flags, active) => context::primary_state(device, flags, active);
    cuDevicePrimaryCtxSetFlags_v2(device, flags) => context::set_primary_flags(device, flags);
    cuCtxCreate(context, flags, device) => context::create(context, flags, device);
    cuCtxDestroy(context) => ends::destroy(context);
    cuCtxDetach(context) => ends::destroy(context);
    cuCtxCreate_v2(context, flags, device) => context::create(context, flags, device);
    cuCtxCreate_v3(context, _, _, flags, device) => context::create(context, flags, device);
    cuCtxCreate_v4(context, _, flags, device) => context::create(context, flags, device);
    cuCtxDestroy_v2(context) => ends::destroy(context);
    cuCtxPushCurrent_v2(context) => context::push(context);
    cuCtxPopCurrent_v2(context) => context::pop(context);
    cuCtxSetCurrent(context) => context::set_current(context);
    cuCtxGetCurrent(context) => context::get_current(context);
    cuCtxGetDevice(device) => context::get_device(device);
    cuCtxSynchronize() => waiting::context();
    cuCtxGetId(context, id) => context::get_id(context, id);
    cuCtxGetFlags(flags) => context::get_flags(flags);
    cuCtxSetFlags(flags) => context::set_flags(flags);
    cuCtxGetApiVersion(context, version) => context::get_api_version(context, version);
    cuCtxGetLimit(value, limit) => context::get_limit(value, limit);
    cuCtxSetLimit(limit, value) => context::set_limit(limit, value);
    cuCtxGetCacheConfig(value) => context::get_preference(value);
    cuCtxSetCacheConfig(_) => context::accept_preference();
    cuCtxGetSharedMemConfig(value) => context::get_preference(value);
    cuCtxSetSharedMemConfig(_) => context::accept_preference();
    cuCtxResetPersistingL2Cache() => context::accept_preference();
    cuCtxGetStreamPriorityRange(least, greatest) => context::priority_range(least, greatest);
    cuCtxEnablePeerAccess(context, flags) => context::enable_peer(context, flags);
    cuCtxDisablePeerAccess(context) => context::disable_peer(context);

    cuMemAlloc_v2(address, bytes) => memory::allocate(address, bytes);
    cuMemFree_v2(address) => memory::free(address);
    cuMemAllocPitch_v2(address, pitch, width, height, element) =>
        memory::allocate_pitched(address, pitch, width, height, element);
    cuMemGetInfo_v2(free, total) => memory::information(free, total);
    cuMemGetAddressRange_v2(base, size, address) => memory::address_range(base, size, address);
    cuMemAllocManaged(address, bytes, flags) => memory::allocate_managed(address, bytes, flags);
    cuMemAllocHost(address, bytes) => memory::allocate_host(address, bytes);
    cuMemAllocHost_v2(address, bytes) => memory::allocate_host(address, bytes);
    cuMemHostAlloc(address, bytes, _) => memory::allocate_host(address, bytes);
    cuMemFreeHost(address) => memory::free_host(address);
    cuMemHostRegister(address, bytes, flags) => memory::register_host(address, bytes, flags);
    cuMemHostRegister_v2(address, bytes, flags) => memory::register_host(address, bytes, flags);
    cuMemHostUnregister(address) => memory::unregister_host(address);
    cuMemHostGetDevicePointer_v2(out, address, flags) => memory::host_device_pointer(out, address, flags);
    cuMemHostGetFlags(flags, address) => memory::host_flags(flags, address);
    cuIpcGetMemHandle(handle, address) => sharing::share(handle, address);
    cuIpcOpenMemHandle(address, handle, flags) => sharing::open(address, handle, flags);
    cuIpcOpenMemHandle_v2(address, handle, flags) => sharing::open(address, handle, flags);
    cuIpcCloseMemHandle(address) => sharing::close(address);
    cuMemAllocAsync(address, bytes, stream) => memory::allocate_on_stream(address, bytes, stream);
    cuMemFreeAsync(address, stream) => memory::free_on_stream(address, stream);
    cuMemAllocFromPoolAsync(address, bytes, pool, stream) => memory::allocate_from_pool(address, bytes, pool, stream);
    cuDeviceGetDefaultMemPool(pool, device) => memory::pool(pool, device);
    cuDeviceGetMemPool(pool, device) => memory::current_pool(pool, device);
    cuDeviceSetMemPool(device, pool) => memory::set_current_pool(device, pool);
    cuMemPoolCreate(pool, properties) => memory::create_pool(pool, properties);
    cuMemPoolDestroy(pool) => memory::destroy_pool(pool);
    cuMemPoolTrimTo(pool, _) => memory::check_pool(pool);
    cuMemPoolSetAttribute(pool, attribute, value) => memory::set_pool_attribute(pool, attribute, value);
    cuMemPoolGetAttribute(pool, attribute, value) => memory::pool_attribute(pool, attribute, value);
    cuMemPoolSetAccess(pool, accesses, count) => memory::set_pool_access(pool, accesses, count);
    cuMemPoolGetAccess(flags, pool, location) => memory::pool_access(flags, pool, location);
    cuPointerGetAttribute(value, attribute, address) =>
        memory::pointer_attribute(value, attribute, address, Reach::Context);
    cuPointerGetAttributes(count, attributes, data, address) =>
        memory::pointer_attributes(count, attributes, data, address, Reach::Context);
    cuPointerSetAttribute(_, _, address) => copy::accept_hint(address, 1);
    cuMemAdvise(address, bytes, _, _) => copy::accept_hint(address, bytes);
    cuMemPrefetchAsync(address, bytes, _, _) => copy::accept_hint(address, bytes);

    cuMemPrefetchBatchAsync(addresses, sizes, count, _, _, _, _, _) => copy::accept_hints(addresses, sizes, count);
    cuMemDiscardBatchAsync(addresses, sizes, count, _, _) => copy::accept_hints(addresses, sizes, count);
    cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, count, _, _, _, _, _) =>
        copy::accept_hints(addresses, sizes, count);

    cuMemcpy(to, from, bytes) => copy::copy(Any(to), Any(from), bytes);
    cuMemcpyAsync(to, from, bytes, stream) => copy::copy_on(Any(to), Any(from), bytes, stream);
    cuMemcpyWithAttributesAsync(to, from, bytes, _, stream) => copy::copy_on(Any(to), Any(from), bytes, stream);
    cuMemcpyHtoD_v2(to, from, bytes) => copy::copy(Device(to), Host(from), bytes);
    cuMemcpyHtoDAsync_v2(to, from, bytes, stream) => copy::copy_on(Device(to), Host(from), bytes, stream);
    cuMemcpyDtoH_v2(to, from, bytes) => copy::copy(Host(to), Device(from), bytes);
    cuMemcpyDtoHAsync_v2(to, from, bytes, stream) => copy::copy_on(Host(to), Device(from), bytes, stream);
    cuMemcpyDtoD_v2(to, from, bytes) => copy::copy(Device(to), Device(from), bytes);
    cuMemcpyDtoDAsync_v2(to, from, bytes, stream) => copy::copy_on(Device(to), Device(from), bytes, stream);
    cuMemcpyPeer(to, _, from, _, bytes) => copy::copy(Device(to), Device(from), bytes);
    cuMemcpyPeerAsync(to, _, from, _, bytes, stream) => copy::copy_on(Device(to), Device(from), bytes, stream);
    cuMemcpy2D_v2(what) => copy::copy_2d(what);
    cuMemcpy2DUnaligned_v2(what) => copy::copy_2d(what);
    cuMemcpy2DAsync_v2(what, stream) => copy::copy_2d_on(what, stream);
    cuMemcpy3D_v2(what) => copy::copy_3d(what);
    cuMemcpy3DAsync_v2(what, stream) => copy::copy_3d_on(what, stream);
    cuMemcpyHtoA_v2(array, at, from, bytes) => copy::copy_line(Line::of(array, at), Line::host(from), bytes, None);
    cuMemcpyAtoH_v2(to, array, at, bytes) => copy::copy_line(Line::host(to), Line::of(array, at), bytes, None);
    cuMemcpyDtoA_v2(array, at, from, bytes) => copy::copy_line(Line::of(array, at), Line::device(from), bytes, None);
    cuMemcpyAtoD_v2(to, array, at, bytes) => copy::copy_line(Line::device(to), Line::of(array, at), bytes, None);
    cuMemcpyAtoA_v2(to, to_at, from, from_at, bytes) =>
        copy::copy_line(Line::of(to, to_at), Line::of(from, from_at), bytes, None);
    cuMemcpyHtoAAsync_v2(array, at, from, bytes, stream) =>
        copy::copy_line(Line::of(array, at), Line::host(from), bytes, Some(stream));
    cuMemcpyAtoHAsync_v2(to, array, at, bytes, stream) =>
        copy::copy_line(Line::host(to), Line::of(array, at), bytes, Some(stream));
    cuMemsetD8_v2(address, value, count) => copy::fill::<u8>(address, value, count);
    cuMemsetD16_v2(address, value, count) => copy::fill::<u16>(address, value, count);
    cuMemsetD32_v2(address, value, count) => copy::fill::<u32>(address, value, count);
    cuMemsetD8Async(address, value, count, stream) => copy::fill_on::<u8>(address, value, count, stream);
    cuMemsetD16Async(address, value, count, stream) => copy::fill_on::<u16>(address, value, count, stream);
    cuMemsetD32Async(address, value, count, stream) => copy::fill_on::<u32>(address, value, count, stream);
    cuMemsetD2D8_v2(address, pitch, value, width, height) => copy::fill_2d::<u8>(address, pitch, value, width, height);
    cuMemsetD2D16_v2(address, pitch, value, width, height) =>
        copy::fill_2d::<u16>(address, pitch, value, width, height);
    cuMemsetD2D32_v2(address, pitch, value, width, height) =>
        copy::fill_2d::<u32>(address, pitch, value, width, height);
    cuMemsetD2D8Async(address, pitch, value, width, height, stream) =>
        copy::fill_2d_on::<u8>(address, pitch, value, width, height, stream);
    cuMemsetD2D16Async(address, pitch, value, width, height, stream) =>
        copy::fill_2d_on::<u16>(address, pitch, value, width, height, stream);
    cuMemsetD2D32Async(address, pitch, value, width, height, stream) =>
        copy::fill_2d_on::<u32>(address, pitch, value, width, height, stream);

    cuArrayCreate_v2(array, what) => arrays::create_2d(array, what);
    cuArrayGetDescriptor_v2(what, array) => arrays::description_2d(what, array);
    cuArray3DCreate_v2(array, what) => arrays::create(array, what);
    cuArray3DGetDescriptor_v2(what, array) => arrays::description(what, array);
    cuArrayDestroy(array) => arrays::destroy(array);
    cuTexObjectCreate(texture, resource, what, view) => textures::create(texture, resource, what, view);
    cuTexObjectDestroy(texture) => textures::destroy(texture, true);
    cuTexObjectGetResourceDesc(resource, texture) => textures::resource(resource, texture, true);
    cuTexObjectGetTextureDesc(what, texture) => textures::description(what, texture);
    cuSurfObjectCreate(surface, resource) => textures::create_surface(surface, resource);
    cuSurfObjectDestroy(surface) => textures::destroy(surface, false);
    cuSurfObjectGetResourceDesc(resource, surface) => textures::resource(resource, surface, false);

    cuMemAddressReserve(address, size, alignment, hint, flags) =>
        virtual_memory::reserve(address, size, alignment, hint, flags);
    cuMemAddressFree(address, size) => virtual_memory::free_reservation(address, size);
    cuMemCreate(handle, size, properties, flags) => virtual_memory::create(handle, size, properties, flags);
    cuMemRelease(handle) => virtual_memory::release(handle);
    cuMemMap(address, size, offset, handle, flags) => virtual_memory::map(address, size, offset, handle, flags);
    cuMemUnmap(address, size) => virtual_memory::unmap(address, size);
    cuMemSetAccess(address, size, accesses, count) => virtual_memory::set_access(address, size, accesses, count);
    cuMemGetAccess(flags, location, address) => virtual_memory::get_access(flags, location, address);
    cuMemExportToShareableHandle(descriptor, handle, kind, flags) =>
        virtual_memory::export(descriptor, handle, kind, flags);
    cuMemImportFromShareableHandle(handle, descriptor, kind) => virtual_memory::import(handle, descriptor, kind);
    cuMemGetAllocationGranularity(granularity, properties, option) =>
        virtual_memory::granularity(granularity, properties, option);
    cuMemGetAllocationPropertiesFromHandle(properties, handle) => virtual_memory::properties_of(properties, handle);
    cuMemRetainAllocationHandle(handle, address) => virtual_memory::retain(handle, address);

    cuStreamCreate(stream, flags) => stream::create(stream, flags, 0);
    cuStreamCreateWithPriority(stream, flags, priority) => stream::create(stream, flags, priority);
    cuStreamDestroy_v2(stream) => graph::destroy_stream(stream);
    cuStreamQuery(stream) => waiting::query(stream);
    cuStreamSynchronize(stream) => waiting::stream(stream);
    cuStreamWaitEvent(stream, event, _) => waiting::stream_waits(stream, event);
    cuStreamGetFlags(stream, flags) => stream::get_flags(stream, flags);
    cuStreamGetPriority(stream, priority) => stream::get_priority(stream, priority);
    cuStreamGetCtx(stream, context) => stream::get_context(stream, context);
    cuStreamGetDevice(stream, device) => stream::get_device(stream, device);
    cuStreamGetId(stream, id) => stream::get_id(stream, id);
    cuStreamAddCallback(stream, function, data, _) => launch::add_callback(stream, function, data);
    cuLaunchHostFunc(stream, function, data) => launch::launch_on_host(stream, function, data);
    cuLaunchHostFunc_v2(stream, function, data, _) => launch::launch_on_host(stream, function, data);
    cuStreamAttachMemAsync(stream, _, _, _) => waiting::attach(stream);
    cuStreamIsCapturing(stream, status) => graph::is_capturing(stream, status);
    cuStreamGetCaptureInfo(stream, status, id) => graph::capture_info(stream, status, id, [0; 4]);
    cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count) =>
        graph::capture_info(stream, status, id, [graph, nodes, count, 0]);
    cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, edges, count) =>
        graph::capture_info(stream, status, id, [graph, nodes, edges, count]);
    cuThreadExchangeStreamCaptureMode(mode) => stream::exchange_capture_mode(mode);
    cuStreamBeginCapture_v2(stream, _) => graph::begin_capture(stream);
    cuStreamBeginRecaptureToGraph(stream, _, graph, _, _) => graph::begin_recapture(stream, graph);
    cuStreamEndCapture(stream, graph) => graph::end_capture(stream, graph);

    cuGraphCreate(graph, _) => graph::create(graph);
    cuGraphDestroy(graph) => graph::destroy(graph);
    cuGraphAddKernelNode_v2(node, graph, after, count, parameters) =>
        graph_nodes::kernel(node, At { graph, after, count }, parameters);
    cuGraphAddMemcpyNode(node, graph, after, count, parameters, _) =>
        graph_nodes::copy(node, At { graph, after, count }, parameters);
    cuGraphAddMemsetNode(node, graph, after, count, parameters, _) =>
        graph_nodes::fill(node, At { graph, after, count }, parameters);
    cuGraphAddHostNode(node, graph, after, count, parameters) =>
        graph_nodes::host(node, At { graph, after, count }, parameters);
    cuGraphAddEmptyNode(node, graph, after, count) => graph_nodes::empty(node, At { graph, after, count });
    cuGraphAddMemAllocNode(node, graph, after, count, parameters) =>
        graph_nodes::allocation(node, At { graph, after, count }, parameters);
    cuGraphAddMemFreeNode(node, graph, after, count, address) =>
        graph_nodes::free(node, At { graph, after, count }, address);
    cuGraphAddChildGraphNode(node, graph, after, count, child) =>
        graph_nodes::child(node, At { graph, after, count }, child);
    cuGraphAddEventRecordNode(node, graph, after, count, event) =>
        At { graph, after, count }.add(node, Work::Record(event));
    cuGraphAddEventWaitNode(node, graph, after, count, event) =>
        At { graph, after, count }.add(node, Work::Wait(event));
    cuGraphClone(copy, graph) => graph::clone(copy, graph);
    cuGraphNodeFindInClone(twin, node, copy) => graph::find_in_clone(twin, node, copy);
    cuGraphGetNodes(graph, nodes, count) => graph::nodes(graph, nodes, count);
    cuGraphGetEdges(graph, from, to, count) => graph::edges(graph, from, to, count);
    cuGraphNodeGetType(node, kind) => graph::node_type(node, kind);
    cuGraphKernelNodeGetParams_v2(node, parameters) => graph_nodes::kernel_parameters(node, parameters);
    cuGraphKernelNodeSetParams_v2(node, parameters) => graph_nodes::set_kernel_parameters(node, parameters);
    cuGraphKernelNodeGetAttribute(node, attribute, value) => graph_nodes::kernel_attribute(node, attribute, value);
    cuGraphMemcpyNodeGetParams(node, parameters) => graph_nodes::copy_parameters(node, parameters);
    cuGraphMemsetNodeGetParams(node, parameters) => graph_nodes::fill_parameters(node, parameters);
    cuGraphHostNodeGetParams(node, parameters) => graph_nodes::host_parameters(node, parameters);
    cuGraphChildGraphNodeGetGraph(node, graph) => graph_nodes::graph_of_child(node, graph);
    cuGraphEventRecordNodeGetEvent(node, event) => graph_nodes::event_of(node, event);
    cuGraphEventWaitNodeGetEvent(node, event) => graph_nodes::event_of(node, event);
    cuGraphMemcpyNodeSetParams(node, parameters) => graph_nodes::set(node, graph_nodes::copy_of(parameters)?);
    cuGraphMemsetNodeSetParams(node, parameters) => graph_nodes::set(node, graph_nodes::fill_of(parameters)?);
    cuGraphHostNodeSetParams(node, parameters) => graph_nodes::set(node, graph_nodes::host_of(parameters)?);
    cuGraphEventRecordNodeSetEvent(node, event) => graph_nodes::set(node, Work::Record(event));
    cuGraphEventWaitNodeSetEvent(node, event) => graph_nodes::set(node, Work::Wait(event));
    cuGraphInstantiateWithFlags(executable, graph, _) => executable::instantiate(executable, graph);
    cuGraphExecUpdate_v2(executable, graph, result) => executable::update(executable, graph, result);
    cuGraphExecKernelNodeSetParams_v2(executable, node, parameters) =>
        executable::set_kernel(executable, node, parameters);
    cuGraphExecMemcpyNodeSetParams(executable, node, parameters, _) =>
        executable::set(executable, node, graph_nodes::copy_of(parameters)?);
    cuGraphExecMemsetNodeSetParams(executable, node, parameters, _) =>
        executable::set(executable, node, graph_nodes::fill_of(parameters)?);
    cuGraphExecHostNodeSetParams(executable, node, parameters) =>
        executable::set(executable, node, graph_nodes::host_of(parameters)?);
    cuGraphExecEventRecordNodeSetEvent(executable, node, event) =>
        executable::set(executable, node, Work::Record(event));
    cuGraphExecEventWaitNodeSetEvent(executable, node, event) => executable::set(executable, node, Work::Wait(event));
    cuGraphExecChildGraphNodeSetParams(executable, node, graph) => executable::set_child(executable, node, graph);
    cuGraphNodeSetEnabled(executable, node, enabled) => executable::set_enabled(executable, node, enabled);
    cuGraphExecDestroy(executable) => executable::destroy(executable);
    cuGraphLaunch(executable, stream) => executable::launch(executable, stream);

    cuEventCreate(event, flags) => event::create(event, flags);
    cuEventDestroy_v2(event) => event::destroy(event);
    cuEventRecord(event, stream) => event::record(event, stream);
    cuEventRecordWithFlags(event, stream, _) => event::record(event, stream);
    cuEventQuery(event) => event::query(event);
    cuEventSynchronize(event) => event::wait(event);
    cuEventElapsedTime(milliseconds, start, end) => event::elapsed(milliseconds, start, end);
    cuEventElapsedTime_v2(milliseconds, start, end) => event::elapsed(milliseconds, start, end);

    cuModuleLoad(module, path) => module::load_file(module, path);
    cuModuleLoadData(module, image) => module::load_data(module, image);
    cuModuleLoadDataEx(module, image, _, _, _) => module::load_data(module, image);
    cuModuleLoadFatBinary(module, image) => module::load_data(module, image);
    cuModuleUnload(module) => module::unload(module);
    cuModuleGetFunction(function, module, name) => module::get_function(function, module, name);
    cuModuleGetGlobal_v2(address, size, module, name) => module::get_global(address, size, module, name);
    cuModuleGetFunctionCount(count, module) => module::function_count(count, module);
    cuModuleEnumerateFunctions(functions, count, module) => module::enumerate(functions, count, module);
    cuModuleGetLoadingMode(mode) => module::loading_mode(mode);
    cuLibraryLoadData(library, image, _, _, _, _, _, _) => module::load_library(library, image);
    cuLibraryLoadFromFile(library, path, _, _, _, _, _, _) => module::load_library_file(library, path);
    cuLibraryUnload(library) => module::unload_library(library);
    cuLibraryGetKernel(kernel, library, name) => module::get_kernel(kernel, library, name);
    cuLibraryGetModule(module, library) => module::get_module(module, library);
    cuLibraryGetGlobal(address, size, library, name) => module::library_global(address, size, library, name);
    cuLibraryGetManaged(address, size, library, name) => module::library_managed(address, size, library, name);
    cuLibraryGetKernelCount(count, library) => module::kernel_count(count, library);
    cuLibraryEnumerateKernels(kernels, count, library) => module::enumerate_kernels(kernels, count, library);

    cuFuncGetAttribute(value, attribute, function) => function::attribute(value, attribute, function);
    cuFuncSetAttribute(function, attribute, value) => function::set_attribute(function, attribute, value);
    cuFuncSetCacheConfig(function, _) => function::accept(function);
    cuFuncSetSharedMemConfig(function, _) => function::accept(function);
    cuFuncGetModule(module, function) => function::owner(module, function);
    cuFuncGetName(name, function) => function::name(name, function);
    cuFuncGetParamInfo(function, index, offset, size) => function::parameter(function, index, offset, size);
    cuFuncIsLoaded(state, function) => function::is_loaded(state, function);
    cuFuncLoad(function) => function::accept(function);
    cuKernelGetFunction(function, kernel) => module::function_of_kernel(function, kernel);
    cuKernelGetLibrary(library, kernel) => function::owner(library, kernel);
    cuKernelGetName(name, kernel) => function::name(name, kernel);
    cuKernelGetParamInfo(kernel, index, offset, size) => function::parameter(kernel, index, offset, size);
    cuKernelGetAttribute(value, attribute, kernel, _) => function::attribute(value, attribute, kernel);
    cuKernelSetAttribute(attribute, value, kernel, _) => function::set_attribute(kernel, attribute, value);
    cuKernelSetCacheConfig(kernel, _, _) => function::accept(kernel);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared) =>
        function::occupancy(blocks, function, threads, shared);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, _) =>
        function::occupancy(blocks, function, threads, shared);
    cuOccupancyMaxPotentialBlockSize(grid, block, function, _, _, limit) =>
        function::potential_block(grid, block, function, limit);
    cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, _, _, limit, _) =>
        function::potential_block(grid, block, function, limit);
    cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, _, _) => function::available_shared(bytes, function);

    cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra) =>
        launch::launch(
            function,
            LaunchExtents { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared },
            stream,
            parameters,
            extra,
        );
    cuLaunchKernelEx(configuration, function, parameters, extra) =>
        launch::launch_extended(configuration, function, parameters, extra);
    cuLaunchCooperativeKernel(
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters
    ) =>
        launch::launch_cooperative(
            function,
            LaunchExtents { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared },
            stream,
            parameters,
            In::of_place(0),
        );
}

// Launch functions from before CUDA 4.0.
refused! { enter =>
    cuFuncSetBlockShape, cuFuncSetSharedSize, cuParamSetSize, cuParamSeti, cuParamSetf, cuParamSetv, cuLaunch,
    cuLaunchGrid, cuLaunchGridAsync,
}

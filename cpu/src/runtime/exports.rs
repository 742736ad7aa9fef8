//! The exported runtime functions.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::{c_char, c_void};

use mneme_abi::cuda::types::*;

use super::arrays::{self, Side};
use super::error::{self, enter};
use super::memory::Rows;
use super::session::driver_with_context;
use super::{calls, device, launch, memory, registration, session, volumes};
use crate::abi::{answer, answers, take};
use crate::driver::graph_nodes::At;
use crate::driver::{VERSION, stream};
use crate::status::StatusResult;

/// An entry is `symbol: (arguments) => handler`; an argument that the handler does not use is `_`. With `=>`, the
/// arguments are converted to the handler's types; with `->`, they are passed to the driver unchanged. A second name is
/// for programs built with per-thread default streams.
macro_rules! runtime_exports {
    ($($symbol:ident $(| $form:ident)?: $arguments:tt $arrow:tt $handler:expr;)*) => {
        $(
            mneme_abi::$symbol! { export { $arguments $arrow $handler } }
            $( mneme_abi::$form! { export { $arguments $arrow per_thread $handler } } )?
        )*
    };
}

macro_rules! export {
    ({ $arguments:tt $arrow:tt per_thread $handler:expr } $($declaration:tt)*) => {
        export! { { $arguments $arrow stream::with_own_default(|| $handler) } $($declaration)* }
    };
    ({ $arguments:tt $arrow:tt $handler:expr } $since:literal $symbol:ident($($raw:ident: $type:ty),*)) => {
        /// # Safety
        /// Arguments must be as the CUDA runtime API demands: pointers are null or valid for their type.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the signature in CUDA")]
        pub unsafe extern "C" fn $symbol($($raw: $type),*) -> Status {
            run! { $arguments ($($raw)*) $arrow $handler }
        }
    };
}

/// The driver's function gets the program's arguments, of which only the types are converted.
macro_rules! run {
    (($($argument:tt),*) ($($raw:ident)*) -> $handler:expr) => {{
        $( let $argument = $raw; )*
        enter(|| $handler)
    }};
    (($($argument:tt),*) ($($raw:ident)*) => $handler:expr) => {{
        $( take! { $argument $raw } )*
        enter(|| $handler)
    }};
}

runtime_exports! {
    cudaGetDeviceCount: (count) => device::count(count);
    cudaGetDevice: (device) => device::get(device);
    cudaSetDevice: (device) => device::set(device);
    cudaInitDevice: (device, _, _) => device::set(device);
    cudaSetDeviceFlags: (_) => device::accept();
    cudaGetDeviceFlags: (flags) => device::put_zero(flags);
    cudaSetValidDevices: (_, _) => device::accept();
    cudaChooseDevice: (device, _) => device::get(device);
    cudaGetDeviceProperties: (properties, device) => device::properties_of_13(properties, device);
    cudaGetDeviceProperties_v2: (properties, device) => device::properties(properties, device);
    cudaDeviceGetAttribute: (value, attribute, device) => device::put_attribute(value, attribute, device);
    cudaDeviceGetPCIBusId: (id, length, device) => device::bus_id(id, length, device);
    cudaDeviceCanAccessPeer: (can, device, peer) => device::can_access_peer(can, device, peer);
    cudaDeviceEnablePeerAccess: (peer, flags) => device::enable_peer(peer, flags);
    cudaDeviceDisablePeerAccess: (peer) => device::disable_peer(peer);
    cudaDeviceSynchronize: () -> driver_with_context()?.cuCtxSynchronize();
    cudaThreadSynchronize: () -> driver_with_context()?.cuCtxSynchronize();
    cudaDeviceReset: () => session::reset();
    cudaDeviceGetLimit: (value, limit) -> driver_with_context()?.cuCtxGetLimit(value, limit);
    cudaDeviceSetLimit: (limit, value) -> driver_with_context()?.cuCtxSetLimit(limit, value);
    cudaDeviceGetCacheConfig: (value) => device::put_zero(value);
    cudaDeviceSetCacheConfig: (_) => device::accept();
    cudaDeviceGetSharedMemConfig: (value) => device::put_zero(value);
    cudaDeviceSetSharedMemConfig: (_) => device::accept();
    cudaDeviceGetStreamPriorityRange: (least, greatest) ->
        driver_with_context()?.cuCtxGetStreamPriorityRange(least, greatest);

    cudaDeviceGetDefaultMemPool: (pool, device) -> driver_with_context()?.cuDeviceGetDefaultMemPool(pool, device);
    cudaDeviceGetMemPool: (pool, device) -> driver_with_context()?.cuDeviceGetMemPool(pool, device);
    cudaDeviceSetMemPool: (device, pool) -> driver_with_context()?.cuDeviceSetMemPool(device, pool);
    cudaMemPoolCreate: (pool, properties) -> driver_with_context()?.cuMemPoolCreate(pool, properties);
    cudaMemPoolDestroy: (pool) -> driver_with_context()?.cuMemPoolDestroy(pool);
    cudaMemPoolTrimTo: (pool, keep) -> driver_with_context()?.cuMemPoolTrimTo(pool, keep);
    cudaMemPoolSetAttribute: (pool, attribute, value) ->
        driver_with_context()?.cuMemPoolSetAttribute(pool, attribute, value);
    cudaMemPoolGetAttribute: (pool, attribute, value) ->
        driver_with_context()?.cuMemPoolGetAttribute(pool, attribute, value);
    cudaMemPoolSetAccess: (pool, accesses, count) -> driver_with_context()?.cuMemPoolSetAccess(pool, accesses, count);

    cudaGetDriverEntryPoint | cudaGetDriverEntryPoint_ptsz: (name, address, flags, result) =>
        calls::entry_point(name, address, VERSION, flags, result);
    cudaGetDriverEntryPointByVersion | cudaGetDriverEntryPointByVersion_ptsz: (name, address, version, flags, result) =>
        calls::entry_point_by_version(name, address, version, flags, result);

    cudaThreadExit: () => session::reset();
    cudaThreadGetLimit: (value, limit) -> driver_with_context()?.cuCtxGetLimit(value, limit);
    cudaThreadSetLimit: (limit, value) -> driver_with_context()?.cuCtxSetLimit(limit, value);
    cudaThreadGetCacheConfig: (value) => device::put_zero(value);
    cudaThreadSetCacheConfig: (_) => device::accept();
    cudaCtxResetPersistingL2Cache: () => device::accept();
    cudaSetDoubleForDevice: (_) => device::accept();
    cudaSetDoubleForHost: (_) => device::accept();
    cudaDriverGetVersion: (version) => device::driver_version(version);
    cudaRuntimeGetVersion: (version) => device::runtime_version(version);
    cudaProfilerStart: () -> driver_with_context()?.cuProfilerStart();
    cudaProfilerStop: () -> driver_with_context()?.cuProfilerStop();

    cudaMalloc: (address, bytes) => memory::allocate(address, bytes);
    cudaFree: (address) -> driver_with_context()?.cuMemFree_v2(address);
    cudaMallocPitch: (address, pitch, width, height) ->
        driver_with_context()?.cuMemAllocPitch_v2(address, pitch, width, height, 4);
    cudaMallocManaged: (address, bytes, flags) -> driver_with_context()?.cuMemAllocManaged(address, bytes, flags);
    cudaMallocHost: (address, bytes) -> driver_with_context()?.cuMemHostAlloc(address, bytes, 0);
    cudaHostAlloc: (address, bytes, flags) -> driver_with_context()?.cuMemHostAlloc(address, bytes, flags);
    cudaIpcGetMemHandle: (handle, address) -> driver_with_context()?.cuIpcGetMemHandle(handle, address);
    cudaIpcOpenMemHandle: (address, handle, flags) ->
        driver_with_context()?.cuIpcOpenMemHandle_v2(address, handle, flags);
    cudaIpcCloseMemHandle: (address) -> driver_with_context()?.cuIpcCloseMemHandle(address);
    cudaFreeHost: (address) -> driver_with_context()?.cuMemFreeHost(address);
    cudaHostRegister: (address, bytes, flags) -> driver_with_context()?.cuMemHostRegister_v2(address, bytes, flags);
    cudaHostUnregister: (address) -> driver_with_context()?.cuMemHostUnregister(address);
    cudaHostGetDevicePointer: (out, address, flags) ->
        driver_with_context()?.cuMemHostGetDevicePointer_v2(out, address, flags);
    cudaMallocAsync | cudaMallocAsync_ptsz: (address, bytes, stream) ->
        driver_with_context()?.cuMemAllocAsync(address, bytes, stream);
    cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz: (address, bytes, pool, stream) ->
        driver_with_context()?.cuMemAllocFromPoolAsync(address, bytes, pool, stream);
    cudaFreeAsync | cudaFreeAsync_ptsz: (address, stream) -> driver_with_context()?.cuMemFreeAsync(address, stream);
    cudaMemGetInfo: (free, total) -> driver_with_context()?.cuMemGetInfo_v2(free, total);
    cudaMemAdvise: (address, bytes, advice, device) ->
        driver_with_context()?.cuMemAdvise(address, bytes, advice, device);
    cudaMemPrefetchAsync | cudaMemPrefetchAsync_ptsz: (address, bytes, device, stream) ->
        driver_with_context()?.cuMemPrefetchAsync(address, bytes, device, stream);
    cudaMemPrefetchAsync_v2 | cudaMemPrefetchAsync_v2_ptsz: (address, bytes, place, _, stream) =>
        memory::prefetch_to(place, address, bytes, stream);
    cudaMemAdvise_v2: (address, bytes, advice, place) =>
        memory::advise_at(place, address, bytes, advice);
    cudaMalloc3D: (out, extent) => volumes::allocate(out, extent);
    cudaMemset3D | cudaMemset3D_ptds: (what, value, extent) => volumes::fill(what, value, extent, None);
    cudaMemset3DAsync | cudaMemset3DAsync_ptsz: (what, value, extent, stream) =>
        volumes::fill(what, value, extent, Some(stream));
    cudaMemcpy3D | cudaMemcpy3D_ptds: (what) => volumes::copy(what, None);
    cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz: (what, stream) => volumes::copy(what, Some(stream));
    cudaPointerGetAttributes: (attributes, address) => memory::pointer_attributes(attributes, address);

    cudaMemcpy | cudaMemcpy_ptds: (to, from, bytes, kind) => memory::copy(to, from, bytes, kind);
    cudaMemcpyAsync | cudaMemcpyAsync_ptsz: (to, from, bytes, kind, stream) =>
        memory::copy_on(to, from, bytes, kind, stream);
    cudaMemcpyPeer: (to, _, from, _, bytes) -> driver_with_context()?.cuMemcpyPeer(to, 0usize, from, 0usize, bytes);
    cudaMemcpyPeerAsync: (to, _, from, _, bytes, stream) ->
        driver_with_context()?.cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
    cudaMemcpy2D | cudaMemcpy2D_ptds: (to, to_pitch, from, from_pitch, width, height, kind) =>
        memory::copy_2d(&Rows { to, to_pitch, from, from_pitch, width, height }, kind);
    cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz: (to, to_pitch, from, from_pitch, width, height, kind, stream) =>
        memory::copy_2d_on(&Rows { to, to_pitch, from, from_pitch, width, height }, kind, stream);
    cudaMallocArray: (array, format, width, height, flags) =>
        arrays::allocate(array, format, Extent { width, height, depth: 0 }, flags);
    cudaMalloc3DArray: (array, format, extent, flags) => arrays::allocate(array, format, extent, flags);
    cudaFreeArray: (array) => arrays::free(array);
    cudaArrayGetInfo: (format, extent, flags, array) => arrays::information(format, extent, flags, array);
    cudaGetChannelDesc: (format, array) => arrays::format(format, array);
    cudaCreateTextureObject: (texture, resource, what, view) =>
        arrays::create_texture(texture, resource, what, view);
    cudaDestroyTextureObject: (texture) -> driver_with_context()?.cuTexObjectDestroy(texture);
    cudaCreateSurfaceObject: (surface, resource) => arrays::create_surface(surface, resource);
    cudaDestroySurfaceObject: (surface) -> driver_with_context()?.cuSurfObjectDestroy(surface);
    cudaMemcpyToArray | cudaMemcpyToArray_ptds: (array, x, y, address, bytes, kind) =>
        arrays::copy_bytes(Side::Array { array, x, y }, Side::Memory { address, pitch: 0 }, bytes, kind, None);
    cudaMemcpyToArrayAsync | cudaMemcpyToArrayAsync_ptsz: (array, x, y, address, bytes, kind, stream) =>
        arrays::copy_bytes(Side::Array { array, x, y }, Side::Memory { address, pitch: 0 }, bytes, kind, Some(stream));
    cudaMemcpyFromArray | cudaMemcpyFromArray_ptds: (address, array, x, y, bytes, kind) =>
        arrays::copy_bytes(Side::Memory { address, pitch: 0 }, Side::Array { array, x, y }, bytes, kind, None);
    cudaMemcpyFromArrayAsync | cudaMemcpyFromArrayAsync_ptsz: (address, array, x, y, bytes, kind, stream) =>
        arrays::copy_bytes(Side::Memory { address, pitch: 0 }, Side::Array { array, x, y }, bytes, kind, Some(stream));
    cudaMemcpyArrayToArray | cudaMemcpyArrayToArray_ptds: (to, to_x, to_y, from, from_x, from_y, bytes, kind) =>
        arrays::copy_bytes(
            Side::Array { array: to, x: to_x, y: to_y },
            Side::Array { array: from, x: from_x, y: from_y },
            bytes,
            kind,
            None,
        );
    cudaMemcpy2DToArray | cudaMemcpy2DToArray_ptds: (array, x, y, address, pitch, width, height, kind) =>
        arrays::copy_rows(Side::Array { array, x, y }, Side::Memory { address, pitch }, width, height, kind, None);
    cudaMemcpy2DToArrayAsync | cudaMemcpy2DToArrayAsync_ptsz:
        (array, x, y, address, pitch, width, height, kind, stream) => arrays::copy_rows(
            Side::Array { array, x, y },
            Side::Memory { address, pitch },
            width,
            height,
            kind,
            Some(stream),
        );
    cudaMemcpy2DFromArray | cudaMemcpy2DFromArray_ptds: (address, pitch, array, x, y, width, height, kind) =>
        arrays::copy_rows(Side::Memory { address, pitch }, Side::Array { array, x, y }, width, height, kind, None);
    cudaMemcpy2DFromArrayAsync | cudaMemcpy2DFromArrayAsync_ptsz:
        (address, pitch, array, x, y, width, height, kind, stream) => arrays::copy_rows(
            Side::Memory { address, pitch },
            Side::Array { array, x, y },
            width,
            height,
            kind,
            Some(stream),
        );
    cudaMemcpy2DArrayToArray | cudaMemcpy2DArrayToArray_ptds:
        (to, to_x, to_y, from, from_x, from_y, width, height, kind) => arrays::copy_rows(
            Side::Array { array: to, x: to_x, y: to_y },
            Side::Array { array: from, x: from_x, y: from_y },
            width,
            height,
            kind,
            None,
        );
    cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds: (symbol, from, bytes, offset, kind) =>
        memory::to_symbol(symbol, from, bytes, offset, kind);
    cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz: (symbol, from, bytes, offset, kind, stream) =>
        memory::to_symbol_on(symbol, from, bytes, offset, kind, stream);
    cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds: (to, symbol, bytes, offset, kind) =>
        memory::from_symbol(to, symbol, bytes, offset, kind);
    cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz: (to, symbol, bytes, offset, kind, stream) =>
        memory::from_symbol_on(to, symbol, bytes, offset, kind, stream);
    cudaGetSymbolAddress: (address, symbol) => memory::symbol_address(address, symbol);
    cudaGetSymbolSize: (size, symbol) => memory::symbol_size(size, symbol);
    cudaMemset | cudaMemset_ptds: (address, value, bytes) ->
        driver_with_context()?.cuMemsetD8_v2(address, value as u8, bytes);
    cudaMemsetAsync | cudaMemsetAsync_ptsz: (address, value, bytes, stream) ->
        driver_with_context()?.cuMemsetD8Async(address, value as u8, bytes, stream);
    cudaMemset2D | cudaMemset2D_ptds: (address, pitch, value, width, height) ->
        driver_with_context()?.cuMemsetD2D8_v2(address, pitch, value as u8, width, height);
    cudaMemset2DAsync | cudaMemset2DAsync_ptsz: (address, pitch, value, width, height, stream) ->
        driver_with_context()?.cuMemsetD2D8Async(address, pitch, value as u8, width, height, stream);

    cudaStreamCreate: (stream) -> driver_with_context()?.cuStreamCreateWithPriority(stream, 0, 0);
    cudaStreamCreateWithFlags: (stream, flags) -> driver_with_context()?.cuStreamCreateWithPriority(stream, flags, 0);
    cudaStreamCreateWithPriority: (stream, flags, priority) ->
        driver_with_context()?.cuStreamCreateWithPriority(stream, flags, priority);
    cudaStreamDestroy: (stream) -> driver_with_context()?.cuStreamDestroy_v2(stream);
    cudaStreamQuery | cudaStreamQuery_ptsz: (stream) -> driver_with_context()?.cuStreamQuery(stream);
    cudaStreamSynchronize | cudaStreamSynchronize_ptsz: (stream) -> driver_with_context()?.cuStreamSynchronize(stream);
    cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz: (stream, event, flags) ->
        driver_with_context()?.cuStreamWaitEvent(stream, event, flags);
    cudaStreamGetFlags | cudaStreamGetFlags_ptsz: (stream, flags) ->
        driver_with_context()?.cuStreamGetFlags(stream, flags);
    cudaStreamGetDevice | cudaStreamGetDevice_ptsz: (stream, device) => device::of_stream(stream, device);
    cudaStreamAttachMemAsync | cudaStreamAttachMemAsync_ptsz: (stream, _, _, _) =>
        device::check_stream(stream);
    cudaStreamGetPriority | cudaStreamGetPriority_ptsz: (stream, priority) ->
        driver_with_context()?.cuStreamGetPriority(stream, priority);
    cudaStreamIsCapturing | cudaStreamIsCapturing_ptsz: (stream, status) ->
        driver_with_context()?.cuStreamIsCapturing(stream, status);
    cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz: (stream, mode) ->
        driver_with_context()?.cuStreamBeginCapture_v2(stream, mode);
    cudaStreamEndCapture | cudaStreamEndCapture_ptsz: (stream, graph) ->
        driver_with_context()?.cuStreamEndCapture(stream, graph);
    cudaThreadExchangeStreamCaptureMode: (mode) -> driver_with_context()?.cuThreadExchangeStreamCaptureMode(mode);

    cudaGraphCreate: (graph, flags) -> driver_with_context()?.cuGraphCreate(graph, flags);
    cudaGraphAddKernelNode: (node, graph, after, count, parameters) =>
        launch::add_node(node, graph, after, count, parameters);
    cudaGraphAddMemcpyNode1D: (node, graph, after, count, to, from, bytes, kind) =>
        memory::add_line_node(node, At { graph, after, count }, to, from, bytes, kind);
    cudaGraphAddMemsetNode: (node, graph, after, count, parameters) ->
        driver_with_context()?.cuGraphAddMemsetNode(node, graph, after, count, parameters, 0usize);
    cudaGraphAddHostNode: (node, graph, after, count, parameters) ->
        driver_with_context()?.cuGraphAddHostNode(node, graph, after, count, parameters);
    cudaGraphAddEmptyNode: (node, graph, after, count) ->
        driver_with_context()?.cuGraphAddEmptyNode(node, graph, after, count);
    cudaGraphAddMemAllocNode: (node, graph, after, count, parameters) ->
        driver_with_context()?.cuGraphAddMemAllocNode(node, graph, after, count, parameters);
    cudaGraphAddMemFreeNode: (node, graph, after, count, address) ->
        driver_with_context()?.cuGraphAddMemFreeNode(node, graph, after, count, address);
    cudaGraphDestroy: (graph) -> driver_with_context()?.cuGraphDestroy(graph);
    cudaGraphClone: (copy, graph) -> driver_with_context()?.cuGraphClone(copy, graph);
    cudaGraphGetNodes: (graph, nodes, count) -> driver_with_context()?.cuGraphGetNodes(graph, nodes, count);
    cudaGraphInstantiate: (executable, graph, flags) ->
        driver_with_context()?.cuGraphInstantiateWithFlags(executable, graph, flags);
    cudaGraphInstantiateWithFlags: (executable, graph, flags) ->
        driver_with_context()?.cuGraphInstantiateWithFlags(executable, graph, flags);
    cudaGraphExecUpdate: (executable, graph, result) ->
        driver_with_context()?.cuGraphExecUpdate_v2(executable, graph, result);
    cudaGraphExecDestroy: (executable) -> driver_with_context()?.cuGraphExecDestroy(executable);
    cudaGraphLaunch | cudaGraphLaunch_ptsz: (executable, stream) ->
        driver_with_context()?.cuGraphLaunch(executable, stream);

    cudaStreamAddCallback | cudaStreamAddCallback_ptsz: (stream, function, data, flags) ->
        driver_with_context()?.cuStreamAddCallback(stream, function, data, flags);
    cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz: (stream, function, data) ->
        driver_with_context()?.cuLaunchHostFunc(stream, function, data);

    cudaEventCreate: (event) -> driver_with_context()?.cuEventCreate(event, 0);
    cudaEventCreateWithFlags: (event, flags) -> driver_with_context()?.cuEventCreate(event, flags);
    cudaEventDestroy: (event) -> driver_with_context()?.cuEventDestroy_v2(event);
    cudaEventRecord | cudaEventRecord_ptsz: (event, stream) -> driver_with_context()?.cuEventRecord(event, stream);
    cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz: (event, stream, _) ->
        driver_with_context()?.cuEventRecord(event, stream);
    cudaEventQuery: (event) -> driver_with_context()?.cuEventQuery(event);
    cudaEventSynchronize: (event) -> driver_with_context()?.cuEventSynchronize(event);
    cudaEventElapsedTime: (milliseconds, start, end) ->
        driver_with_context()?.cuEventElapsedTime_v2(milliseconds, start, end);
    cudaEventElapsedTime_v2: (milliseconds, start, end) ->
        driver_with_context()?.cuEventElapsedTime_v2(milliseconds, start, end);

    cudaLaunchKernel | cudaLaunchKernel_ptsz: (function, grid, block, arguments, shared, stream) =>
        launch::launch(function, grid, block, arguments, shared, stream);
    cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz: (configuration, function, arguments) =>
        launch::launch_extended(configuration, function, arguments);
    cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz:
        (function, grid, block, arguments, shared, stream) =>
            launch::launch_cooperative(function, grid, block, arguments, shared, stream);
    cudaFuncGetAttributes: (attributes, function) => launch::attributes(attributes, function);
    cudaFuncSetAttribute: (function, attribute, value) => launch::set_attribute(function, attribute, value);
    cudaFuncSetCacheConfig: (function, _) => launch::accept(function);
    cudaFuncSetSharedMemConfig: (function, _) => launch::accept(function);
    cudaGetKernel | __cudaGetKernel: (kernel, function) => launch::kernel(kernel, function);
    __cudaLaunchKernel | __cudaLaunchKernel_ptsz: (kernel, grid, block, arguments, shared, stream) =>
        launch::launch_kernel(kernel, grid, block, arguments, shared, stream);
    cudaGetFuncBySymbol: (out, function) => launch::function(out, function);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor: (blocks, function, threads, shared) =>
        launch::occupancy(blocks, function, threads, shared, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (blocks, function, threads, shared, flags) =>
        launch::occupancy(blocks, function, threads, shared, flags);
    cudaOccupancyAvailableDynamicSMemPerBlock: (bytes, function, blocks, threads) =>
        launch::available_shared(bytes, function, blocks, threads);
    __cudaPopCallConfiguration: (grid, block, shared, stream) => launch::pop(grid, block, shared, stream);
}

answers! {
    cudaGetLastError: () => error::take();
    cudaPeekAtLastError: () => error::peek();
    cudaGetErrorName: (error) => error_name(error);
    cudaGetErrorString: (error) => error_text(error);
    cudaCreateChannelDesc: (x, y, z, w, kind) => ChannelFormat { x, y, z, w, kind };
    __cudaPushCallConfiguration: (grid, block, shared, stream) => push(grid, block, shared, stream);

    __cudaRegisterFatBinary: (wrapper) => registration::add_binary(wrapper);
    __cudaRegisterFatBinaryEnd: (_) => ();
    __cudaUnregisterFatBinary: (handle) => noted(|| {
        registration::remove_binary(handle);
        Ok(())
    });
    __cudaInitModule: (_) => INITIALISED;
    __cudaRegisterFunction: (handle, host, _, name, _, _, _, _, _, _) =>
        noted(|| registration::add_kernel(handle, host, name));
    __cudaRegisterVar: (handle, host, _, name, _, _, _, _) =>
        noted(|| registration::add_variable(handle, host, name));
}

/// The result of `__cudaInitModule` after success.
const INITIALISED: c_char = 1;

fn error_name(error: Status) -> *const c_char {
    error.runtime_name().as_ptr()
}

fn error_text(error: Status) -> *const c_char {
    error.text().unwrap_or(c"unrecognized error code").as_ptr()
}

fn push(grid: Dimensions, block: Dimensions, shared: usize, stream: usize) -> u32 {
    launch::push(grid, block, shared, stream);
    0
}

/// Runs start-up code, whose failure becomes this thread's last error.
fn noted(body: impl FnOnce() -> StatusResult) {
    enter(body);
}

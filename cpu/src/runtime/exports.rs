//! The exported runtime functions.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::{c_char, c_void};

use super::calls::driver;
use super::error::{self, enter};
use super::launch::{FunctionAttributes, RuntimeConfiguration, RuntimeDim3};
use super::memory::{PointerAttributes, Rows};
use super::session::driver_with_context;
use super::volumes::{self, CopyParameters, Pitched, RuntimeExtent};
use super::{calls, device, launch, memory, registration, session};
use crate::abi::{CStringArgument, Callback, HostFunction, In, Out};
use crate::driver::VERSION;
use crate::driver::graph_nodes::AllocationNodeParameters;
use crate::driver::sharing::IpcHandle;
use crate::driver::work::{Fill, Host};
use crate::status::{Status, StatusResult};

macro_rules! runtime_export {
    ($symbol:ident($($argument:ident: $type:ty),* $(,)?) => $body:expr) => {
        /// # Safety
        /// Arguments as the CUDA runtime API demands them: pointers are null or valid for their type.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($argument: $type),*) -> Status {
            enter(|| $body)
        }
    };
}

/// A second name is that of programs built for per-thread default streams: streams execute at enqueue, so it is the
/// same.
macro_rules! runtime_exports {
    () => {};
    ($symbol:ident | $per_thread:ident $arguments:tt => $body:expr; $($rest:tt)*) => {
        runtime_export!($symbol $arguments => $body);
        runtime_export!($per_thread $arguments => $body);
        runtime_exports!($($rest)*);
    };
    ($symbol:ident $arguments:tt => $body:expr; $($rest:tt)*) => {
        runtime_export!($symbol $arguments => $body);
        runtime_exports!($($rest)*);
    };
}

type Ignored = *const c_void;

runtime_exports! {
    cudaGetDeviceCount(count: Out<i32>) => driver()?.cuDeviceGetCount(count);
    cudaGetDevice(device: Out<i32>) => device::get(device);
    cudaSetDevice(device: i32) => device::set(device);
    cudaInitDevice(device: i32, _device_flags: u32, _flags: u32) => device::set(device);
    cudaSetDeviceFlags(_flags: u32) => device::accept();
    cudaGetDeviceFlags(flags: Out<u32>) => device::put_zero(flags);
    cudaSetValidDevices(_devices: Ignored, _count: i32) => device::accept();
    cudaChooseDevice(device: Out<i32>, _wanted: Ignored) => device::get(device);
    cudaGetDeviceProperties_v2(properties: Out<device::RuntimeProperties>, device: i32) => device::properties(properties, device);
    cudaDeviceGetAttribute(value: Out<i32>, attribute: u32, device: i32) => driver()?.cuDeviceGetAttribute(value, attribute, device);
    cudaDeviceGetPCIBusId(id: Out<c_char>, length: i32, device: i32) => device::bus_id(id, length, device);
    cudaDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) => driver()?.cuDeviceCanAccessPeer(can, device, peer);
    cudaDeviceEnablePeerAccess(peer: i32, flags: u32) => device::enable_peer(peer, flags);
    cudaDeviceDisablePeerAccess(peer: i32) => device::disable_peer(peer);
    cudaDeviceSynchronize() => driver_with_context()?.cuCtxSynchronize();
    cudaThreadSynchronize() => driver_with_context()?.cuCtxSynchronize();
    cudaDeviceReset() => session::reset();
    cudaDeviceGetLimit(value: Out<usize>, limit: u32) => driver_with_context()?.cuCtxGetLimit(value, limit);
    cudaDeviceSetLimit(limit: u32, value: usize) => driver_with_context()?.cuCtxSetLimit(limit, value);
    cudaDeviceGetCacheConfig(value: Out<u32>) => device::put_zero(value);
    cudaDeviceSetCacheConfig(_value: u32) => device::accept();
    cudaDeviceGetSharedMemConfig(value: Out<u32>) => device::put_zero(value);
    cudaDeviceSetSharedMemConfig(_value: u32) => device::accept();
    cudaDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) => driver_with_context()?.cuCtxGetStreamPriorityRange(least, greatest);
    cudaDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) => driver_with_context()?.cuDeviceGetDefaultMemPool(pool, device);
    cudaDeviceGetMemPool(pool: Out<usize>, device: i32) => driver_with_context()?.cuDeviceGetMemPool(pool, device);
    cudaDeviceSetMemPool(device: i32, pool: usize) => driver_with_context()?.cuDeviceSetMemPool(device, pool);
    cudaMemPoolCreate(pool: Out<usize>, properties: In<[i32; 4]>) => driver_with_context()?.cuMemPoolCreate(pool, properties);
    cudaMemPoolDestroy(pool: usize) => driver_with_context()?.cuMemPoolDestroy(pool);
    cudaMemPoolTrimTo(pool: usize, keep: usize) => driver_with_context()?.cuMemPoolTrimTo(pool, keep);
    cudaMemPoolSetAttribute(pool: usize, attribute: u32, value: Ignored) => driver_with_context()?.cuMemPoolSetAttribute(pool, attribute, value);
    cudaMemPoolGetAttribute(pool: usize, attribute: u32, value: Out<u64>) => driver_with_context()?.cuMemPoolGetAttribute(pool, attribute, value);
    cudaMemPoolSetAccess(pool: usize, accesses: Ignored, count: usize) => driver_with_context()?.cuMemPoolSetAccess(pool, accesses, count);
    cudaGetDriverEntryPoint | cudaGetDriverEntryPoint_ptsz(name: CStringArgument, address: Out<usize>, flags: u64, result: Out<u32>) =>
        calls::entry_point(name, address, VERSION, flags, result);
    cudaGetDriverEntryPointByVersion | cudaGetDriverEntryPointByVersion_ptsz(name: CStringArgument, address: Out<usize>, version: u32, flags: u64, result: Out<u32>) =>
        calls::entry_point(name, address, version as i32, flags, result);
    cudaThreadExit() => session::reset();
    cudaThreadGetLimit(value: Out<usize>, limit: u32) => driver_with_context()?.cuCtxGetLimit(value, limit);
    cudaThreadSetLimit(limit: u32, value: usize) => driver_with_context()?.cuCtxSetLimit(limit, value);
    cudaThreadGetCacheConfig(value: Out<u32>) => device::put_zero(value);
    cudaThreadSetCacheConfig(_value: u32) => device::accept();
    cudaCtxResetPersistingL2Cache() => device::accept();
    cudaSetDoubleForDevice(_value: Ignored) => device::accept();
    cudaSetDoubleForHost(_value: Ignored) => device::accept();
    cudaDriverGetVersion(version: Out<i32>) => driver()?.cuDriverGetVersion(version);
    cudaRuntimeGetVersion(version: Out<i32>) => version.put(VERSION);
    cudaProfilerStart() => driver_with_context()?.cuProfilerStart();
    cudaProfilerStop() => driver_with_context()?.cuProfilerStop();

    cudaMalloc(address: Out<u64>, bytes: usize) => memory::allocate(address, bytes);
    cudaFree(address: u64) => driver_with_context()?.cuMemFree_v2(address);
    cudaMallocPitch(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize) => driver_with_context()?.cuMemAllocPitch_v2(address, pitch, width, height, 4);
    cudaMallocManaged(address: Out<u64>, bytes: usize, flags: u32) => driver_with_context()?.cuMemAllocManaged(address, bytes, flags);
    cudaMallocHost(address: Out<u64>, bytes: usize) => driver_with_context()?.cuMemHostAlloc(address, bytes, 0);
    cudaHostAlloc(address: Out<u64>, bytes: usize, flags: u32) => driver_with_context()?.cuMemHostAlloc(address, bytes, flags);
    cudaIpcGetMemHandle(handle: Out<IpcHandle>, address: u64) => driver_with_context()?.cuIpcGetMemHandle(handle, address);
    cudaIpcOpenMemHandle(address: Out<u64>, handle: IpcHandle, flags: u32) => driver_with_context()?.cuIpcOpenMemHandle_v2(address, handle, flags);
    cudaIpcCloseMemHandle(address: u64) => driver_with_context()?.cuIpcCloseMemHandle(address);
    cudaFreeHost(address: u64) => driver_with_context()?.cuMemFreeHost(address);
    cudaHostRegister(address: u64, bytes: usize, flags: u32) => driver_with_context()?.cuMemHostRegister_v2(address, bytes, flags);
    cudaHostUnregister(address: u64) => driver_with_context()?.cuMemHostUnregister(address);
    cudaHostGetDevicePointer(out: Out<u64>, address: u64, flags: u32) => driver_with_context()?.cuMemHostGetDevicePointer_v2(out, address, flags);
    cudaMallocAsync | cudaMallocAsync_ptsz(address: Out<u64>, bytes: usize, stream: usize) => driver_with_context()?.cuMemAllocAsync(address, bytes, stream);
    cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz(address: Out<u64>, bytes: usize, pool: usize, stream: usize) => driver_with_context()?.cuMemAllocFromPoolAsync(address, bytes, pool, stream);
    cudaFreeAsync | cudaFreeAsync_ptsz(address: u64, stream: usize) => driver_with_context()?.cuMemFreeAsync(address, stream);
    cudaMemGetInfo(free: Out<usize>, total: Out<usize>) => driver_with_context()?.cuMemGetInfo_v2(free, total);
    cudaMemAdvise(address: u64, bytes: usize, advice: u32, device: i32) => driver_with_context()?.cuMemAdvise(address, bytes, advice, device);
    cudaMemPrefetchAsync | cudaMemPrefetchAsync_ptsz(address: u64, bytes: usize, device: i32, stream: usize) => driver_with_context()?.cuMemPrefetchAsync(address, bytes, device, stream);
    cudaMemPrefetchAsync_v2 | cudaMemPrefetchAsync_v2_ptsz(address: u64, bytes: usize, place: memory::RuntimeLocation, _flags: u32, stream: usize) =>
        driver_with_context()?.cuMemPrefetchAsync(address, bytes, place.device(), stream);
    cudaMemAdvise_v2(address: u64, bytes: usize, advice: u32, place: memory::RuntimeLocation) => driver_with_context()?.cuMemAdvise(address, bytes, advice, place.device());
    cudaMalloc3D(out: Out<Pitched>, extent: RuntimeExtent) => volumes::allocate(out, extent);
    cudaMemset3D | cudaMemset3D_ptds(what: Pitched, value: i32, extent: RuntimeExtent) => volumes::fill(what, value, extent, None);
    cudaMemset3DAsync | cudaMemset3DAsync_ptsz(what: Pitched, value: i32, extent: RuntimeExtent, stream: usize) => volumes::fill(what, value, extent, Some(stream));
    cudaMemcpy3D | cudaMemcpy3D_ptds(what: In<CopyParameters>) => volumes::copy(what, None);
    cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz(what: In<CopyParameters>, stream: usize) => volumes::copy(what, Some(stream));
    cudaPointerGetAttributes(attributes: Out<PointerAttributes>, address: u64) => memory::pointer_attributes(attributes, address);

    cudaMemcpy | cudaMemcpy_ptds(to: u64, from: u64, bytes: usize, kind: u32) => memory::copy(to, from, bytes, kind);
    cudaMemcpyAsync | cudaMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, kind: u32, stream: usize) => memory::copy_on(to, from, bytes, kind, stream);
    cudaMemcpyPeer(to: u64, _to_device: i32, from: u64, _from_device: i32, bytes: usize) => driver_with_context()?.cuMemcpyPeer(to, 0usize, from, 0usize, bytes);
    cudaMemcpyPeerAsync(to: u64, _to_device: i32, from: u64, _from_device: i32, bytes: usize, stream: usize) => driver_with_context()?.cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
    cudaMemcpy2D | cudaMemcpy2D_ptds(to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: u32) =>
        memory::copy_2d(&Rows { to, to_pitch, from, from_pitch, width, height }, kind);
    cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz(to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: u32, stream: usize) =>
        memory::copy_2d_on(&Rows { to, to_pitch, from, from_pitch, width, height }, kind, stream);
    cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds(symbol: usize, from: u64, bytes: usize, offset: usize, kind: u32) => memory::to_symbol(symbol, from, bytes, offset, kind);
    cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz(symbol: usize, from: u64, bytes: usize, offset: usize, kind: u32, stream: usize) => memory::to_symbol_on(symbol, from, bytes, offset, kind, stream);
    cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds(to: u64, symbol: usize, bytes: usize, offset: usize, kind: u32) => memory::from_symbol(to, symbol, bytes, offset, kind);
    cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz(to: u64, symbol: usize, bytes: usize, offset: usize, kind: u32, stream: usize) => memory::from_symbol_on(to, symbol, bytes, offset, kind, stream);
    cudaGetSymbolAddress(address: Out<u64>, symbol: usize) => memory::symbol_address(address, symbol);
    cudaGetSymbolSize(size: Out<usize>, symbol: usize) => memory::symbol_size(size, symbol);
    cudaMemset | cudaMemset_ptds(address: u64, value: i32, bytes: usize) => driver_with_context()?.cuMemsetD8_v2(address, value as u8, bytes);
    cudaMemsetAsync | cudaMemsetAsync_ptsz(address: u64, value: i32, bytes: usize, stream: usize) => driver_with_context()?.cuMemsetD8Async(address, value as u8, bytes, stream);
    cudaMemset2D | cudaMemset2D_ptds(address: u64, pitch: usize, value: i32, width: usize, height: usize) => driver_with_context()?.cuMemsetD2D8_v2(address, pitch, value as u8, width, height);
    cudaMemset2DAsync | cudaMemset2DAsync_ptsz(address: u64, pitch: usize, value: i32, width: usize, height: usize, stream: usize) =>
        driver_with_context()?.cuMemsetD2D8Async(address, pitch, value as u8, width, height, stream);

    cudaStreamCreate(stream: Out<usize>) => driver_with_context()?.cuStreamCreateWithPriority(stream, 0, 0);
    cudaStreamCreateWithFlags(stream: Out<usize>, flags: u32) => driver_with_context()?.cuStreamCreateWithPriority(stream, flags, 0);
    cudaStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: i32) => driver_with_context()?.cuStreamCreateWithPriority(stream, flags, priority);
    cudaStreamDestroy(stream: usize) => driver_with_context()?.cuStreamDestroy_v2(stream);
    cudaStreamQuery | cudaStreamQuery_ptsz(stream: usize) => driver_with_context()?.cuStreamQuery(stream);
    cudaStreamSynchronize | cudaStreamSynchronize_ptsz(stream: usize) => driver_with_context()?.cuStreamSynchronize(stream);
    cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz(stream: usize, event: usize, flags: u32) => driver_with_context()?.cuStreamWaitEvent(stream, event, flags);
    cudaStreamGetFlags | cudaStreamGetFlags_ptsz(stream: usize, flags: Out<u32>) => driver_with_context()?.cuStreamGetFlags(stream, flags);
    cudaStreamGetDevice | cudaStreamGetDevice_ptsz(stream: usize, device: Out<i32>) => device::of_stream(stream, device);
    cudaStreamAttachMemAsync | cudaStreamAttachMemAsync_ptsz(stream: usize, _address: u64, _bytes: usize, _flags: u32) => device::of_stream(stream, Out::to(&mut 0));
    cudaStreamGetPriority | cudaStreamGetPriority_ptsz(stream: usize, priority: Out<i32>) => driver_with_context()?.cuStreamGetPriority(stream, priority);
    cudaStreamIsCapturing | cudaStreamIsCapturing_ptsz(stream: usize, status: Out<u32>) => driver_with_context()?.cuStreamIsCapturing(stream, status);
    cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz(stream: usize, mode: u32) => driver_with_context()?.cuStreamBeginCapture_v2(stream, mode);
    cudaStreamEndCapture | cudaStreamEndCapture_ptsz(stream: usize, graph: Out<usize>) => driver_with_context()?.cuStreamEndCapture(stream, graph);
    cudaThreadExchangeStreamCaptureMode(mode: Out<u32>) => driver_with_context()?.cuThreadExchangeStreamCaptureMode(mode);
    cudaGraphCreate(graph: Out<usize>, flags: u32) => driver_with_context()?.cuGraphCreate(graph, flags);
    cudaGraphAddKernelNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<launch::NodeParameters>) =>
        launch::add_node(node, graph, after, count, parameters);
    cudaGraphAddMemcpyNode1D(node: Out<usize>, graph: usize, after: In<usize>, count: usize, to: u64, from: u64, bytes: usize, kind: u32) =>
        driver_with_context()?.cuGraphAddMemcpyNode(node, graph, after, count, In::from(&memory::line(to, from, bytes, kind)?), 0usize);
    cudaGraphAddMemsetNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Fill>) =>
        driver_with_context()?.cuGraphAddMemsetNode(node, graph, after, count, parameters, 0usize);
    cudaGraphAddHostNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Host>) =>
        driver_with_context()?.cuGraphAddHostNode(node, graph, after, count, parameters);
    cudaGraphAddEmptyNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize) => driver_with_context()?.cuGraphAddEmptyNode(node, graph, after, count);
    cudaGraphAddMemAllocNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: Out<AllocationNodeParameters>) =>
        driver_with_context()?.cuGraphAddMemAllocNode(node, graph, after, count, parameters);
    cudaGraphAddMemFreeNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, address: u64) =>
        driver_with_context()?.cuGraphAddMemFreeNode(node, graph, after, count, address);
    cudaGraphDestroy(graph: usize) => driver_with_context()?.cuGraphDestroy(graph);
    cudaGraphClone(copy: Out<usize>, graph: usize) => driver_with_context()?.cuGraphClone(copy, graph);
    cudaGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) => driver_with_context()?.cuGraphGetNodes(graph, nodes, count);
    cudaGraphInstantiate(executable: Out<usize>, graph: usize, flags: u64) => driver_with_context()?.cuGraphInstantiateWithFlags(executable, graph, flags);
    cudaGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, flags: u64) => driver_with_context()?.cuGraphInstantiateWithFlags(executable, graph, flags);
    cudaGraphExecUpdate(executable: usize, graph: usize, result: Out<u32>) => driver_with_context()?.cuGraphExecUpdate_v2(executable, graph, result);
    cudaGraphExecDestroy(executable: usize) => driver_with_context()?.cuGraphExecDestroy(executable);
    cudaGraphLaunch | cudaGraphLaunch_ptsz(executable: usize, stream: usize) => driver_with_context()?.cuGraphLaunch(executable, stream);
    cudaStreamAddCallback | cudaStreamAddCallback_ptsz(stream: usize, function: Callback, data: *mut c_void, _flags: u32) => add_callback(stream, function, data);
    cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz(stream: usize, function: HostFunction, data: *mut c_void) => driver_with_context()?.cuLaunchHostFunc(stream, function, data);

    cudaEventCreate(event: Out<usize>) => driver_with_context()?.cuEventCreate(event, 0);
    cudaEventCreateWithFlags(event: Out<usize>, flags: u32) => driver_with_context()?.cuEventCreate(event, flags);
    cudaEventDestroy(event: usize) => driver_with_context()?.cuEventDestroy_v2(event);
    cudaEventRecord | cudaEventRecord_ptsz(event: usize, stream: usize) => driver_with_context()?.cuEventRecord(event, stream);
    cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz(event: usize, stream: usize, _flags: u32) => driver_with_context()?.cuEventRecord(event, stream);
    cudaEventQuery(event: usize) => driver_with_context()?.cuEventQuery(event);
    cudaEventSynchronize(event: usize) => driver_with_context()?.cuEventSynchronize(event);
    cudaEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) => driver_with_context()?.cuEventElapsedTime_v2(milliseconds, start, end);

    cudaEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) => driver_with_context()?.cuEventElapsedTime_v2(milliseconds, start, end);

    cudaLaunchKernel | cudaLaunchKernel_ptsz(function: usize, grid: RuntimeDim3, block: RuntimeDim3, arguments: In<*const u8>, shared: usize, stream: usize) => launch::launch(function, grid, block, arguments, shared, stream);
    cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz(configuration: In<RuntimeConfiguration>, function: usize, arguments: In<*const u8>) => launch::launch_extended(configuration, function, arguments);
    cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz(function: usize, grid: RuntimeDim3, block: RuntimeDim3, arguments: In<*const u8>, shared: usize, stream: usize) =>
        launch::launch_cooperative(function, grid, block, arguments, shared, stream);
    cudaFuncGetAttributes(attributes: Out<FunctionAttributes>, function: usize) => launch::attributes(attributes, function);
    cudaFuncSetAttribute(function: usize, attribute: u32, value: i32) => launch::set_attribute(function, attribute, value);
    cudaFuncSetCacheConfig(function: usize, _config: u32) => launch::accept(function);
    cudaFuncSetSharedMemConfig(function: usize, _config: u32) => launch::accept(function);
    cudaGetKernel | __cudaGetKernel(kernel: Out<usize>, function: usize) => launch::kernel(kernel, function);
    __cudaLaunchKernel | __cudaLaunchKernel_ptsz(kernel: usize, grid: RuntimeDim3, block: RuntimeDim3, arguments: In<*const u8>, shared: usize, stream: usize) =>
        launch::launch_kernel(kernel, grid, block, arguments, shared, stream);
    cudaGetFuncBySymbol(out: Out<usize>, function: usize) => launch::function(out, function);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: usize, threads: i32, shared: usize) => launch::occupancy(blocks, function, threads, shared, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<i32>, function: usize, threads: i32, shared: usize, flags: u32) =>
        launch::occupancy(blocks, function, threads, shared, flags);
    cudaOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: usize, blocks: i32, threads: i32) => launch::available_shared(bytes, function, blocks, threads);
    __cudaPopCallConfiguration(grid: Out<RuntimeDim3>, block: Out<RuntimeDim3>, shared: Out<usize>, stream: Out<usize>) => launch::pop(grid, block, shared, stream);
}

/// The callback is told of a kernel's fault, so it runs even after one.
fn add_callback(stream: usize, function: Callback, data: *mut c_void) -> StatusResult {
    let status = crate::status::of(driver_with_context()?.cuStreamSynchronize(stream));
    let function = function.ok_or(Status::INVALID_VALUE)?;
    // SAFETY: the application's function with the application's argument.
    unsafe { function(stream, status, data) };
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> Status {
    error::take()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> Status {
    error::peek()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(error: Status) -> *const c_char {
    error.runtime_name().as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: Status) -> *const c_char {
    error.text().unwrap_or(c"unrecognized error code").as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    grid: RuntimeDim3,
    block: RuntimeDim3,
    shared: usize,
    stream: usize,
) -> u32 {
    launch::push(grid, block, shared, stream);
    0
}

/// # Safety
/// Called by the compiler's start-up code, with a fat binary's wrapper.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *const c_void) -> usize {
    registration::add_binary(wrapper)
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_handle: usize) {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(handle: usize) {
    enter(|| {
        registration::remove_binary(handle);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(_handle: usize) -> c_char {
    1
}

/// # Safety
/// Called by the compiler's start-up code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: usize,
    host: usize,
    _device: Ignored,
    name: CStringArgument,
    _limit: i32,
    _thread: Ignored,
    _block: Ignored,
    _block_dim: Ignored,
    _grid_dim: Ignored,
    _warp: Ignored,
) {
    enter(|| registration::add_kernel(handle, host, name));
}

/// # Safety
/// Called by the compiler's start-up code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: usize,
    host: usize,
    _device: Ignored,
    name: CStringArgument,
    _external: i32,
    _size: usize,
    _constant: i32,
    _global: i32,
) {
    enter(|| registration::add_variable(handle, host, name));
}

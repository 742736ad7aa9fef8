//! HIP's functions, declared in [`mneme_abi`], each with its handler.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::{CStr, c_char, c_void};

use mneme_abi::hip::types::{self as hip, *};

use super::launch::{Around, in_blocks};
use super::{device as own_device, enter, graph as own_graph, launch as own_launch, memory as own_memory, release};
use crate::abi::{CStringArgument, Out, answer, answers, take};
use crate::driver::graph_nodes::{self, At};
use crate::driver::memory::Reach;
use crate::driver::work::CopyEnd::{Device, Host};
use crate::driver::work::LaunchExtents;
use crate::driver::work::Work;
use crate::driver::{
    context, copy, device, ends, event, executable, function, graph, launch, lookup, memory, module, sharing, stream,
    virtual_memory, waiting,
};
use crate::runtime::calls::driver;
use crate::runtime::memory::Rows;
use crate::runtime::session::driver_with_context;
use crate::runtime::{device as devices, error, launch as launches, memory as copies, registration, session, volumes};
use crate::status::{Status, StatusResult};

/// An entry is `symbol: (arguments) => handler`; an argument that the handler does not use is `_`. With `=>`, a context
/// is current before the handler runs; with `->`, only the driver is initialised. With `=`, the function returns the
/// handler's result, and the device is not called. A second name is for programs built with per-thread default streams.
macro_rules! hip_exports {
    ($($symbol:ident $(| $form:ident)?: $arguments:tt $arrow:tt $handler:expr;)*) => {
        $(
            mneme_abi::$symbol! { export { $arguments $arrow $handler } }
            $( mneme_abi::$form! { export { $arguments $arrow stream::with_own_default(|| $handler) } } )?
        )*

        /// Functions by name, for `hipGetProcAddress`.
        static TABLE: &[(&str, Address)] = &[
            $(
                (stringify!($symbol), Address($symbol as *const c_void)),
                $( (stringify!($form), Address($form as *const c_void)), )?
            )*
        ];
    };
}

struct Address(*const c_void);

// SAFETY: the address is that of a function.
unsafe impl Sync for Address {}

macro_rules! export {
    ({ $arguments:tt = $handler:expr } $($declaration:tt)*) => {
        answer! { { $arguments $handler } $($declaration)* }
    };
    ({ ($($argument:tt),*) $arrow:tt $handler:expr } $since:literal $symbol:ident($($raw:ident: $type:ty),*)) => {
        /// # Safety
        /// Arguments must be as HIP's API demands: pointers are null or valid for their type.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the signature in HIP")]
        pub unsafe extern "C" fn $symbol($($raw: $type),*) -> Status {
            $( take! { $argument $raw } )*
            enter(|| {
                prepare! { $arrow }
                $handler
            })
        }
    };
}

macro_rules! prepare {
    (=>) => {
        driver_with_context()?;
    };
    (->) => {
        driver()?;
    };
}

hip_exports! {
    hipInit: (flags) -> context::initialise(flags);
    hipDriverGetVersion: (version) -> release::put(version);
    hipRuntimeGetVersion: (version) -> release::put(version);
    hipGetProcAddress: (name, address, version, _, result) -> by_name(name, address, version, result);
    hipGetDriverEntryPoint | hipGetDriverEntryPoint_spt: (name, address, _, result) ->
        by_name(name, address, 0, result);
    hipDrvGetErrorName: (error, name) -> drv_error_name(error, name);
    hipDrvGetErrorString: (error, text) -> lookup::error_text(error, text);
    hipGetLastError: () = error::take();
    hipPeekAtLastError: () = error::peek_as_hip();
    hipExtGetLastError: () = error::take_of_hip(release::major() >= 7);
    hipGetErrorName: (error) = error_name(error);
    hipGetErrorString: (error) = error_text(error);
    hipProfilerStart: () => Ok(());
    hipProfilerStop: () => Ok(());

    hipDeviceGet: (device, ordinal) -> device::get(device, ordinal);
    hipGetDeviceCount: (count) -> device::count(count);
    hipGetDevice: (device) -> devices::get(device);
    hipSetDevice: (device) -> devices::set(device);
    hipSetValidDevices: (_, _) -> Ok(());
    hipChooseDevice: (device, _) -> devices::get(device);
    hipChooseDeviceR0000: (device, _) -> devices::get(device);
    hipChooseDeviceR0600: (device, _) -> devices::get(device);
    hipSetDeviceFlags: (_) -> Ok(());
    hipGetDeviceFlags: (flags) -> devices::put_zero(flags);
    hipGetDeviceProperties: (properties, device) -> own_device::old_properties(properties, device);
    hipGetDevicePropertiesR0000: (properties, device) -> own_device::old_properties(properties, device);
    hipGetDevicePropertiesR0600: (properties, device) -> own_device::properties(properties, device);
    hipDeviceGetAttribute: (value, attribute, device) -> own_device::attribute(value, attribute, device);
    hipDeviceComputeCapability: (major, minor, device) -> own_device::compute_capability(major, minor, device);
    hipDeviceGetName: (name, length, device) -> device::name(name, length, device);
    hipDeviceGetUuid: (uuid, device) -> device::uuid(uuid, device);
    hipDeviceTotalMem: (bytes, device) -> device::total_memory(bytes, device);
    hipDeviceGetPCIBusId: (id, length, device) -> device::bus_id(id, length, device);
    hipDeviceGetByPCIBusId: (device, id) -> device::by_bus_id(device, id);
    hipDeviceCanAccessPeer: (can, device, peer) -> device::can_access_peer(can, device, peer);
    hipDeviceGetP2PAttribute: (value, attribute, from, to) -> own_device::peer_attribute(value, attribute, from, to);
    hipDeviceEnablePeerAccess: (peer, flags) -> devices::enable_peer(peer, flags);
    hipDeviceDisablePeerAccess: (peer) -> devices::disable_peer(peer);
    hipDeviceSynchronize: () => waiting::context();
    hipDeviceReset: () -> session::reset();
    hipDeviceGetLimit: (value, limit) => own_device::limit(value, limit);
    hipDeviceSetLimit: (limit, value) => own_device::set_limit(limit, value);
    hipDeviceGetCacheConfig: (value) -> devices::put_zero(value);
    hipDeviceSetCacheConfig: (_) -> Ok(());
    hipDeviceGetSharedMemConfig: (value) -> devices::put_zero(value);
    hipDeviceSetSharedMemConfig: (_) -> Ok(());
    hipDeviceGetStreamPriorityRange: (least, greatest) => context::priority_range(least, greatest);

    hipDevicePrimaryCtxRetain: (context, device) -> context::retain_primary(context, device);
    hipDevicePrimaryCtxRelease: (device) -> ends::release_primary(device);
    hipDevicePrimaryCtxReset: (device) -> ends::reset_primary(device);
    hipDevicePrimaryCtxGetState: (device, flags, active) -> context::primary_state(device, flags, active);
    hipDevicePrimaryCtxSetFlags: (device, flags) -> context::set_primary_flags(device, flags);
    hipCtxCreate: (context, flags, device) -> context::create(context, flags, device);
    hipCtxDestroy: (context) -> ends::destroy(context);
    hipCtxPushCurrent: (context) -> context::push(context);
    hipCtxPopCurrent: (context) -> context::pop(context);
    hipCtxSetCurrent: (context) -> context::set_current(context);
    hipCtxGetCurrent: (context) -> context::get_current(context);
    hipCtxGetDevice: (device) => context::get_device(device);
    hipCtxSynchronize: () => waiting::context();
    hipCtxGetFlags: (flags) => context::get_flags(flags);
    hipCtxGetApiVersion: (context, version) -> context::get_api_version(context, version);
    hipCtxGetCacheConfig: (value) => context::get_preference(value);
    hipCtxSetCacheConfig: (_) => Ok(());
    hipCtxGetSharedMemConfig: (value) => context::get_preference(value);
    hipCtxSetSharedMemConfig: (_) => Ok(());
    hipCtxEnablePeerAccess: (context, flags) => context::enable_peer(context, flags);
    hipCtxDisablePeerAccess: (context) => context::disable_peer(context);

    hipMalloc: (address, bytes) => copies::allocate(address, bytes);
    hipExtMallocWithFlags: (address, bytes, _) => copies::allocate(address, bytes);
    hipMallocPitch: (address, pitch, width, height) => own_memory::allocate_rows(address, pitch, width, height);
    hipMemAllocPitch: (address, pitch, width, height, element) =>
        own_memory::allocate_elements(address, pitch, width, height, element);
    hipMalloc3D: (out, extent) => volumes::allocate_by(out, extent, own_memory::allocate_rows);
    hipFree: (address) => own_memory::free(address);
    hipMallocManaged: (address, bytes, flags) => memory::allocate_managed(address, bytes, flags);
    hipMallocHost: (address, bytes) => own_memory::allocate_host(address, bytes, 0);
    hipMemAllocHost: (address, bytes) => own_memory::allocate_host(address, bytes, 0);
    hipHostMalloc: (address, bytes, flags) => own_memory::allocate_host(address, bytes, flags);
    hipHostAlloc: (address, bytes, flags) => own_memory::allocate_host(address, bytes, flags);
    hipHostFree: (address) => own_memory::free(address);
    hipFreeHost: (address) => own_memory::free(address);
    hipHostRegister: (address, bytes, flags) => own_memory::register_host(address, bytes, flags);
    hipHostUnregister: (address) => memory::unregister_host(address);
    hipHostGetDevicePointer: (out, address, flags) => memory::host_device_pointer(out, address, flags);
    hipHostGetFlags: (flags, address) => own_memory::host_flags(flags, address);
    hipMemGetInfo: (free, total) => own_memory::information(free, total);
    hipMemGetAddressRange: (base, size, address) => own_memory::address_range(base, size, address);
    hipMemPtrGetInfo: (address, size) => own_memory::size_of_allocation(address, size);
    hipPointerGetAttributes: (attributes, address) => own_memory::pointer_attributes(attributes, address);
    hipPointerGetAttribute: (value, attribute, address) => own_memory::pointer_attribute(value, attribute, address);
    hipDrvPointerGetAttributes: (count, attributes, data, address) =>
        memory::pointer_attributes(count, attributes, data, address, Reach::All);
    hipPointerSetAttribute: (_, _, address) => copy::accept_hint(address, 1);
    hipMemAdvise: (address, bytes, _, _) => copy::accept_hint(address, bytes);
    hipMemAdvise_v2: (address, bytes, _, _) => copy::accept_hint(address, bytes);
    hipMemPrefetchAsync: (address, bytes, _, _) => copy::accept_hint(address, bytes);
    hipMemPrefetchAsync_v2: (address, bytes, _, _, _) => copy::accept_hint(address, bytes);
    hipMallocAsync: (address, bytes, stream) => memory::allocate_on_stream(address, bytes, stream);
    hipFreeAsync: (address, stream) => memory::free_on_stream(address, stream);
    hipMallocFromPoolAsync: (address, bytes, pool, stream) => memory::allocate_from_pool(address, bytes, pool, stream);
    hipDeviceGetDefaultMemPool: (pool, device) => memory::pool(pool, device);
    hipDeviceGetMemPool: (pool, device) => memory::current_pool(pool, device);
    hipDeviceSetMemPool: (device, pool) => memory::set_current_pool(device, pool);
    hipMemPoolCreate: (pool, properties) => memory::create_pool(pool, properties);
    hipMemPoolDestroy: (pool) => memory::destroy_pool(pool);
    hipMemPoolTrimTo: (pool, _) => memory::check_pool(pool);
    hipMemPoolSetAttribute: (pool, attribute, value) => memory::set_pool_attribute(pool, attribute, value);
    hipMemPoolGetAttribute: (pool, attribute, value) => memory::pool_attribute(pool, attribute, value);
    hipMemPoolSetAccess: (pool, accesses, count) => memory::set_pool_access(pool, accesses, count);
    hipMemPoolGetAccess: (flags, pool, location) => memory::pool_access(flags, pool, location);
    hipIpcGetMemHandle: (handle, address) => sharing::share(handle, address);
    hipIpcOpenMemHandle: (address, handle, flags) => sharing::open(address, handle, flags);
    hipIpcCloseMemHandle: (address) => sharing::close(address);

    hipMemAddressReserve: (address, size, alignment, hint, flags) =>
        virtual_memory::reserve(address, size, alignment, hint, flags);
    hipMemAddressFree: (address, size) => virtual_memory::free_reservation(address, size);
    hipMemCreate: (handle, size, properties, flags) => own_memory::create(handle, size, properties, flags);
    hipMemRelease: (handle) => virtual_memory::release(handle);
    hipMemMap: (address, size, offset, handle, flags) => virtual_memory::map(address, size, offset, handle, flags);
    hipMemUnmap: (address, size) => virtual_memory::unmap(address, size);
    hipMemSetAccess: (address, size, accesses, count) => virtual_memory::set_access(address, size, accesses, count);
    hipMemGetAccess: (flags, location, address) => virtual_memory::get_access(flags, location, address);
    hipMemExportToShareableHandle: (descriptor, handle, kind, flags) =>
        virtual_memory::export(descriptor, handle, kind, flags);
    hipMemImportFromShareableHandle: (handle, descriptor, kind) => virtual_memory::import(handle, descriptor, kind);
    hipMemGetAllocationGranularity: (granularity, properties, option) =>
        virtual_memory::granularity(granularity, properties, option);
    hipMemGetAllocationPropertiesFromHandle: (properties, handle) => own_memory::properties_of(properties, handle);
    hipMemRetainAllocationHandle: (handle, address) => virtual_memory::retain(handle, address);

    hipMemcpy | hipMemcpy_spt: (to, from, bytes, kind) => copies::copy(to, from, bytes, own_memory::direction(kind));
    hipMemcpyAsync | hipMemcpyAsync_spt: (to, from, bytes, kind, stream) =>
        copies::copy_on(to, from, bytes, own_memory::direction(kind), stream);
    hipMemcpyWithStream: (to, from, bytes, kind, stream) => own_memory::copy_and_wait(to, from, bytes, kind, stream);
    hipMemcpyHtoD: (to, from, bytes) => copy::copy(Device(to), Host(from), bytes);
    hipMemcpyHtoDAsync: (to, from, bytes, stream) => copy::copy_on(Device(to), Host(from), bytes, stream);
    hipMemcpyDtoH: (to, from, bytes) => copy::copy(Host(to), Device(from), bytes);
    hipMemcpyDtoHAsync: (to, from, bytes, stream) => copy::copy_on(Host(to), Device(from), bytes, stream);
    hipMemcpyDtoD: (to, from, bytes) => copy::copy(Device(to), Device(from), bytes);
    hipMemcpyDtoDAsync: (to, from, bytes, stream) => copy::copy_on(Device(to), Device(from), bytes, stream);
    hipMemcpyPeer: (to, _, from, _, bytes) => copy::copy(Device(to), Device(from), bytes);
    hipMemcpyPeerAsync: (to, _, from, _, bytes, stream) => copy::copy_on(Device(to), Device(from), bytes, stream);
    hipMemcpyToSymbol | hipMemcpyToSymbol_spt: (symbol, from, bytes, offset, kind) =>
        copies::to_symbol(symbol, from, bytes, offset, own_memory::direction(kind));
    hipMemcpyToSymbolAsync | hipMemcpyToSymbolAsync_spt: (symbol, from, bytes, offset, kind, stream) =>
        copies::to_symbol_on(symbol, from, bytes, offset, own_memory::direction(kind), stream);
    hipMemcpyFromSymbol | hipMemcpyFromSymbol_spt: (to, symbol, bytes, offset, kind) =>
        copies::from_symbol(to, symbol, bytes, offset, own_memory::direction(kind));
    hipMemcpyFromSymbolAsync | hipMemcpyFromSymbolAsync_spt: (to, symbol, bytes, offset, kind, stream) =>
        copies::from_symbol_on(to, symbol, bytes, offset, own_memory::direction(kind), stream);
    hipGetSymbolAddress: (address, symbol) => copies::symbol_address(address, symbol);
    hipGetSymbolSize: (size, symbol) => copies::symbol_size(size, symbol);
    hipMemcpy2D | hipMemcpy2D_spt: (to, to_pitch, from, from_pitch, width, height, kind) =>
        copies::copy_2d(&Rows { to, to_pitch, from, from_pitch, width, height }, own_memory::direction(kind));
    hipMemcpy2DAsync | hipMemcpy2DAsync_spt: (to, to_pitch, from, from_pitch, width, height, kind, stream) =>
        copies::copy_2d_on(
            &Rows { to, to_pitch, from, from_pitch, width, height },
            own_memory::direction(kind),
            stream,
        );
    hipMemcpyParam2D: (what) => own_memory::copy_2d(what);
    hipMemcpyParam2DAsync: (what, stream) => own_memory::copy_2d_on(what, stream);
    hipDrvMemcpy2DUnaligned: (what) => own_memory::copy_2d(what);
    hipMemcpy3D | hipMemcpy3D_spt: (what) => volumes::copy(what, None);
    hipMemcpy3DAsync | hipMemcpy3DAsync_spt: (what, stream) => volumes::copy(what, Some(stream));
    hipDrvMemcpy3D: (what) => own_memory::copy_3d(what, None);
    hipDrvMemcpy3DAsync: (what, stream) => own_memory::copy_3d(what, Some(stream));
    hipMemset | hipMemset_spt: (address, value, bytes) => copy::fill(address, byte(value), bytes);
    hipMemsetAsync | hipMemsetAsync_spt: (address, value, bytes, stream) =>
        copy::fill_on(address, byte(value), bytes, stream);
    hipMemset2D | hipMemset2D_spt: (address, pitch, value, width, height) =>
        copy::fill_2d(address, pitch, byte(value), width, height);
    hipMemset2DAsync | hipMemset2DAsync_spt: (address, pitch, value, width, height, stream) =>
        copy::fill_2d_on(address, pitch, byte(value), width, height, stream);
    hipMemset3D | hipMemset3D_spt: (what, value, extent) => volumes::fill(what, value, extent, None);
    hipMemset3DAsync | hipMemset3DAsync_spt: (what, value, extent, stream) =>
        volumes::fill(what, value, extent, Some(stream));
    hipMemsetD8: (address, value, count) => copy::fill::<u8>(address, value, count);
    hipMemsetD16: (address, value, count) => copy::fill::<u16>(address, value, count);
    hipMemsetD32: (address, value, count) => copy::fill::<u32>(address, value, count);
    hipMemsetD8Async: (address, value, count, stream) => copy::fill_on::<u8>(address, value, count, stream);
    hipMemsetD16Async: (address, value, count, stream) => copy::fill_on::<u16>(address, value, count, stream);
    hipMemsetD32Async: (address, value, count, stream) => copy::fill_on::<u32>(address, value, count, stream);
    hipMemsetD2D8: (address, pitch, value, width, height) => copy::fill_2d::<u8>(address, pitch, value, width, height);
    hipMemsetD2D16: (address, pitch, value, width, height) =>
        copy::fill_2d::<u16>(address, pitch, value, width, height);
    hipMemsetD2D32: (address, pitch, value, width, height) =>
        copy::fill_2d::<u32>(address, pitch, value, width, height);
    hipMemsetD2D8Async: (address, pitch, value, width, height, stream) =>
        copy::fill_2d_on::<u8>(address, pitch, value, width, height, stream);
    hipMemsetD2D16Async: (address, pitch, value, width, height, stream) =>
        copy::fill_2d_on::<u16>(address, pitch, value, width, height, stream);
    hipMemsetD2D32Async: (address, pitch, value, width, height, stream) =>
        copy::fill_2d_on::<u32>(address, pitch, value, width, height, stream);

    hipStreamCreate: (stream) => stream::create(stream, 0, 0);
    hipStreamCreateWithFlags: (stream, flags) => stream::create(stream, flags, 0);
    hipStreamCreateWithPriority: (stream, flags, priority) => stream::create(stream, flags, priority);
    hipExtStreamCreateWithCUMask: (stream, _, _) => stream::create(stream, 0, 0);
    hipStreamDestroy: (stream) => graph::destroy_stream(stream);
    hipStreamQuery | hipStreamQuery_spt: (stream) => waiting::query(stream);
    hipStreamSynchronize | hipStreamSynchronize_spt: (stream) => waiting::stream(stream);
    hipStreamWaitEvent | hipStreamWaitEvent_spt: (stream, event, _) => waiting::stream_waits(stream, event);
    hipStreamGetFlags | hipStreamGetFlags_spt: (stream, flags) => stream::get_flags(stream, flags);
    hipStreamGetId: (stream, id) => stream::get_id(stream, id);
    hipStreamGetPriority | hipStreamGetPriority_spt: (stream, priority) => stream::get_priority(stream, priority);
    hipStreamGetDevice: (stream, device) => stream::get_device(stream, device);
    hipStreamAttachMemAsync: (stream, _, _, _) => waiting::attach(stream);
    hipStreamAddCallback | hipStreamAddCallback_spt: (stream, function, data, _) =>
        launch::add_callback(stream, function, data);
    hipLaunchHostFunc | hipLaunchHostFunc_spt: (stream, function, data) =>
        launch::launch_on_host(stream, function, data);
    hipStreamBeginCapture | hipStreamBeginCapture_spt: (stream, _) => graph::begin_capture(stream);
    hipStreamEndCapture | hipStreamEndCapture_spt: (stream, graph) => graph::end_capture(stream, graph);
    hipStreamIsCapturing | hipStreamIsCapturing_spt: (stream, status) => graph::is_capturing(stream, status);
    hipStreamGetCaptureInfo | hipStreamGetCaptureInfo_spt: (stream, status, id) =>
        graph::capture_info(stream, status, id, [0; 4]);
    hipStreamGetCaptureInfo_v2 | hipStreamGetCaptureInfo_v2_spt: (stream, status, id, graph, nodes, count) =>
        graph::capture_info(stream, status, id, [graph, nodes, count, 0]);
    hipThreadExchangeStreamCaptureMode: (mode) => stream::exchange_capture_mode(mode);

    hipEventCreate: (event) => event::create(event, 0);
    hipEventCreateWithFlags: (event, flags) => event::create(event, flags);
    hipEventDestroy: (event) => event::destroy(event);
    hipEventRecord | hipEventRecord_spt: (event, stream) => event::record(event, stream);
    hipEventRecordWithFlags: (event, stream, _) => event::record(event, stream);
    hipEventQuery: (event) => event::query(event);
    hipEventSynchronize: (event) => event::wait(event);
    hipEventElapsedTime: (milliseconds, start, end) => event::elapsed(milliseconds, start, end);

    hipModuleLoad: (module, path) => module::load_lasting_file(module, path);
    hipModuleLoadData: (module, image) => module::load_lasting_data(module, image);
    hipModuleLoadDataEx: (module, image, _, _, _) => module::load_lasting_data(module, image);
    hipModuleLoadFatBinary: (module, image) => module::load_lasting_data(module, image);
    hipModuleUnload: (module) => module::unload(module);
    hipModuleGetFunction: (function, module, name) => module::get_function(function, module, name);
    hipModuleGetFunctionCount: (count, module) => module::function_count(count, module);
    hipModuleGetGlobal: (address, size, module, name) => module::get_global(address, size, module, name);
    hipLibraryLoadData: (library, image, _, _, _, _, _, _) => module::load_library(library, image);
    hipLibraryLoadFromFile: (library, path, _, _, _, _, _, _) => module::load_library_file(library, path);
    hipLibraryUnload: (library) => module::unload_library(library);
    hipLibraryGetKernel: (kernel, library, name) => module::get_kernel(kernel, library, name);
    hipLibraryGetKernelCount: (count, library) => module::kernel_count(count, library);
    hipLibraryEnumerateKernels: (kernels, count, library) => module::enumerate_kernels(kernels, count, library);
    hipKernelGetLibrary: (library, kernel) => function::owner(library, kernel);
    hipKernelGetName: (name, kernel) => function::name(name, kernel);
    hipKernelGetFunction: (function, kernel) => module::function_of_kernel(function, kernel);
    hipFuncGetAttribute: (value, attribute, function) => function::attribute(value, attribute, function);
    hipFuncGetAttributes: (attributes, function) => own_launch::attributes(attributes, function);
    hipFuncSetAttribute: (function, attribute, value) => launches::set_attribute(function, attribute, value);
    hipFuncSetCacheConfig: (function, _) => launches::accept(function);
    hipFuncSetSharedMemConfig: (function, _) => launches::accept(function);
    hipGetFuncBySymbol: (out, function) => launches::function(out, function);
    hipOccupancyMaxActiveBlocksPerMultiprocessor: (blocks, function, threads, shared) =>
        launches::occupancy(blocks, function, threads, shared, 0);
    hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (blocks, function, threads, shared, flags) =>
        launches::occupancy(blocks, function, threads, shared, flags);
    hipOccupancyMaxPotentialBlockSize: (grid, block, function, _, limit) =>
        own_launch::potential_block(grid, block, function, limit);
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor: (blocks, function, threads, shared) =>
        function::occupancy(blocks, function, threads, shared);
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (blocks, function, threads, shared, _) =>
        function::occupancy(blocks, function, threads, shared);
    hipModuleOccupancyMaxPotentialBlockSize: (grid, block, function, _, limit) =>
        function::potential_block(grid, block, function, limit);
    hipModuleOccupancyMaxPotentialBlockSizeWithFlags: (grid, block, function, _, limit, _) =>
        function::potential_block(grid, block, function, limit);

    __hipPushCallConfiguration: (grid, block, shared, stream) -> push(grid, block, shared, stream);
    __hipPopCallConfiguration: (grid, block, shared, stream) -> launches::pop(grid, block, shared, stream);
    hipLaunchKernel | hipLaunchKernel_spt: (function, grid, block, arguments, shared, stream) =>
        own_launch::launch_by_host(function, grid, block, arguments, shared, stream);
    hipLaunchKernelExC: (configuration, function, arguments) =>
        launches::launch_extended(configuration, function, arguments);
    hipExtLaunchKernel: (function, grid, block, arguments, shared, stream, start, stop, _) => Around { start, stop }
        .run(stream, || own_launch::launch_by_host(function, grid, block, arguments, shared, stream));
    hipLaunchCooperativeKernel | hipLaunchCooperativeKernel_spt: (function, grid, block, arguments, shared, stream) =>
        launches::launch_cooperative(function, grid, block, arguments, shared, stream);
    hipModuleLaunchKernel: (
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra
    ) => own_launch::launch_module(
        function,
        LaunchExtents { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared },
        stream,
        arguments,
        extra,
    );
    hipModuleLaunchCooperativeKernel: (
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments
    ) => own_launch::launch_cooperative_module(
        function,
        LaunchExtents { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared },
        stream,
        arguments,
    );
    hipDrvLaunchKernelEx: (configuration, function, arguments, extra) =>
        own_launch::launch_configured(configuration, function, arguments, extra);
    hipExtModuleLaunchKernel: (
        function, items_x, items_y, items_z, block_x, block_y, block_z, shared, stream, arguments, extra, start,
        stop, _
    ) => {
        let extents = in_blocks([items_x, items_y, items_z], [block_x, block_y, block_z], shared)?;
        Around { start, stop }.run(stream, || own_launch::launch_module(function, extents, stream, arguments, extra))
    };
    hipHccModuleLaunchKernel: (
        function, items_x, items_y, items_z, block_x, block_y, block_z, shared, stream, arguments, extra, start, stop
    ) => {
        let extents = in_blocks([items_x, items_y, items_z], [block_x, block_y, block_z], shared)?;
        Around { start, stop }.run(stream, || own_launch::launch_module(function, extents, stream, arguments, extra))
    };

    hipGraphCreate: (graph, _) => graph::create(graph);
    hipGraphDestroy: (graph) => graph::destroy(graph);
    hipGraphRemoveDependencies: (graph, from, to, count) => graph::remove_dependencies(graph, from, to, count);
    hipGraphDestroyNode: (node) => graph::destroy_node(node);
    hipGraphClone: (copy, graph) => graph::clone(copy, graph);
    hipGraphNodeFindInClone: (twin, node, copy) => graph::find_in_clone(twin, node, copy);
    hipGraphGetNodes: (graph, nodes, count) => graph::nodes(graph, nodes, count);
    hipGraphGetRootNodes: (graph, nodes, count) => graph::roots(graph, nodes, count);
    hipGraphGetEdges: (graph, from, to, count) => graph::edges(graph, from, to, count);
    hipGraphNodeGetType: (node, kind) => graph::node_type(node, kind);
    hipGraphAddKernelNode: (node, graph, after, count, parameters) =>
        own_graph::add_kernel(node, At { graph, after, count }, parameters);
    hipGraphKernelNodeGetParams: (node, parameters) => own_graph::kernel_parameters(node, parameters);
    hipGraphKernelNodeSetParams: (node, parameters) => own_graph::set_kernel(node, parameters);
    hipGraphExecKernelNodeSetParams: (executable, node, parameters) =>
        own_graph::set_kernel_of_executable(executable, node, parameters);
    hipGraphKernelNodeGetAttribute: (node, attribute, value) => graph_nodes::kernel_attribute(node, attribute, value);
    hipGraphAddMemcpyNode: (node, graph, after, count, parameters) =>
        own_graph::add_copy(node, At { graph, after, count }, parameters);
    hipGraphAddMemcpyNode1D: (node, graph, after, count, to, from, bytes, kind) =>
        own_graph::add_line(node, At { graph, after, count }, to, from, bytes, kind);
    hipGraphAddMemcpyNodeToSymbol: (node, graph, after, count, symbol, from, bytes, offset, kind) =>
        own_graph::add_line(
            node,
            At { graph, after, count },
            copies::part_of(symbol, offset, bytes)?,
            from,
            bytes,
            kind,
        );
    hipGraphAddMemcpyNodeFromSymbol: (node, graph, after, count, to, symbol, bytes, offset, kind) =>
        own_graph::add_line(node, At { graph, after, count }, to, copies::part_of(symbol, offset, bytes)?, bytes, kind);
    hipGraphAddMemsetNode: (node, graph, after, count, parameters) =>
        own_graph::add_fill(node, At { graph, after, count }, parameters);
    hipGraphMemsetNodeGetParams: (node, parameters) => own_graph::fill_parameters(node, parameters);
    hipGraphAddHostNode: (node, graph, after, count, parameters) =>
        graph_nodes::host(node, At { graph, after, count }, parameters);
    hipGraphHostNodeGetParams: (node, parameters) => graph_nodes::host_parameters(node, parameters);
    hipGraphAddChildGraphNode: (node, graph, after, count, child) =>
        graph_nodes::child(node, At { graph, after, count }, child);
    hipGraphChildGraphNodeGetGraph: (node, graph) => graph_nodes::graph_of_child(node, graph);
    hipGraphAddEventRecordNode: (node, graph, after, count, event) =>
        At { graph, after, count }.add(node, Work::Record(event));
    hipGraphAddEventWaitNode: (node, graph, after, count, event) =>
        At { graph, after, count }.add(node, Work::Wait(event));
    hipGraphEventRecordNodeGetEvent: (node, event) => graph_nodes::event_of(node, event);
    hipGraphEventWaitNodeGetEvent: (node, event) => graph_nodes::event_of(node, event);
    hipGraphMemcpyNodeSetParams1D: (node, to, from, bytes, kind) =>
        graph_nodes::set(node, own_graph::line_of(to, from, bytes, kind)?);
    hipGraphMemsetNodeSetParams: (node, parameters) => graph_nodes::set(node, own_graph::fill_of(parameters)?);
    hipGraphHostNodeSetParams: (node, parameters) => graph_nodes::set(node, graph_nodes::host_of(parameters)?);
    hipGraphEventRecordNodeSetEvent: (node, event) => graph_nodes::set(node, Work::Record(event));
    hipGraphEventWaitNodeSetEvent: (node, event) => graph_nodes::set(node, Work::Wait(event));
    hipGraphExecMemcpyNodeSetParams1D: (executable, node, to, from, bytes, kind) =>
        executable::set(executable, node, own_graph::line_of(to, from, bytes, kind)?);
    hipGraphExecMemsetNodeSetParams: (executable, node, parameters) =>
        executable::set(executable, node, own_graph::fill_of(parameters)?);
    hipGraphExecHostNodeSetParams: (executable, node, parameters) =>
        executable::set(executable, node, graph_nodes::host_of(parameters)?);
    hipGraphExecEventRecordNodeSetEvent: (executable, node, event) =>
        executable::set(executable, node, Work::Record(event));
    hipGraphExecEventWaitNodeSetEvent: (executable, node, event) =>
        executable::set(executable, node, Work::Wait(event));
    hipGraphExecChildGraphNodeSetParams: (executable, node, graph) => executable::set_child(executable, node, graph);
    hipGraphNodeSetEnabled: (executable, node, enabled) => executable::set_enabled(executable, node, enabled);
    hipGraphAddEmptyNode: (node, graph, after, count) => graph_nodes::empty(node, At { graph, after, count });
    hipGraphAddMemAllocNode: (node, graph, after, count, parameters) =>
        graph_nodes::allocation(node, At { graph, after, count }, parameters);
    hipGraphAddMemFreeNode: (node, graph, after, count, address) =>
        graph_nodes::free(node, At { graph, after, count }, address);
    hipGraphInstantiate: (executable, graph, _, _, _) => executable::instantiate(executable, graph);
    hipGraphInstantiateWithFlags: (executable, graph, _) => executable::instantiate(executable, graph);
    hipGraphUpload: (_, stream) => waiting::attach(stream);
    hipGraphExecUpdate: (executable, graph, _, result) => executable::update(executable, graph, result);
    hipGraphExecDestroy: (executable) => executable::destroy(executable);
    hipGraphLaunch | hipGraphLaunch_spt: (executable, stream) => executable::launch(executable, stream);
}

/// Fills use the low byte of a number.
fn byte(value: i32) -> u8 {
    value as u8
}

fn push(grid: Dimensions, block: Dimensions, shared: usize, stream: usize) -> StatusResult {
    launches::push(grid, block, shared, stream);
    Ok(())
}

/// `hipGetProcAddress`. `result` is 0 if the function exists, otherwise 1.
fn by_name(name: CStringArgument, out: Out<*const c_void>, version: i32, result: Out<u32>) -> StatusResult {
    let name = match name.get()? {
        "hipGetDeviceProperties" => own_device::properties_function(version),
        name => name,
    };
    match TABLE.iter().find(|(known, _)| *known == name) {
        Some((_, address)) => {
            result.put_if_wanted(0);
            out.put(address.0)
        }
        None => {
            result.put_if_wanted(1);
            out.put(std::ptr::null())?;
            Err(Status::INVALID_VALUE)
        }
    }
}

fn drv_error_name(error: Status, out: Out<*const c_char>) -> StatusResult {
    let name = hip::error_name(error);
    out.put(name.map_or(std::ptr::null(), CStr::as_ptr))?;
    name.map(|_| ()).ok_or(Status::INVALID_VALUE)
}

fn error_name(error: Status) -> *const c_char {
    hip::error_name(error).unwrap_or(c"hipErrorUnknown").as_ptr()
}

fn error_text(error: Status) -> *const c_char {
    error.text().or_else(|| hip::error_text(error)).unwrap_or(c"unrecognized error code").as_ptr()
}

// Functions that `hipGetProcAddress` does not return.
answers! {
    hipCreateChannelDesc: (x, y, z, w, kind) => ChannelFormat { x, y, z, w, kind };

    __hipRegisterFatBinary: (wrapper) => registration::add_binary(wrapper);
    __hipUnregisterFatBinary: (handle) => noted(|| {
        registration::remove_binary(handle);
        Ok(())
    });
    __hipRegisterFunction: (handle, host, _, name, _, _, _, _, _, _) =>
        noted(|| registration::add_kernel(handle, host, name));
    __hipRegisterVar: (handle, host, _, name, _, _, _, _) => noted(|| registration::add_variable(handle, host, name));
    __hipRegisterManagedVar: (handle, place, initial, name, bytes, _) =>
        noted(|| registration::add_managed(handle, place, initial, name, bytes));
}

/// Runs start-up code, whose failure becomes this thread's last error.
fn noted(body: impl FnOnce() -> StatusResult) {
    enter(body);
}

macro_rules! same {
    ({ $to:ident } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// As for the function that it calls.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the signature in HIP")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            // SAFETY: the arguments are the caller's.
            unsafe { $to($($argument),*) }
        }
    };
}

// `hip_ext.h` declares these as C++ functions.
mneme_abi::_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j! {
    same { hipExtModuleLaunchKernel }
}
mneme_abi::_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_! {
    same { hipHccModuleLaunchKernel }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_that_has_a_name_is_described() {
        let named = (0..2000).map(Status).filter(|status| hip::error_name(*status).is_some());
        for status in named {
            // SAFETY: a constant string.
            let text = unsafe { CStr::from_ptr(hipGetErrorString(status)) };
            assert_ne!(text, c"unrecognized error code", "{status}");
        }
    }

    #[test]
    fn functions_are_found_by_their_names() {
        let find = |name: &CStr, version| {
            let (mut address, mut result) = (std::ptr::null(), 7);
            let done = by_name(CStringArgument(name.as_ptr()), Out::to(&mut address), version, Out::to(&mut result));
            (done, address, result)
        };
        assert_eq!(find(c"hipMalloc", 60_000_000), (Ok(()), hipMalloc as *const c_void, 0));
        let (_, properties, _) = find(c"hipGetDeviceProperties", 60_200_000);
        assert_eq!(properties, hipGetDevicePropertiesR0600 as *const c_void);
        let (_, properties, _) = find(c"hipGetDeviceProperties", 50_200_000);
        assert_eq!(properties, hipGetDevicePropertiesR0000 as *const c_void);
        assert_eq!(find(c"hipNothing", 0), (Err(Status::INVALID_VALUE), std::ptr::null(), 1));
    }

    #[test]
    fn a_call_that_succeeds_clears_the_error_of_the_one_before() {
        // SAFETY: the functions check for null.
        unsafe {
            assert_eq!(hipMalloc(std::ptr::null_mut(), 8), Status::INVALID_VALUE);
            assert_eq!(hipPeekAtLastError(), Status::INVALID_VALUE);
            assert_eq!(hipFree(0), Status::SUCCESS);
            assert_eq!(hipGetLastError(), Status::SUCCESS);
        }
        // SAFETY: a constant string of the library.
        let name = unsafe { CStr::from_ptr(hipGetErrorName(Status::INVALID_VALUE)) };
        assert_eq!(name, c"hipErrorInvalidValue");
    }

    #[test]
    fn either_kind_of_memory_is_freed_by_either_function() {
        let mut addresses = [0u64; 2];
        // SAFETY: valid places, and only allocated memory is freed.
        unsafe {
            assert_eq!(hipMalloc(&mut addresses[0], 64), Status::SUCCESS);
            assert_eq!(hipHostMalloc((&raw mut addresses[1]).cast(), 64, 0), Status::SUCCESS);
            assert_eq!(hipHostFree(addresses[0] as *mut c_void), Status::SUCCESS);
            assert_eq!(hipFree(addresses[1]), Status::SUCCESS);
            assert_eq!(hipFree(addresses[1]), Status::INVALID_VALUE);
        }
    }

    #[test]
    fn copies_end_with_their_allocation_and_begin_only_if_they_can_end() {
        let (mut address, mut pitch) = (0u64, 0usize);
        let mut host = [7u8; 800];
        // SAFETY: valid places, and the host memory is large enough.
        unsafe {
            assert_eq!(hipMallocPitch((&raw mut address).cast(), &mut pitch, 100, 3), Status::SUCCESS);
            assert_eq!(pitch, own_device::PITCH);
            let to = address as *mut c_void;
            assert_eq!(hipMemset(to, 1, 3 * pitch), Status::SUCCESS);
            assert_eq!(hipMemset(to, 2, 3 * pitch + 1), Status::INVALID_VALUE);
            let from = host.as_ptr().cast();
            assert_eq!(hipMemcpy2D(to, pitch, from, 100, 100, 4, 1), Status::INVALID_VALUE);
            assert_eq!(hipMemset2D(to, pitch, 2, 100, 4), Status::INVALID_VALUE);
            // The direction makes no difference.
            assert_eq!(hipMemcpy(to.wrapping_byte_add(700), from, 100, 4), Status::INVALID_VALUE);
            assert_eq!(hipMemcpy(host.as_mut_ptr().cast(), to, 3 * pitch, 2), Status::SUCCESS);
            assert!(host[..3 * pitch].iter().all(|byte| *byte == 1), "the failed copy wrote no byte");
            assert_eq!(hipMallocPitch((&raw mut address).cast(), &mut pitch, 0, 3), Status::SUCCESS);
            assert_eq!(address, 0);
            assert_eq!(hipMemGetInfo(std::ptr::null_mut(), std::ptr::null_mut()), Status::SUCCESS);
        }
    }

    #[test]
    fn printf_has_no_limit() {
        let mut value = 0;
        // SAFETY: a valid place.
        unsafe {
            assert_eq!(hipDeviceGetLimit(&mut value, 1), Status::UNSUPPORTED_LIMIT);
            assert_eq!(hipDeviceSetLimit(1, 4096), Status::UNSUPPORTED_LIMIT);
            assert_eq!(hipDeviceGetLimit(&mut value, 2), Status::SUCCESS);
        }
    }
}

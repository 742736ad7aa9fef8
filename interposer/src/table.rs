//! The hooked functions, a list for each interface.
//!
//! An entry of a list is: purpose, tests that cover it { names => handler; … }.
//!
//! HIP's functions mirror the driver's, and a hook of HIP has the handler of the corresponding driver function.
//! `mneme_abi` declares their arguments. [`driver`](crate::driver) turns the list into typed calls of the vendor's
//! functions, and [`hooks`](crate::hooks) into exported functions.

/// Passes the list of the driver's functions to a macro.
macro_rules! every_hook {
    ($($macro:tt)*) => { $($macro)*! {
    "waits at the gate while a launch is recorded" ["interposer/src/driver/gate.rs: a_closed_gate_is_exclusive"] {
        cuMemcpyPeer, cuMemcpyPeer_ptds => gated;
        cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds => gated;
        cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds => gated;
        cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds => gated;
        cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds => gated;
        cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds => gated;
        cuMemcpy3D_v2, cuMemcpy3D_v2_ptds => gated;
        cuMemcpy3DPeer, cuMemcpy3DPeer_ptds => gated;
        cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz => gated;
        cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz => gated;
        cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz => gated;
        cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz => gated;
        cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz => gated;
        cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz => gated;
        cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz => gated;
        cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz => gated;
        cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz => gated;
        cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz => gated;
        cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz => gated;
        cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz => gated;
        cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz => gated;
        cuFabricCpyBatchAsync, cuFabricCpyBatchAsync_ptsz => gated;
        cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz => gated;
        cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz => gated;
        cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz => gated;
        cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz => gated;
        cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz => gated;
        cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz => gated;
        cuGraphUpload, cuGraphUpload_ptsz => gated;
        cuGraphicsMapResources, cuGraphicsMapResources_ptsz => gated;
    }
    "waits at the gate while a launch is recorded; refused if it reaches beyond an allocation of the recorder, as the vendor does for its own" ["tests/tests/e2e/programs.rs: memory"] {
        cuMemcpy, cuMemcpy_ptds => {bounds::copy};
        cuMemcpyAsync, cuMemcpyAsync_ptsz => {bounds::copy_on};
        cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds => {bounds::copy};
        cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz => {bounds::copy_on};
        cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds => {bounds::copy};
        cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz => {bounds::copy_on};
        cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds => {bounds::copy};
        cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz => {bounds::copy_on};
        cuMemcpy2D_v2, cuMemcpy2D_v2_ptds => {bounds::copy_described};
        cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds => {bounds::copy_described};
        cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz => {bounds::copy_described_on};
        cuMemsetD8_v2, cuMemsetD8_v2_ptds => {bounds::fill};
        cuMemsetD8Async, cuMemsetD8Async_ptsz => {bounds::fill_on};
        cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds => {bounds::fill_rows};
        cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz => {bounds::fill_rows_on};
        cuMemsetD16_v2, cuMemsetD16_v2_ptds => {bounds::fill};
        cuMemsetD16Async, cuMemsetD16Async_ptsz => {bounds::fill_on};
        cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds => {bounds::fill_rows};
        cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz => {bounds::fill_rows_on};
        cuMemsetD32_v2, cuMemsetD32_v2_ptds => {bounds::fill};
        cuMemsetD32Async, cuMemsetD32Async_ptsz => {bounds::fill_on};
        cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds => {bounds::fill_rows};
        cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz => {bounds::fill_rows_on};
    }
    "waits at the gate; its writes are not recorded" ["interposer/src/driver/gate.rs: a_closed_gate_is_exclusive"] {
        cuLaunchHostFunc, cuLaunchHostFunc_ptsz => gated;
        cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz => gated;
        cuStreamAddCallback, cuStreamAddCallback_ptsz => gated;
        cuStreamWriteValue32, cuStreamWriteValue32_ptsz => gated;
        cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz => gated;
        cuStreamWriteValue64, cuStreamWriteValue64_ptsz => gated;
        cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz => gated;
        cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz => gated;
        cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz => gated;
    }
    "tracked, because synchronising is an error while a stream is captured" ["interposer/tests/recording.rs: nothing_waits_while_another_stream_is_captured", "tests/tests/e2e/graphs.rs: kernels_of_captured_graphs_and_of_nodes_are_recorded"] {
        cuStreamBeginCapture, cuStreamBeginCapture_ptsz => (captures::begin);
        cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz => (|stream, _| captures::begin(stream));
        cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz =>
            (|stream, _, _, _, _, _| captures::begin(stream));
        cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz =>
            (|stream, _, _, _, _| captures::begin(stream));
        cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz => (|stream, _| captures::begin(stream));
        cuStreamEndCaptureToCig, cuStreamEndCaptureToCig_ptsz => (captures::end_for_graphics);
        cuStreamEndCapture, cuStreamEndCapture_ptsz => (|stream, _| captures::end(stream));
    }
    "tracked, because it ends the capture of the stream" ["tests/tests/e2e/coverage.rs: a_capture_that_ends_with_its_stream_is_over", "interposer/src/driver/captures.rs: a_capture_ends_with_what_it_takes_place_in"] {
        cuStreamDestroy => {captures::destroy};
        cuStreamDestroy_v2 => {captures::destroy};
    }
    "launched node by node while a kernel lacks an instance, each kernel as if launched alone, otherwise as a whole" ["tests/tests/e2e/graphs.rs: a_graph_is_launched_whole_once_its_kernels_are_recorded", "tests/tests/e2e/graphs.rs: graphs_are_expanded_on_request"] {
        cuGraphLaunch => (|executable, stream| graphs::launch(executable, stream, STREAM_LEGACY));
        cuGraphLaunch_ptsz => (|executable, stream| graphs::launch(executable, stream, STREAM_PER_THREAD));
    }
    "followed, because an executable graph cannot be read back" ["tests/tests/e2e/graphs.rs: updates_are_followed", "tests/tests/e2e/graphs.rs: graphs_are_expanded_on_request"] {
        cuGraphInstantiate => (|executable, graph, _, _, _| graphs::instantiate(executable, graph, 0));
        cuGraphInstantiate_v2 => (|executable, graph, _, _, _| graphs::instantiate(executable, graph, 0));
        cuGraphInstantiateWithFlags => (graphs::instantiate);
        cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz => (graphs::instantiate_with_parameters);
        cuGraphExecUpdate => (|executable, graph, _, _| graphs::update(executable, graph));
        cuGraphExecUpdate_v2 => (|executable, graph, _| graphs::update(executable, graph));
        cuGraphExecKernelNodeSetParams => (changes::kernel_of_11);
        cuGraphExecKernelNodeSetParams_v2 => (changes::kernel);
        cuGraphExecMemcpyNodeSetParams => (|executable, node, new, _| changes::copy(executable, node, new));
        cuGraphExecMemsetNodeSetParams => (|executable, node, new, _| changes::fill(executable, node, new));
        cuGraphExecHostNodeSetParams => (changes::host);
        cuGraphExecEventRecordNodeSetEvent => (changes::record);
        cuGraphExecEventWaitNodeSetEvent => (changes::wait);
        cuGraphExecChildGraphNodeSetParams => (|executable, node, new| changes::child(executable, node, new.cast_mut()));
        cuGraphExecNodeSetParams => (changes::any);
        cuGraphNodeSetEnabled => (changes::enabled);
        cuGraphExecDestroy => (graphs::destroy);
        cuGraphRetainUserObject => (|_, _, _, _| graphs::retain_user_object());
    }
    "served from the arena" ["tests/tests/e2e/programs.rs: memory", "interposer/tests/recording.rs: every_way_to_the_driver_is_hooked_and_recorded"] {
        cuMemAlloc_v2 => (served::allocate);
        cuMemAllocPitch_v2 => (served::allocate_pitched);
        cuMemFree_v2 => (served::free);
    }
    "answered for allocations of the arena as the vendor does for its own" ["tests/tests/e2e/programs.rs: memory", "interposer/tests/recording.rs: every_way_to_the_driver_is_hooked_and_recorded"] {
        cuMemGetAddressRange_v2 => (served::address_range);
        cuPointerGetAttribute => (served::pointer_attribute);
        cuPointerGetAttributes => (served::pointer_attributes);
        cuMemGetInfo_v2 => (|free, _| served::information(free));
    }
    "grants peers access to the arena's memory, and notes which devices can touch an allocation" ["tests/tests/e2e/coverage.rs: several_devices", "tests/tests/e2e/coverage.rs: access"] {
        cuCtxEnablePeerAccess => (|peer, _| access::enable_peer(peer));
        cuCtxDisablePeerAccess => (access::disable_peer);
        cuMemSetAccess => (access::set);
        cuMemPoolSetAccess => (access::set_pool);
        cuMemPoolCreate => (|pool, _| access::new_pool(pool));
        cuMemPoolImportFromShareableHandle => (|pool, _, _, _| access::new_pool(pool));
    }
    "returns a handle of the arena's memory that the recorder of another process understands; if that is impossible, the vendor serves further allocations" ["tests/tests/e2e/coverage.rs: sharing_between_processes", "interposer/tests/recording.rs: memory_for_other_processes_is_the_vendors"] {
        cuIpcGetMemHandle => (ipc::share);
    }
    "opens memory that another process's recorder shares; if the other process has no recorder, the vendor serves further allocations" ["tests/tests/e2e/coverage.rs: sharing_between_processes", "interposer/tests/recording.rs: memory_for_other_processes_is_the_vendors"] {
        cuIpcOpenMemHandle => (|address, handle, _| ipc::open_shared(address, handle));
        cuIpcOpenMemHandle_v2 => (|address, handle, _| ipc::open_shared(address, handle));
        cuIpcCloseMemHandle => (ipc::close_shared);
    }
    "notes that the process shares memory with others, so the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        cuMemPoolImportPointer => (|address, pool, _| ipc::import_pointer(address, pool));
    }
    "tracked, to record the memory at its own address" ["tests/tests/e2e/coverage.rs: pools"] {
        cuMemAllocAsync, cuMemAllocAsync_ptsz => (|address, bytes, stream|
            tracked::allocate_on(address, bytes, None, stream));
        cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz => (|address, bytes, pool, stream|
            tracked::allocate_on(address, bytes, Some(pool), stream));
        cuMemFreeAsync => (|address, stream| tracked::free_on(address, stream, STREAM_LEGACY));
        cuMemFreeAsync_ptsz => (|address, stream| tracked::free_on(address, stream, STREAM_PER_THREAD));
    }
    "tracked, to record the memory at its own address" ["tests/tests/e2e/coverage.rs: managed"] {
        cuMemAllocManaged => (|address, bytes, _| tracked::allocate_managed(address, bytes));
    }
    "tracked, to record the memory at its own address" ["tests/tests/e2e/coverage.rs: mapped"] {
        cuMemAllocHost => (|host, bytes| tracked::allocate_host(host, bytes as usize, 0));
        cuMemAllocHost_v2 => (|host, bytes| tracked::allocate_host(host, bytes, 0));
        cuMemHostAlloc => (tracked::allocate_host);
        cuMemHostRegister => (tracked::register_host);
        cuMemHostRegister_v2 => (tracked::register_host);
        cuMemHostUnregister => (tracked::forget_host);
        cuMemFreeHost => (tracked::forget_host);
    }
    "notes that others may write to the memory" ["interposer/src/memory/sharing/physical.rs: memory_is_shared_whether_it_is_mapped_before_or_after", "tests/tests/e2e/coverage.rs: memory_that_another_process_writes_to"] {
        cuMemPoolExportPointer => (|_, address| ipc::export_pointer(address));
        cuMemCreate => (|handle, _, _, _| physical::create(handle));
        cuMemExportToShareableHandle => (|shareable, handle, kind, _| physical::export(shareable, handle, kind));
        cuMemImportFromShareableHandle => (physical::import);
        cuMulticastCreate => (|handle, _| physical::create_multicast(handle));
        cuMulticastBindMem => (|_, _, memory, _, _, _| physical::bind(memory));
        cuMulticastBindMem_v2 => (|_, _, _, memory, _, _, _| physical::bind(memory));
        cuMulticastBindAddr => (|_, _, address, bytes, _| physical::bind_address(address, bytes));
        cuMulticastBindAddr_v2 => (|_, _, _, address, bytes, _| physical::bind_address(address, bytes));
    }
    "tracked, to detect memory that is mapped at two addresses; the recorder's allocations have no handle, like those of cuMemAlloc" ["tests/tests/e2e/coverage.rs: memory_that_is_mapped_at_two_addresses_is_refused"] {
        cuMemRetainAllocationHandle => (physical::retain);
        cuMemRelease => (physical::release);
    }
    "tracked, to record the memory at its own address, and to refuse kernels that reach memory at two addresses" ["tests/tests/e2e/coverage.rs: vmm", "tests/tests/e2e/coverage.rs: memory_that_is_mapped_at_two_addresses_is_refused"] {
        cuMemMap => (|address, bytes, offset, handle, _| tracked::map(address, bytes, offset, handle));
        cuMemUnmap => (tracked::unmap);
    }
    "tracked, to record the memory at its own address while it is mapped" ["interposer/tests/recording.rs: memory_of_other_interfaces_is_recorded_while_it_is_mapped"] {
        cuExternalMemoryGetMappedBuffer => (|address, _, description|
            external::map_buffer(address, description));
        cuGraphicsResourceGetMappedPointer_v2 => (external::mapped_pointer);
        cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz => (|count, resources, _|
            external::unmap_resources(count, resources));
        cuGraphicsUnregisterResource => (external::unregister_resource);
    }
    "tracked, to record the arrays and objects that a kernel can use" ["tests/tests/e2e/textures.rs: textures_and_surfaces_are_recorded"] {
        cuArrayCreate_v2 => (images::create_plane);
        cuArray3DCreate_v2 => (images::create_array);
        cuArrayDestroy => (images::destroy_array);
        cuTexObjectCreate => (images::create_texture);
        cuTexObjectDestroy => (images::destroy_object);
        cuSurfObjectCreate => (images::create_surface);
        cuSurfObjectDestroy => (images::destroy_object);
    }
    "tracked, to wait for every context of a device and to forget memory and code that end with one" ["tests/tests/e2e/coverage.rs: contexts"] {
        cuCtxCreate => (|context, _, device| contexts::create(context, device));
        cuCtxCreate_v2 => (|context, _, device| contexts::create(context, device));
        cuCtxCreate_v3 => (|context, _, _, _, device| contexts::create(context, device));
        cuCtxCreate_v4 => (|context, _, _, device| contexts::create(context, device));
        cuDevicePrimaryCtxRetain => (contexts::retain_primary);
        cuCtxDestroy => (ends::destroy);
        cuCtxDetach => (ends::detach);
        cuCtxDestroy_v2 => (ends::destroy);
        cuDevicePrimaryCtxReset => (ends::reset_primary);
        cuDevicePrimaryCtxRelease => (ends::release_primary);
        cuDevicePrimaryCtxReset_v2 => (ends::reset_primary);
        cuDevicePrimaryCtxRelease_v2 => (ends::release_primary);
    }
    "tracked, to wait for every context of a device and to forget memory and code that end with one" ["interposer/src/lifetimes/green.rs: contexts_of_green_ones_are_known_as_long_as_those_live"] {
        cuGreenCtxCreate => (|green, _, device, _| green::create(green, device));
        cuCtxFromGreenCtx => (green::make_context);
        cuGreenCtxDestroy => (green::destroy);
    }
    "tracked, to know a kernel's code" ["tests/tests/e2e/coverage.rs: contexts", "tests/tests/e2e/programs.rs: rdc"] {
        cuModuleLoad => (|module, file| loading::load_file(CodeOwner::Module, module.cast(), file));
        cuModuleLoadData => (|module, image| loading::load(CodeOwner::Module, module.cast(), image));
        cuModuleLoadDataEx => (|module, image, _, _, _|
            loading::load(CodeOwner::Module, module.cast(), image));
        cuModuleLoadFatBinary => (|module, image| loading::load(CodeOwner::Module, module.cast(), image));
        cuModuleUnload => (|module| loading::unload(CodeOwner::Module(module as usize)));
        cuModuleGetFunction => (|function, module, name|
            loading::function(function.cast(), CodeOwner::Module(module as usize), name));
        cuLibraryLoadData => (|library, image, _, _, _, _, _, _|
            loading::load(CodeOwner::Library, library.cast(), image));
        cuLibraryLoadFromFile => (|library, file, _, _, _, _, _, _|
            loading::load_file(CodeOwner::Library, library.cast(), file));
        cuLibraryUnload => (|library| loading::unload(CodeOwner::Library(library as usize)));
        cuLibraryGetKernel => (|kernel, library, name|
            loading::function(kernel.cast(), CodeOwner::Library(library as usize), name));
        cuLibraryGetModule => (loading::library_module);
        cuKernelGetFunction => (loading::kernel_function);
    }
    "noted, because tuned code that replaces the function gets the same setting" ["tests/tests/e2e/applying.rs: what_is_set_on_a_function_is_set_on_its_tuned_code", "interposer/src/kernels/function_settings.rs: the_last_value_counts_and_changes_are_counted"] {
        cuFuncSetAttribute => (|function, attribute, value|
            setting::note(function, Setting::Attribute(attribute), value));
        cuFuncSetCacheConfig => (|function, value| setting::note(function, Setting::Cache, value as c_int));
        cuFuncSetSharedMemConfig => (|function, value| setting::note(function, Setting::Banks, value as c_int));
        cuKernelSetAttribute => (|attribute, value, kernel, _|
            setting::note(kernel.cast(), Setting::Attribute(attribute), value));
        cuKernelSetCacheConfig => (|kernel, value, _|
            setting::note(kernel.cast(), Setting::Cache, value as c_int));
    }
    "counted, and recorded if it is selected" ["tests/tests/e2e/coverage.rs: launch_forms"] {
        cuLaunchKernel =>
            [|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters, extra| forms::kernel(
            function, [x, y, z], [block_x, block_y, block_z], shared, named(stream, STREAM_LEGACY), parameters, extra)];
        cuLaunchKernel_ptsz =>
            [|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters, extra| forms::kernel(
            function, [x, y, z], [block_x, block_y, block_z], shared, named(stream, STREAM_PER_THREAD), parameters,
            extra)];
        cuLaunchKernelEx => [|configuration, function, parameters, extra|
            forms::kernel_ex(configuration, function, parameters, extra, STREAM_LEGACY)];
        cuLaunchKernelEx_ptsz => [|configuration, function, parameters, extra|
            forms::kernel_ex(configuration, function, parameters, extra, STREAM_PER_THREAD)];
        cuLaunchCooperativeKernel =>
            [|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters| forms::cooperative(
            function, [x, y, z], [block_x, block_y, block_z], shared, named(stream, STREAM_LEGACY), parameters)];
        cuLaunchCooperativeKernel_ptsz =>
            [|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters| forms::cooperative(
            function, [x, y, z], [block_x, block_y, block_z], shared, named(stream, STREAM_PER_THREAD), parameters)];
    }
    "counted, and reported as not recorded, because it is from before CUDA 4.0" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        cuLaunch => (|function| refused::launch(function, "cuLaunch"));
        cuLaunchGrid => (|function, _, _| refused::launch(function, "cuLaunchGrid"));
        cuLaunchGridAsync => (|function, _, _, _| refused::launch(function, "cuLaunchGridAsync"));
    }
    "counted, and reported as not recorded, because a replay on one device cannot repeat it" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        cuLaunchCooperativeKernelMultiDevice => (|list, count, _| refused::launch_on_devices(list, count));
    }
    "returns the hooks of this table" ["interposer/tests/recording.rs: every_way_to_the_driver_is_hooked_and_recorded"] {
        cuGetProcAddress => (proc_address::get);
        cuGetProcAddress_v2 => (|symbol, function, version, flags, _|
            proc_address::get(symbol, function, version, flags));
    }
    } };
}
pub(crate) use every_hook;

/// Passes the list of HIP's functions to a macro.
macro_rules! every_hip_hook {
    ($($macro:tt)*) => { $($macro)*! {
    "waits at the gate while a launch is recorded" ["interposer/src/driver/gate.rs: a_closed_gate_is_exclusive"] {
        hipMemcpyAtoD => gated;
        hipMemcpyDtoA => gated;
        hipMemcpyAtoA => gated;
        hipMemcpyAtoH => gated;
        hipMemcpyHtoA => gated;
        hipMemcpyAtoHAsync => gated;
        hipMemcpyHtoAAsync => gated;
        hipMemcpy2DToArray, hipMemcpy2DToArray_spt => gated;
        hipMemcpy2DToArrayAsync, hipMemcpy2DToArrayAsync_spt => gated;
        hipMemcpy2DFromArray, hipMemcpy2DFromArray_spt => gated;
        hipMemcpy2DFromArrayAsync, hipMemcpy2DFromArrayAsync_spt => gated;
        hipMemcpy2DArrayToArray => gated;
        hipMemcpyToArray => gated;
        hipMemcpyFromArray, hipMemcpyFromArray_spt => gated;
        hipDrvMemcpy3D => gated;
        hipDrvMemcpy3DAsync => gated;
        hipMemcpy3DPeer => gated;
        hipMemcpy3DPeerAsync => gated;
        hipMemcpyBatchAsync => gated;
        hipMemcpy3DBatchAsync => gated;
        hipMemMapArrayAsync => gated;
        hipStreamAttachMemAsync => gated;
        hipGraphUpload => gated;
        hipGraphicsMapResources => gated;
    }
    "waits at the gate while a launch is recorded; refused if it reaches beyond an allocation of the recorder, as the vendor does for its own" ["tests/tests/e2e/hip.rs: statuses_are_those_of_the_plain_run"] {
        hipMemcpy, hipMemcpy_spt => {|to, from, bytes, kind| bounds::copy(to, from, meant(kind, bytes))};
        hipMemcpyWithStream => {|to, from, bytes, kind, stream|
            bounds::copy_on(to, from, meant(kind, bytes), stream)};
        hipMemcpyHtoD => {bounds::copy};
        hipMemcpyDtoH => {bounds::copy};
        hipMemcpyDtoD => {bounds::copy};
        hipMemcpyHtoDAsync => {bounds::copy_on};
        hipMemcpyDtoHAsync => {bounds::copy_on};
        hipMemcpyDtoDAsync => {bounds::copy_on};
        hipMemcpyAsync, hipMemcpyAsync_spt => {|to, from, bytes, kind, stream|
            bounds::copy_on(to, from, meant(kind, bytes), stream)};
        hipMemcpy2D, hipMemcpy2D_spt => {|to, to_pitch, from, from_pitch, width, height, kind|
            bounds::checked(Touched::by_rows(to, to_pitch, from, from_pitch, width, meant(kind, height)))};
        hipMemcpy2DAsync, hipMemcpy2DAsync_spt => {|to, to_pitch, from, from_pitch, width, height, kind, stream|
            bounds::enqueued(Touched::by_rows(to, to_pitch, from, from_pitch, width, meant(kind, height)), stream)};
        hipMemcpyPeer => {|to, _, from, _, bytes| bounds::copy(to, from, bytes)};
        hipMemcpyPeerAsync => {|to, _, from, _, bytes, stream| bounds::copy_on(to, from, bytes, stream)};
        hipMemcpyParam2D => {bounds::copy_described};
        hipMemcpyParam2DAsync => {bounds::copy_described_on};
        hipDrvMemcpy2DUnaligned => {bounds::copy_described};
        hipMemcpy3D, hipMemcpy3D_spt => {|what| bounds::checked(touched_volumes(what))};
        hipMemcpy3DAsync, hipMemcpy3DAsync_spt => {|what, stream| bounds::enqueued(touched_volumes(what), stream)};
        hipMemcpyToSymbol, hipMemcpyToSymbol_spt => {|_, from, bytes, _, kind|
            bounds::checked([Touched::line(from, meant(kind, bytes))])};
        hipMemcpyToSymbolAsync, hipMemcpyToSymbolAsync_spt => {|_, from, bytes, _, kind, stream|
            bounds::enqueued([Touched::line(from, meant(kind, bytes))], stream)};
        hipMemcpyFromSymbol, hipMemcpyFromSymbol_spt => {|to, _, bytes, _, kind|
            bounds::checked([Touched::line(to, meant(kind, bytes))])};
        hipMemcpyFromSymbolAsync, hipMemcpyFromSymbolAsync_spt => {|to, _, bytes, _, kind, stream|
            bounds::enqueued([Touched::line(to, meant(kind, bytes))], stream)};
        hipMemPrefetchAsync => {|address, bytes, _, stream| bounds::enqueued([Touched::line(address, bytes)], stream)};
        hipMemPrefetchAsync_v2 => {|address, bytes, _, _, stream|
            bounds::enqueued([Touched::line(address, bytes)], stream)};
        hipMemAdvise, hipMemAdvise_v2 => {|address, bytes, _, _| bounds::checked([Touched::line(address, bytes)])};
        hipMemset, hipMemset_spt => {|to, _, bytes| bounds::checked([Touched::line(to, bytes)])};
        hipMemsetAsync, hipMemsetAsync_spt => {|to, _, bytes, stream|
            bounds::enqueued([Touched::line(to, bytes)], stream)};
        hipMemset2D, hipMemset2D_spt => {|to, pitch, _, width, height|
            bounds::checked([Touched::rows(to, pitch, width, height)])};
        hipMemset2DAsync, hipMemset2DAsync_spt => {|to, pitch, _, width, height, stream|
            bounds::enqueued([Touched::rows(to, pitch, width, height)], stream)};
        hipMemset3D, hipMemset3D_spt => {|to, _, extent| bounds::checked([Touched::volume(&to, &extent)])};
        hipMemset3DAsync, hipMemset3DAsync_spt => {|to, _, extent, stream|
            bounds::enqueued([Touched::volume(&to, &extent)], stream)};
        hipMemsetD8 => {bounds::fill};
        hipMemsetD8Async => {bounds::fill_on};
        hipMemsetD2D8 => {bounds::fill_rows};
        hipMemsetD2D8Async => {bounds::fill_rows_on};
        hipMemsetD16 => {bounds::fill};
        hipMemsetD16Async => {bounds::fill_on};
        hipMemsetD2D16 => {bounds::fill_rows};
        hipMemsetD2D16Async => {bounds::fill_rows_on};
        hipMemsetD32 => {bounds::fill};
        hipMemsetD32Async => {bounds::fill_on};
        hipMemsetD2D32 => {bounds::fill_rows};
        hipMemsetD2D32Async => {bounds::fill_rows_on};
    }
    "waits at the gate; its writes are not recorded" ["interposer/src/driver/gate.rs: a_closed_gate_is_exclusive"] {
        hipLaunchHostFunc, hipLaunchHostFunc_spt => gated;
        hipStreamAddCallback, hipStreamAddCallback_spt => gated;
        hipStreamWriteValue32 => gated;
        hipStreamWriteValue64 => gated;
        hipStreamBatchMemOp => gated;
    }
    "tracked, because synchronising is an error while a stream is captured" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipStreamBeginCapture, hipStreamBeginCapture_spt => (|stream, _| captures::begin(stream));
        hipStreamBeginCaptureToGraph => (|stream, _, _, _, _, _| captures::begin(stream));
        hipStreamEndCapture, hipStreamEndCapture_spt => (|stream, _| captures::end(stream));
    }
    "tracked, because it ends the capture of the stream" ["interposer/src/driver/captures.rs: a_capture_ends_with_what_it_takes_place_in"] {
        hipStreamDestroy => {captures::destroy};
    }
    "launched node by node while a kernel lacks an instance, each kernel as if launched alone, otherwise as a whole" ["tests/tests/e2e/hip.rs: graphs_are_expanded_on_request"] {
        hipGraphLaunch => (|executable, stream| graphs::launch(executable, stream, STREAM_LEGACY));
        hipGraphLaunch_spt => (|executable, stream| graphs::launch(executable, stream, STREAM_PER_THREAD));
    }
    "followed, because an executable graph cannot be read back" ["tests/tests/e2e/hip.rs: graphs_are_expanded_on_request"] {
        hipGraphInstantiate => (|executable, graph, _, _, _| graphs::instantiate(executable, graph, 0));
        hipGraphInstantiateWithFlags => (graphs::instantiate);
        hipGraphInstantiateWithParams => (graphs::instantiate_with_parameters);
        hipGraphExecUpdate => (|executable, graph, _, _| graphs::update(executable, graph));
        hipGraphExecKernelNodeSetParams => (changes::kernel);
        hipGraphExecDestroy => (graphs::destroy);
    }
    "followed, because an executable graph cannot be read back" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipGraphExecMemcpyNodeSetParams => (changes::copy_of_hip);
        hipGraphExecMemcpyNodeSetParams1D => (changes::line_of_hip);
        hipGraphExecMemcpyNodeSetParamsFromSymbol => (changes::from_symbol);
        hipGraphExecMemcpyNodeSetParamsToSymbol => (changes::to_symbol);
        hipGraphExecMemsetNodeSetParams => (changes::fill_of_hip);
        hipGraphExecHostNodeSetParams => (changes::host);
        hipGraphExecEventRecordNodeSetEvent => (changes::record);
        hipGraphExecEventWaitNodeSetEvent => (changes::wait);
        hipGraphExecChildGraphNodeSetParams => (changes::child);
        hipGraphExecNodeSetParams => (changes::any);
        hipDrvGraphExecMemcpyNodeSetParams => (|executable, node, new, _| changes::copy(executable, node, new));
        hipDrvGraphExecMemsetNodeSetParams => (|executable, node, new, _| changes::fill_of_hip(executable, node, new));
        hipGraphNodeSetEnabled => (changes::enabled);
    }
    "served from the arena" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipMalloc => (served::allocate);
        hipMemAllocPitch => (served::allocate_pitched);
        hipMallocPitch => (|address, pitch, width, height|
            served::allocate_pitched(address.cast(), pitch, width, height, 4));
        hipMalloc3D => (served::allocate_volume);
        hipExtMallocWithFlags => (served::allocate_with_flags);
        hipFree => (served::free);
        hipHostFree => (served::free_of_host);
        hipFreeHost => (served::free_of_host);
    }
    "answered for allocations of the arena as the vendor does for its own" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemGetAddressRange => (served::address_range);
        hipMemPtrGetInfo => (served::size_of);
        hipPointerGetAttributes => (served::attributes_of_hip);
        hipPointerGetAttribute => (served::pointer_attribute);
        hipDrvPointerGetAttributes => (served::pointer_attributes);
        hipMemGetInfo => (|free, _| served::information(free));
    }
    "grants peers access to the arena's memory, and notes which devices can touch an allocation" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipDeviceEnablePeerAccess => (|peer, _| access::enable_peer_device(peer));
        hipDeviceDisablePeerAccess => (access::disable_peer_device);
        hipCtxEnablePeerAccess => (|peer, _| access::enable_peer_of_hip(peer));
        hipCtxDisablePeerAccess => (access::disable_peer_of_hip);
        hipMemSetAccess => (access::set);
        hipMemPoolSetAccess => (access::set_pool);
        hipMemPoolCreate => (|pool, _| access::new_pool(pool));
        hipMemPoolImportFromShareableHandle => (|pool, _, _, _| access::new_pool(pool));
    }
    "returns a handle of the arena's memory that the recorder of another process understands; if that is impossible, the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipIpcGetMemHandle => (ipc::share);
    }
    "opens memory that another process's recorder shares; if the other process has no recorder, the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipIpcOpenMemHandle => (|address, handle, _| ipc::open_shared(address, handle));
        hipIpcCloseMemHandle => (ipc::close_shared);
    }
    "notes that the process shares memory with others, so the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemPoolImportPointer => (|address, pool, _| ipc::import_pointer(address, pool));
    }
    "tracked, to record the memory at its own address" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMallocAsync => (|address, bytes, stream|
            tracked::allocate_on(address, bytes, None, stream));
        hipMallocFromPoolAsync => (|address, bytes, pool, stream|
            tracked::allocate_on(address, bytes, Some(pool), stream));
        hipFreeAsync => (|address, stream| tracked::free_on(address, stream, STREAM_LEGACY));
        hipMallocManaged => (|address, bytes, _| tracked::allocate_managed(address, bytes));
        hipMallocHost => (|host, bytes| tracked::allocate_host(host, bytes, 0));
        hipMemAllocHost => (|host, bytes| tracked::allocate_host(host, bytes, 0));
        hipHostMalloc => (tracked::allocate_host);
        hipHostAlloc => (tracked::allocate_host);
        hipHostRegister => (tracked::register_host);
        hipHostUnregister => (tracked::forget_host);
    }
    "notes that others may write to the memory" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemPoolExportPointer => (|_, address| ipc::export_pointer(address));
        hipMemCreate => (|handle, _, _, _| physical::create(handle));
        hipMemExportToShareableHandle => (|shareable, handle, kind, _| physical::export(shareable, handle, kind));
        hipMemImportFromShareableHandle => (physical::import);
    }
    "tracked, to detect memory that is mapped at two addresses; the recorder's allocations have no handle, like those of hipMalloc" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemRetainAllocationHandle => (physical::retain);
        hipMemRelease => (physical::release);
    }
    "tracked, to record the memory at its own address, and to refuse kernels that reach memory at two addresses" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemMap => (|address, bytes, offset, handle, _| tracked::map(address, bytes, offset, handle));
        hipMemUnmap => (tracked::unmap);
    }
    "tracked, to record the memory at its own address while it is mapped" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipExternalMemoryGetMappedBuffer => (|address, _, description|
            external::map_buffer(address, description));
        hipGraphicsResourceGetMappedPointer => (external::mapped_pointer);
        hipGraphicsUnmapResources => (|count, resources, _|
            external::unmap_resources(count, resources));
        hipGraphicsUnregisterResource => (external::unregister_resource);
    }
    "tracked, to forget memory and code that end with it" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipDeviceReset => (ends::reset_device);
        hipDevicePrimaryCtxReset => (ends::reset_primary_of_hip);
        hipDevicePrimaryCtxRelease => (ends::release_primary_of_hip);
    }
    "noted, because a replay sets the same limit" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipDeviceSetLimit => (hip::set_limit);
    }
    "tracked, to know a kernel's code" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipModuleLoad => (|module, file| loading::load_file(CodeOwner::Module, module.cast(), file));
        hipModuleLoadData => (|module, image| loading::load(CodeOwner::Module, module.cast(), image));
        hipModuleLoadDataEx => (|module, image, _, _, _|
            loading::load(CodeOwner::Module, module.cast(), image));
        hipModuleLoadFatBinary => (|module, image| loading::load(CodeOwner::Module, module.cast(), image));
        hipModuleUnload => (|module| loading::unload(CodeOwner::Module(module as usize)));
        hipModuleGetFunction => (|function, module, name|
            loading::function(function.cast(), CodeOwner::Module(module as usize), name));
        hipGetFuncBySymbol => (|function, symbol|
            loading::kernel_function(function, symbol.cast_mut().cast()));
        hipLibraryLoadData => (|library, image, _, _, _, _, _, _|
            loading::load(CodeOwner::Library, library.cast(), image));
        hipLibraryLoadFromFile => (|library, file, _, _, _, _, _, _|
            loading::load_file(CodeOwner::Library, library.cast(), file));
        hipLibraryUnload => (|library| loading::unload(CodeOwner::Library(library as usize)));
        hipLibraryGetKernel => (|kernel, library, name|
            loading::function(kernel.cast(), CodeOwner::Library(library as usize), name));
        hipLibraryEnumerateKernels => (loading::kernels_of_library);
        hipKernelGetFunction => (loading::kernel_function);
    }
    "counted, and recorded if it is selected" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipModuleLaunchKernel =>
            [|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters, extra| forms::kernel(
            function, [x, y, z], [block_x, block_y, block_z], shared, named(stream, STREAM_LEGACY), parameters, extra)];
        hipModuleLaunchCooperativeKernel =>
            [|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters| forms::cooperative(
            function, [x, y, z], [block_x, block_y, block_z], shared, named(stream, STREAM_LEGACY), parameters)];
        hipDrvLaunchKernelEx => [|configuration, function, parameters, extra|
            forms::kernel_ex(configuration, function, parameters, extra, STREAM_LEGACY)];
        hipLaunchKernel => [|host, grid, block, arguments, shared, stream|
            by_address::kernel(host, [grid, block], arguments, shared, named(stream, STREAM_LEGACY))];
        hipLaunchKernel_spt => [|host, grid, block, arguments, shared, stream|
            by_address::kernel(host, [grid, block], arguments, shared, named(stream, STREAM_PER_THREAD))];
        hipLaunchKernelExC => [by_address::kernel_ex];
        hipLaunchCooperativeKernel => [|host, grid, block, arguments, shared, stream|
            by_address::cooperative(host, [grid, block], arguments, shared, named(stream, STREAM_LEGACY))];
        hipLaunchCooperativeKernel_spt => [|host, grid, block, arguments, shared, stream|
            by_address::cooperative(host, [grid, block], arguments, shared, named(stream, STREAM_PER_THREAD))];
        hipExtLaunchKernel => [by_address::kernel_with_events];
    }
    "counted, and recorded if it is selected; reported as not recorded if the last block would have fewer work items" ["interposer/src/launches/work_items.rs: work_items_make_whole_blocks_or_are_refused"] {
        hipExtModuleLaunchKernel,
        _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
            => (|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters, extra, start, stop, flags|
            work_items::launch(
                function, [x, y, z], [block_x, block_y, block_z], shared, stream,
                LaunchArguments::new(parameters, extra), [start, stop], flags != 0));
        hipHccModuleLaunchKernel,
        _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_
            => (|function, x, y, z, block_x, block_y, block_z, shared, stream, parameters, extra, start, stop|
            work_items::launch(
                function, [x, y, z], [block_x, block_y, block_z], shared, stream,
                LaunchArguments::new(parameters, extra), [start, stop], false));
    }
    "counted, and reported as not recorded, because it is from before HIP-Clang" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipLaunchByPtr => (refused::launch_by_address);
    }
    "counted, and reported as not recorded, because a replay on one device cannot repeat it" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipLaunchCooperativeKernelMultiDevice => (|list, count, _| refused::launch_on_devices(list, count));
        hipModuleLaunchCooperativeKernelMultiDevice => (|list, count, _| refused::launch_on_devices(list, count));
        hipExtLaunchMultiKernelMultiDevice => (|list, count, _| refused::launch_on_devices(list, count));
    }
    "returns the error that the application's own calls have left, not the recorder's" ["interposer/tests/hip.rs: the_recorders_own_calls_are_not_seen"] {
        hipGetLastError => {last_error::take};
        hipExtGetLastError => {last_error::take_status_of_last_call};
        hipPeekAtLastError => {last_error::peek};
    }
    "queries only; the recorder leaves its failure as the last error while it keeps the application's" ["interposer/tests/hip.rs: the_recorders_own_calls_are_not_seen"] {
        hipDeviceGetLimit => (last_error::limit);
    }
    "returns the hooks of this table" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipGetProcAddress => (|symbol, function, _, _, _| proc_address::get_of_hip(symbol, function));
        hipGetDriverEntryPoint, hipGetDriverEntryPoint_spt => (|symbol, function, _, _|
            proc_address::get_of_hip(symbol, function));
    }
    } };
}
pub(crate) use every_hip_hook;

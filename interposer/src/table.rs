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
    "tracked, because synchronising is an error while a stream is captured" ["interposer/tests/recording.rs: nothing_waits_while_another_stream_is_captured", "tests/tests/e2e/coverage.rs: graphs"] {
        cuStreamBeginCapture, cuStreamBeginCapture_ptsz => (captures::begin);
        cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz => (captures::begin_in_mode);
        cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz => (captures::begin_to_graph);
        cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz => (captures::begin_again);
        cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz => (captures::begin_for_graphics);
        cuStreamEndCaptureToCig, cuStreamEndCaptureToCig_ptsz => (captures::end_for_graphics);
        cuStreamEndCapture, cuStreamEndCapture_ptsz => (captures::end);
    }
    "tracked, because it ends the capture of the stream" ["tests/tests/e2e/coverage.rs: a_capture_that_ends_with_its_stream_is_over", "interposer/src/driver/captures.rs: a_capture_ends_with_what_it_takes_place_in"] {
        cuStreamDestroy => {captures::destroy};
        cuStreamDestroy_v2 => {captures::destroy};
    }
    "launched as a whole, without recording its kernels; with `MNEME_GRAPHS=expand` node by node, each kernel as if launched alone" ["tests/tests/e2e/coverage.rs: graphs", "tests/tests/e2e/coverage.rs: graphs_are_expanded_on_request"] {
        cuGraphLaunch => (graphs::launch);
        cuGraphLaunch_ptsz => (graphs::launch_per_thread);
    }
    "tracked for `MNEME_GRAPHS=expand`" ["tests/tests/e2e/coverage.rs: graphs_are_expanded_on_request"] {
        cuGraphInstantiate => (graphs::instantiate);
        cuGraphInstantiate_v2 => (graphs::instantiate);
        cuGraphInstantiateWithFlags => (graphs::instantiate_with_flags);
        cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz => (graphs::instantiate_with_parameters);
        cuGraphExecUpdate => (graphs::update_until_11);
        cuGraphExecUpdate_v2 => (graphs::update);
        cuGraphExecKernelNodeSetParams_v2 => (graphs::set_kernel);
        cuGraphExecDestroy => (graphs::destroy);
    }
    "tracked for `MNEME_GRAPHS=expand`; this graph is launched as a whole afterwards" ["tests/tests/e2e/coverage.rs: graphs_are_expanded_on_request"] {
        cuGraphExecKernelNodeSetParams => (graphs::change);
        cuGraphExecMemcpyNodeSetParams => (graphs::change_in_context);
        cuGraphExecMemsetNodeSetParams => (graphs::change_in_context);
        cuGraphExecHostNodeSetParams => (graphs::change);
        cuGraphExecChildGraphNodeSetParams => (graphs::change);
        cuGraphExecNodeSetParams => (graphs::change);
        cuGraphNodeSetEnabled => (graphs::change);
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
        cuMemGetInfo_v2 => (served::information);
    }
    "grants peers access to the arena's memory, and notes which devices can touch an allocation" ["tests/tests/e2e/coverage.rs: several_devices", "tests/tests/e2e/coverage.rs: access"] {
        cuCtxEnablePeerAccess => (access::enable_peer);
        cuCtxDisablePeerAccess => (access::disable_peer);
        cuMemSetAccess => (access::set);
        cuMemPoolSetAccess => (access::set_pool);
        cuMemPoolCreate => (access::create_pool);
        cuMemPoolImportFromShareableHandle => (access::import_pool);
    }
    "returns a handle of the arena's memory that the recorder of another process understands; if that is impossible, the vendor serves further allocations" ["tests/tests/e2e/coverage.rs: sharing_between_processes", "interposer/tests/recording.rs: memory_for_other_processes_is_the_vendors"] {
        cuIpcGetMemHandle => (ipc::share);
    }
    "opens memory that another process's recorder shares; if the other process has no recorder, the vendor serves further allocations" ["tests/tests/e2e/coverage.rs: sharing_between_processes", "interposer/tests/recording.rs: memory_for_other_processes_is_the_vendors"] {
        cuIpcOpenMemHandle => (ipc::open_shared);
        cuIpcOpenMemHandle_v2 => (ipc::open_shared);
        cuIpcCloseMemHandle => (ipc::close_shared);
    }
    "notes that the process shares memory with others, so the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        cuMemPoolImportPointer => (ipc::import_pointer);
    }
    "tracked, to record the memory at its own address" ["tests/tests/e2e/coverage.rs: pools"] {
        cuMemAllocAsync, cuMemAllocAsync_ptsz => (tracked::allocate_async);
        cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz => (tracked::allocate_from_pool);
        cuMemFreeAsync => (tracked::free_async);
        cuMemFreeAsync_ptsz => (tracked::free_async_per_thread);
    }
    "tracked, to record the memory at its own address" ["tests/tests/e2e/coverage.rs: managed"] {
        cuMemAllocManaged => (tracked::allocate_managed);
    }
    "tracked, to record the memory at its own address" ["tests/tests/e2e/coverage.rs: mapped"] {
        cuMemAllocHost => (tracked::allocate_little_host);
        cuMemAllocHost_v2 => (tracked::allocate_host);
        cuMemHostAlloc => (tracked::allocate_host_with_flags);
        cuMemHostRegister => (tracked::register_host);
        cuMemHostRegister_v2 => (tracked::register_host);
        cuMemHostUnregister => (tracked::forget_host);
        cuMemFreeHost => (tracked::forget_host);
    }
    "notes that others may write to the memory" ["interposer/src/memory/sharing/physical.rs: memory_is_shared_whether_it_is_mapped_before_or_after", "tests/tests/e2e/coverage.rs: memory_that_another_process_writes_to"] {
        cuMemPoolExportPointer => (ipc::export_pointer);
        cuMemCreate => (physical::create);
        cuMemExportToShareableHandle => (physical::export);
        cuMemImportFromShareableHandle => (physical::import);
        cuMulticastCreate => (physical::create_multicast);
        cuMulticastBindMem => (physical::bind);
        cuMulticastBindMem_v2 => (physical::bind_on);
        cuMulticastBindAddr => (physical::bind_address);
        cuMulticastBindAddr_v2 => (physical::bind_address_on);
    }
    "tracked, to detect memory that is mapped at two addresses; the recorder's allocations have no handle, like those of cuMemAlloc" ["tests/tests/e2e/coverage.rs: memory_that_is_mapped_at_two_addresses_is_refused"] {
        cuMemRetainAllocationHandle => (physical::retain);
        cuMemRelease => (physical::release);
    }
    "tracked, to record the memory at its own address, and to refuse kernels that reach memory at two addresses" ["tests/tests/e2e/coverage.rs: vmm", "tests/tests/e2e/coverage.rs: memory_that_is_mapped_at_two_addresses_is_refused"] {
        cuMemMap => (tracked::map);
        cuMemUnmap => (tracked::unmap);
    }
    "tracked, to record the memory at its own address while it is mapped" ["interposer/tests/recording.rs: memory_of_other_interfaces_is_recorded_while_it_is_mapped"] {
        cuExternalMemoryGetMappedBuffer => (external::map_buffer);
        cuGraphicsResourceGetMappedPointer_v2 => (external::mapped_pointer);
        cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz => (external::unmap_resources);
        cuGraphicsUnregisterResource => (external::unregister_resource);
    }
    "tracked, to wait for every context of a device and to forget memory and code that end with one" ["tests/tests/e2e/coverage.rs: contexts"] {
        cuCtxCreate => (contexts::create);
        cuCtxCreate_v2 => (contexts::create);
        cuCtxCreate_v3 => (contexts::create_with_affinity);
        cuCtxCreate_v4 => (contexts::create_with_parameters);
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
        cuGreenCtxCreate => (green::create);
        cuCtxFromGreenCtx => (green::make_context);
        cuGreenCtxDestroy => (green::destroy);
    }
    "tracked, to know a kernel's code" ["tests/tests/e2e/coverage.rs: contexts", "tests/tests/e2e/programs.rs: rdc"] {
        cuModuleLoad => (loading::load_module_file);
        cuModuleLoadData => (loading::load_module);
        cuModuleLoadDataEx => (loading::load_module_with_options);
        cuModuleLoadFatBinary => (loading::load_module);
        cuModuleUnload => (loading::unload_module);
        cuModuleGetFunction => (loading::module_function);
        cuLibraryLoadData => (loading::load_library);
        cuLibraryLoadFromFile => (loading::load_library_file);
        cuLibraryUnload => (loading::unload_library);
        cuLibraryGetKernel => (loading::library_kernel);
        cuLibraryGetModule => (loading::library_module);
        cuKernelGetFunction => (loading::kernel_function);
    }
    "noted, because tuned code that replaces the function gets the same setting" ["tests/tests/e2e/applying.rs: what_is_set_on_a_function_is_set_on_its_tuned_code", "interposer/src/kernels/function_settings.rs: the_last_value_counts_and_changes_are_counted"] {
        cuFuncSetAttribute => (setting::set);
        cuFuncSetCacheConfig => (setting::set_cache);
        cuFuncSetSharedMemConfig => (setting::set_banks);
        cuKernelSetAttribute => (setting::set_of_kernel);
        cuKernelSetCacheConfig => (setting::set_cache_of_kernel);
    }
    "counted, and recorded if it is selected" ["tests/tests/e2e/coverage.rs: launch_forms"] {
        cuLaunchKernel => [forms::kernel];
        cuLaunchKernel_ptsz => [forms::kernel_per_thread];
        cuLaunchKernelEx => [forms::kernel_ex];
        cuLaunchKernelEx_ptsz => [forms::kernel_ex_per_thread];
        cuLaunchCooperativeKernel => [forms::cooperative];
        cuLaunchCooperativeKernel_ptsz => [forms::cooperative_per_thread];
    }
    "counted, and reported as not recorded, because it is from before CUDA 4.0" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        cuLaunch => (refused::launch);
        cuLaunchGrid => (refused::launch_grid);
        cuLaunchGridAsync => (refused::launch_grid_async);
    }
    "counted, and reported as not recorded, because a replay on one device cannot repeat it" ["interposer/src/hooks/mod.rs: every_hook_passes_its_call_on"] {
        cuLaunchCooperativeKernelMultiDevice => (refused::launch_on_devices);
    }
    "returns the hooks of this table" ["interposer/tests/recording.rs: every_way_to_the_driver_is_hooked_and_recorded"] {
        cuGetProcAddress => (proc_address::get);
        cuGetProcAddress_v2 => (proc_address::get_with_status);
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
        hipMemcpy, hipMemcpy_spt => {bounds::copy_in_direction};
        hipMemcpyWithStream => {bounds::copy_in_direction_on};
        hipMemcpyHtoD => {bounds::copy};
        hipMemcpyDtoH => {bounds::copy};
        hipMemcpyDtoD => {bounds::copy};
        hipMemcpyHtoDAsync => {bounds::copy_on};
        hipMemcpyDtoHAsync => {bounds::copy_on};
        hipMemcpyDtoDAsync => {bounds::copy_on};
        hipMemcpyAsync, hipMemcpyAsync_spt => {bounds::copy_in_direction_on};
        hipMemcpy2D, hipMemcpy2D_spt => {bounds::copy_rows};
        hipMemcpy2DAsync, hipMemcpy2DAsync_spt => {bounds::copy_rows_on};
        hipMemcpyPeer => {bounds::copy_to_peer};
        hipMemcpyPeerAsync => {bounds::copy_to_peer_on};
        hipMemcpyParam2D => {bounds::copy_described};
        hipMemcpyParam2DAsync => {bounds::copy_described_on};
        hipDrvMemcpy2DUnaligned => {bounds::copy_described};
        hipMemcpy3D, hipMemcpy3D_spt => {bounds::copy_volumes};
        hipMemcpy3DAsync, hipMemcpy3DAsync_spt => {bounds::copy_volumes_on};
        hipMemcpyToSymbol, hipMemcpyToSymbol_spt => {bounds::copy_to_symbol};
        hipMemcpyToSymbolAsync, hipMemcpyToSymbolAsync_spt => {bounds::copy_to_symbol_on};
        hipMemcpyFromSymbol, hipMemcpyFromSymbol_spt => {bounds::copy_from_symbol};
        hipMemcpyFromSymbolAsync, hipMemcpyFromSymbolAsync_spt => {bounds::copy_from_symbol_on};
        hipMemPrefetchAsync => {bounds::prefetch};
        hipMemPrefetchAsync_v2 => {bounds::prefetch_to_location};
        hipMemAdvise => {bounds::advise};
        hipMemAdvise_v2 => {bounds::advise};
        hipMemset, hipMemset_spt => {bounds::fill_bytes};
        hipMemsetAsync, hipMemsetAsync_spt => {bounds::fill_bytes_on};
        hipMemset2D, hipMemset2D_spt => {bounds::fill_rows_of_bytes};
        hipMemset2DAsync, hipMemset2DAsync_spt => {bounds::fill_rows_of_bytes_on};
        hipMemset3D, hipMemset3D_spt => {bounds::fill_volume};
        hipMemset3DAsync, hipMemset3DAsync_spt => {bounds::fill_volume_on};
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
        hipStreamBeginCapture, hipStreamBeginCapture_spt => (captures::begin_in_mode);
        hipStreamBeginCaptureToGraph => (captures::begin_to_graph);
        hipStreamEndCapture, hipStreamEndCapture_spt => (captures::end);
    }
    "tracked, because it ends the capture of the stream" ["interposer/src/driver/captures.rs: a_capture_ends_with_what_it_takes_place_in"] {
        hipStreamDestroy => {captures::destroy};
    }
    "launched as a whole, without recording its kernels; with `MNEME_GRAPHS=expand` node by node, each kernel as if launched alone" ["tests/tests/e2e/hip.rs: graphs_are_expanded_on_request"] {
        hipGraphLaunch => (graphs::launch);
        hipGraphLaunch_spt => (graphs::launch_per_thread);
    }
    "tracked for `MNEME_GRAPHS=expand`" ["tests/tests/e2e/hip.rs: graphs_are_expanded_on_request"] {
        hipGraphInstantiate => (graphs::instantiate);
        hipGraphInstantiateWithFlags => (graphs::instantiate_with_flags);
        hipGraphInstantiateWithParams => (graphs::instantiate_with_parameters);
        hipGraphExecUpdate => (graphs::update_until_11);
        hipGraphExecKernelNodeSetParams => (graphs::set_kernel);
        hipGraphExecDestroy => (graphs::destroy);
    }
    "tracked for `MNEME_GRAPHS=expand`; this graph is launched as a whole afterwards" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipGraphExecMemcpyNodeSetParams => (graphs::change);
        hipGraphExecMemcpyNodeSetParams1D => (graphs::change_line);
        hipGraphExecMemcpyNodeSetParamsFromSymbol => (graphs::change_symbol);
        hipGraphExecMemcpyNodeSetParamsToSymbol => (graphs::change_symbol);
        hipGraphExecMemsetNodeSetParams => (graphs::change);
        hipGraphExecHostNodeSetParams => (graphs::change);
        hipGraphExecChildGraphNodeSetParams => (graphs::change);
        hipGraphExecNodeSetParams => (graphs::change);
        hipDrvGraphExecMemcpyNodeSetParams => (graphs::change_in_context);
        hipDrvGraphExecMemsetNodeSetParams => (graphs::change_in_context);
        hipGraphNodeSetEnabled => (graphs::change);
    }
    "served from the arena" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipMalloc => (served::allocate);
        hipMemAllocPitch => (served::allocate_pitched);
        hipMallocPitch => (served::allocate_rows);
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
        hipMemGetInfo => (served::information);
    }
    "grants peers access to the arena's memory, and notes which devices can touch an allocation" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipDeviceEnablePeerAccess => (access::enable_peer_device);
        hipDeviceDisablePeerAccess => (access::disable_peer_device);
        hipCtxEnablePeerAccess => (access::enable_peer_of_hip);
        hipCtxDisablePeerAccess => (access::disable_peer_of_hip);
        hipMemSetAccess => (access::set);
        hipMemPoolSetAccess => (access::set_pool);
        hipMemPoolCreate => (access::create_pool);
        hipMemPoolImportFromShareableHandle => (access::import_pool);
    }
    "returns a handle of the arena's memory that the recorder of another process understands; if that is impossible, the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipIpcGetMemHandle => (ipc::share);
    }
    "opens memory that another process's recorder shares; if the other process has no recorder, the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipIpcOpenMemHandle => (ipc::open_shared);
        hipIpcCloseMemHandle => (ipc::close_shared);
    }
    "notes that the process shares memory with others, so the vendor serves further allocations" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemPoolImportPointer => (ipc::import_pointer);
    }
    "tracked, to record the memory at its own address" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMallocAsync => (tracked::allocate_async);
        hipMallocFromPoolAsync => (tracked::allocate_from_pool);
        hipFreeAsync => (tracked::free_async);
        hipMallocManaged => (tracked::allocate_managed);
        hipMallocHost => (tracked::allocate_host);
        hipMemAllocHost => (tracked::allocate_host);
        hipHostMalloc => (tracked::allocate_host_with_flags);
        hipHostAlloc => (tracked::allocate_host_with_flags);
        hipHostRegister => (tracked::register_host);
        hipHostUnregister => (tracked::forget_host);
    }
    "notes that others may write to the memory" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemPoolExportPointer => (ipc::export_pointer);
        hipMemCreate => (physical::create);
        hipMemExportToShareableHandle => (physical::export);
        hipMemImportFromShareableHandle => (physical::import);
    }
    "tracked, to detect memory that is mapped at two addresses; the recorder's allocations have no handle, like those of hipMalloc" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemRetainAllocationHandle => (physical::retain);
        hipMemRelease => (physical::release);
    }
    "tracked, to record the memory at its own address, and to refuse kernels that reach memory at two addresses" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipMemMap => (tracked::map);
        hipMemUnmap => (tracked::unmap);
    }
    "tracked, to record the memory at its own address while it is mapped" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipExternalMemoryGetMappedBuffer => (external::map_buffer);
        hipGraphicsResourceGetMappedPointer => (external::mapped_pointer);
        hipGraphicsUnmapResources => (external::unmap_resources);
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
        hipModuleLoad => (loading::load_module_file);
        hipModuleLoadData => (loading::load_module);
        hipModuleLoadDataEx => (loading::load_module_with_options);
        hipModuleLoadFatBinary => (loading::load_module);
        hipModuleUnload => (loading::unload_module);
        hipModuleGetFunction => (loading::module_function);
        hipGetFuncBySymbol => (loading::function_of_symbol);
        hipLibraryLoadData => (loading::load_library);
        hipLibraryLoadFromFile => (loading::load_library_file);
        hipLibraryUnload => (loading::unload_library);
        hipLibraryGetKernel => (loading::library_kernel);
        hipLibraryEnumerateKernels => (loading::kernels_of_library);
        hipKernelGetFunction => (loading::kernel_function);
    }
    "counted, and recorded if it is selected" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipModuleLaunchKernel => [forms::kernel];
        hipModuleLaunchCooperativeKernel => [forms::cooperative];
        hipDrvLaunchKernelEx => [forms::kernel_ex];
        hipLaunchKernel => [by_address::kernel];
        hipLaunchKernel_spt => [by_address::kernel_per_thread];
        hipLaunchKernelExC => [by_address::kernel_ex];
        hipLaunchCooperativeKernel => [by_address::cooperative];
        hipLaunchCooperativeKernel_spt => [by_address::cooperative_per_thread];
        hipExtLaunchKernel => [by_address::kernel_with_events];
    }
    "counted, and recorded if it is selected; reported as not recorded if the last block would have fewer work items" ["interposer/src/launches/work_items.rs: work_items_make_whole_blocks_or_are_refused"] {
        hipExtModuleLaunchKernel => (work_items::launch);
        hipHccModuleLaunchKernel => (work_items::launch_without_flags);
        _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
            => (work_items::launch);
        _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_
            => (work_items::launch_without_flags);
    }
    "counted, and reported as not recorded, because it is from before HIP-Clang" ["interposer/tests/hip.rs: a_program_of_hip_is_recorded"] {
        hipLaunchByPtr => (refused::launch_by_address);
    }
    "counted, and reported as not recorded, because a replay on one device cannot repeat it" ["interposer/src/hooks/mod.rs: every_hook_of_hip_passes_its_call_on"] {
        hipLaunchCooperativeKernelMultiDevice => (refused::launch_on_devices);
        hipModuleLaunchCooperativeKernelMultiDevice => (refused::launch_on_devices);
        hipExtLaunchMultiKernelMultiDevice => (refused::launch_on_devices);
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
        hipGetProcAddress => (proc_address::get_of_hip);
        hipGetDriverEntryPoint, hipGetDriverEntryPoint_spt => (proc_address::get_entry_point_of_hip);
    }
    } };
}
pub(crate) use every_hip_hook;

//! All functions of HIP's library by name, and their handlers.

use std::ffi::CStr;

use mneme_abi::hip::types::*;

use crate::call::{last_error, missing, serve, take_last_error};
use crate::mistake::{CallResult, place};
use crate::{backend, code, copies, devices, launches, mappings, memory, pools, program, streams};

/// Exports a function. The declaration has its arguments.
macro_rules! export {
    ({ checked $driver:ident $handler:path } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            serve(stringify!($name), || {
                // SAFETY: the type is the driver function's. The caller keeps the vendor's contract.
                unsafe { $handler(backend::function(stringify!($driver))?, $($argument),*) }
            })
        }
    };
    ({ own $handler:path } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            // SAFETY: the caller keeps the vendor's contract.
            serve(stringify!($name), || unsafe { $handler($($argument),*) })
        }
    };
    ({ passed_on $driver:ident } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            serve(stringify!($name), || {
                // SAFETY: both functions have the same type. The caller keeps the vendor's contract.
                Ok(unsafe {
                    let driver: mneme_abi::cuda::driver::pointers::$driver =
                        backend::function(stringify!($driver))?;
                    driver($($argument),*)
                })
            })
        }
    };
    ({ as_it_is $handler:path } $since:literal $name:ident($($argument:ident: $type:ty),*) -> $return:ty) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $return {
            let handler: unsafe fn($($type),*) -> $return = $handler;
            // SAFETY: the caller keeps the vendor's contract.
            unsafe { handler($($argument),*) }
        }
    };
    ({ as_it_is $handler:path } $($declaration:tt)*) => {
        export! { { as_it_is $handler } $($declaration)* -> Status }
    };
    ({ missing } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($(_: $type),*) -> Status {
            missing(stringify!($name))
        }
    };
}

macro_rules! checked {
    ($($name:ident $driver:ident $handler:path;)*) => { $(mneme_abi::$name! { export { checked $driver $handler } })* };
}

macro_rules! own {
    ($($name:ident $handler:path;)*) => { $(mneme_abi::$name! { export { own $handler } })* };
}

/// Functions that do not call the device. They check their arguments, and set the last error, themselves or not at all.
macro_rules! as_it_is {
    ($($name:ident $handler:path;)*) => { $(mneme_abi::$name! { export { as_it_is $handler } })* };
}

macro_rules! passed_on {
    ($($name:ident $driver:ident;)*) => { $(mneme_abi::$name! { export { passed_on $driver } })* };
}

macro_rules! missing {
    ($($name:ident,)*) => { $(mneme_abi::$name! { export { missing } })* };
}

checked! {
    hipDeviceSynchronize cuCtxSynchronize devices::synchronize;
    hipGetDeviceCount cuDeviceGetCount devices::device_count;
    hipDeviceGetDefaultMemPool cuDeviceGetDefaultMemPool pools::default_pool;
    hipDeviceGetMemPool cuDeviceGetMemPool pools::default_pool;
    hipDeviceGetLimit cuCtxGetLimit devices::limit;
    hipDeviceSetLimit cuCtxSetLimit devices::set_limit;
    hipModuleLaunchCooperativeKernel cuLaunchCooperativeKernel launches::launch_cooperative;
    hipModuleGetGlobal cuModuleGetGlobal_v2 code::variable;
    hipModuleLoad cuModuleLoadData code::load_file;
    hipModuleUnload cuModuleUnload code::unload;
    hipModuleGetFunction cuModuleGetFunction code::function;
    hipFuncGetAttribute cuFuncGetAttribute code::function_attribute;
    hipModuleLoadData cuModuleLoadData code::load_data;
    hipModuleLoadDataEx cuModuleLoadData code::load_data_ex;
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags launches::occupancy_plain;
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags launches::occupancy;
    hipMemcpyHtoD cuMemcpyHtoD_v2 copies::to_device;
    hipMemcpyDtoH cuMemcpyDtoH_v2 copies::to_host;
    hipMemcpyDtoD cuMemcpyDtoD_v2 copies::on_device;
    hipMemcpyHtoDAsync cuMemcpyHtoDAsync_v2 copies::to_device_async;
    hipMemcpyDtoHAsync cuMemcpyDtoHAsync_v2 copies::to_host_async;
    hipMemcpyDtoDAsync cuMemcpyDtoDAsync_v2 copies::on_device_async;
    hipMemsetD8 cuMemsetD8_v2 copies::fill_bytes;
    hipMemsetD8Async cuMemsetD8Async copies::fill_bytes_async;
    hipMemsetD16 cuMemsetD16_v2 copies::fill_halves;
    hipMemsetD16Async cuMemsetD16Async copies::fill_halves_async;
    hipMemsetD32 cuMemsetD32_v2 copies::fill_words;
    hipMemsetD32Async cuMemsetD32Async copies::fill_words_async;
    hipStreamCreate cuStreamCreate streams::create_plain;
    hipStreamCreateWithFlags cuStreamCreate streams::create;
    hipStreamCreateWithPriority cuStreamCreateWithPriority streams::create_with_priority;
    hipStreamDestroy cuStreamDestroy_v2 streams::destroy;
    hipStreamQuery cuStreamQuery streams::query;
    hipStreamSynchronize cuStreamSynchronize streams::synchronize;
    hipStreamWaitEvent cuStreamWaitEvent streams::wait_event;
    hipEventCreateWithFlags cuEventCreate streams::event_create;
    hipEventCreate cuEventCreate streams::event_create_plain;
    hipEventRecord cuEventRecord streams::event_record;
    hipEventDestroy cuEventDestroy_v2 streams::event_destroy;
    hipEventSynchronize cuEventSynchronize streams::event_synchronize;
    hipEventElapsedTime cuEventElapsedTime streams::elapsed;
    hipEventQuery cuEventQuery streams::event_query;
    hipMalloc cuMemAlloc_v2 memory::malloc;
    hipMallocHost cuMemHostAlloc memory::malloc_host;
    hipMemAllocHost cuMemHostAlloc memory::malloc_host;
    hipHostMalloc cuMemHostAlloc memory::host_malloc;
    hipMallocManaged cuMemAllocManaged memory::malloc_managed;
    hipMallocAsync cuMemAllocAsync pools::malloc_async;
    hipFreeAsync cuMemFreeAsync pools::free_async;
    hipMemPoolCreate cuMemPoolCreate pools::create;
    hipMemPoolDestroy cuMemPoolDestroy pools::destroy;
    hipMallocFromPoolAsync cuMemAllocFromPoolAsync pools::malloc_from_pool;
    hipHostAlloc cuMemHostAlloc memory::host_malloc;
    hipHostGetDevicePointer cuMemHostGetDevicePointer_v2 memory::host_device_pointer;
    hipHostRegister cuMemHostRegister_v2 memory::host_register;
    hipHostUnregister cuMemHostUnregister memory::host_unregister;
    hipFree cuMemFree_v2 memory::free;
    hipFreeHost cuMemFreeHost memory::host_free;
    hipHostFree cuMemFreeHost memory::host_free;
    hipMemGetInfo cuMemGetInfo_v2 memory::get_info;
    hipMemGetAddressRange cuMemGetAddressRange_v2 memory::address_range;
    hipMemAddressFree cuMemAddressFree mappings::free_reservation;
    hipMemAddressReserve cuMemAddressReserve mappings::reserve;
    hipMemCreate cuMemCreate mappings::create;
    hipMemGetAccess cuMemGetAccess mappings::get_access;
    hipMemGetAllocationGranularity cuMemGetAllocationGranularity mappings::granularity;
    hipMemMap cuMemMap mappings::map;
    hipMemRelease cuMemRelease mappings::release;
    hipMemRetainAllocationHandle cuMemRetainAllocationHandle mappings::retain;
    hipMemSetAccess cuMemSetAccess mappings::set_access;
    hipMemUnmap cuMemUnmap mappings::unmap;
    hipStreamQuery_spt cuStreamQuery streams::query;
    hipStreamSynchronize_spt cuStreamSynchronize streams::synchronize;
    hipStreamWaitEvent_spt cuStreamWaitEvent streams::wait_event;
    hipEventRecord_spt cuEventRecord streams::event_record;
}

own! {
    hipMemcpyToSymbolAsync program::copy_to_symbol_async;
    hipMemcpyFromSymbolAsync program::copy_from_symbol_async;
    hipMemcpyToSymbolAsync_spt program::copy_to_symbol_async;
    hipMemcpyFromSymbolAsync_spt program::copy_from_symbol_async;
    hipStreamGetDevice streams::device;
    hipInit devices::init;
    hipDrvGetErrorName put_name;
    hipDrvGetErrorString put_text;
    hipGetProcAddress by_name;
    hipDriverGetVersion devices::version;
    hipRuntimeGetVersion devices::version;
    hipDeviceGet devices::device;
    hipDeviceGetName devices::device_name;
    hipSetDevice devices::set_device;
    hipGetDevice devices::get_device;
    hipDeviceGetAttribute devices::attribute;
    hipGetDeviceProperties devices::properties_r0000;
    hipGetDevicePropertiesR0600 devices::properties_r0600;
    hipGetDevicePropertiesR0000 devices::properties_r0000;
    hipCtxSynchronize devices::unsupported;
    hipModuleLaunchKernel launches::launch;
    hipLaunchCooperativeKernel program::launch_cooperative;
    __hipPushCallConfiguration program::push;
    __hipPopCallConfiguration program::pop;
    hipLaunchKernel program::launch;
    hipGetSymbolAddress program::symbol_address;
    hipGetSymbolSize program::symbol_size;
    hipGetFuncBySymbol program::function_by_symbol;
    hipMemcpy copies::copy;
    hipMemcpyWithStream copies::copy_async;
    hipMemcpyToSymbol program::copy_to_symbol;
    hipMemcpyFromSymbol program::copy_from_symbol;
    hipMemcpyAsync copies::copy_async;
    hipMemset copies::fill;
    hipMemsetAsync copies::fill_async;
    hipLaunchCooperativeKernel_spt program::launch_cooperative;
    hipLaunchKernel_spt program::launch;
    hipMemcpy_spt copies::copy;
    hipMemcpyToSymbol_spt program::copy_to_symbol;
    hipMemcpyFromSymbol_spt program::copy_from_symbol;
    hipMemcpyAsync_spt copies::copy_async;
    hipMemset_spt copies::fill;
    hipMemsetAsync_spt copies::fill_async;
}

// The CPU device checks these itself.
passed_on! {
    hipDeviceComputeCapability cuDeviceComputeCapability;
    hipDeviceGetUuid cuDeviceGetUuid_v2;
    hipDeviceGetPCIBusId cuDeviceGetPCIBusId;
    hipDeviceGetByPCIBusId cuDeviceGetByPCIBusId;
    hipDeviceTotalMem cuDeviceTotalMem_v2;
    hipDeviceSetMemPool cuDeviceSetMemPool;
    hipDeviceGetStreamPriorityRange cuCtxGetStreamPriorityRange;
    hipDeviceCanAccessPeer cuDeviceCanAccessPeer;
    hipDevicePrimaryCtxGetState cuDevicePrimaryCtxGetState;
    hipDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2;
    hipDevicePrimaryCtxRetain cuDevicePrimaryCtxRetain;
    hipDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2;
    hipDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2;
    hipProfilerStart cuProfilerStart;
    hipProfilerStop cuProfilerStop;
    hipCtxCreate cuCtxCreate_v2;
    hipCtxDestroy cuCtxDestroy_v2;
    hipCtxPopCurrent cuCtxPopCurrent_v2;
    hipCtxPushCurrent cuCtxPushCurrent_v2;
    hipCtxSetCurrent cuCtxSetCurrent;
    hipCtxGetCurrent cuCtxGetCurrent;
    hipCtxGetDevice cuCtxGetDevice;
    hipCtxGetFlags cuCtxGetFlags;
    hipCtxEnablePeerAccess cuCtxEnablePeerAccess;
    hipCtxDisablePeerAccess cuCtxDisablePeerAccess;
    hipLaunchHostFunc cuLaunchHostFunc;
    hipGraphLaunch cuGraphLaunch;
    hipGraphCreate cuGraphCreate;
    hipGraphDestroy cuGraphDestroy;
    hipGraphGetEdges cuGraphGetEdges;
    hipGraphGetNodes cuGraphGetNodes;
    hipGraphNodeGetType cuGraphNodeGetType;
    hipGraphClone cuGraphClone;
    hipGraphNodeFindInClone cuGraphNodeFindInClone;
    hipGraphInstantiateWithFlags cuGraphInstantiateWithFlags;
    hipGraphExecDestroy cuGraphExecDestroy;
    hipGraphAddEmptyNode cuGraphAddEmptyNode;
    hipMemPrefetchAsync cuMemPrefetchAsync;
    hipStreamGetFlags cuStreamGetFlags;
    hipStreamGetPriority cuStreamGetPriority;
    hipStreamAddCallback cuStreamAddCallback;
    hipStreamAttachMemAsync cuStreamAttachMemAsync;
    hipStreamBeginCapture cuStreamBeginCapture_v2;
    hipStreamEndCapture cuStreamEndCapture;
    hipStreamIsCapturing cuStreamIsCapturing;
    hipThreadExchangeStreamCaptureMode cuThreadExchangeStreamCaptureMode;
    hipEventRecordWithFlags cuEventRecordWithFlags;
    hipIpcGetMemHandle cuIpcGetMemHandle;
    hipIpcOpenMemHandle cuIpcOpenMemHandle_v2;
    hipIpcCloseMemHandle cuIpcCloseMemHandle;
    hipPointerGetAttribute cuPointerGetAttribute;
    hipDrvPointerGetAttributes cuPointerGetAttributes;
    hipMemAdvise cuMemAdvise;
    hipMemPoolTrimTo cuMemPoolTrimTo;
    hipMemPoolSetAttribute cuMemPoolSetAttribute;
    hipMemPoolGetAttribute cuMemPoolGetAttribute;
    hipMemPoolSetAccess cuMemPoolSetAccess;
    hipMemPoolGetAccess cuMemPoolGetAccess;
    hipHostGetFlags cuMemHostGetFlags;
    hipMemAllocPitch cuMemAllocPitch_v2;
    hipMemExportToShareableHandle cuMemExportToShareableHandle;
    hipMemGetAllocationPropertiesFromHandle cuMemGetAllocationPropertiesFromHandle;
    hipMemImportFromShareableHandle cuMemImportFromShareableHandle;
    hipDrvLaunchKernelEx cuLaunchKernelEx;
    hipMemsetD2D8 cuMemsetD2D8_v2;
    hipMemsetD2D8Async cuMemsetD2D8Async;
    hipMemsetD2D16 cuMemsetD2D16_v2;
    hipMemsetD2D16Async cuMemsetD2D16Async;
    hipMemsetD2D32 cuMemsetD2D32_v2;
    hipMemsetD2D32Async cuMemsetD2D32Async;
    hipLibraryLoadData cuLibraryLoadData;
    hipLibraryLoadFromFile cuLibraryLoadFromFile;
    hipLibraryUnload cuLibraryUnload;
    hipLibraryGetKernel cuLibraryGetKernel;
    hipLibraryGetKernelCount cuLibraryGetKernelCount;
    hipKernelGetFunction cuKernelGetFunction;
}

as_it_is! {
    hipGetLastError take_last_error;
    hipExtGetLastError take_last_error;
    hipPeekAtLastError last_error;
    hipGetErrorName name_of;
    hipGetErrorString text_of;
    __hipRegisterFatBinary program::register_code;
    __hipUnregisterFatBinary program::unregister_code;
    __hipRegisterFunction program::register_function;
    __hipRegisterVar program::register_variable;
    __hipRegisterManagedVar program::register_managed;
}

missing! {
    hipDeviceGetP2PAttribute, hipDeviceReset, hipDeviceSetCacheConfig, hipDeviceGetCacheConfig,
    hipDeviceGetSharedMemConfig, hipGetDeviceFlags, hipDeviceSetSharedMemConfig, hipSetDeviceFlags, hipChooseDevice,
    hipExtGetLinkTypeAndHopCount, hipDeviceEnablePeerAccess, hipDeviceDisablePeerAccess, hipSetValidDevices,
    hipChooseDeviceR0600, hipDeviceGetGraphMemAttribute, hipDeviceSetGraphMemAttribute,
    hipDeviceGraphMemTrim, hipChooseDeviceR0000, hipCtxGetApiVersion, hipCtxGetCacheConfig, hipCtxSetCacheConfig,
    hipCtxSetSharedMemConfig, hipCtxGetSharedMemConfig, hipLaunchCooperativeKernelMultiDevice,
    hipExtLaunchMultiKernelMultiDevice, hipLaunchByPtr, hipExtLaunchKernel,
    hipExtModuleLaunchKernel, hipHccModuleLaunchKernel, hipModuleLaunchCooperativeKernelMultiDevice,
    hipFuncSetAttribute, hipFuncSetCacheConfig, hipFuncSetSharedMemConfig, hipFuncGetAttributes,
    hipModuleOccupancyMaxPotentialBlockSize, hipModuleOccupancyMaxPotentialBlockSizeWithFlags,
    hipOccupancyMaxActiveBlocksPerMultiprocessor, hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    hipOccupancyMaxPotentialBlockSize, hipLinkAddData, hipLinkAddFile, hipLinkComplete, hipLinkCreate, hipLinkDestroy,
    hipGraphAddDependencies, hipGraphRemoveDependencies, hipGraphGetRootNodes, hipGraphNodeGetDependencies,
    hipGraphNodeGetDependentNodes, hipGraphDestroyNode, hipGraphInstantiate, hipGraphExecUpdate, hipGraphAddKernelNode,
    hipGraphKernelNodeGetParams, hipGraphKernelNodeSetParams, hipGraphExecKernelNodeSetParams, hipGraphAddMemcpyNode,
    hipGraphMemcpyNodeGetParams, hipGraphMemcpyNodeSetParams, hipGraphKernelNodeSetAttribute,
    hipGraphKernelNodeGetAttribute, hipGraphExecMemcpyNodeSetParams, hipGraphAddMemcpyNode1D,
    hipGraphMemcpyNodeSetParams1D, hipGraphExecMemcpyNodeSetParams1D, hipGraphAddMemcpyNodeFromSymbol,
    hipGraphMemcpyNodeSetParamsFromSymbol, hipGraphExecMemcpyNodeSetParamsFromSymbol, hipGraphAddMemcpyNodeToSymbol,
    hipGraphMemcpyNodeSetParamsToSymbol, hipGraphExecMemcpyNodeSetParamsToSymbol, hipGraphAddMemsetNode,
    hipGraphMemsetNodeGetParams, hipGraphMemsetNodeSetParams, hipGraphExecMemsetNodeSetParams, hipGraphAddHostNode,
    hipGraphHostNodeGetParams, hipGraphHostNodeSetParams, hipGraphExecHostNodeSetParams, hipGraphAddChildGraphNode,
    hipGraphChildGraphNodeGetGraph, hipGraphExecChildGraphNodeSetParams, hipGraphAddEventRecordNode,
    hipGraphEventRecordNodeGetEvent, hipGraphEventRecordNodeSetEvent, hipGraphExecEventRecordNodeSetEvent,
    hipGraphAddEventWaitNode, hipGraphEventWaitNodeGetEvent, hipGraphEventWaitNodeSetEvent,
    hipGraphExecEventWaitNodeSetEvent, hipGraphAddBatchMemOpNode, hipGraphBatchMemOpNodeGetParams,
    hipGraphBatchMemOpNodeSetParams, hipGraphExecBatchMemOpNodeSetParams, hipStreamBeginCaptureToGraph,
    hipGraphInstantiateWithParams, hipGraphUpload, hipGraphAddNode, hipGraphExecGetFlags, hipGraphNodeSetParams,
    hipGraphExecNodeSetParams, hipDrvGraphAddMemcpyNode, hipGraphAddMemAllocNode, hipGraphMemAllocNodeGetParams,
    hipGraphAddMemFreeNode, hipGraphMemFreeNodeGetParams, hipGraphDebugDotPrint, hipGraphKernelNodeCopyAttributes,
    hipGraphNodeSetEnabled, hipGraphNodeGetEnabled, hipDrvGraphMemcpyNodeGetParams, hipDrvGraphMemcpyNodeSetParams,
    hipDrvGraphAddMemsetNode, hipDrvGraphAddMemFreeNode, hipDrvGraphExecMemcpyNodeSetParams,
    hipDrvGraphExecMemsetNodeSetParams, hipGetDriverEntryPoint, hipMemAdvise_v2, hipModuleGetFunctionCount,
    hipModuleLoadFatBinary, hipStreamGetId, hipLibraryEnumerateKernels, hipKernelGetLibrary, hipKernelGetName,
    hipOccupancyAvailableDynamicSMemPerBlock, hipStreamCopyAttributes, hipMemset2D, hipMemset2DAsync,
    hipMemset3D, hipMemset3DAsync, hipMemcpy2D, hipMemcpyParam2D, hipMemcpyParam2DAsync, hipMemcpy2DAsync,
    hipMemcpy2DToArray, hipMemcpy2DToArrayAsync, hipMemcpyToArray, hipMemcpyFromArray, hipMemcpy2DFromArray,
    hipMemcpy2DFromArrayAsync, hipMemcpyAtoH, hipMemcpyHtoA, hipMemcpy3D, hipMemcpy3DAsync, hipDrvMemcpy3D,
    hipDrvMemcpy3DAsync, hipMemcpyPeer, hipMemcpyPeerAsync, hipDrvMemcpy2DUnaligned, hipMemcpyAtoD, hipMemcpyDtoA,
    hipMemcpyAtoA, hipMemcpyAtoHAsync, hipMemcpyHtoAAsync, hipMemcpy2DArrayToArray, hipIpcGetEventHandle,
    hipExtStreamCreateWithCUMask, hipExtStreamGetCUMask, hipStreamWaitValue32, hipStreamWaitValue64,
    hipStreamWriteValue32, hipStreamWriteValue64, hipStreamGetCaptureInfo, hipStreamGetCaptureInfo_v2,
    hipStreamUpdateCaptureDependencies,  hipStreamBatchMemOp, hipPointerGetAttributes,
    hipImportExternalMemory, hipExternalMemoryGetMappedBuffer, hipDestroyExternalMemory, hipExtMallocWithFlags,
    hipMemRangeGetAttribute, hipMemRangeGetAttributes, hipMemPoolExportToShareableHandle,
    hipMemPoolImportFromShareableHandle, hipMemPoolExportPointer, hipMemPoolImportPointer, hipMallocPitch,
    hipMemPtrGetInfo, hipMallocArray, hipArrayCreate, hipArrayDestroy, hipArray3DCreate, hipMalloc3D, hipFreeArray,
    hipMalloc3DArray, hipMemMapArrayAsync, hipGraphicsMapResources, hipGraphicsSubResourceGetMappedArray,
    hipGraphicsResourceGetMappedPointer, hipGraphicsUnmapResources, hipGraphicsUnregisterResource,
    hipPointerSetAttribute, hipArrayGetInfo, hipArrayGetDescriptor, hipArray3DGetDescriptor, hipLaunchKernelExC,
    hipMemGetHandleForAddressRange, hipStreamGetAttribute, hipStreamSetAttribute, hipMemcpyBatchAsync,
    hipMemcpy3DBatchAsync, hipMemcpy3DPeer, hipMemcpy3DPeerAsync, hipLaunchHostFunc_spt, hipGraphLaunch_spt,
      hipMemset2D_spt, hipMemset2DAsync_spt, hipMemset3D_spt,
    hipMemset3DAsync_spt, hipMemcpy2D_spt, hipMemcpy2DAsync_spt, hipMemcpy2DToArray_spt, hipMemcpy2DToArrayAsync_spt,
    hipMemcpyFromArray_spt, hipMemcpy2DFromArray_spt, hipMemcpy2DFromArrayAsync_spt, hipMemcpy3D_spt,
    hipMemcpy3DAsync_spt, hipStreamGetFlags_spt, hipStreamGetPriority_spt, hipStreamAddCallback_spt,
    hipStreamBeginCapture_spt, hipStreamEndCapture_spt, hipStreamGetCaptureInfo_spt, hipStreamGetCaptureInfo_v2_spt,
    hipStreamIsCapturing_spt,
}

/// A constant.
fn name(status: Status) -> &'static CStr {
    error_name(status).unwrap_or(c"hipErrorUnknown")
}

fn name_of(status: Status) -> *const c_char {
    name(status).as_ptr()
}

fn text_of(status: Status) -> *const c_char {
    status.text().unwrap_or(name(status)).as_ptr()
}

unsafe fn put_name(status: Status, text: *mut *const c_char) -> CallResult {
    place(text, "the name")?;
    // SAFETY: the place was checked.
    unsafe { *text = name_of(status) };
    Ok(Status::SUCCESS)
}

unsafe fn put_text(status: Status, text: *mut *const c_char) -> CallResult {
    place(text, "the text")?;
    // SAFETY: the place was checked.
    unsafe { *text = text_of(status) };
    Ok(Status::SUCCESS)
}

/// How `hipGetProcAddress` reports whether it found the symbol.
const SYMBOL_FOUND: c_uint = 0;
const SYMBOL_NOT_FOUND: c_uint = 1;

unsafe fn by_name(
    symbol: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    _flags: u64,
    result: *mut c_uint,
) -> CallResult {
    place(function, "the function")?;
    // SAFETY: an address in this library identifies this library, whose symbol table is searched. The caller passes a
    // terminated name.
    let found = unsafe {
        let mut here: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(hipInit as *const c_void, &mut here);
        let handle = libc::dlopen(here.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlsym(handle, symbol)
    };
    // SAFETY: the place was checked; the other may be null.
    unsafe {
        *function = found;
        if !result.is_null() {
            *result = if found.is_null() { SYMBOL_NOT_FOUND } else { SYMBOL_FOUND };
        }
    }
    Ok(if found.is_null() { Status::NOT_FOUND } else { Status::SUCCESS })
}

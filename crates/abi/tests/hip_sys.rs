//! A test that the declarations match those that the crate hip-sys generates from HIP's headers.

#![cfg(feature = "hip-sys")]

/// Sizes of a function's arguments, bytes.
trait Signature {
    const SIZES: &'static [usize];
}

macro_rules! signatures {
    ($(($($argument:ident)*))*) => {
        $(impl<$($argument,)* R> Signature for unsafe extern "C" fn($($argument),*) -> R {
            const SIZES: &'static [usize] = &[$(size_of::<$argument>()),*];
        })*
    };
}

signatures! {
    () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) (A B C D E F G H I)
    (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L) (A B C D E F G H I J K L M)
    (A B C D E F G H I J K L M N)
}

/// The sizes of a closure's return value; the closure is never called, because AMD's libraries are not linked.
fn sizes<F: Signature>(_: impl FnOnce() -> F) -> &'static [usize] {
    F::SIZES
}

macro_rules! any {
    ($argument:ident) => {
        _
    };
}

macro_rules! compare {
    ({ $different:ident } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        let theirs = sizes(|| hip_runtime_sys::$name as unsafe extern "C" fn($(any!($argument)),*) -> _);
        let ours = sizes(|| -> mneme_abi::hip::runtime::pointers::$name { unreachable!() });
        if ours != theirs {
            $different.push(stringify!($name));
        }
    };
}

macro_rules! compare_all {
    ($($name:ident,)*) => {{
        let mut different: Vec<&str> = Vec::new();
        $(mneme_abi::$name! { compare { different } })*
        different
    }};
}

#[test]
fn arguments_are_as_many_and_as_large() {
    let different = compare_all! {
    hipInit, hipDriverGetVersion, hipRuntimeGetVersion, hipDeviceGet, hipDeviceComputeCapability, hipDeviceGetName,
    hipDeviceGetUuid, hipDeviceGetP2PAttribute, hipDeviceGetPCIBusId, hipDeviceGetByPCIBusId, hipDeviceTotalMem,
    hipDeviceSynchronize, hipDeviceReset, hipSetDevice, hipGetDevice, hipGetDeviceCount, hipDeviceGetAttribute,
    hipDeviceGetDefaultMemPool, hipDeviceSetMemPool, hipDeviceGetMemPool, hipGetDeviceProperties,
    hipDeviceSetCacheConfig, hipDeviceGetCacheConfig, hipDeviceGetLimit, hipDeviceGetSharedMemConfig, hipGetDeviceFlags,
    hipDeviceSetSharedMemConfig, hipSetDeviceFlags, hipChooseDevice, hipExtGetLinkTypeAndHopCount, hipGetLastError,
    hipPeekAtLastError, hipDeviceGetStreamPriorityRange, hipDeviceCanAccessPeer, hipDeviceEnablePeerAccess,
    hipDeviceDisablePeerAccess, hipDevicePrimaryCtxGetState, hipDevicePrimaryCtxRelease, hipDevicePrimaryCtxRetain,
    hipDevicePrimaryCtxReset, hipDevicePrimaryCtxSetFlags, hipProfilerStart, hipProfilerStop, hipDeviceSetLimit,
    hipDrvGetErrorName, hipDrvGetErrorString, hipDeviceGetGraphMemAttribute, hipDeviceSetGraphMemAttribute,
    hipDeviceGraphMemTrim, hipCtxCreate, hipCtxDestroy, hipCtxPopCurrent, hipCtxPushCurrent, hipCtxSetCurrent,
    hipCtxGetCurrent, hipCtxGetDevice, hipCtxGetApiVersion, hipCtxGetCacheConfig, hipCtxSetCacheConfig,
    hipCtxSetSharedMemConfig, hipCtxGetSharedMemConfig, hipCtxSynchronize, hipCtxGetFlags, hipCtxEnablePeerAccess,
    hipCtxDisablePeerAccess, hipModuleLaunchKernel, hipLaunchCooperativeKernel, hipLaunchCooperativeKernelMultiDevice,
    hipExtLaunchMultiKernelMultiDevice, hipLaunchByPtr, hipLaunchKernel,
    hipExtLaunchKernel, hipLaunchHostFunc, hipGraphLaunch, hipFuncSetAttribute, hipFuncSetCacheConfig,
    hipFuncSetSharedMemConfig, hipModuleGetGlobal, hipGetSymbolAddress, hipGetSymbolSize, hipModuleLoad,
    hipModuleUnload, hipModuleGetFunction, hipFuncGetAttributes, hipFuncGetAttribute, hipModuleLoadData,
    hipModuleLoadDataEx, hipModuleOccupancyMaxPotentialBlockSize, hipModuleOccupancyMaxPotentialBlockSizeWithFlags,
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    hipOccupancyMaxActiveBlocksPerMultiprocessor, hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    hipOccupancyMaxPotentialBlockSize, hipGraphCreate, hipGraphDestroy, hipGraphAddDependencies,
    hipGraphRemoveDependencies, hipGraphGetEdges, hipGraphGetNodes, hipGraphGetRootNodes, hipGraphNodeGetDependencies,
    hipGraphNodeGetDependentNodes, hipGraphNodeGetType, hipGraphDestroyNode, hipGraphClone, hipGraphNodeFindInClone,
    hipGraphInstantiate, hipGraphInstantiateWithFlags, hipGraphExecDestroy, hipGraphExecUpdate, hipGraphAddKernelNode,
    hipGraphKernelNodeGetParams, hipGraphKernelNodeSetParams, hipGraphExecKernelNodeSetParams, hipGraphAddMemcpyNode,
    hipGraphMemcpyNodeGetParams, hipGraphMemcpyNodeSetParams, hipGraphKernelNodeSetAttribute,
    hipGraphKernelNodeGetAttribute, hipGraphExecMemcpyNodeSetParams, hipGraphAddMemcpyNode1D,
    hipGraphMemcpyNodeSetParams1D, hipGraphExecMemcpyNodeSetParams1D, hipGraphAddMemcpyNodeFromSymbol,
    hipGraphMemcpyNodeSetParamsFromSymbol, hipGraphExecMemcpyNodeSetParamsFromSymbol, hipGraphAddMemcpyNodeToSymbol,
    hipGraphMemcpyNodeSetParamsToSymbol, hipGraphExecMemcpyNodeSetParamsToSymbol, hipGraphAddMemsetNode,
    hipGraphMemsetNodeGetParams, hipGraphMemsetNodeSetParams, hipGraphExecMemsetNodeSetParams, hipGraphAddHostNode,
    hipGraphHostNodeGetParams, hipGraphHostNodeSetParams, hipGraphExecHostNodeSetParams, hipGraphAddChildGraphNode,
    hipGraphChildGraphNodeGetGraph, hipGraphExecChildGraphNodeSetParams, hipGraphAddEmptyNode,
    hipGraphAddEventRecordNode, hipGraphEventRecordNodeGetEvent, hipGraphEventRecordNodeSetEvent,
    hipGraphExecEventRecordNodeSetEvent, hipGraphAddEventWaitNode, hipGraphEventWaitNodeGetEvent,
    hipGraphEventWaitNodeSetEvent, hipGraphExecEventWaitNodeSetEvent, hipGraphUpload, hipMemPrefetchAsync, hipMemcpy,
    hipMemcpyWithStream, hipMemcpyHtoD, hipMemcpyDtoH, hipMemcpyDtoD, hipMemcpyHtoDAsync, hipMemcpyDtoHAsync,
    hipMemcpyDtoDAsync, hipMemcpyToSymbol, hipMemcpyToSymbolAsync, hipMemcpyFromSymbol, hipMemcpyFromSymbolAsync,
    hipMemcpyAsync, hipMemset, hipMemsetD8, hipMemsetD8Async, hipMemsetD16, hipMemsetD16Async, hipMemsetD32,
    hipMemsetAsync, hipMemsetD32Async, hipMemset2D, hipMemset2DAsync, hipMemset3D, hipMemset3DAsync, hipMemcpy2D,
    hipMemcpyParam2D, hipMemcpyParam2DAsync, hipMemcpy2DAsync, hipMemcpy2DToArray, hipMemcpy2DToArrayAsync,
    hipMemcpyToArray, hipMemcpyFromArray, hipMemcpy2DFromArray, hipMemcpy2DFromArrayAsync, hipMemcpyAtoH, hipMemcpyHtoA,
    hipMemcpy3D, hipMemcpy3DAsync, hipDrvMemcpy3D, hipDrvMemcpy3DAsync, hipMemcpyPeer, hipMemcpyPeerAsync,
    hipDrvMemcpy2DUnaligned, hipIpcGetEventHandle, hipStreamCreate, hipStreamCreateWithFlags,
    hipStreamCreateWithPriority, hipStreamDestroy, hipStreamQuery, hipStreamSynchronize, hipStreamWaitEvent,
    hipStreamGetFlags, hipStreamGetPriority, hipExtStreamCreateWithCUMask, hipExtStreamGetCUMask, hipStreamAddCallback,
    hipStreamWaitValue32, hipStreamWaitValue64, hipStreamWriteValue32, hipStreamWriteValue64, hipEventCreateWithFlags,
    hipEventCreate, hipEventRecord, hipEventDestroy, hipEventSynchronize, hipEventElapsedTime, hipEventQuery,
    hipStreamAttachMemAsync, hipStreamBeginCapture, hipStreamEndCapture, hipStreamGetCaptureInfo,
    hipStreamGetCaptureInfo_v2, hipStreamIsCapturing, hipStreamUpdateCaptureDependencies,
    hipThreadExchangeStreamCaptureMode, hipIpcGetMemHandle, hipIpcOpenMemHandle, hipIpcCloseMemHandle,
    hipPointerGetAttributes, hipPointerGetAttribute, hipDrvPointerGetAttributes, hipImportExternalMemory,
    hipExternalMemoryGetMappedBuffer, hipDestroyExternalMemory, hipMalloc, hipExtMallocWithFlags, hipMallocHost,
    hipMemAllocHost, hipHostMalloc, hipMallocManaged, hipMemAdvise, hipMemRangeGetAttribute, hipMemRangeGetAttributes,
    hipMallocAsync, hipFreeAsync, hipMemPoolTrimTo, hipMemPoolSetAttribute, hipMemPoolGetAttribute, hipMemPoolSetAccess,
    hipMemPoolGetAccess, hipMemPoolCreate, hipMemPoolDestroy, hipMallocFromPoolAsync, hipMemPoolExportToShareableHandle,
    hipMemPoolImportFromShareableHandle, hipMemPoolExportPointer, hipMemPoolImportPointer, hipHostAlloc,
    hipHostGetDevicePointer, hipHostGetFlags, hipHostRegister, hipHostUnregister, hipMallocPitch, hipMemAllocPitch,
    hipFree, hipFreeHost, hipHostFree, hipMemGetInfo, hipMemPtrGetInfo, hipMallocArray, hipArrayCreate, hipArrayDestroy,
    hipArray3DCreate, hipMalloc3D, hipFreeArray, hipMalloc3DArray, hipMemGetAddressRange, hipMemAddressFree,
    hipMemAddressReserve, hipMemCreate, hipMemExportToShareableHandle, hipMemGetAccess, hipMemGetAllocationGranularity,
    hipMemGetAllocationPropertiesFromHandle, hipMemImportFromShareableHandle, hipMemMap, hipMemMapArrayAsync,
    hipMemRelease, hipMemRetainAllocationHandle, hipMemSetAccess, hipMemUnmap, hipGraphicsMapResources,
    hipGraphicsSubResourceGetMappedArray, hipGraphicsResourceGetMappedPointer, hipGraphicsUnmapResources,
    hipGraphicsUnregisterResource,
    };
    assert!(different.is_empty(), "{different:?}");
}

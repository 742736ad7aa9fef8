//! HIP for AMD GPUs: its functions, its types, and their equivalents in the CUDA driver.

pub mod hiprtc;
pub mod properties;
pub mod registration;
pub mod rocprofiler;
pub mod roctracer;
pub mod runtime;
pub mod structures;
pub mod types;

/// Declares pairs of functions with the same meaning and arguments; the compiler checks the arguments.
macro_rules! equivalents {
    ($($hip:ident $driver:ident;)*) => {
        /// HIP's functions, and the driver's name for each.
        pub static EQUIVALENTS: &[(&str, &str)] = &[$((stringify!($hip), stringify!($driver)),)*];

        $(const _: fn(runtime::pointers::$hip) -> crate::cuda::driver::pointers::$driver = |function| function;)*
    };
}

equivalents! {
    hipInit cuInit;
    hipDriverGetVersion cuDriverGetVersion;
    hipDrvGetErrorName cuGetErrorName;
    hipDrvGetErrorString cuGetErrorString;
    hipGetProcAddress cuGetProcAddress_v2;
    hipProfilerStart cuProfilerStart;
    hipProfilerStop cuProfilerStop;
    hipGetDeviceCount cuDeviceGetCount;
    hipDeviceGet cuDeviceGet;
    hipDeviceGetName cuDeviceGetName;
    hipDeviceGetPCIBusId cuDeviceGetPCIBusId;
    hipDeviceGetByPCIBusId cuDeviceGetByPCIBusId;
    hipDeviceGetUuid cuDeviceGetUuid_v2;
    hipDeviceTotalMem cuDeviceTotalMem_v2;
    hipDeviceComputeCapability cuDeviceComputeCapability;
    hipDeviceCanAccessPeer cuDeviceCanAccessPeer;
    hipDeviceGetStreamPriorityRange cuCtxGetStreamPriorityRange;
    hipDeviceGetLimit cuCtxGetLimit;
    hipDeviceSetLimit cuCtxSetLimit;
    hipCtxCreate cuCtxCreate_v2;
    hipCtxDestroy cuCtxDestroy_v2;
    hipCtxPushCurrent cuCtxPushCurrent_v2;
    hipCtxPopCurrent cuCtxPopCurrent_v2;
    hipCtxGetCurrent cuCtxGetCurrent;
    hipCtxSetCurrent cuCtxSetCurrent;
    hipCtxGetDevice cuCtxGetDevice;
    hipCtxSynchronize cuCtxSynchronize;
    hipCtxGetFlags cuCtxGetFlags;
    hipCtxEnablePeerAccess cuCtxEnablePeerAccess;
    hipCtxDisablePeerAccess cuCtxDisablePeerAccess;
    hipDevicePrimaryCtxRetain cuDevicePrimaryCtxRetain;
    hipDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2;
    hipDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2;
    hipDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2;
    hipDevicePrimaryCtxGetState cuDevicePrimaryCtxGetState;
    hipMalloc cuMemAlloc_v2;
    hipMemAllocPitch cuMemAllocPitch_v2;
    hipFree cuMemFree_v2;
    hipMemGetAddressRange cuMemGetAddressRange_v2;
    hipMemGetInfo cuMemGetInfo_v2;
    hipPointerGetAttribute cuPointerGetAttribute;
    hipDrvPointerGetAttributes cuPointerGetAttributes;
    hipMallocManaged cuMemAllocManaged;
    hipMallocHost cuMemAllocHost_v2;
    hipHostMalloc cuMemHostAlloc;
    hipHostFree cuMemFreeHost;
    hipHostRegister cuMemHostRegister_v2;
    hipHostUnregister cuMemHostUnregister;
    hipHostGetDevicePointer cuMemHostGetDevicePointer_v2;
    hipHostGetFlags cuMemHostGetFlags;
    hipMallocAsync cuMemAllocAsync;
    hipMallocFromPoolAsync cuMemAllocFromPoolAsync;
    hipFreeAsync cuMemFreeAsync;
    hipDeviceGetDefaultMemPool cuDeviceGetDefaultMemPool;
    hipDeviceGetMemPool cuDeviceGetMemPool;
    hipDeviceSetMemPool cuDeviceSetMemPool;
    hipMemPoolCreate cuMemPoolCreate;
    hipMemPoolDestroy cuMemPoolDestroy;
    hipMemPoolTrimTo cuMemPoolTrimTo;
    hipMemPoolSetAttribute cuMemPoolSetAttribute;
    hipMemPoolGetAttribute cuMemPoolGetAttribute;
    hipMemPoolSetAccess cuMemPoolSetAccess;
    hipMemPoolGetAccess cuMemPoolGetAccess;
    hipMemPoolExportPointer cuMemPoolExportPointer;
    hipMemPoolImportPointer cuMemPoolImportPointer;
    hipMemAddressReserve cuMemAddressReserve;
    hipMemAddressFree cuMemAddressFree;
    hipMemCreate cuMemCreate;
    hipMemRelease cuMemRelease;
    hipMemMap cuMemMap;
    hipMemUnmap cuMemUnmap;
    hipMemSetAccess cuMemSetAccess;
    hipMemGetAccess cuMemGetAccess;
    hipMemGetAllocationGranularity cuMemGetAllocationGranularity;
    hipMemGetAllocationPropertiesFromHandle cuMemGetAllocationPropertiesFromHandle;
    hipMemExportToShareableHandle cuMemExportToShareableHandle;
    hipMemImportFromShareableHandle cuMemImportFromShareableHandle;
    hipMemRetainAllocationHandle cuMemRetainAllocationHandle;
    hipMemAdvise cuMemAdvise;
    hipMemPrefetchAsync cuMemPrefetchAsync;
    hipIpcGetMemHandle cuIpcGetMemHandle;
    hipIpcOpenMemHandle cuIpcOpenMemHandle_v2;
    hipIpcCloseMemHandle cuIpcCloseMemHandle;
    hipExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedBuffer;
    hipMemcpyHtoD cuMemcpyHtoD_v2;
    hipMemcpyDtoH cuMemcpyDtoH_v2;
    hipMemcpyDtoD cuMemcpyDtoD_v2;
    hipMemcpyHtoDAsync cuMemcpyHtoDAsync_v2;
    hipMemcpyDtoHAsync cuMemcpyDtoHAsync_v2;
    hipMemcpyDtoDAsync cuMemcpyDtoDAsync_v2;
    hipMemsetD8 cuMemsetD8_v2;
    hipMemsetD16 cuMemsetD16_v2;
    hipMemsetD32 cuMemsetD32_v2;
    hipMemsetD8Async cuMemsetD8Async;
    hipMemsetD16Async cuMemsetD16Async;
    hipMemsetD32Async cuMemsetD32Async;
    hipStreamCreateWithFlags cuStreamCreate;
    hipStreamCreateWithPriority cuStreamCreateWithPriority;
    hipStreamDestroy cuStreamDestroy_v2;
    hipStreamQuery cuStreamQuery;
    hipStreamSynchronize cuStreamSynchronize;
    hipStreamWaitEvent cuStreamWaitEvent;
    hipStreamGetFlags cuStreamGetFlags;
    hipStreamGetPriority cuStreamGetPriority;
    hipStreamIsCapturing cuStreamIsCapturing;
    hipStreamBeginCapture cuStreamBeginCapture_v2;
    hipStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph;
    hipStreamEndCapture cuStreamEndCapture;
    hipStreamAddCallback cuStreamAddCallback;
    hipStreamAttachMemAsync cuStreamAttachMemAsync;
    hipLaunchHostFunc cuLaunchHostFunc;
    hipStreamWriteValue32 cuStreamWriteValue32_v2;
    hipStreamWriteValue64 cuStreamWriteValue64_v2;
    hipStreamBatchMemOp cuStreamBatchMemOp_v2;
    hipThreadExchangeStreamCaptureMode cuThreadExchangeStreamCaptureMode;
    hipEventCreateWithFlags cuEventCreate;
    hipEventDestroy cuEventDestroy_v2;
    hipEventRecord cuEventRecord;
    hipEventRecordWithFlags cuEventRecordWithFlags;
    hipEventQuery cuEventQuery;
    hipEventSynchronize cuEventSynchronize;
    hipEventElapsedTime cuEventElapsedTime;
    hipModuleLoad cuModuleLoad;
    hipModuleLoadData cuModuleLoadData;
    hipModuleLoadDataEx cuModuleLoadDataEx;
    hipModuleLoadFatBinary cuModuleLoadFatBinary;
    hipModuleGetFunctionCount cuModuleGetFunctionCount;
    hipStreamGetId cuStreamGetId;
    hipModuleUnload cuModuleUnload;
    hipModuleGetFunction cuModuleGetFunction;
    hipModuleGetGlobal cuModuleGetGlobal_v2;
    hipFuncGetAttribute cuFuncGetAttribute;
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessor;
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
    hipModuleLaunchKernel cuLaunchKernel;
    hipModuleLaunchCooperativeKernel cuLaunchCooperativeKernel;
    hipGraphCreate cuGraphCreate;
    hipGraphDestroy cuGraphDestroy;
    hipGraphClone cuGraphClone;
    hipGraphGetNodes cuGraphGetNodes;
    hipGraphGetEdges cuGraphGetEdges;
    hipGraphNodeGetType cuGraphNodeGetType;
    hipGraphNodeFindInClone cuGraphNodeFindInClone;
    hipGraphChildGraphNodeGetGraph cuGraphChildGraphNodeGetGraph;
    hipGraphAddEmptyNode cuGraphAddEmptyNode;
    hipGraphInstantiate cuGraphInstantiate;
    hipGraphInstantiateWithFlags cuGraphInstantiateWithFlags;
    hipGraphInstantiateWithParams cuGraphInstantiateWithParams;
    hipGraphExecUpdate cuGraphExecUpdate;
    hipGraphExecDestroy cuGraphExecDestroy;
    hipGraphLaunch cuGraphLaunch;
    hipGraphUpload cuGraphUpload;
    hipGraphNodeSetEnabled cuGraphNodeSetEnabled;
    hipGraphEventRecordNodeSetEvent cuGraphEventRecordNodeSetEvent;
    hipGraphEventWaitNodeSetEvent cuGraphEventWaitNodeSetEvent;
    hipGraphHostNodeSetParams cuGraphHostNodeSetParams;
    hipDrvGraphMemcpyNodeSetParams cuGraphMemcpyNodeSetParams;
    hipGraphNodeSetParams cuGraphNodeSetParams;
    hipDrvLaunchKernelEx cuLaunchKernelEx;
    hipMemsetD2D8 cuMemsetD2D8_v2;
    hipMemsetD2D8Async cuMemsetD2D8Async;
    hipMemsetD2D16 cuMemsetD2D16_v2;
    hipMemsetD2D16Async cuMemsetD2D16Async;
    hipMemsetD2D32 cuMemsetD2D32_v2;
    hipMemsetD2D32Async cuMemsetD2D32Async;
    hipMemcpyBatchAsync cuMemcpyBatchAsync;
    hipMemcpy3DBatchAsync cuMemcpy3DBatchAsync;
    hipLibraryLoadData cuLibraryLoadData;
    hipLibraryLoadFromFile cuLibraryLoadFromFile;
    hipLibraryUnload cuLibraryUnload;
    hipLibraryGetKernel cuLibraryGetKernel;
    hipLibraryGetKernelCount cuLibraryGetKernelCount;
    hipKernelGetFunction cuKernelGetFunction;
}

/// HIP's equivalent of `driver` with the same arguments: `hipMemCreate` for `cuMemCreate`.
pub fn equivalent(driver: &str) -> Option<&'static str> {
    EQUIVALENTS.iter().find(|(_, of_driver)| *of_driver == driver).map(|(hip, _)| *hip)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = runtime::FUNCTIONS.iter().map(|function| function.name).collect();
        assert_eq!(names.len(), runtime::FUNCTIONS.len());
        let drivers: BTreeSet<_> = EQUIVALENTS.iter().map(|(_, driver)| driver).collect();
        assert_eq!(drivers.len(), EQUIVALENTS.len());
    }

    #[test]
    fn the_driver_s_functions_are_found() {
        assert_eq!(equivalent("cuMemAlloc_v2"), Some("hipMalloc"));
        assert_eq!(equivalent("cuDeviceGetAttribute"), None, "the attributes have other numbers");
    }

    #[test]
    fn statuses_have_hip_s_names() {
        assert_eq!(types::error_name(types::Status::INVALID_VALUE), Some(c"hipErrorInvalidValue"));
        assert_eq!(types::error_name(types::Status(12345)), None);
    }
}

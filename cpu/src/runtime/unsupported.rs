//! Functions of CUDA's runtime that the CPU device lacks.
//!
//! They are exported so that an application's call fails here. Otherwise it would reach NVIDIA's runtime, which does
//! not know the device, its memory and its streams.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use super::error::enter;
use crate::refusal::refused;

refused! { enter =>
    cudaArrayGetMemoryRequirements, cudaArrayGetPlane, cudaArrayGetSparseProperties, cudaDestroyExternalMemory,
    cudaDestroyExternalSemaphore, cudaDeviceFlushGPUDirectRDMAWrites, cudaDeviceGetByPCIBusId,
    cudaDeviceGetGraphMemAttribute, cudaDeviceGetNvSciSyncAttributes, cudaDeviceGetP2PAttribute,
    cudaDeviceGetTexture1DLinearMaxWidth, cudaDeviceGraphMemTrim, cudaDeviceRegisterAsyncNotification,
    cudaDeviceSetGraphMemAttribute, cudaDeviceUnregisterAsyncNotification, cudaEGLStreamConsumerAcquireFrame,
    cudaEGLStreamConsumerConnect, cudaEGLStreamConsumerConnectWithFlags, cudaEGLStreamConsumerDisconnect,
    cudaEGLStreamConsumerReleaseFrame, cudaEGLStreamProducerConnect, cudaEGLStreamProducerDisconnect,
    cudaEGLStreamProducerPresentFrame, cudaEGLStreamProducerReturnFrame, cudaEventCreateFromEGLSync,
    cudaExternalMemoryGetMappedBuffer, cudaExternalMemoryGetMappedMipmappedArray, cudaFreeMipmappedArray,
    cudaFuncGetName, cudaFuncGetParamInfo, cudaGLGetDevices, cudaGLMapBufferObject, cudaGLMapBufferObjectAsync,
    cudaGLRegisterBufferObject, cudaGLSetBufferObjectMapFlags, cudaGLSetGLDevice, cudaGLUnmapBufferObject,
    cudaGLUnmapBufferObjectAsync, cudaGLUnregisterBufferObject, cudaGetExportTable, cudaGetMipmappedArrayLevel,
    cudaGetSurfaceObjectResourceDesc, cudaGetTextureObjectResourceDesc, cudaGetTextureObjectResourceViewDesc,
    cudaGetTextureObjectTextureDesc, cudaGraphAddChildGraphNode, cudaGraphAddDependencies, cudaGraphAddDependencies_v2,
    cudaGraphAddEventRecordNode, cudaGraphAddEventWaitNode, cudaGraphAddExternalSemaphoresSignalNode,
    cudaGraphAddExternalSemaphoresWaitNode, cudaGraphAddMemcpyNode, cudaGraphAddMemcpyNodeFromSymbol,
    cudaGraphAddMemcpyNodeToSymbol, cudaGraphAddNode, cudaGraphAddNode_v2, cudaGraphChildGraphNodeGetGraph,
    cudaGraphConditionalHandleCreate, cudaGraphDebugDotPrint, cudaGraphDestroyNode, cudaGraphEventRecordNodeGetEvent,
    cudaGraphEventRecordNodeSetEvent, cudaGraphEventWaitNodeGetEvent, cudaGraphEventWaitNodeSetEvent,
    cudaGraphExecChildGraphNodeSetParams, cudaGraphExecEventRecordNodeSetEvent, cudaGraphExecEventWaitNodeSetEvent,
    cudaGraphExecExternalSemaphoresSignalNodeSetParams, cudaGraphExecExternalSemaphoresWaitNodeSetParams,
    cudaGraphExecGetFlags, cudaGraphExecHostNodeSetParams, cudaGraphExecKernelNodeSetParams,
    cudaGraphExecMemcpyNodeSetParams, cudaGraphExecMemcpyNodeSetParams1D, cudaGraphExecMemcpyNodeSetParamsFromSymbol,
    cudaGraphExecMemcpyNodeSetParamsToSymbol, cudaGraphExecMemsetNodeSetParams, cudaGraphExecNodeSetParams,
    cudaGraphExternalSemaphoresSignalNodeGetParams, cudaGraphExternalSemaphoresSignalNodeSetParams,
    cudaGraphExternalSemaphoresWaitNodeGetParams, cudaGraphExternalSemaphoresWaitNodeSetParams, cudaGraphGetEdges,
    cudaGraphGetEdges_v2, cudaGraphGetRootNodes, cudaGraphHostNodeGetParams, cudaGraphHostNodeSetParams,
    cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz, cudaGraphKernelNodeCopyAttributes,
    cudaGraphKernelNodeGetAttribute, cudaGraphKernelNodeGetParams, cudaGraphKernelNodeSetAttribute,
    cudaGraphKernelNodeSetParams, cudaGraphMemAllocNodeGetParams, cudaGraphMemFreeNodeGetParams,
    cudaGraphMemcpyNodeGetParams, cudaGraphMemcpyNodeSetParams, cudaGraphMemcpyNodeSetParams1D,
    cudaGraphMemcpyNodeSetParamsFromSymbol, cudaGraphMemcpyNodeSetParamsToSymbol, cudaGraphMemsetNodeGetParams,
    cudaGraphMemsetNodeSetParams, cudaGraphNodeFindInClone, cudaGraphNodeGetDependencies,
    cudaGraphNodeGetDependencies_v2, cudaGraphNodeGetDependentNodes, cudaGraphNodeGetDependentNodes_v2,
    cudaGraphNodeGetEnabled, cudaGraphNodeGetType, cudaGraphNodeSetEnabled, cudaGraphNodeSetParams,
    cudaGraphReleaseUserObject, cudaGraphRemoveDependencies, cudaGraphRemoveDependencies_v2, cudaGraphRetainUserObject,
    cudaGraphUpload, cudaGraphUpload_ptsz, cudaGraphicsEGLRegisterImage, cudaGraphicsGLRegisterBuffer,
    cudaGraphicsGLRegisterImage, cudaGraphicsMapResources, cudaGraphicsResourceGetMappedEglFrame,
    cudaGraphicsResourceGetMappedMipmappedArray, cudaGraphicsResourceGetMappedPointer, cudaGraphicsResourceSetMapFlags,
    cudaGraphicsSubResourceGetMappedArray, cudaGraphicsUnmapResources, cudaGraphicsUnregisterResource,
    cudaGraphicsVDPAURegisterOutputSurface, cudaGraphicsVDPAURegisterVideoSurface, cudaHostGetFlags,
    cudaImportExternalMemory, cudaImportExternalSemaphore, cudaIpcGetEventHandle, cudaIpcOpenEventHandle,
    cudaKernelSetAttributeForDevice, cudaLaunchCooperativeKernelMultiDevice, cudaLibraryEnumerateKernels,
    cudaLibraryGetGlobal, cudaLibraryGetKernel, cudaLibraryGetKernelCount, cudaLibraryGetManaged,
    cudaLibraryGetUnifiedFunction, cudaLibraryLoadData, cudaLibraryLoadFromFile, cudaLibraryUnload,
    cudaMallocMipmappedArray, cudaMemPoolExportPointer, cudaMemPoolExportToShareableHandle, cudaMemPoolGetAccess,
    cudaMemPoolImportFromShareableHandle, cudaMemPoolImportPointer, cudaMemRangeGetAttribute, cudaMemRangeGetAttributes,
    cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DPeer, cudaMemcpy3DPeerAsync,
    cudaMemcpy3DPeerAsync_ptsz, cudaMemcpy3DPeer_ptds, cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz,
    cudaMipmappedArrayGetMemoryRequirements, cudaMipmappedArrayGetSparseProperties, cudaOccupancyMaxActiveClusters,
    cudaOccupancyMaxPotentialClusterSize, cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz,
    cudaSignalExternalSemaphoresAsync_v2, cudaSignalExternalSemaphoresAsync_v2_ptsz, cudaStreamBeginCaptureToGraph,
    cudaStreamBeginCaptureToGraph_ptsz, cudaStreamCopyAttributes, cudaStreamCopyAttributes_ptsz, cudaStreamGetAttribute,
    cudaStreamGetAttribute_ptsz, cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo_v2,
    cudaStreamGetCaptureInfo_v2_ptsz, cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz, cudaStreamGetId,
    cudaStreamGetId_ptsz, cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz, cudaStreamUpdateCaptureDependencies,
    cudaStreamUpdateCaptureDependencies_ptsz, cudaStreamUpdateCaptureDependencies_v2,
    cudaStreamUpdateCaptureDependencies_v2_ptsz, cudaUserObjectCreate, cudaUserObjectRelease, cudaUserObjectRetain,
    cudaVDPAUGetDevice, cudaVDPAUSetVDPAUDevice, cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz,
    cudaWaitExternalSemaphoresAsync_v2, cudaWaitExternalSemaphoresAsync_v2_ptsz,
}

// New in CUDA 13.
refused! { enter =>
    __cudaGetProcAddress, cudaDeviceGetHostAtomicCapabilities, cudaDeviceGetP2PAtomicCapabilities, cudaLogsCurrent,
    cudaLogsDumpToFile, cudaLogsDumpToMemory, cudaLogsRegisterCallback, cudaLogsUnregisterCallback,
    cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz, cudaMemDiscardBatchAsync,
    cudaMemDiscardBatchAsync_ptsz, cudaMemGetDefaultMemPool, cudaMemGetMemPool, cudaMemPrefetchBatchAsync,
    cudaMemPrefetchBatchAsync_ptsz, cudaMemSetMemPool,
}

// Registrations at start-up return no status, so the sentence names the feature.
refused! { enter =>
    __cudaRegisterHostVar: "a host variable in device code",
    __cudaRegisterManagedVar: "a __managed__ variable",
    __cudaRegisterUnifiedTable: "a table of unified functions",
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::error;
    use crate::status::Status;

    #[test]
    fn what_is_not_there_fails_with_its_own_status() {
        for _ in 0..2 {
            assert_eq!(cudaMallocMipmappedArray(), Status::NOT_SUPPORTED);
            assert_eq!(error::take(), Status::NOT_SUPPORTED);
        }
        __cudaRegisterManagedVar();
        assert_eq!(error::take(), Status::NOT_SUPPORTED);
    }
}

//! Functions of HIP that the CPU device lacks: textures, arrays, OpenGL, and parts of graphs.
//!
//! Each is exported, as for CUDA, prints a sentence once, and fails.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use mneme_abi::hip::types::*;

use super::enter;
use crate::abi::{answer, answers};
use crate::refusal::refused;
use crate::status::StatusResult;

refused! { enter =>
    hipRegisterTracerCallback, hipTexRefGetArray, hipTexRefGetBorderColor, hipTexRefGetMipMappedArray,
    hipArray3DCreate, hipArray3DGetDescriptor, hipArrayCreate, hipArrayDestroy, hipArrayGetDescriptor, hipArrayGetInfo,
    hipBindTexture, hipBindTexture2D, hipBindTextureToArray, hipBindTextureToMipmappedArray, hipConfigureCall,
    hipCreateSurfaceObject, hipCreateTextureObject, hipDestroyExternalMemory, hipDestroyExternalSemaphore,
    hipDestroySurfaceObject, hipDestroyTextureObject, hipDeviceGetGraphMemAttribute,
    hipDeviceGetTexture1DLinearMaxWidth, hipDeviceGraphMemTrim, hipDeviceSetGraphMemAttribute,
    hipDrvGraphAddMemFreeNode, hipDrvGraphAddMemcpyNode, hipDrvGraphAddMemsetNode, hipDrvGraphExecMemcpyNodeSetParams,
    hipDrvGraphExecMemsetNodeSetParams, hipDrvGraphMemcpyNodeGetParams, hipDrvGraphMemcpyNodeSetParams,
    hipExtGetLinkTypeAndHopCount, hipExtLaunchMultiKernelMultiDevice, hipExtStreamGetCUMask,
    hipExternalMemoryGetMappedBuffer, hipFreeArray, hipFreeMipmappedArray, hipGLGetDevices, hipGetChannelDesc,
    hipGetMipmappedArrayLevel, hipGetTextureAlignmentOffset, hipGetTextureObjectResourceDesc,
    hipGetTextureObjectResourceViewDesc, hipGetTextureObjectTextureDesc, hipGetTextureReference,
    hipGraphAddBatchMemOpNode, hipGraphAddDependencies, hipGraphAddExternalSemaphoresSignalNode,
    hipGraphAddExternalSemaphoresWaitNode, hipGraphAddNode, hipGraphBatchMemOpNodeGetParams,
    hipGraphBatchMemOpNodeSetParams, hipGraphDebugDotPrint, hipGraphExecBatchMemOpNodeSetParams,
    hipGraphExecExternalSemaphoresSignalNodeSetParams, hipGraphExecExternalSemaphoresWaitNodeSetParams,
    hipGraphExecGetFlags, hipGraphExecMemcpyNodeSetParams, hipGraphExecMemcpyNodeSetParamsFromSymbol,
    hipGraphExecMemcpyNodeSetParamsToSymbol, hipGraphExecNodeSetParams, hipGraphExternalSemaphoresSignalNodeGetParams,
    hipGraphExternalSemaphoresSignalNodeSetParams, hipGraphExternalSemaphoresWaitNodeGetParams,
    hipGraphExternalSemaphoresWaitNodeSetParams, hipGraphInstantiateWithParams, hipGraphKernelNodeCopyAttributes,
    hipGraphKernelNodeSetAttribute, hipGraphMemAllocNodeGetParams, hipGraphMemFreeNodeGetParams,
    hipGraphMemcpyNodeGetParams, hipGraphMemcpyNodeSetParams, hipGraphMemcpyNodeSetParamsFromSymbol,
    hipGraphMemcpyNodeSetParamsToSymbol, hipGraphNodeGetDependencies, hipGraphNodeGetDependentNodes,
    hipGraphNodeGetEnabled, hipGraphNodeSetParams, hipGraphReleaseUserObject, hipGraphRetainUserObject,
    hipGraphicsGLRegisterBuffer, hipGraphicsGLRegisterImage, hipGraphicsMapResources,
    hipGraphicsResourceGetMappedPointer, hipGraphicsSubResourceGetMappedArray, hipGraphicsUnmapResources,
    hipGraphicsUnregisterResource, hipImportExternalMemory, hipImportExternalSemaphore, hipIpcGetEventHandle,
    hipIpcOpenEventHandle, hipLaunchByPtr, hipLaunchCooperativeKernelMultiDevice, hipLinkAddData, hipLinkAddFile,
    hipLinkComplete, hipLinkCreate, hipLinkDestroy, hipMalloc3DArray, hipMallocArray, hipMallocMipmappedArray,
    hipMemGetHandleForAddressRange, hipMemMapArrayAsync, hipMemPoolExportPointer, hipMemPoolExportToShareableHandle,
    hipMemPoolImportFromShareableHandle, hipMemPoolImportPointer, hipMemRangeGetAttribute, hipMemRangeGetAttributes,
    hipMemcpy2DArrayToArray, hipMemcpy2DFromArray, hipMemcpy2DFromArrayAsync, hipMemcpy2DFromArrayAsync_spt,
    hipMemcpy2DFromArray_spt, hipMemcpy2DToArray, hipMemcpy2DToArrayAsync, hipMemcpy2DToArrayAsync_spt,
    hipMemcpy2DToArray_spt, hipMemcpy3DBatchAsync, hipMemcpy3DPeer, hipMemcpy3DPeerAsync, hipMemcpyAtoA, hipMemcpyAtoD,
    hipMemcpyAtoH, hipMemcpyAtoHAsync, hipMemcpyBatchAsync, hipMemcpyDtoA, hipMemcpyFromArray, hipMemcpyFromArray_spt,
    hipMemcpyHtoA, hipMemcpyHtoAAsync, hipMemcpyToArray, hipMipmappedArrayCreate, hipMipmappedArrayDestroy,
    hipMipmappedArrayGetLevel, hipModuleGetTexRef, hipModuleLaunchCooperativeKernelMultiDevice,
    hipRegisterActivityCallback, hipRegisterApiCallback, hipRemoveActivityCallback, hipRemoveApiCallback,
    hipSetupArgument, hipSignalExternalSemaphoresAsync, hipOccupancyAvailableDynamicSMemPerBlock, hipStreamBatchMemOp,
    hipStreamBeginCaptureToGraph, hipStreamCopyAttributes, hipStreamGetAttribute, hipStreamSetAttribute,
    hipStreamUpdateCaptureDependencies, hipStreamWaitValue32, hipStreamWaitValue64, hipStreamWriteValue32,
    hipStreamWriteValue64, hipTexObjectCreate, hipTexObjectDestroy, hipTexObjectGetResourceDesc,
    hipTexObjectGetResourceViewDesc, hipTexObjectGetTextureDesc, hipTexRefGetAddress, hipTexRefGetAddressMode,
    hipTexRefGetFilterMode, hipTexRefGetFlags, hipTexRefGetFormat, hipTexRefGetMaxAnisotropy,
    hipTexRefGetMipmapFilterMode, hipTexRefGetMipmapLevelBias, hipTexRefGetMipmapLevelClamp, hipTexRefSetAddress,
    hipTexRefSetAddress2D, hipTexRefSetAddressMode, hipTexRefSetArray, hipTexRefSetBorderColor, hipTexRefSetFilterMode,
    hipTexRefSetFlags, hipTexRefSetFormat, hipTexRefSetMaxAnisotropy, hipTexRefSetMipmapFilterMode,
    hipTexRefSetMipmapLevelBias, hipTexRefSetMipmapLevelClamp, hipTexRefSetMipmappedArray, hipUnbindTexture,
    hipUserObjectCreate, hipUserObjectRelease, hipUserObjectRetain, hipWaitExternalSemaphoresAsync,
}

/// `hiprtcResult`: an internal error is the least specific result.
const HIPRTC_ERROR_INTERNAL_ERROR: u32 = 11;

/// Refuses a function without setting the last error.
fn compilation(refusal: impl FnOnce() -> StatusResult) -> u32 {
    let _ = refusal();
    HIPRTC_ERROR_INTERNAL_ERROR
}

refused! { compilation -> u32 =>
    hiprtcGetBitcode, hiprtcGetBitcodeSize, hiprtcLinkAddData, hiprtcLinkAddFile, hiprtcLinkComplete, hiprtcLinkCreate,
    hiprtcLinkDestroy,
    hiprtcAddNameExpression, hiprtcCompileProgram, hiprtcCreateProgram, hiprtcDestroyProgram, hiprtcGetCode,
    hiprtcGetCodeSize, hiprtcGetLoweredName, hiprtcGetProgramLog, hiprtcGetProgramLogSize, hiprtcVersion,
}

answers! {
    hiprtcGetErrorString: (_) => c"hiprtc is not supported on the CPU device".as_ptr();
}

// Registrations at start-up return no status, so the sentence names the feature.
refused! { enter =>
    __hipRegisterSurface: "a surface in device code",
    __hipRegisterTexture: "a texture in device code",
    __hipGetPCH: "a precompiled header of HIP",
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::error;
    use crate::status::Status;

    #[test]
    fn what_is_not_there_fails_with_its_own_status() {
        assert_eq!(hipCreateTextureObject(), Status::NOT_SUPPORTED);
        assert_eq!(error::take(), Status::NOT_SUPPORTED);
        assert_eq!(hiprtcCompileProgram(), HIPRTC_ERROR_INTERNAL_ERROR);
    }
}

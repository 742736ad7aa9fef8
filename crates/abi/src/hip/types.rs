//! Types of HIP's runtime; types with the same layout have the driver's names.

use std::ffi::CStr;

pub use super::structures::KernelNodeParameters;
/// `hipLaunchConfig_t`.
pub use crate::cuda::runtime_structures::RuntimeLaunchConfiguration as LaunchConfiguration;
pub use crate::cuda::types::*;

/// `__CudaFatBinaryWrapper` as written by clang for HIP: the argument of `__hipRegisterFatBinary`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FatBinaryWrapper {
    /// "HIPF", read as a little endian number.
    pub magic: u32,
    pub version: u32,
    /// A clang offload bundle, plain or compressed.
    pub binary: *const c_void,
    pub unused: *const c_void,
}

/// HIP's name of a status (`hipErrorInvalidValue`); `None` for a number unknown to HIP. The numbers are the driver's.
pub fn error_name(status: Status) -> Option<&'static CStr> {
    ERRORS.iter().find(|(number, _)| *number == status.0).map(|(_, name)| *name)
}

/// A description of a status that CUDA's driver describes differently, or does not describe.
pub fn error_text(status: Status) -> Option<&'static CStr> {
    Some(match status.0 {
        4 => c"driver shutting down",
        5 => c"profiler disabled while using external profiling tool",
        6 => c"profiler is not initialized",
        7 => c"profiler already started",
        8 => c"profiler already stopped",
        12 => c"invalid pitch argument",
        17 => c"invalid device pointer",
        35 => c"driver version is insufficient for runtime version",
        52 => c"__global__ function call is not configured",
        53 => c"unspecified launch failure in prior launch",
        202 => c"context is already current context",
        206 => c"unmapping of buffer object failed",
        207 => c"array is mapped",
        208 => c"resource already mapped",
        210 => c"resource already acquired",
        211 => c"resource not mapped",
        212 => c"resource not mapped as array",
        213 => c"resource not mapped as pointer",
        214 => c"uncorrectable ECC error encountered",
        216 => c"exclusive-thread device already in use by a different thread",
        218 => c"invalid kernel file",
        219 => c"invalid OpenGL or DirectX context",
        300 => c"device kernel image is invalid",
        302 => c"shared object symbol not found",
        303 => c"shared object initialization failed",
        401 => c"the operation cannot be performed in the present state",
        708 => c"cannot set while device is active in this process",
        720 => c"too many blocks in cooperative launch",
        902 => c"operation would result in a merge of separate capture sequences",
        903 => c"capture was not ended in the same stream as it began",
        904 => c"capturing stream has unjoined work",
        905 => c"dependency created on uncaptured work in another stream",
        906 => c"operation would make the legacy stream depend on a capturing blocking stream",
        907 => c"operation not permitted on an event last recorded in a capturing stream",
        908 => c"attempt to terminate a thread-local capture sequence from another thread",
        911 => c"invalid channel descriptor",
        912 => c"invalid texture",
        1052 => c"runtime memory call returned error",
        1053 => c"runtime call other than memory returned error",
        _ => return None,
    })
}

/// `hipError_t` of HIP 6.4.
const ERRORS: &[(u32, &CStr)] = &[
    (0, c"hipSuccess"),
    (1, c"hipErrorInvalidValue"),
    (2, c"hipErrorOutOfMemory"),
    (3, c"hipErrorNotInitialized"),
    (4, c"hipErrorDeinitialized"),
    (5, c"hipErrorProfilerDisabled"),
    (6, c"hipErrorProfilerNotInitialized"),
    (7, c"hipErrorProfilerAlreadyStarted"),
    (8, c"hipErrorProfilerAlreadyStopped"),
    (9, c"hipErrorInvalidConfiguration"),
    (12, c"hipErrorInvalidPitchValue"),
    (13, c"hipErrorInvalidSymbol"),
    (17, c"hipErrorInvalidDevicePointer"),
    (21, c"hipErrorInvalidMemcpyDirection"),
    (35, c"hipErrorInsufficientDriver"),
    (52, c"hipErrorMissingConfiguration"),
    (53, c"hipErrorPriorLaunchFailure"),
    (98, c"hipErrorInvalidDeviceFunction"),
    (100, c"hipErrorNoDevice"),
    (101, c"hipErrorInvalidDevice"),
    (200, c"hipErrorInvalidImage"),
    (201, c"hipErrorInvalidContext"),
    (202, c"hipErrorContextAlreadyCurrent"),
    (205, c"hipErrorMapFailed"),
    (206, c"hipErrorUnmapFailed"),
    (207, c"hipErrorArrayIsMapped"),
    (208, c"hipErrorAlreadyMapped"),
    (209, c"hipErrorNoBinaryForGpu"),
    (210, c"hipErrorAlreadyAcquired"),
    (211, c"hipErrorNotMapped"),
    (212, c"hipErrorNotMappedAsArray"),
    (213, c"hipErrorNotMappedAsPointer"),
    (214, c"hipErrorECCNotCorrectable"),
    (215, c"hipErrorUnsupportedLimit"),
    (216, c"hipErrorContextAlreadyInUse"),
    (217, c"hipErrorPeerAccessUnsupported"),
    (218, c"hipErrorInvalidKernelFile"),
    (219, c"hipErrorInvalidGraphicsContext"),
    (300, c"hipErrorInvalidSource"),
    (301, c"hipErrorFileNotFound"),
    (302, c"hipErrorSharedObjectSymbolNotFound"),
    (303, c"hipErrorSharedObjectInitFailed"),
    (304, c"hipErrorOperatingSystem"),
    (400, c"hipErrorInvalidHandle"),
    (401, c"hipErrorIllegalState"),
    (500, c"hipErrorNotFound"),
    (600, c"hipErrorNotReady"),
    (700, c"hipErrorIllegalAddress"),
    (701, c"hipErrorLaunchOutOfResources"),
    (702, c"hipErrorLaunchTimeOut"),
    (704, c"hipErrorPeerAccessAlreadyEnabled"),
    (705, c"hipErrorPeerAccessNotEnabled"),
    (708, c"hipErrorSetOnActiveProcess"),
    (709, c"hipErrorContextIsDestroyed"),
    (710, c"hipErrorAssert"),
    (712, c"hipErrorHostMemoryAlreadyRegistered"),
    (713, c"hipErrorHostMemoryNotRegistered"),
    (719, c"hipErrorLaunchFailure"),
    (720, c"hipErrorCooperativeLaunchTooLarge"),
    (801, c"hipErrorNotSupported"),
    (900, c"hipErrorStreamCaptureUnsupported"),
    (901, c"hipErrorStreamCaptureInvalidated"),
    (902, c"hipErrorStreamCaptureMerge"),
    (903, c"hipErrorStreamCaptureUnmatched"),
    (904, c"hipErrorStreamCaptureUnjoined"),
    (905, c"hipErrorStreamCaptureIsolation"),
    (906, c"hipErrorStreamCaptureImplicit"),
    (907, c"hipErrorCapturedEvent"),
    (908, c"hipErrorStreamCaptureWrongThread"),
    (910, c"hipErrorGraphExecUpdateFailure"),
    (911, c"hipErrorInvalidChannelDescriptor"),
    (912, c"hipErrorInvalidTexture"),
    (999, c"hipErrorUnknown"),
    (1052, c"hipErrorRuntimeMemory"),
    (1053, c"hipErrorRuntimeOther"),
];

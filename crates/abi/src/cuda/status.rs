//! Result codes of CUDA's driver and runtime.
//!
//! The two have shared them since CUDA 10.1.

use std::ffi::CStr;
use std::fmt;

/// A `CUresult` or `cudaError_t`: a number, as a driver newer than this list may return others.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

struct Description {
    status: Status,
    driver: &'static CStr,
    runtime: &'static CStr,
    text: &'static CStr,
}

macro_rules! statuses {
    ($($number:literal $constant:ident $driver:literal $runtime:literal $text:literal;)*) => {
        impl Status {
            $(#[doc = concat!("`", stringify!($driver), "`")] pub const $constant: Status = Status($number);)*
        }
        const DESCRIPTIONS: &[Description] =
            &[$(Description { status: Status($number), driver: $driver, runtime: $runtime, text: $text }),*];
    };
}

statuses! {
    0 SUCCESS c"CUDA_SUCCESS" c"cudaSuccess" c"no error";
    1 INVALID_VALUE c"CUDA_ERROR_INVALID_VALUE" c"cudaErrorInvalidValue" c"invalid argument";
    2 OUT_OF_MEMORY c"CUDA_ERROR_OUT_OF_MEMORY" c"cudaErrorMemoryAllocation" c"out of memory";
    3 NOT_INITIALIZED c"CUDA_ERROR_NOT_INITIALIZED" c"cudaErrorInitializationError" c"initialization error";
    4 DEINITIALIZED c"CUDA_ERROR_DEINITIALIZED" c"cudaErrorCudartUnloading" c"driver shutting down";
    9 INVALID_CONFIGURATION c"CUDA_ERROR_UNKNOWN" c"cudaErrorInvalidConfiguration" c"invalid configuration argument";
    13 INVALID_SYMBOL c"CUDA_ERROR_UNKNOWN" c"cudaErrorInvalidSymbol" c"invalid device symbol";
    21 INVALID_MEMCPY_DIRECTION c"CUDA_ERROR_UNKNOWN" c"cudaErrorInvalidMemcpyDirection" c"invalid copy direction for memcpy";
    98 INVALID_DEVICE_FUNCTION c"CUDA_ERROR_UNKNOWN" c"cudaErrorInvalidDeviceFunction" c"invalid device function";
    100 NO_DEVICE c"CUDA_ERROR_NO_DEVICE" c"cudaErrorNoDevice" c"no CUDA-capable device is detected";
    101 INVALID_DEVICE c"CUDA_ERROR_INVALID_DEVICE" c"cudaErrorInvalidDevice" c"invalid device ordinal";
    200 INVALID_IMAGE c"CUDA_ERROR_INVALID_IMAGE" c"cudaErrorInvalidKernelImage" c"device kernel image is invalid";
    201 INVALID_CONTEXT c"CUDA_ERROR_INVALID_CONTEXT" c"cudaErrorDeviceUninitialized" c"invalid device context";
    205 MAP_FAILED c"CUDA_ERROR_MAP_FAILED" c"cudaErrorMapBufferObjectFailed" c"mapping of buffer object failed";
    209 NO_BINARY_FOR_GPU c"CUDA_ERROR_NO_BINARY_FOR_GPU" c"cudaErrorNoKernelImageForDevice" c"no kernel image is available for execution on the device";
    704 PEER_ACCESS_ALREADY_ENABLED c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" c"cudaErrorPeerAccessAlreadyEnabled" c"peer access is already enabled";
    705 PEER_ACCESS_NOT_ENABLED c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" c"cudaErrorPeerAccessNotEnabled" c"peer access has not been enabled";
    900 STREAM_CAPTURE_UNSUPPORTED c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" c"cudaErrorStreamCaptureUnsupported" c"operation not permitted when stream is capturing";
    901 STREAM_CAPTURE_INVALIDATED c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" c"cudaErrorStreamCaptureInvalidated" c"operation failed due to a previous error during capture";
    910 GRAPH_EXEC_UPDATE_FAILURE c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" c"cudaErrorGraphExecUpdateFailure" c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    215 UNSUPPORTED_LIMIT c"CUDA_ERROR_UNSUPPORTED_LIMIT" c"cudaErrorUnsupportedLimit" c"limit is not supported on this architecture";
    217 PEER_ACCESS_UNSUPPORTED c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" c"cudaErrorPeerAccessUnsupported" c"peer access is not supported between these two devices";
    301 FILE_NOT_FOUND c"CUDA_ERROR_FILE_NOT_FOUND" c"cudaErrorFileNotFound" c"file not found";
    304 OPERATING_SYSTEM c"CUDA_ERROR_OPERATING_SYSTEM" c"cudaErrorOperatingSystem" c"OS call failed or operation not supported on this OS";
    400 INVALID_HANDLE c"CUDA_ERROR_INVALID_HANDLE" c"cudaErrorInvalidResourceHandle" c"invalid resource handle";
    500 NOT_FOUND c"CUDA_ERROR_NOT_FOUND" c"cudaErrorSymbolNotFound" c"named symbol not found";
    600 NOT_READY c"CUDA_ERROR_NOT_READY" c"cudaErrorNotReady" c"device not ready";
    700 ILLEGAL_ADDRESS c"CUDA_ERROR_ILLEGAL_ADDRESS" c"cudaErrorIllegalAddress" c"an illegal memory access was encountered";
    701 LAUNCH_OUT_OF_RESOURCES c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" c"cudaErrorLaunchOutOfResources" c"too many resources requested for launch";
    702 LAUNCH_TIMEOUT c"CUDA_ERROR_LAUNCH_TIMEOUT" c"cudaErrorLaunchTimeout" c"the launch timed out and was terminated";
    709 CONTEXT_IS_DESTROYED c"CUDA_ERROR_CONTEXT_IS_DESTROYED" c"cudaErrorContextIsDestroyed" c"context is destroyed";
    710 ASSERT c"CUDA_ERROR_ASSERT" c"cudaErrorAssert" c"device-side assert triggered";
    712 HOST_MEMORY_ALREADY_REGISTERED c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" c"cudaErrorHostMemoryAlreadyRegistered" c"part or all of the requested memory range is already mapped";
    713 HOST_MEMORY_NOT_REGISTERED c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" c"cudaErrorHostMemoryNotRegistered" c"pointer does not correspond to a registered memory region";
    719 LAUNCH_FAILED c"CUDA_ERROR_LAUNCH_FAILED" c"cudaErrorLaunchFailure" c"unspecified launch failure";
    720 COOPERATIVE_LAUNCH_TOO_LARGE c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" c"cudaErrorCooperativeLaunchTooLarge" c"too many blocks in cooperative launch";
    801 NOT_SUPPORTED c"CUDA_ERROR_NOT_SUPPORTED" c"cudaErrorNotSupported" c"operation not supported";
    912 INVALID_CLUSTER_SIZE c"CUDA_ERROR_INVALID_CLUSTER_SIZE" c"cudaErrorInvalidClusterSize" c"cluster misconfiguration";
    999 UNKNOWN c"CUDA_ERROR_UNKNOWN" c"cudaErrorUnknown" c"unknown error";
}

impl Status {
    /// Does something after a success.
    pub fn on_success(self, work: impl FnOnce()) -> Self {
        if self == Self::SUCCESS {
            work();
        }
        self
    }

    /// After a success the status of what comes next, otherwise this one.
    pub fn and_then(self, next: impl FnOnce() -> Self) -> Self {
        if self == Self::SUCCESS { next() } else { self }
    }

    fn description(self) -> Option<&'static Description> {
        DESCRIPTIONS.iter().find(|description| description.status == self)
    }

    /// The driver's name, `None` for a number it does not know.
    pub fn driver_name(self) -> Option<&'static CStr> {
        self.description().map(|description| description.driver)
    }

    /// The runtime's name.
    pub fn runtime_name(self) -> &'static CStr {
        self.description().map_or(c"unrecognized error code", |description| description.runtime)
    }

    /// A description in words.
    pub fn text(self) -> Option<&'static CStr> {
        self.description().map(|description| description.text)
    }
}

/// The number.
impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

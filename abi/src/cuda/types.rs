//! Types of the driver API, with cudarc's structures.

pub use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

pub use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUDA_MEMCPY3D_PEER, CUDA_MEMSET_NODE_PARAMS, CUarray, CUcontext, CUdevice, CUdeviceptr, CUdevprop, CUevent,
    CUfunction, CUipcMemHandle, CUkernel, CUlaunchConfig, CUlibrary, CUmemAccessDesc, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemoryPool, CUmodule, CUstream, CUuuid,
};

pub use super::status::Status;

/// Keys of the `extra` array of a launch: `CU_LAUNCH_PARAM_…`.
pub mod launch_parameter {
    pub const END: usize = 0;
    pub const BUFFER_POINTER: usize = 1;
    pub const BUFFER_SIZE: usize = 2;
    /// `HIP_LAUNCH_PARAM_END`, which CUDA has no meaning for.
    pub const HIP_END: usize = 3;
}

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, the names of stream 0 under its two meanings.
pub const STREAM_LEGACY: usize = 1;
pub const STREAM_PER_THREAD: usize = 2;

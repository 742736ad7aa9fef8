//! Types of the driver API. Structures are cudarc's.

pub use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

pub use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUDA_MEMSET_NODE_PARAMS, CUarray,
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUipcMemHandle, CUkernel, CUlaunchConfig, CUlibrary, CUmemAccessDesc,
    CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemLocation, CUmemoryPool, CUmodule, CUstream,
};

/// A `CUresult` as the number that it is: a driver newer than the enumeration may return others.
pub type Status = c_uint;

pub const SUCCESS: Status = 0;
pub const INVALID_VALUE: Status = 1;
pub const OUT_OF_MEMORY: Status = 2;
pub const NO_DEVICE: Status = 100;
pub const INVALID_CONTEXT: Status = 201;
pub const MAP_FAILED: Status = 205;
pub const INVALID_HANDLE: Status = 400;
pub const NOT_FOUND: Status = 500;

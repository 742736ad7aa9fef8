//! Types of the driver API, with cudarc's structures.

pub use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

pub use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER,
    CUDA_MEMSET_NODE_PARAMS, CUarray, CUcontext, CUdevice, CUdeviceptr, CUdevprop, CUevent, CUfunction, CUipcMemHandle, CUkernel,
    CUlaunchConfig, CUlibrary, CUmemAccessDesc, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemLocation, CUmemoryPool, CUmodule,
    CUstream, CUuuid,
};

pub use super::status::Status;

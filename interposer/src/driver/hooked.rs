//! Vendor functions that are hooked, for our own calls.
#![expect(non_snake_case, reason = "the driver's names")]

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUipcMemHandle, CUlaunchConfig, CUmemAccessDesc,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemoryPool,
};

use super::{CUcontext, CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUstream, Status, function};
use crate::table::every_hook;

macro_rules! typed_calls {
    ($( $purpose:literal $tests:tt { $( $since:literal $name:ident($($argument:ident: $type:ty),* $(,)?) => $handler:tt $(:: $rest:ident)*; )* } )*) => {
        $($( function!($name($($argument: $type),*)); )*)*
    };
}

every_hook!(typed_calls);

//! The functions of HIP that profilers of ROCm before rocprofiler-sdk call.
//!
//! `since` is the version of the symbol, as in [`runtime`](super::runtime), whose header declares those that tell a
//! name or a device; of the others there is only what the library does.

use super::types::*;
use crate::declare::declare;

declare! { ($)
    402 hipKernelNameRef(function: CUfunction) -> *const c_char;
    402 hipKernelNameRefByPtr(host: *const c_void, stream: CUstream) -> *const c_char;
    402 hipGetStreamDeviceId(stream: CUstream) -> c_int;
    402 hipApiName(number: c_uint) -> *const c_char;
    402 hipGetCmdName(number: c_uint) -> *const c_char;
    402 hipInitActivityCallback(by_id: *mut c_void, by_operation: *mut c_void, argument: *mut c_void) -> ();
    402 hipEnableActivityCallback(operation: c_uint, enable: bool) -> bool;
}

//! Names of kernels and streams, as the profilers of ROCm want them.
//!
//! Callbacks at calls are none of the device's.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::c_char;

use crate::abi::Out;
use crate::driver::function;
use crate::runtime::{calls, registration};

#[unsafe(no_mangle)]
pub extern "C" fn hipKernelNameRef(handle: usize) -> *const c_char {
    let mut name = std::ptr::null();
    let _ = function::name(Out::to(&mut name), handle);
    name
}

#[unsafe(no_mangle)]
pub extern "C" fn hipKernelNameRefByPtr(host: usize, _stream: usize) -> *const c_char {
    calls::directly(|| registration::kernel(host).map_or(std::ptr::null(), |kernel| hipKernelNameRef(kernel)))
}

/// The device of a stream, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetStreamDeviceId(stream: usize) -> i32 {
    let mut device = -1;
    let done = calls::directly(|| crate::runtime::device::of_stream(stream, Out::to(&mut device)));
    if done.is_ok() { device } else { -1 }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipApiName(_number: u32) -> *const c_char {
    c"unknown".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetCmdName(_number: u32) -> *const c_char {
    c"unknown".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn hipInitActivityCallback(_by_id: usize, _by_operation: usize, _argument: usize) {}

/// Whether it was enabled: it never is.
#[unsafe(no_mangle)]
pub extern "C" fn hipEnableActivityCallback(_operation: u32, _enable: bool) -> bool {
    false
}

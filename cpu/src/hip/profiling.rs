//! Names of kernels and streams, for ROCm's profilers.
//!
//! The device has no callbacks at calls.

#![allow(non_snake_case, reason = "the names are the ABI's")]

use std::ffi::c_char;

use mneme_abi::hip::types::*;

use crate::abi::{Out, answer, answers};
use crate::driver::function;
use crate::runtime::{calls, device, registration};

answers! {
    hipKernelNameRef: (function) => name(function);
    hipKernelNameRefByPtr: (host, _) => calls::directly(|| registration::kernel(host).map_or(std::ptr::null(), name));
    hipGetStreamDeviceId: (stream) => device_of(stream);
    hipApiName: (_) => c"unknown".as_ptr();
    hipGetCmdName: (_) => c"unknown".as_ptr();
    hipInitActivityCallback: (_, _, _) => ();
    // The result says whether the callback was enabled: it never is.
    hipEnableActivityCallback: (_, _) => false;
}

fn name(handle: usize) -> *const c_char {
    let mut name = std::ptr::null();
    let _ = function::name(Out::to(&mut name), handle);
    name
}

/// The device of a stream, or -1.
fn device_of(stream: usize) -> i32 {
    let mut device = -1;
    let done = calls::directly(|| device::of_stream(stream, Out::to(&mut device)));
    if done.is_ok() { device } else { -1 }
}

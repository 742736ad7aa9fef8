//! Launches that cannot be recorded, whatever the kernel does.
//!
//! The recorder passes them on, counts them, and reports their kernels as not recorded.

use std::ffi::{c_uint, c_void};

use crate::driver::{CUfunction, Status, gate};
use crate::recorder;

fn refuse(call: &dyn Fn() -> Status, function: CUfunction, reason: &str) -> Status {
    recorder::refuse(function, reason);
    gate::passing(call)
}

/// Refuses a launch by a function from before CUDA 4.0.
pub fn launch(call: &dyn Fn() -> Status, function: CUfunction, with: &str) -> Status {
    refuse(call, function, &format!("it is launched with {with}, from before CUDA 4.0; use cuLaunchKernel"))
}

/// Refuses `hipLaunchByPtr`.
pub fn launch_by_address(call: &dyn Fn() -> Status, function: *const c_void) -> Status {
    let reason = "it is launched with hipLaunchByPtr, from before HIP-Clang; use hipLaunchKernel";
    refuse(call, function.cast_mut().cast(), reason)
}

/// Handles a launch on several devices at once. Its kernels wait for each other, so a replay on one device cannot
/// repeat it.
///
/// # Safety
/// The arguments are those of `cuLaunchCooperativeKernelMultiDevice` or a similar function of HIP.
pub unsafe fn launch_on_devices(call: &dyn Fn() -> Status, list: *mut c_void, count: c_uint) -> Status {
    /// The size of a `CUDA_LAUNCH_PARAMS`, `hipFunctionLaunchParams` or `hipLaunchParams`, bytes. Each begins with the
    /// function.
    const ELEMENT: usize = 56;
    if !list.is_null() {
        for index in 0..count as usize {
            // SAFETY: the application's array has this many elements.
            let function = unsafe { list.cast::<u8>().add(index * ELEMENT).cast::<CUfunction>().read_unaligned() };
            recorder::refuse(function, "it is a cooperative launch on several devices");
        }
    }
    gate::passing(call)
}

//! Handlers of the functions that change settings of a function.

use std::ffi::{c_int, c_uint};

use mneme_model::summary::RecorderMode;

use super::function_settings::Setting;
use super::handles;
use crate::driver::{CUdevice, CUfunction, CUkernel, Status};
use crate::process::settings::settings;

fn noted(call: &dyn Fn() -> Status, function: CUfunction, setting: Setting, value: c_int) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && settings().mode == RecorderMode::Apply
        && let Some(function) = handles::function(function)
    {
        function.kernel.progress.function_settings.set(setting, value);
    }
    status
}

/// # Safety
/// The arguments are those of `cuFuncSetAttribute`.
pub unsafe fn set(call: &dyn Fn() -> Status, function: CUfunction, attribute: c_uint, value: c_int) -> Status {
    noted(call, function, Setting::Attribute(attribute), value)
}

/// # Safety
/// The arguments are those of `cuKernelSetAttribute`.
pub unsafe fn set_of_kernel(
    call: &dyn Fn() -> Status,
    attribute: c_uint,
    value: c_int,
    kernel: CUkernel,
    _device: CUdevice,
) -> Status {
    noted(call, kernel as CUfunction, Setting::Attribute(attribute), value)
}

/// # Safety
/// The arguments are those of `cuFuncSetCacheConfig`.
pub unsafe fn set_cache(call: &dyn Fn() -> Status, function: CUfunction, value: c_uint) -> Status {
    noted(call, function, Setting::Cache, value as c_int)
}

/// # Safety
/// The arguments are those of `cuKernelSetCacheConfig`.
pub unsafe fn set_cache_of_kernel(
    call: &dyn Fn() -> Status,
    kernel: CUkernel,
    value: c_uint,
    _device: CUdevice,
) -> Status {
    noted(call, kernel as CUfunction, Setting::Cache, value as c_int)
}

/// # Safety
/// The arguments are those of `cuFuncSetSharedMemConfig`.
pub unsafe fn set_banks(call: &dyn Fn() -> Status, function: CUfunction, value: c_uint) -> Status {
    noted(call, function, Setting::Banks, value as c_int)
}

//! Handlers of the functions that change settings of a function.

use std::ffi::c_int;

use mneme_model::summary::RecorderMode;

use super::function_settings::Setting;
use super::handles;
use crate::driver::{CUfunction, Status};
use crate::process::settings::settings;

/// Notes a setting of a function, or of a kernel.
pub fn note(call: &dyn Fn() -> Status, function: CUfunction, setting: Setting, value: c_int) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && settings().mode == RecorderMode::Apply
        && let Some(function) = handles::function(function)
    {
        function.kernel.progress.function_settings.set(setting, value);
    }
    status
}

//! The interface to the differences between GPU vendors.

use mneme_abi::cuda::types::*;
use mneme_model::device::DeviceLimits;
use mneme_model::launch::Launch;

use crate::error::DeviceError;

/// The arguments of a library's launch function.
pub struct LaunchCall<'a> {
    pub function: CUfunction,
    pub launch: &'a Launch,
    pub stream: CUstream,
    /// Pointers to the arguments.
    pub parameters: *mut *mut c_void,
}

/// The vendor-specific part of a device. Shared functions have the names of the CUDA driver's symbols.
pub trait VendorDriver {
    /// Translates the name of a driver function to the vendor's name.
    fn spelling(&self) -> fn(&'static str) -> &'static str;

    /// Name and description of an error.
    fn error(&self, status: Status) -> (String, String);

    /// Makes a device current on this thread.
    fn select(&self, device: CUdevice) -> Result<(), DeviceError>;

    /// Waits for all work of the current device.
    fn synchronize(&self) -> Result<(), DeviceError>;

    /// Version of the library's interface, e.g. "13.0".
    fn version(&self) -> Result<String, DeviceError>;

    /// Architecture of a device's machine code, and its limits.
    fn properties(&self, device: CUdevice) -> Result<(String, DeviceLimits), DeviceError>;

    /// Sets a limit of the current device; the numbers are the driver's.
    fn set_limit(&self, limit: c_uint, value: usize) -> Result<(), DeviceError>;

    fn allow_dynamic_shared(&self, function: CUfunction, bytes: u32) -> Result<(), DeviceError>;

    fn allow_large_clusters(&self, function: CUfunction) -> Result<(), DeviceError>;

    /// Launches with options that `cuLaunchKernel` does not support.
    ///
    /// # Safety
    /// The handles belong to the library; arguments, one for each parameter, live until the call returns.
    unsafe fn launch_with_attributes(&self, call: &LaunchCall<'_>) -> Result<(), DeviceError>;

    fn spelled(&self, function: &'static str) -> &'static str {
        self.spelling()(function)
    }

    /// Turns a returned status into a result.
    fn check(&self, function: &'static str, status: Status) -> Result<(), DeviceError> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        let (name, text) = self.error(status);
        let function = self.spelled(function);
        // Users know functions without the suffix for the symbol's variant.
        let function = function.strip_suffix("_v2").unwrap_or(function);
        Err(DeviceError::Call { function, code: status.0, name, text })
    }
}

//! Devices that kernels are replayed on.
//!
//! [`Device`] is what a replay needs of one, and no more: memory at addresses of our choice, modules, launches timed by
//! the device. [`gpu`] implements it over a vendor's library: [`cuda`] is any with the CUDA driver's ABI, NVIDIA's or
//! the CPU device's, [`hip`] is AMD's, so that all are driven by the same code.

// They panic if nobody reads; `mneme_system::console` has functions that do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod counters;
pub mod cuda;
pub mod cupti;
mod cupti_failure;
mod device;
mod error;
pub mod gpu;
pub mod hip;
mod interface;
mod library;
pub mod rocprofiler;

pub use cupti_failure::CuptiFailure;
pub use device::{ContextLimit, Device, DeviceFunction, DeviceModule, FunctionUse, RESERVATION};
pub use error::{DeviceError, ProfilerError};
pub use interface::Interface;

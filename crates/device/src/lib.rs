//! Devices for replaying kernels.
//!
//! [`Device`] is the minimal interface for a replay: memory at chosen addresses, modules, and launches timed by the
//! device. [`gpu`] implements it over a vendor's library: [`cuda`] supports every library with the CUDA driver's ABI
//! (NVIDIA's or the CPU device's), and [`hip`] supports AMD's. The same code drives all of them.

// These macros panic if the reader is gone; use `mneme_system::console` instead.
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

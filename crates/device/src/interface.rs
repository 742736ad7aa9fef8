//! The interfaces to devices.

use std::path::Path;

use super::gpu::Gpu;
use super::{cuda, hip};
use crate::error::DeviceError;

/// The interface of a vendor's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The CUDA driver's, for NVIDIA GPUs and the CPU device.
    Cuda,
    /// HIP's, for AMD GPUs.
    Hip,
}

impl Interface {
    /// Loads the library and opens device `ordinal`, and makes it current on this thread.
    pub fn open(self, library: &Path, ordinal: i32) -> Result<Gpu, DeviceError> {
        match self {
            Self::Cuda => cuda::open(library, ordinal),
            Self::Hip => hip::open(library, ordinal),
        }
    }
}

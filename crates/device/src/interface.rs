//! The interfaces that devices are reached through.

use std::path::Path;

use super::gpu::Gpu;
use super::{cuda, hip};
use crate::error::DeviceError;

/// What a library of a vendor's has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The CUDA driver's: NVIDIA's GPUs and the CPU device.
    Cuda,
    /// HIP's: AMD's GPUs.
    Hip,
}

impl Interface {
    /// Loads the library and opens device `ordinal`, which is then current on this thread.
    pub fn open(self, library: &Path, ordinal: i32) -> Result<Gpu, DeviceError> {
        match self {
            Self::Cuda => cuda::open(library, ordinal),
            Self::Hip => hip::open(library, ordinal),
        }
    }
}

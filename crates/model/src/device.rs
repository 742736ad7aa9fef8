//! Descriptions of devices: their identities, and their limits according to the driver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::amd_hardware::{self, Hardware};
use crate::architecture::Processor;
use crate::launch::Dim3;

/// The name of the CPU device, for any emulated architecture.
pub const CPU_DEVICE: &str = "Mneme CPU device";
/// The maximum number of CPU devices (`MNEME_CPU_DEVICES`).
pub const MOST_CPU_DEVICES: usize = 16;

/// A hint for a user who names a kind of device by a word other than `cpu`, `cuda` or `hip`; empty for unknown words.
pub fn kind_hint(word: &str) -> &'static str {
    match word.to_ascii_lowercase().as_str() {
        "gpu" | "gpus" | "nvidia" => "; did you mean cuda?",
        "amd" | "rocm" | "radeon" => "; did you mean hip?",
        _ => "",
    }
}

/// The identity of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The driver's name for it, e.g. "NVIDIA H200".
    pub name: String,
    /// Architecture of its machine code, e.g. "sm_90".
    pub arch: String,
    /// Version of the driver's API, e.g. "13.0".
    pub driver: String,
    /// Number of the device in the driver's order.
    pub ordinal: i32,
    /// Total memory, bytes; 0 if the driver does not report it.
    #[serde(default)]
    pub memory: u64,
    #[serde(default)]
    pub limits: DeviceLimits,
    /// The timer for kernels, unless it fails.
    #[serde(default)]
    pub timer: Timer,
}

/// A timer for kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timer {
    /// Events of the device before and after the launch.
    #[default]
    Events,
    /// The device's own times, from CUPTI.
    Cupti,
    /// The device's own times, from rocprofiler-sdk.
    Rocprofiler,
}

impl Timer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Cupti => "cupti",
            Self::Rocprofiler => "rocprofiler",
        }
    }
}

/// What a device can take. `None` is what its driver does not say. The names are also those of expressions in space
/// files (`device.max_threads`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceLimits {
    /// Threads of a block.
    pub max_threads: u32,
    /// Threads of a block along each axis.
    pub max_block: Dim3,
    /// Blocks of a grid along each axis.
    pub max_grid: Dim3,
    pub warp_size: u32,
    /// Shared memory of a block, bytes.
    pub shared_mem: u32,
    /// The same of a kernel that asks for more, which the replayer does for it.
    pub shared_mem_optin: Option<u32>,
    pub shared_mem_per_multiprocessor: Option<u32>,
    /// 32-bit registers of a block.
    pub registers: Option<u32>,
    pub registers_per_multiprocessor: Option<u32>,
    pub multiprocessors: Option<u32>,
    pub threads_per_multiprocessor: Option<u32>,
    pub blocks_per_multiprocessor: Option<u32>,
    /// Level 2 cache, bytes.
    pub l2_cache: Option<u32>,
}

impl DeviceLimits {
    /// The same for code of an AMD processor: threads of its warps (waves), and shared memory (LDS) of its blocks. An
    /// AMD GPU says so itself; the CPU device, which runs code for any GPU, does not.
    pub fn for_code_of(self, processor: &Processor) -> Self {
        let warp_size = processor.wavefront_size();
        Self {
            warp_size,
            shared_mem: amd_hardware::shared_of_block(processor),
            shared_mem_optin: None,
            shared_mem_per_multiprocessor: Some(Hardware::of(processor, warp_size, false).shared),
            ..self
        }
    }
}

/// The guaranteed limits of CUDA devices (CUDA Programming Guide, "Technical Specifications per Compute Capability").
impl Default for DeviceLimits {
    fn default() -> Self {
        Self {
            max_threads: 1024,
            max_block: Dim3::new(1024, 1024, 64),
            max_grid: Dim3::new(i32::MAX as u32, 65_535, 65_535),
            warp_size: 32,
            shared_mem: 48 << 10,
            shared_mem_optin: None,
            shared_mem_per_multiprocessor: None,
            registers: None,
            registers_per_multiprocessor: None,
            multiprocessors: None,
            threads_per_multiprocessor: Some(1024),
            blocks_per_multiprocessor: None,
            l2_cache: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_an_amd_processor_has_its_waves_and_shared_memory() {
        for (name, warp_size, shared_mem) in
            [("gfx90a", 64, 64 << 10), ("gfx950", 64, 160 << 10), ("gfx1030", 32, 64 << 10)]
        {
            let processor = Processor::parse(name).unwrap();
            let limits = DeviceLimits { shared_mem_optin: Some(227 << 10), ..DeviceLimits::default() };
            let limits = limits.for_code_of(&processor);
            assert_eq!((limits.warp_size, limits.shared_mem, limits.shared_mem_optin), (warp_size, shared_mem, None));
            assert_eq!(limits.max_threads, 1024);
        }
    }
}

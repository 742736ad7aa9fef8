//! Launch bounds: the block size and occupancy that the back end may assume.
//!
//! On AMD GPUs, the bound of a block is the attribute `amdgpu-flat-work-group-size`, and that of registers
//! `amdgpu-num-vgpr`. Blocks per multiprocessor become `amdgpu-waves-per-eu`, the number of waves on each SIMD unit if
//! the waves of all these blocks are resident. (The second argument of HIP's `__launch_bounds__` is this number of
//! waves itself.)

use std::ffi::CString;

use inkwell::module::Module;
use mneme_model::amd_hardware::Hardware;
use mneme_model::architecture::{Processor, Vendor};
use mneme_model::configuration::Configuration;

use crate::architecture::CodegenArchitecture;
use crate::ir::{Value, annotations, attributes};

const BLOCK: &str = "amdgpu-flat-work-group-size";
const WAVES: &str = "amdgpu-waves-per-eu";
const BLOCKS: &str = "amdgpu-max-num-workgroups";
const REGISTERS: &str = "amdgpu-num-vgpr";

/// Replaces the source's launch bounds by the configuration's. Without `max_threads`, the bound is the block itself.
pub fn set(module: &Module<'_>, kernel: Value<'_>, configuration: &Configuration, architecture: &CodegenArchitecture) {
    let threads =
        configuration.max_threads.filter(|threads| *threads > 0).unwrap_or(configuration.block.count() as u32);
    let blocks = configuration.min_blocks_per_sm;
    if architecture.vendor == Vendor::Amd {
        for name in [BLOCK, WAVES, BLOCKS, REGISTERS] {
            attributes::remove_string(kernel, name);
        }
        set_string(kernel, BLOCK, &format!("1,{threads}"));
        if blocks > 0 {
            set_string(kernel, WAVES, &waves(architecture, threads, blocks).to_string());
        }
        return;
    }
    annotations::set_bounds(module, kernel, threads, blocks);
}

/// Waves per SIMD unit if a multiprocessor holds `blocks` blocks of `threads`.
fn waves(architecture: &CodegenArchitecture, threads: u32, blocks: u32) -> u32 {
    let size = architecture.wavefront_size();
    let processor = Processor::parse(&architecture.cpu).unwrap_or_default();
    let hardware = Hardware::of(&processor, size, architecture.has_feature("cumode"));
    let waves = threads.max(1).div_ceil(size).saturating_mul(blocks).div_ceil(hardware.simds);
    waves.clamp(1, hardware.most_waves)
}

/// Replaces the source's limit on registers.
pub fn limit_registers(module: &Module<'_>, kernel: Value<'_>, registers: u32, architecture: &CodegenArchitecture) {
    if architecture.vendor == Vendor::Amd {
        // If accumulation registers are in the same file, LLVM applies the limit to each kind.
        let limit = if architecture.has_feature("gfx90a-insts") { registers / 2 } else { registers };
        set_string(kernel, REGISTERS, &limit.max(1).to_string());
        return;
    }
    annotations::set_registers(module, kernel, registers);
}

fn set_string(kernel: Value<'_>, name: &str, value: &str) {
    let text = |text: &str| CString::new(text).expect("the text has no NUL");
    attributes::set_string(kernel, &text(name), &text(value));
}

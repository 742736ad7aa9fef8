//! Differences between the GPUs of two vendors where code is instrumented.
//!
//! Most of it is in the functions that are linked in ([`functions`]): who runs, and what an address is in.

use inkwell::module::Module;
use mneme_model::architecture::Vendor;

use crate::ir::{self, edit};

/// Address space of shared memory, the same for all GPUs.
pub const SHARED: u32 = 3;
/// Address spaces that recorded memory is not in, the same for all GPUs: constants, and a thread's own variables.
pub const CONSTANT: u32 = 4;
pub const LOCAL: u32 = 5;
/// Address spaces of AMD's GPUs whose pointers cannot be made generic ones: global data share, and buffers.
const APART: [u32; 4] = [2, 7, 8, 9];

/// Whose GPUs a module is for.
pub fn vendor(module: &Module<'_>) -> Vendor {
    Vendor::of_triple(&module.get_triple().as_str().to_string_lossy()).unwrap_or(Vendor::Nvidia)
}

/// The functions that the others are written with.
pub fn functions(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => include_str!("nvptx.ll"),
        Vendor::Amd => include_str!("amdgcn.ll"),
    }
}

/// Passes that make functions see their callers' variables. AMD's front end reaches local variables through generic
/// pointers, and no pass that keeps every access looks through those.
pub fn inline_passes(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "always-inline",
        Vendor::Amd => "always-inline,function(infer-address-spaces)",
    }
}

/// Whether a generic pointer can stand for those of an address space.
pub fn has_generic(vendor: Vendor, space: u32) -> bool {
    vendor == Vendor::Nvidia || !APART.contains(&space)
}

/// What has lanes wait for one another where the operation itself may be gone from the code after the pipeline: AMD's
/// exchanges of values count as arithmetic.
pub fn meeting(vendor: Vendor) -> Option<&'static str> {
    match vendor {
        Vendor::Nvidia => None,
        Vendor::Amd => Some("llvm.amdgcn.wave.barrier"),
    }
}

/// Takes back what passes have found that functions of AMD's GPUs do not ask for (`amdgpu-no-dispatch-ptr`): what is
/// linked in asks.
pub fn forget_unused_inputs(module: &Module<'_>) {
    for function in ir::functions(module) {
        edit::remove_string_attributes(function, |name| name.starts_with("amdgpu-no-"));
    }
}

/// The instructions of inline assembly for AMD's GPUs, without comments.
pub fn instructions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split(';').next().unwrap_or_default().trim()).filter(|code| !code.is_empty())
}

//! Differences between the two vendors' GPUs for instrumentation.
//!
//! Most differences are in the linked functions ([`functions`]): the identity of the running thread, and the memory
//! that an address is in.

use inkwell::module::Module;
use mneme_model::architecture::Vendor;

use crate::ir::{self, edit};

/// Address space of shared memory, the same for all GPUs.
pub const SHARED: u32 = 3;
/// Address spaces that never hold recorded memory, the same for all GPUs: constants, and a thread's own variables.
pub const CONSTANT: u32 = 4;
pub const LOCAL: u32 = 5;
/// Address spaces of AMD GPUs whose pointers have no generic form: global data share, and buffers.
const APART: [u32; 4] = [2, 7, 8, 9];

/// The vendor of the GPUs that a module is for.
pub fn vendor(module: &Module<'_>) -> Vendor {
    Vendor::of_triple(&module.get_triple().as_str().to_string_lossy()).unwrap_or(Vendor::Nvidia)
}

/// The functions on which the others are built.
pub fn functions(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => include_str!("nvptx.ll"),
        Vendor::Amd => include_str!("amdgcn.ll"),
    }
}

/// Passes that let functions see their callers' variables. AMD's front end reaches local variables through generic
/// pointers, and none of the passes that keep every access looks through those.
pub fn inline_passes(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "always-inline",
        Vendor::Amd => "always-inline,function(infer-address-spaces)",
    }
}

/// Whether pointers of an address space have a generic form.
pub fn has_generic(vendor: Vendor, space: u32) -> bool {
    vendor == Vendor::Nvidia || !APART.contains(&space)
}

/// A call that makes lanes wait for one another, needed if the pipeline may remove the operation itself: AMD's
/// exchanges of values count as arithmetic.
pub fn meeting(vendor: Vendor) -> Option<&'static str> {
    match vendor {
        Vendor::Nvidia => None,
        Vendor::Amd => Some("llvm.amdgcn.wave.barrier"),
    }
}

/// Removes attributes that say which launch information the kernel does not need (`amdgpu-no-dispatch-ptr`): the linked
/// functions need it.
pub fn forget_unused_inputs(module: &Module<'_>) {
    for function in ir::functions(module) {
        edit::remove_string_attributes(function, |name| name.starts_with("amdgpu-no-"));
    }
}

/// The instructions of inline assembly for AMD's GPUs, without comments.
pub fn instructions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split(';').next().unwrap_or_default().trim()).filter(|code| !code.is_empty())
}

//! The number of lanes in a warp or wave.

use inkwell::module::Module;
use mneme_model::architecture::Processor;

use super::is_amdgcn;
use crate::architecture;
use crate::ir::{Value, annotations, edit};

const CUDA: u32 = 32;
/// The wave size of AMD code for an unknown processor.
const AMD: u32 = 64;

/// Lanes per warp or wave of `kernel`.
pub fn size(module: &Module<'_>, kernel: Value<'_>) -> u32 {
    if !is_amdgcn(module) {
        return CUDA;
    }
    let features = edit::string_attribute(kernel, "target-features").unwrap_or_default();
    let processor = edit::string_attribute(kernel, "target-cpu").and_then(|processor| Processor::parse(&processor));
    processor.map_or(AMD, |processor| architecture::wavefront_size(&features, &processor))
}

/// Lanes per wave of a module, and whether all its kernels agree.
pub fn of_module(module: &Module<'_>) -> (u32, bool) {
    let sizes: Vec<u32> = annotations::kernels(module).into_iter().map(|kernel| size(module, kernel)).collect();
    let first = sizes.first().copied().unwrap_or(CUDA);
    (first, sizes.iter().all(|size| *size == first))
}

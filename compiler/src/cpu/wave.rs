//! How many lanes execute together.

use inkwell::module::Module;

use crate::ir::{Value, annotations, edit};

use super::is_amdgcn;

const CUDA: u32 = 32;

/// Lanes of a warp or wave of `kernel`. Of AMD's processors those up to gfx9 have 64, later ones 32 unless the kernel
/// says otherwise.
pub fn size(module: &Module<'_>, kernel: Value<'_>) -> u32 {
    if !is_amdgcn(module) {
        return CUDA;
    }
    let features = edit::string_attribute(kernel, "target-features").unwrap_or_default();
    let has = |feature: &str| features.split(',').any(|known| known.trim() == feature);
    if has("+wavefrontsize64") {
        return 64;
    }
    if has("+wavefrontsize32") {
        return 32;
    }
    let processor = edit::string_attribute(kernel, "target-cpu").unwrap_or_default();
    // Two digits or letters follow the generation; gfx9-generic has none.
    let number = processor.strip_prefix("gfx").unwrap_or_default();
    let number = number.split_once('-').map_or_else(|| &number[..number.len().saturating_sub(2)], |(first, _)| first);
    if number.parse::<u32>().is_ok_and(|generation| generation >= 10) { 32 } else { 64 }
}

/// Lanes of the waves of a module, and whether all its kernels have as many.
pub fn of_module(module: &Module<'_>) -> (u32, bool) {
    let sizes: Vec<u32> = annotations::kernels(module).into_iter().map(|kernel| size(module, kernel)).collect();
    let first = sizes.first().copied().unwrap_or(CUDA);
    (first, sizes.iter().all(|size| *size == first))
}

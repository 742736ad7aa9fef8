//! Lifting of a whole program's PTX, of which some kernels may be beyond it.

use std::collections::HashSet;

use mneme_core::image::cpu_object::Refusal;
use mneme_core::image::ptx::PtxModule;
use mneme_ptx::{LiftError, Lifted, lift};

/// The passes that make values of registers and of buffers for parameters. They come before all others.
pub const CLEANUP: &str = "function(sroa)";

/// A module, and the kernels that it is without.
///
/// # Errors
/// What cannot be lifted stands outside of kernels and of what single kernels call.
pub fn lift_program(text: &str) -> Result<(Lifted, Vec<Refusal>), LiftError> {
    let text = text.trim_end_matches('\0');
    let error = match lift(text) {
        Ok(lifted) => return Ok((lifted, Vec::new())),
        Err(error) => error,
    };
    let module = PtxModule::parse(text);
    let own_error = |kernel| lift(&module.closure(kernel)?.text).err();
    let refused: Vec<(&str, LiftError)> =
        module.kernels().filter_map(|kernel| Some((kernel, own_error(kernel)?))).collect();
    if refused.is_empty() {
        return Err(error);
    }
    let rest = lift(&module.without(&refused.iter().map(|(kernel, _)| *kernel).collect::<HashSet<_>>()))?;
    let row = |(kernel, error): (&str, LiftError)| Refusal {
        kernel: kernel.to_owned(),
        reason: format!("PTX that cannot be lifted to LLVM IR ({})", error.what),
    };
    Ok((rest, refused.into_iter().map(row).collect()))
}

#[cfg(test)]
mod tests;

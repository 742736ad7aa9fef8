//! Lifts a whole program's PTX, skipping unsupported kernels.

use std::collections::HashSet;

use super::error::LiftError;
use super::lifted::Lifted;
use super::module::lift;
use super::outline::PtxModule;

/// A lifted module, and the skipped kernels with reasons.
///
/// # Errors
/// An unsupported construct is outside kernels and functions of single kernels.
pub fn lift_program(text: &str) -> Result<(Lifted, Vec<(String, LiftError)>), LiftError> {
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
    Ok((rest, refused.into_iter().map(|(kernel, error)| (kernel.to_owned(), error)).collect()))
}

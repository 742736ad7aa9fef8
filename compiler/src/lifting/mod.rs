//! Lifted PTX: the passes that come before all others, and the kernels that a program lacks.

use mneme_core::image::cpu_object::Refusal;
use mneme_ptx::LiftError;

/// The passes that make values of registers and of buffers for parameters.
pub const CLEANUP: &str = "function(sroa)";

/// The kernels that cannot be lifted, for the table of a code object.
pub fn refusals(refused: Vec<(String, LiftError)>) -> Vec<Refusal> {
    let row = |(kernel, error): (String, LiftError)| {
        let reason = format!("PTX that cannot be lifted to LLVM IR ({})", error.what);
        Refusal { kernel, reason }
    };
    refused.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests;

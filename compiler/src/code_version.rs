//! The version of AMD GPUs' code objects that IR is written for.
//!
//! The front end has chosen it, as the IR reads the launch's sizes where a version has them; LLVM writes the code
//! object that the module's flag says.

use inkwell::module::Module;

use crate::error::BuildError;
use crate::ir;

/// The flag, and what it was called before LLVM 19.
const FLAGS: [&str; 2] = ["amdhsa_code_object_version", "amdgpu_code_object_version"];
/// What the flag of version 1 would be.
const UNIT: u64 = 100;
/// What LLVM takes where a module says nothing.
const DEFAULT: u64 = 5;

/// The version: 4, 5 or 6.
pub fn of(module: &Module<'_>) -> u64 {
    FLAGS.iter().find_map(|name| ir::flag(module, name)).map_or(DEFAULT, |flag| flag / UNIT)
}

/// Refuses versions that LLVM does not write.
pub fn check(module: &Module<'_>) -> Result<(), BuildError> {
    match of(module) {
        4..=6 => Ok(()),
        version => Err(BuildError::Configuration {
            message: format!(
                "the IR is for code objects of version {version}, and LLVM {} writes 4, 5 and 6; compile the program \
                 with -mcode-object-version=5",
                crate::llvm_version()
            ),
        }),
    }
}

//! The version of AMD code objects for which IR is written.
//!
//! The front end chooses it, because the IR reads the launch's sizes from where the version has them. LLVM writes the
//! code object of the version in the module's flag.

use inkwell::module::Module;

use crate::error::BuildError;
use crate::ir;

/// The flag, and its name before LLVM 19.
const FLAGS: [&str; 2] = ["amdhsa_code_object_version", "amdgpu_code_object_version"];
/// The value of the flag for version 1.
const UNIT: u64 = 100;
/// LLVM's default for modules without the flag.
const DEFAULT: u64 = 5;

/// The version of a module: 4, 5 or 6 if LLVM can write it.
pub fn of(module: &Module<'_>) -> u64 {
    FLAGS.iter().find_map(|name| ir::flag(module, name)).map_or(DEFAULT, |flag| flag / UNIT)
}

/// Refuses versions that LLVM cannot write.
pub fn check(module: &Module<'_>) -> Result<(), BuildError> {
    match of(module) {
        4..=6 => Ok(()),
        version => Err(BuildError::Configuration {
            message: format!(
                "the IR is for code objects of version {version}, and LLVM {} writes 4, 5 and 6; compile the program \
                 with -mcode-object-version=5",
                crate::version::llvm_version()
            ),
        }),
    }
}

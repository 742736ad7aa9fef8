//! Code objects that contain their own IR, for tests without an AMD GPU.
//!
//! The stand-in for libamdhip64 (`tests/stand-in`) runs that IR on the CPU device. Bundles and wheels are built without
//! this module.

use inkwell::AddressSpace;
use inkwell::module::{Linkage, Module};

/// If set, code objects get the IR.
const VARIABLE: &str = "MNEME_STAND_IN";
/// The section that the stand-in reads.
const SECTION: &str = ".mneme.standin";
const NAME: &str = "mneme.standin";
/// The address space of constant memory.
const CONSTANT: u16 = 4;

/// Puts a module's bitcode into the module, if the variable is set.
pub fn embed(module: &Module<'_>) {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let context = module.get_context();
    let bitcode = module.write_bitcode_to_memory();
    let bytes = context.const_string(bitcode.as_slice(), false);
    let global = module.add_global(bytes.get_type(), Some(AddressSpace::from(CONSTANT)), NAME);
    global.set_initializer(&bytes);
    global.set_section(Some(SECTION));
    global.set_constant(true);
    global.set_linkage(Linkage::Internal);
}

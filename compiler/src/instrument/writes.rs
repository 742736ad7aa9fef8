//! Instrumentation that finds the instruction which wrote an address.
//!
//! After every write that covers the watched address, a call notes it.

use std::collections::BTreeSet;

use inkwell::module::Module;
use mneme_builds::instrument::Instrumented;
use mneme_model::observation::Access;

use super::accesses::{self, Length, MemoryEffect};
use super::emitter::{self, ModuleEmitter, PREFIX};
use super::sites::{Sites, readable};
use super::target::{CONSTANT, LOCAL, SHARED};
use crate::ir::{self, Value};

/// Instruments writes to global memory. Call it after the pipeline, to watch the code that the pipeline produced.
pub fn watch(module: &Module<'_>) -> Instrumented {
    let emitter = ModuleEmitter::new(module);
    let mut sites = Sites::default();
    let mut unwatched = BTreeSet::new();
    for function in ir::functions(module)
        .into_iter()
        .filter(|function| !function.is_declaration() && !function.name().starts_with(PREFIX))
    {
        for instruction in function.instructions() {
            match accesses::of(&emitter, instruction) {
                MemoryEffect::Unknown(what) => {
                    unwatched.insert(format!("{what} in {}", readable(&function.name())));
                }
                MemoryEffect::Accesses(found) => {
                    let writing =
                        |access: &&accesses::MemoryAccess<'_>| access.writes() && can_be_global(access.pointer());
                    for access in found.iter().filter(writing) {
                        // An ordered load counts as both kinds of access, but does not write.
                        if access.access == Access::Atomic && instruction.opcode() == llvm_sys::LLVMOpcode::LLVMLoad {
                            continue;
                        }
                        let site = sites.add(access, None);
                        emitter.after(instruction);
                        let bytes = match access.length {
                            Length::Fixed(bytes) => emitter.number(64, bytes as i64),
                            Length::Operand(_, length) => emitter.widened(length),
                        };
                        let place = emitter.generic(access.pointer());
                        emitter.call(
                            "__mneme_written",
                            emitter.void(),
                            &[place, bytes, emitter.number(32, i64::from(site))],
                        );
                    }
                }
            }
        }
    }
    Instrumented { sites: sites.0, unwatched: unwatched.into_iter().collect(), ..Instrumented::default() }
}

fn can_be_global(pointer: Value<'_>) -> bool {
    !matches!(emitter::space(pointer), SHARED | CONSTANT | LOCAL)
}

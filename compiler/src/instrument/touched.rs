//! Instrumentation that reports which memory a kernel touches.
//!
//! Before every access, a call marks the bytes that it reads or writes, if they are recorded memory. It works on the
//! front end's code: a pipeline may remove accesses, and the memory that it adds is not recorded.

use std::collections::BTreeSet;

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::LLVMLoad;
use mneme_builds::instrument::Instrumented;
use mneme_model::observation::Access;

use super::accesses::{self, Length, MemoryEffect};
use super::emitter::{self, ModuleEmitter, PREFIX};
use super::sites::{Sites, readable};
use super::target::{LOCAL, SHARED};
use crate::ir::{self, Value};

const READ: i64 = 1;
const WRITTEN: i64 = 2;

/// Instruments accesses to memory, except memory private to a thread or a block.
pub fn watch(module: &Module<'_>) -> Instrumented {
    let emitter = ModuleEmitter::new(module);
    let mut sites = Sites::default();
    let mut unwatched = BTreeSet::new();
    let functions = ir::functions(module).into_iter();
    for function in functions.filter(|function| !function.is_declaration() && !function.name().starts_with(PREFIX)) {
        for instruction in function.instructions() {
            let found = match accesses::of(&emitter, instruction) {
                MemoryEffect::Accesses(found) => found,
                MemoryEffect::Unknown(what) => {
                    unwatched.insert(format!("{what} in {}", readable(&function.name())));
                    continue;
                }
            };
            for access in found.iter().filter(|access| can_be_recorded(access.pointer())) {
                sites.add(access, None);
                let marks = match access.access {
                    Access::Read => READ,
                    Access::Write => WRITTEN,
                    Access::Atomic if instruction.opcode() == LLVMLoad => READ,
                    Access::Atomic => READ | WRITTEN,
                };
                emitter.before(instruction);
                let bytes = match access.length {
                    Length::Fixed(bytes) => emitter.number(64, bytes as i64),
                    Length::Operand(_, length) => emitter.widened(length),
                };
                let place = emitter.generic(access.pointer());
                emitter.call("__mneme_touched", emitter.void(), &[place, bytes, emitter.number(32, marks)]);
            }
        }
    }
    Instrumented { sites: sites.0, unwatched: unwatched.into_iter().collect(), ..Instrumented::default() }
}

/// Whether a pointer may point to recorded memory. A module's constants are recorded variables.
fn can_be_recorded(pointer: Value<'_>) -> bool {
    !matches!(emitter::space(pointer), SHARED | LOCAL)
}

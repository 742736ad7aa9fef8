//! Tracks writes to shared memory by instructions that cannot be instrumented.
//!
//! An asynchronous copy, a bulk copy or a store in inline assembly writes shared memory. `__mneme_unseen` takes the
//! address of each such instruction, and from then on the whole variable there counts as written. If the address cannot
//! be found, all shared memory does.

use llvm_sys::LLVMTypeKind::*;
use llvm_sys::core::LLVMGetIntTypeWidth;
use mneme_model::architecture::Vendor;
use mneme_ptx::{Space, Store};

use super::emitter::{self, ModuleEmitter};
use super::target::{self, SHARED};
use crate::ir::{Value, attributes, edit};

/// The target of a write.
#[derive(Clone, Copy)]
enum Destination<'m> {
    /// This generic pointer, if it is in shared memory.
    At(Value<'m>),
    /// Anywhere in shared memory.
    Anywhere,
}

/// Parts of the names of intrinsics that only read memory.
const INTRINSIC_READS: [&str; 7] = [".load", "ldmatrix", ".tex.", ".tld4", ".suld.", ".read.", "expandload"];

/// Inserts the calls before an instruction that cannot be instrumented.
pub fn note<'m>(emitter: &ModuleEmitter<'m, '_>, vendor: Vendor, instruction: Value<'m>) {
    emitter.before(instruction);
    for destination in destinations(emitter, vendor, instruction) {
        match destination {
            Destination::At(pointer) => emitter.call("__mneme_unseen", emitter.void(), &[pointer]),
            Destination::Anywhere => emitter.call("__mneme_unseen_anywhere", emitter.void(), &[]),
        };
    }
}

fn destinations<'m>(emitter: &ModuleEmitter<'m, '_>, vendor: Vendor, instruction: Value<'m>) -> Vec<Destination<'m>> {
    let Some(callee) = instruction.is_call().then(|| edit::called_value(instruction)).flatten() else {
        return Vec::new();
    };
    let arguments = instruction.call_arguments();
    match (edit::inline_asm(callee), vendor) {
        (Some((text, constraints)), Vendor::Nvidia) => {
            let Some(stores) = mneme_ptx::stores(&text) else { return vec![Destination::Anywhere] };
            let may_be_shared = |store: &Store| matches!(store.space, Space::Generic | Space::Shared);
            let destination = |store: Store| {
                let argument = store.operand.and_then(|place| argument(&constraints, place));
                let pointer = argument.and_then(|index| arguments.get(index)).copied();
                pointer
                    .and_then(|pointer| generic(emitter, pointer, store.space))
                    .map_or(Destination::Anywhere, Destination::At)
            };
            stores.into_iter().filter(may_be_shared).map(destination).collect()
        }
        (Some((text, _)), Vendor::Amd) => {
            let writes = target::instructions(&text).any(|code| {
                (code.starts_with("ds_") && !code.starts_with("ds_read") && !code.starts_with("ds_load"))
                    || code.starts_with("flat_")
                    || code.split_whitespace().any(|word| word == "lds")
            });
            if writes { vec![Destination::Anywhere] } else { Vec::new() }
        }
        (None, _) => {
            let name = callee.name();
            if INTRINSIC_READS.iter().any(|part| name.contains(part)) {
                return Vec::new();
            }
            (0..)
                .zip(arguments)
                .filter(|(index, argument)| {
                    emitter::kind(argument.ty()) == LLVMPointerTypeKind
                        && [0, SHARED].contains(&emitter::space(*argument))
                        && attributes::value(callee, *index, "readonly").is_none()
                })
                .map(|(_, argument)| Destination::At(emitter.generic(argument)))
                .collect()
        }
    }
}

/// Casts a pointer or number of inline assembly to a generic pointer.
fn generic<'m>(emitter: &ModuleEmitter<'m, '_>, address: Value<'m>, space: Space) -> Option<Value<'m>> {
    let in_shared = space == Space::Shared;
    match emitter::kind(address.ty()) {
        LLVMPointerTypeKind if emitter::space(address) != 0 || !in_shared => Some(emitter.generic(address)),
        LLVMPointerTypeKind => {
            // The assembly uses the pointer's number as an address in shared memory.
            Some(emitter.generic(emitter.pointed(emitter.address(address), SHARED)))
        }
        // SAFETY: an integer type.
        LLVMIntegerTypeKind if in_shared || unsafe { LLVMGetIntTypeWidth(address.ty()) } == 64 => {
            Some(emitter.generic(emitter.pointed(address, if in_shared { SHARED } else { 0 })))
        }
        _ => None,
    }
}

/// The argument of the call that is operand number `place` of inline assembly; operands begin with the results.
fn argument(constraints: &str, place: usize) -> Option<usize> {
    let results = constraints.split(',').filter(|constraint| constraint.starts_with('=')).count();
    place.checked_sub(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_numbered_from_the_results_on() {
        assert_eq!(argument("=r,=&r,r,l,~{memory}", 3), Some(1));
        assert_eq!(argument("=r,r", 0), None);
    }
}

//! Shared memory that an instruction may write that is not watched.
//!
//! An asynchronous copy, a bulk copy or a store in inline assembly gives shared memory a value, and nothing more is
//! known of it. `__mneme_unseen` takes the address of each such instruction, and from then on the whole variable there
//! counts as written. If the address cannot be found, all shared memory does.

use llvm_sys::LLVMTypeKind::*;
use llvm_sys::core::LLVMGetIntTypeWidth;
use mneme_model::architecture::Vendor;

use super::emitter::{self, ModuleEmitter};
use super::target::{self, SHARED};
use crate::ir::{Value, attributes, edit};

/// Where an instruction may write.
#[derive(Clone, Copy)]
enum Destination<'m> {
    /// At this generic pointer, if that is in shared memory.
    At(Value<'m>),
    /// Anywhere in shared memory.
    Anywhere,
}

/// Instructions of PTX that only read what the brackets in them name.
const PTX_READS: &[&str] = &[
    "ld.",
    "ldu.",
    "ldmatrix.",
    "prefetch",
    "tex.",
    "tld4.",
    "txq.",
    "suld.",
    "suq.",
    "wmma.load.",
    "wgmma.",
    "mbarrier.test_wait",
    "mbarrier.try_wait",
    "tcgen05.ld.",
    "tcgen05.mma",
    "discard.",
    "applypriority.",
    "fence.",
];
/// Address spaces that an instruction of PTX names; the first is that of its destination.
const PTX_SPACES: [&str; 5] = [".shared", ".global", ".local", ".const", ".param"];
/// Parts of the names of intrinsics that only read.
const INTRINSIC_READS: [&str; 7] = [".load", "ldmatrix", ".tex.", ".tld4", ".suld.", ".read.", "expandload"];

/// Inserts the calls for an instruction that is not watched, before it.
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
        (Some((text, constraints)), Vendor::Nvidia) => statements(&text)
            .filter_map(written)
            .map(|(space, place)| {
                let argument = place.and_then(|place| argument(&constraints, place));
                let pointer = argument.and_then(|index| arguments.get(index)).copied();
                pointer
                    .and_then(|pointer| generic(emitter, pointer, space))
                    .map_or(Destination::Anywhere, Destination::At)
            })
            .collect(),
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

/// A pointer or number of inline assembly as a generic pointer.
fn generic<'m>(emitter: &ModuleEmitter<'m, '_>, address: Value<'m>, space: Option<&str>) -> Option<Value<'m>> {
    let in_shared = space == Some(PTX_SPACES[0]);
    match emitter::kind(address.ty()) {
        LLVMPointerTypeKind if emitter::space(address) != 0 || !in_shared => Some(emitter.generic(address)),
        LLVMPointerTypeKind => {
            // The assembly takes the pointer's number for an address in shared memory.
            Some(emitter.generic(emitter.pointed(emitter.address(address), SHARED)))
        }
        // SAFETY: an integer type.
        LLVMIntegerTypeKind if in_shared || unsafe { LLVMGetIntTypeWidth(address.ty()) } == 64 => {
            Some(emitter.generic(emitter.pointed(address, if in_shared { SHARED } else { 0 })))
        }
        _ => None,
    }
}

/// The statements of inline PTX.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split([';', '\n']).map(str::trim).filter(|statement| !statement.is_empty())
}

/// Whether a statement of PTX may write shared memory: the space that it names, and the number of the operand that is
/// its address, if it is one.
fn written(statement: &str) -> Option<(Option<&'static str>, Option<usize>)> {
    let (head, rest) = statement.split_once('[')?;
    let mut words = head.split([' ', '\t', '{', '}']).filter(|word| !word.is_empty());
    let instruction = words.find(|word| !word.starts_with('@') && !word.ends_with(':'))?;
    if instruction.starts_with('.') || PTX_READS.iter().any(|read| instruction.starts_with(read)) {
        return None;
    }
    let named = PTX_SPACES.into_iter().filter_map(|space| Some((instruction.find(space)?, space))).min();
    let space = named.map(|(_, space)| space);
    if space.is_some_and(|space| space != PTX_SPACES[0]) {
        return None;
    }
    let digits = rest.trim_start().strip_prefix('$').map(|rest| rest.trim_start_matches('{'));
    let end = digits.map(|digits| digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len()));
    Some((space, digits.zip(end).and_then(|(digits, end)| digits[..end].parse().ok())))
}

/// The argument of the call that is operand number `place` of inline assembly: its results come first.
fn argument(constraints: &str, place: usize) -> Option<usize> {
    let results = constraints.split(',').filter(|constraint| constraint.starts_with('=')).count();
    place.checked_sub(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_in_shared_memory_are_read_from_inline_ptx() {
        let shared = Some(".shared");
        for (statement, expected) in [
            ("cp.async.ca.shared.global [$0], [$1], 16", Some((shared, Some(0)))),
            ("@$0 cp.async.cg.shared.global [$1], [$2+8], 16", Some((shared, Some(1)))),
            (
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3]",
                Some((shared, Some(0))),
            ),
            ("cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2", None),
            ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$0, {$2, $3}], [$1]", None),
            ("cp.async.wait_group 0", None),
            ("st.shared.v4.f32 [$0+16], {$1, $2, $3, $4}", Some((shared, Some(0)))),
            ("st.volatile.u32 [${2}], $1", Some((None, Some(2)))),
            ("st.global.u32 [$0], $1", None),
            ("{ .reg .pred p", None),
            ("{ st.shared.u32 [place], $1", Some((shared, None))),
            ("mbarrier.init.shared::cta.b64 [$0], $1", Some((shared, Some(0)))),
            ("mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2", None),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4]", None),
            ("atom.shared.add.u32 $0, [$1], $2", Some((shared, Some(1)))),
            ("LOOP: red.add.u32 [$12], 1", Some((None, Some(12)))),
        ] {
            assert_eq!(written(statement), expected, "{statement}");
        }
        assert_eq!(argument("=r,=&r,r,l,~{memory}", 3), Some(1));
        assert_eq!(argument("=r,r", 0), None);
    }
}

//! The kind of memory to which a pointer leads.

use std::collections::HashSet;

use llvm_sys::LLVMOpcode::{
    self, LLVMAddrSpaceCast, LLVMAlloca, LLVMBitCast, LLVMCall, LLVMGetElementPtr, LLVMLoad, LLVMPHI, LLVMSelect,
};
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::*;

use crate::instrument::faults;
use crate::ir::{Value, edit};

use super::SHARED;

/// The memory behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Shared,
    /// Global or constant memory.
    Global,
    /// The thread's own variables.
    Own,
    Unknown,
}

/// How many loads to follow back to a pointer's origin.
pub const LOADS: u32 = 3;

pub fn memory(pointer: Value<'_>, kernels: &HashSet<Value<'_>>, loads: u32) -> Memory {
    let mut seen = HashSet::new();
    let mut pending = vec![pointer];
    let mut found: Option<Memory> = None;
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        let leaf = match space(value) {
            Some(SHARED) => Memory::Shared,
            // Global, constant, parameter.
            Some(1 | 4 | 101) => Memory::Global,
            Some(5) => Memory::Own,
            _ if value.as_variable().is_some() => Memory::Global,
            _ if value.as_instruction().is_some() || edit::is_constant_expression(value) => {
                match step(value, &mut pending) {
                    Step::Followed => continue,
                    Step::Variable => Memory::Own,
                    // The host does not know addresses of shared memory.
                    Step::Loaded(from) if loads > 0 && memory(from, kernels, loads - 1) == Memory::Global => {
                        Memory::Global
                    }
                    Step::Loaded(_) | Step::Lost => Memory::Unknown,
                }
            }
            _ if parameter_of(value).is_some_and(|function| kernels.contains(&function)) => Memory::Global,
            _ => Memory::Unknown,
        };
        match found {
            Some(other) if other != leaf => return Memory::Unknown,
            _ => found = Some(leaf),
        }
    }
    found.unwrap_or(Memory::Unknown)
}

/// The origin of a pointer.
pub enum Step<'m> {
    /// The operands lead on.
    Followed,
    Variable,
    /// It was read from memory at this address.
    Loaded(Value<'m>),
    Lost,
}

/// Goes one step back.
pub fn step<'m>(value: Value<'m>, pending: &mut Vec<Value<'m>>) -> Step<'m> {
    let operands = value.operands();
    let opcode: LLVMOpcode = edit::opcode(value);
    match opcode {
        LLVMGetElementPtr | LLVMAddrSpaceCast | LLVMBitCast => pending.extend(operands.first()),
        LLVMCall => match faults::watched_address(value) {
            Some(address) => pending.push(address),
            None => return Step::Lost,
        },
        LLVMPHI => pending.extend(operands),
        LLVMSelect => pending.extend(&operands[1..]),
        LLVMAlloca => return Step::Variable,
        LLVMLoad => return operands.first().map_or(Step::Lost, |from| Step::Loaded(*from)),
        _ => return Step::Lost,
    }
    Step::Followed
}

/// The program's own pointer, without the calls and casts that instrumentation inserts.
pub fn unwatched(pointer: Value<'_>) -> Value<'_> {
    let mut value = pointer;
    while value.as_instruction().is_some() {
        let next = match edit::opcode(value) {
            LLVMAddrSpaceCast => value.operands().first().copied(),
            LLVMCall => faults::watched_address(value),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    value
}

/// The address space of a pointer type.
fn space(value: Value<'_>) -> Option<u32> {
    // SAFETY: a live value. Only pointers have an address space.
    unsafe {
        let ty = value.ty();
        (LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMPointerTypeKind)
            .then(|| LLVMGetPointerAddressSpace(ty))
            .filter(|space| *space != 0)
    }
}

/// The function of which a value is a parameter.
fn parameter_of(value: Value<'_>) -> Option<Value<'_>> {
    // SAFETY: a checked cast of a live value. A parameter has a function.
    unsafe { if LLVMIsAArgument(value.raw()).is_null() { None } else { Value::new(LLVMGetParamParent(value.raw())) } }
}

//! Finds loads from PTX that may only copy a structure, including padding and unset members.
//!
//! nvcc writes a copy as loads and stores of words, vectors or single bytes. The program does not use the loaded value.

use llvm_sys::LLVMOpcode::*;
use llvm_sys::LLVMTypeKind::LLVMVectorTypeKind;
use llvm_sys::core::*;

use super::emitter::{self, ModuleEmitter};
use super::objects::PointerOffset;
use crate::ir::Value;

/// Whether a load may be part of a copy.
pub fn is_part<'m>(emitter: &ModuleEmitter<'m, '_>, load: Value<'m>) -> bool {
    if load.opcode() != LLVMLoad || !is_only_written(load) {
        return false;
    }
    let bytes = emitter.bytes(load.ty());
    if bytes == 1 || emitter::kind(load.ty()) == LLVMVectorTypeKind {
        return true;
    }
    let place = PointerOffset::of(emitter, load.operands()[0]);
    block(load).any(|other| {
        if other == load || other.opcode() != LLVMLoad || !is_only_written(other) {
            return false;
        }
        let beside = PointerOffset::of(emitter, other.operands()[0]);
        let distance = beside.constant.abs_diff(place.constant);
        let nearest = if beside.constant < place.constant { emitter.bytes(other.ty()) } else { bytes };
        beside.root == place.root && beside.variable == place.variable && distance == nearest
    })
}

/// Whether a value is only stored to memory.
fn is_only_written(value: Value<'_>) -> bool {
    value.users().into_iter().filter_map(Value::as_instruction).all(|user| match user.opcode() {
        LLVMStore => user.operands()[0] == value,
        LLVMZExt | LLVMSExt | LLVMTrunc | LLVMBitCast | LLVMExtractElement | LLVMInsertElement => is_only_written(user),
        _ => false,
    })
}

/// The instructions of an instruction's block.
fn block<'m>(instruction: Value<'m>) -> impl Iterator<Item = Value<'m>> {
    // SAFETY: a live instruction is in a block, which ends.
    let first = Value::new(unsafe { LLVMGetFirstInstruction(LLVMGetInstructionParent(instruction.raw())) });
    // SAFETY: a live instruction, as above.
    std::iter::successors(first, |at| Value::new(unsafe { LLVMGetNextInstruction(at.raw()) }))
}

//! The memory that describes a launch to kernels for AMD GPUs: hidden arguments, and the packet.
//!
//! From code object version 5 on, hidden arguments contain the number of blocks and their sizes. Before that, code
//! reads them from the packet. LLVM's "User Guide for AMDGPU Backend" has both layouts.

use std::collections::BTreeMap;

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::{LLVMAddrSpaceCast, LLVMGetElementPtr, LLVMLoad, LLVMSelect};
use llvm_sys::LLVMTypeKind::LLVMIntegerTypeKind;
use llvm_sys::core::LLVMConstInt;
use mneme_model::launch::Dim3;

use crate::code_version;
use crate::instrument::accesses::constant;
use crate::instrument::emitter::{self, ModuleEmitter};
use crate::instrument::objects::PointerOffset;
use crate::ir::{self, Value};

const HIDDEN: &str = "llvm.amdgcn.implicitarg.ptr";
const PACKET: &str = "llvm.amdgcn.dispatch.ptr";
/// The size of static shared memory, after which dynamic shared memory begins.
const STATIC_SIZE: &str = "llvm.amdgcn.groupstaticsize";
/// The offset in bytes of the size of dynamic shared memory in the hidden arguments.
const DYNAMIC_SHARED: i64 = 120;

/// Known bytes, by offset.
type Known = BTreeMap<i64, u8>;

/// Replaces loads of sizes by constants.
pub fn fold(module: &Module<'_>, grid: Dim3, block: Dim3) {
    let (mut hidden, mut packet) = (Known::new(), Known::new());
    for (axis, (blocks, threads)) in (0..).zip(grid.as_array().into_iter().zip(block.as_array())) {
        if code_version::of(module) >= 5 {
            put(&mut hidden, 4 * axis, &blocks.to_le_bytes());
            put(&mut hidden, 12 + 2 * axis, &(threads as u16).to_le_bytes());
            // There are no partial blocks.
            put(&mut hidden, 18 + 2 * axis, &0u16.to_le_bytes());
        }
        put(&mut packet, 4 + 2 * axis, &(threads as u16).to_le_bytes());
        put(&mut packet, 12 + 4 * axis, &blocks.wrapping_mul(threads).to_le_bytes());
    }
    let emitter = ModuleEmitter::new(module);
    for (intrinsic, known) in [(HIDDEN, hidden), (PACKET, packet)] {
        for load in ir::calls(module, intrinsic).into_iter().flat_map(loads) {
            if let Some(value) = value(&emitter, load, &known) {
                load.replace_uses_with(value);
                load.erase_instruction();
            }
        }
    }
}

/// Whether code reads the size of dynamic shared memory.
pub fn asks_for_shared(module: &Module<'_>) -> bool {
    let emitter = ModuleEmitter::new(module);
    let may_read_size = |load| offsets(&emitter, load).is_none_or(|offsets| offsets.contains(&DYNAMIC_SHARED));
    !ir::calls(module, STATIC_SIZE).is_empty()
        || ir::calls(module, HIDDEN).into_iter().flat_map(loads).any(may_read_size)
}

fn put(known: &mut Known, offset: i64, bytes: &[u8]) {
    known.extend((offset..).zip(bytes.iter().copied()));
}

/// The loads through a pointer and through pointers computed from it.
fn loads(pointer: Value<'_>) -> Vec<Value<'_>> {
    let mut found = Vec::new();
    let mut pending = vec![pointer];
    while let Some(pointer) = pending.pop() {
        for user in pointer.users().into_iter().filter_map(Value::as_instruction) {
            match user.opcode() {
                LLVMLoad => found.push(user),
                LLVMGetElementPtr | LLVMAddrSpaceCast => pending.push(user),
                _ => {}
            }
        }
    }
    found
}

/// The offsets of a load: one, or those that a condition selects from.
fn offsets<'m>(emitter: &ModuleEmitter<'m, '_>, load: Value<'m>) -> Option<Vec<i64>> {
    let address = PointerOffset::of(emitter, load.operands()[0]);
    match &address.variable[..] {
        [] => Some(vec![address.constant]),
        [(index, scale)] => {
            let (_, yes, no) = choice(*index)?;
            Some([yes, no].map(|index| address.constant + index * scale).to_vec())
        }
        _ => None,
    }
}

/// The condition and the constants of a selection between two.
fn choice(value: Value<'_>) -> Option<(Value<'_>, i64, i64)> {
    let select = value.as_instruction().filter(|value| value.opcode() == LLVMSelect)?;
    let operands = select.operands();
    Some((operands[0], constant(operands[1])? as i64, constant(operands[2])? as i64))
}

/// The value of a load, if all its bytes are known.
fn value<'m>(emitter: &ModuleEmitter<'m, '_>, load: Value<'m>, known: &Known) -> Option<Value<'m>> {
    if emitter::kind(load.ty()) != LLVMIntegerTypeKind {
        return None;
    }
    let size = i64::try_from(emitter.bytes(load.ty())).ok().filter(|size| *size <= 8)?;
    let at = |offset: i64| {
        let byte = |bits: u64, place: i64| known.get(&place).map(|byte| bits << 8 | u64::from(*byte));
        let bits = (offset..offset + size).rev().try_fold(0, byte)?;
        // SAFETY: the load's type is an integer type of that many bytes.
        Value::new(unsafe { LLVMConstInt(load.ty(), bits, 0) })
    };
    let found = offsets(emitter, load)?;
    match found[..] {
        [offset] => at(offset),
        [yes, no] => {
            let address = PointerOffset::of(emitter, load.operands()[0]);
            let (condition, ..) = choice(address.variable.first()?.0)?;
            let (yes, no) = (at(yes)?, at(no)?);
            emitter.before(load);
            Some(emitter.select(condition, yes, no))
        }
        _ => None,
    }
}

//! Pointers and variables of AMD GPUs whose addresses have 32 bits there and 64 on the CPU.
//!
//! They are those in shared memory, and a thread's own variables. As integers and in memory they keep 32 bits: offsets
//! in shared memory, and the low halves of stack addresses.

use std::collections::HashMap;

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::{
    LLVMAlloca, LLVMAtomicCmpXchg, LLVMAtomicRMW, LLVMGetElementPtr, LLVMIntToPtr, LLVMLoad, LLVMPtrToInt, LLVMStore,
};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMAtomicOrdering, LLVMTypeKind};

use crate::ir::{self, Value, edit};

use super::SHARED;

/// The address space of a thread's own variables.
const PRIVATE: u32 = 5;
/// The AMD address spaces that the CPU device supports: generic, global, shared, constant, private.
const KNOWN: [u32; 5] = [0, 1, SHARED, 4, PRIVATE];

/// Functions that use such pointers in an unsupported way, with the name of the construct.
pub fn refusals<'m>(module: &'m Module<'_>) -> HashMap<Value<'m>, String> {
    let mut found = HashMap::new();
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        let parameters = function.parameters().into_iter().find_map(|parameter| refused_parameter(parameter));
        let construct = parameters.or_else(|| function.instructions().into_iter().find_map(refused));
        if let Some(construct) = construct {
            found.insert(function, construct);
        }
    }
    found
}

fn refused_parameter(parameter: Value<'_>) -> Option<String> {
    foreign(parameter.ty())
}

fn refused(instruction: Value<'_>) -> Option<String> {
    if let Some(reason) = foreign(instruction.ty()) {
        return Some(reason);
    }
    // SAFETY: live instructions, whose opcode determines what they have.
    unsafe {
        match edit::opcode(instruction) {
            LLVMAlloca if is_aggregate(LLVMGetAllocatedType(instruction.raw())) => in_memory(),
            LLVMGetElementPtr if holds_narrow(LLVMGetGEPSourceElementType(instruction.raw())) => in_memory(),
            LLVMLoad if is_unusual(instruction, instruction.ty()) => in_memory(),
            LLVMStore => {
                let value = instruction.operands().first().copied()?;
                if is_unusual(instruction, value.ty()) { in_memory() } else { None }
            }
            LLVMAtomicRMW | LLVMAtomicCmpXchg => {
                let value = instruction.operands().get(1).copied()?;
                if holds_narrow(value.ty()) { in_memory() } else { None }
            }
            LLVMPtrToInt | LLVMIntToPtr
                if is_vector(instruction.ty())
                    && (holds_narrow(instruction.ty())
                        || instruction.operands().first().is_some_and(|operand| holds_narrow(operand.ty()))) =>
            {
                Some("vectors of 32-bit pointers as numbers".into())
            }
            _ => instruction.operands().into_iter().find_map(absolute),
        }
    }
}

fn in_memory() -> Option<String> {
    Some("an aggregate of 32-bit pointers in memory".into())
}

/// The refusal of a pointer in an address space that the device lacks.
fn foreign(ty: LLVMTypeRef) -> Option<String> {
    // SAFETY: the type of a live value.
    unsafe {
        let is_pointer = LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMPointerTypeKind;
        let space = if is_pointer { LLVMGetPointerAddressSpace(ty) } else { 0 };
        (!KNOWN.contains(&space)).then(|| format!("a pointer of address space {space}"))
    }
}

/// The refusal of a constant expression that converts a number to a 32-bit pointer.
fn absolute(operand: Value<'_>) -> Option<String> {
    (edit::is_constant_expression(operand) && edit::opcode(operand) == LLVMIntToPtr && narrow(operand.ty()).is_some())
        .then(|| "an absolute address of shared or private memory".into())
}

/// The address space of a 32-bit pointer type.
fn narrow(ty: LLVMTypeRef) -> Option<u32> {
    // SAFETY: the type of a live value.
    unsafe {
        (LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMPointerTypeKind)
            .then(|| LLVMGetPointerAddressSpace(ty))
            .filter(|space| matches!(*space, SHARED | PRIVATE))
    }
}

fn is_vector(ty: LLVMTypeRef) -> bool {
    // SAFETY: the type of a live value.
    unsafe { LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMVectorTypeKind }
}

/// Whether a type is or contains a 32-bit pointer.
fn holds_narrow(ty: LLVMTypeRef) -> bool {
    // SAFETY: a live type; indices are below its element count.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => narrow(ty).is_some(),
            LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => holds_narrow(LLVMGetElementType(ty)),
            LLVMTypeKind::LLVMStructTypeKind => {
                (0..LLVMCountStructElementTypes(ty)).any(|index| holds_narrow(LLVMStructGetTypeAtIndex(ty, index)))
            }
            _ => false,
        }
    }
}

/// Whether a type contains a 32-bit pointer but is not one.
fn is_aggregate(ty: LLVMTypeRef) -> bool {
    narrow(ty).is_none() && holds_narrow(ty)
}

/// Whether an access moves 32-bit pointers other than one at a time and without atomicity.
///
/// # Safety
/// `access` must be a load or a store of a value of type `ty`.
unsafe fn is_unusual(access: Value<'_>, ty: LLVMTypeRef) -> bool {
    // SAFETY: by the contract above.
    let ordering = unsafe { LLVMGetOrdering(access.raw()) };
    is_aggregate(ty) || (narrow(ty).is_some() && ordering != LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic)
}

/// Keeps integers and memory as on the GPU, and puts variables on the CPU's stack. The module must be for the CPU
/// already, and contain nothing that [`refusals`] reports.
pub fn lower(module: &Module<'_>) {
    // SAFETY: the builder lives for this function only.
    let builder = unsafe { LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr())) };
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        let variables = function.instructions().into_iter().filter(|it| edit::opcode(*it) == LLVMAlloca);
        for instruction in variables {
            // SAFETY: the builder is moved to a live alloca, which is replaced. The lifetime calls are replaced with
            // it.
            unsafe {
                LLVMPositionBuilderBefore(builder, instruction.raw());
                if let Some(new) = variable(module, builder, instruction) {
                    LLVMReplaceAllUsesWith(instruction.raw(), new);
                    LLVMInstructionEraseFromParent(instruction.raw());
                }
            }
        }
        for instruction in function.instructions() {
            // SAFETY: the builder is moved to a live instruction, and a replacement has the instruction's type.
            unsafe {
                LLVMPositionBuilderBefore(builder, instruction.raw());
                let operands = instruction.operands();
                let new = match edit::opcode(instruction) {
                    LLVMPtrToInt => narrow(operands[0].ty()).map(|space| {
                        let number = number(module, builder, space, operands[0].raw());
                        LLVMBuildIntCast2(builder, number, instruction.ty(), 0, c"".as_ptr())
                    }),
                    LLVMIntToPtr => narrow(instruction.ty()).map(|space| {
                        let word = LLVMInt32TypeInContext(LLVMGetModuleContext(module.as_mut_ptr()));
                        let number = LLVMBuildIntCast2(builder, operands[0].raw(), word, 0, c"".as_ptr());
                        pointer(module, builder, space, number)
                    }),
                    LLVMLoad => narrow(instruction.ty()).map(|space| {
                        let word = LLVMInt32TypeInContext(LLVMGetModuleContext(module.as_mut_ptr()));
                        let load = LLVMBuildLoad2(builder, word, operands[0].raw(), c"".as_ptr());
                        LLVMSetAlignment(load, LLVMGetAlignment(instruction.raw()).min(4));
                        LLVMSetVolatile(load, LLVMGetVolatile(instruction.raw()));
                        pointer(module, builder, space, load)
                    }),
                    LLVMStore => {
                        if let Some(space) = narrow(operands[0].ty()) {
                            let number = number(module, builder, space, operands[0].raw());
                            let store = LLVMBuildStore(builder, number, operands[1].raw());
                            LLVMSetAlignment(store, LLVMGetAlignment(instruction.raw()).min(4));
                            LLVMSetVolatile(store, LLVMGetVolatile(instruction.raw()));
                            LLVMInstructionEraseFromParent(instruction.raw());
                        }
                        None
                    }
                    _ => None,
                };
                if let Some(new) = new {
                    LLVMReplaceAllUsesWith(instruction.raw(), new);
                    LLVMInstructionEraseFromParent(instruction.raw());
                }
            }
        }
    }
    // SAFETY: created above, not used again.
    unsafe { LLVMDisposeBuilder(builder) };
}

/// A variable on the CPU's stack that replaces one in private memory, and its lifetime.
///
/// # Safety
/// The builder must be positioned before `instruction`, an alloca.
unsafe fn variable(module: &Module<'_>, builder: LLVMBuilderRef, instruction: Value<'_>) -> Option<LLVMValueRef> {
    // SAFETY: by the contract above. The variable is the last operand of the calls that are replaced.
    unsafe {
        narrow(instruction.ty())?;
        let ty = LLVMGetAllocatedType(instruction.raw());
        let count = LLVMGetOperand(instruction.raw(), 0);
        let alloca = LLVMBuildArrayAlloca(builder, ty, count, c"".as_ptr());
        LLVMSetAlignment(alloca, LLVMGetAlignment(instruction.raw()));
        let cast = LLVMBuildAddrSpaceCast(builder, alloca, instruction.ty(), c"".as_ptr());
        for user in instruction.users().into_iter().filter(|user| user.is_call()) {
            let name = user.callee().map(Value::name).unwrap_or_default();
            let Some(lifetime) = name.strip_suffix(".p5").filter(|name| name.starts_with("llvm.lifetime.")) else {
                continue;
            };
            let context = LLVMGetModuleContext(module.as_mut_ptr());
            // Up to LLVM 21, the size comes before the variable.
            let mut arguments: Vec<LLVMValueRef> =
                (1..LLVMGetNumArgOperands(user.raw())).map(|index| LLVMGetOperand(user.raw(), index - 1)).collect();
            arguments.push(alloca);
            let mut parameters: Vec<LLVMTypeRef> = arguments.iter().map(|argument| LLVMTypeOf(*argument)).collect();
            let count = arguments.len() as u32;
            let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), parameters.as_mut_ptr(), count, 0);
            let function = edit::declare(module, &format!("{lifetime}.p0"), ty);
            let before = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderBefore(before, user.raw());
            LLVMBuildCall2(before, ty, function.raw(), arguments.as_mut_ptr(), count, c"".as_ptr());
            LLVMDisposeBuilder(before);
            LLVMInstructionEraseFromParent(user.raw());
        }
        Some(cast)
    }
}

fn kind(space: u32) -> &'static str {
    if space == SHARED { "shared" } else { "private" }
}

/// The integer for a pointer on the GPU.
///
/// # Safety
/// The builder must be positioned, and the pointer must be in that space.
unsafe fn number(module: &Module<'_>, builder: LLVMBuilderRef, space: u32, pointer: LLVMValueRef) -> LLVMValueRef {
    // SAFETY: by the contract above.
    unsafe {
        let word = LLVMInt32TypeInContext(LLVMGetModuleContext(module.as_mut_ptr()));
        call(module, builder, &format!("__mneme_cpu.{}_to_int", kind(space)), pointer, word)
    }
}

/// The pointer for an integer on the GPU.
///
/// # Safety
/// The builder must be positioned, and the number must have 32 bits.
unsafe fn pointer(module: &Module<'_>, builder: LLVMBuilderRef, space: u32, number: LLVMValueRef) -> LLVMValueRef {
    // SAFETY: by the contract above.
    unsafe {
        let ty = LLVMPointerTypeInContext(LLVMGetModuleContext(module.as_mut_ptr()), space);
        call(module, builder, &format!("__mneme_cpu.int_to_{}", kind(space)), number, ty)
    }
}

/// # Safety
/// The builder must be positioned, and the value and the type must belong to the module's context.
unsafe fn call(
    module: &Module<'_>,
    builder: LLVMBuilderRef,
    name: &str,
    value: LLVMValueRef,
    result: LLVMTypeRef,
) -> LLVMValueRef {
    // SAFETY: by the contract above.
    unsafe {
        let mut parameter = [LLVMTypeOf(value)];
        let ty = LLVMFunctionType(result, parameter.as_mut_ptr(), 1, 0);
        let function = edit::declare(module, name, ty);
        let mut argument = [value];
        LLVMBuildCall2(builder, ty, function.raw(), argument.as_mut_ptr(), 1, c"".as_ptr())
    }
}

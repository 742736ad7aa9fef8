//! Removes assumptions about the kernel that the IR allows passes to make.

use std::ffi::c_int;

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::*;
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMModuleRef;
use mneme_builds::probe::Assumption;

use crate::ir::{self, Value, attributes};

unsafe extern "C" {
    fn mneme_llvm_forget_flags(module: LLVMModuleRef, fast_math: c_int);
}

/// Removes an assumption everywhere in the module.
pub fn forget(module: &Module<'_>, assumption: Assumption) {
    if let Assumption::Arithmetic | Assumption::FastMath = assumption {
        // SAFETY: the module lives for the length of the call.
        unsafe { mneme_llvm_forget_flags(module.as_mut_ptr(), c_int::from(assumption == Assumption::FastMath)) };
    }
    for function in ir::functions(module) {
        if assumption == Assumption::NoAlias {
            for index in 0..function.parameters().len() as u32 {
                attributes::remove(function, index, "noalias");
            }
        }
        if function.is_declaration() {
            continue;
        }
        for instruction in function.instructions() {
            match assumption {
                Assumption::Types => remove_metadata(instruction, &["tbaa", "tbaa.struct"]),
                Assumption::NoAlias => {
                    remove_metadata(instruction, &["noalias", "alias.scope"]);
                    if instruction.is_call() {
                        forget_of_call(instruction);
                    }
                }
                Assumption::Arithmetic => {
                    bound_shift(instruction);
                    if instruction.is_call() && instruction.callee().is_some_and(|it| it.name() == "llvm.assume") {
                        instruction.erase_instruction();
                    }
                }
                Assumption::FastMath => {}
            }
        }
    }
}

fn remove_metadata(instruction: Value<'_>, kinds: &[&str]) {
    for kind in kinds {
        // SAFETY: a live instruction. LLVM reads `len` bytes of the name, and null removes the metadata.
        unsafe {
            let context = LLVMGetTypeContext(LLVMTypeOf(instruction.raw()));
            let number = LLVMGetMDKindIDInContext(context, kind.as_ptr().cast(), kind.len() as u32);
            LLVMSetMetadata(instruction.raw(), number, std::ptr::null_mut());
        }
    }
}

fn forget_of_call(call: Value<'_>) {
    let kind = attributes::kind("noalias");
    for index in 1..=call.call_arguments().len() as u32 {
        // SAFETY: a live call, and the index of an argument.
        unsafe { LLVMRemoveCallSiteEnumAttribute(call.raw(), index, kind) };
    }
}

/// Gives a shift a defined result for every distance.
fn bound_shift(instruction: Value<'_>) {
    if !matches!(instruction.opcode(), LLVMShl | LLVMLShr | LLVMAShr) {
        return;
    }
    let distance = instruction.operands()[1];
    // SAFETY: a live shift of a live number, and the builder is disposed of.
    unsafe {
        let ty = distance.ty();
        if distance.is_constant() || LLVMGetTypeKind(ty) != LLVMTypeKind::LLVMIntegerTypeKind {
            return;
        }
        let bits = u64::from(LLVMGetIntTypeWidth(ty));
        if bits.is_power_of_two() {
            let builder = LLVMCreateBuilderInContext(LLVMGetTypeContext(ty));
            LLVMPositionBuilderBefore(builder, instruction.raw());
            let masked = LLVMBuildAnd(builder, distance.raw(), LLVMConstInt(ty, bits - 1, 0), c"".as_ptr());
            LLVMSetOperand(instruction.raw(), 1, masked);
            LLVMDisposeBuilder(builder);
        }
    }
}

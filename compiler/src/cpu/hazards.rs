//! Guards around instructions that a GPU executes for every input and CPUs do not.
//!
//! A division by zero traps on x86, a conversion out of range gives another number. With the guards, a kernel that has
//! such an input in an unused lane computes what it does on the GPU.

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::{self, LLVMFPToSI, LLVMFPToUI, LLVMSDiv, LLVMSRem, LLVMUDiv, LLVMURem};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMIntPredicate, LLVMTypeKind};

use crate::ir::{self, Value, edit};

use super::is_amdgcn;

pub fn guard(module: &Module<'_>) {
    // SAFETY: the builder lives for this function only.
    let builder = unsafe { LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr())) };
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        for instruction in function.instructions() {
            let opcode = edit::opcode(instruction);
            // SAFETY: the builder is moved to a live instruction whose opcode says its operands and types.
            unsafe {
                match opcode {
                    LLVMSDiv | LLVMUDiv | LLVMSRem | LLVMURem => {
                        LLVMPositionBuilderBefore(builder, instruction.raw());
                        division(builder, instruction, opcode);
                    }
                    LLVMFPToSI | LLVMFPToUI => {
                        LLVMPositionBuilderBefore(builder, instruction.raw());
                        conversion(module, builder, instruction, opcode);
                    }
                    _ => {}
                }
            }
        }
    }
    // SAFETY: made above, not used again.
    unsafe { LLVMDisposeBuilder(builder) };
}

/// Divides by one instead of zero, and instead of -1 where that overflows; a quotient by zero is all ones, a remainder
/// the dividend.
///
/// # Safety
/// The builder is positioned before `instruction`, a division of that opcode.
unsafe fn division(builder: LLVMBuilderRef, instruction: Value<'_>, opcode: LLVMOpcode) {
    // SAFETY: by the contract above; all types are the instruction's own.
    unsafe {
        let name = c"".as_ptr();
        let ty = instruction.ty();
        let (dividend, divisor) = (LLVMGetOperand(instruction.raw(), 0), LLVMGetOperand(instruction.raw(), 1));
        if !LLVMIsAConstantInt(divisor).is_null() && LLVMIsNull(divisor) == 0 {
            return;
        }
        let (zero, ones) = (LLVMConstNull(ty), LLVMConstAllOnes(ty));
        let one = LLVMBuildNeg(builder, ones, name);
        let by_zero = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntEQ, divisor, zero, name);
        let mut bad = by_zero;
        if matches!(opcode, LLVMSDiv | LLVMSRem) {
            // The least number alone is negative and its own negation.
            let negated = LLVMBuildNeg(builder, dividend, name);
            let own = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntEQ, negated, dividend, name);
            let negative = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntSLT, dividend, zero, name);
            let minus_one = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntEQ, divisor, ones, name);
            let least = LLVMBuildAnd(builder, own, negative, name);
            let overflow = LLVMBuildAnd(builder, least, minus_one, name);
            bad = LLVMBuildOr(builder, by_zero, overflow, name);
        }
        let safe = LLVMBuildSelect(builder, bad, one, divisor, name);
        // Not exact: the guarded quotient need not be.
        let quotient = LLVMBuildBinOp(builder, opcode, dividend, safe, name);
        let undefined = if matches!(opcode, LLVMSRem | LLVMURem) { dividend } else { ones };
        let result = LLVMBuildSelect(builder, by_zero, undefined, quotient, name);
        LLVMReplaceAllUsesWith(instruction.raw(), result);
        LLVMInstructionEraseFromParent(instruction.raw());
    }
}

/// Saturates as the GPU's instruction does: at the width of its result, which may be more than the program's type has.
///
/// # Safety
/// The builder is positioned before `instruction`, a float-to-integer conversion of that opcode.
unsafe fn conversion(module: &Module<'_>, builder: LLVMBuilderRef, instruction: Value<'_>, opcode: LLVMOpcode) {
    // SAFETY: by the contract above; types of scalars and of vectors with as many elements, of at most 64 bits each.
    unsafe {
        let name = c"".as_ptr();
        let (operand, ty) = (LLVMGetOperand(instruction.raw(), 0), instruction.ty());
        let (from, to) = (element(LLVMTypeOf(operand)), element(ty));
        let is_short = match LLVMGetTypeKind(from) {
            LLVMTypeKind::LLVMHalfTypeKind | LLVMTypeKind::LLVMBFloatTypeKind => true,
            LLVMTypeKind::LLVMFloatTypeKind | LLVMTypeKind::LLVMDoubleTypeKind => false,
            _ => return,
        };
        let is_scalable = LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMScalableVectorTypeKind;
        let Some(width) = result_width(LLVMGetIntTypeWidth(to), is_short, is_amdgcn(module)).filter(|_| !is_scalable)
        else {
            return;
        };
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let like = |element: LLVMTypeRef| match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMVectorTypeKind => LLVMVectorType(element, LLVMGetVectorSize(ty)),
            _ => element,
        };
        // Every number of the short formats is one of these, too.
        let float = like(LLVMFloatTypeInContext(context));
        let operand = if is_short { LLVMBuildFPExt(builder, operand, float, name) } else { operand };
        let wide = like(LLVMIntTypeInContext(context, width));
        let intrinsic: &[u8] = if opcode == LLVMFPToSI { b"llvm.fptosi.sat" } else { b"llvm.fptoui.sat" };
        let id = LLVMLookupIntrinsicID(intrinsic.as_ptr().cast(), intrinsic.len());
        let mut types = [wide, LLVMTypeOf(operand)];
        let function = LLVMGetIntrinsicDeclaration(module.as_mut_ptr(), id, types.as_mut_ptr(), types.len());
        let function_type = LLVMIntrinsicGetType(context, id, types.as_mut_ptr(), types.len());
        let mut arguments = [operand];
        let saturated = LLVMBuildCall2(builder, function_type, function, arguments.as_mut_ptr(), 1, name);
        let result = if wide == ty { saturated } else { LLVMBuildTruncOrBitCast(builder, saturated, ty, name) };
        LLVMReplaceAllUsesWith(instruction.raw(), result);
        LLVMInstructionEraseFromParent(instruction.raw());
    }
}

/// The bits of the result of the instruction that a conversion to `width` bits becomes: `cvt.rzi` has 16, 32 and 64,
/// and `v_cvt` 32, but 16 from numbers of 16 bits.
fn result_width(width: u32, from_short: bool, is_amdgcn: bool) -> Option<u32> {
    let shortest = if is_amdgcn && !from_short { 32 } else { 16 };
    (width <= 64).then(|| width.next_power_of_two().max(shortest))
}

/// The type of a vector's elements, or the scalar type itself.
///
/// # Safety
/// A type of a live context.
unsafe fn element(ty: LLVMTypeRef) -> LLVMTypeRef {
    // SAFETY: by the contract above.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMVectorTypeKind | LLVMTypeKind::LLVMScalableVectorTypeKind => LLVMGetElementType(ty),
            _ => ty,
        }
    }
}

//! Guards around instructions that a GPU executes for every input and a CPU does not.
//!
//! On x86, a division by zero traps, and an out-of-range conversion gives another number. With the guards, a kernel
//! with such an input in an unused lane computes the same as on the GPU.

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
            // SAFETY: the builder is moved to a live instruction, whose opcode determines its operands and types.
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
    // SAFETY: created above, not used again.
    unsafe { LLVMDisposeBuilder(builder) };
}

/// Divides by one instead of zero, and instead of -1 if that overflows. A quotient by zero is all ones, a remainder by
/// zero the dividend.
///
/// # Safety
/// The builder must be positioned before `instruction`, a division of that opcode.
unsafe fn division(builder: LLVMBuilderRef, instruction: Value<'_>, opcode: LLVMOpcode) {
    // SAFETY: by the contract above. All types are the instruction's own.
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
            // Only the least number is negative and its own negation.
            let negated = LLVMBuildNeg(builder, dividend, name);
            let own = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntEQ, negated, dividend, name);
            let negative = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntSLT, dividend, zero, name);
            let minus_one = LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntEQ, divisor, ones, name);
            let least = LLVMBuildAnd(builder, own, negative, name);
            let overflow = LLVMBuildAnd(builder, least, minus_one, name);
            bad = LLVMBuildOr(builder, by_zero, overflow, name);
        }
        let safe = LLVMBuildSelect(builder, bad, one, divisor, name);
        // Not `exact`, because the guarded quotient may not be.
        let quotient = LLVMBuildBinOp(builder, opcode, dividend, safe, name);
        let undefined = if matches!(opcode, LLVMSRem | LLVMURem) { dividend } else { ones };
        let result = LLVMBuildSelect(builder, by_zero, undefined, quotient, name);
        LLVMReplaceAllUsesWith(instruction.raw(), result);
        LLVMInstructionEraseFromParent(instruction.raw());
    }
}

/// Saturates like the GPU's instruction: at the width of its result, which may exceed the program's type.
///
/// # Safety
/// The builder must be positioned before `instruction`, a float-to-integer conversion of that opcode.
unsafe fn conversion(module: &Module<'_>, builder: LLVMBuilderRef, instruction: Value<'_>, opcode: LLVMOpcode) {
    // SAFETY: by the contract above. The types are scalars, or vectors of equal length, with elements of at most 64
    // bits.
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
        // A float can represent every number of the short formats.
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

/// The bits of the result of the GPU's instruction for a conversion to `width` bits: 16, 32 or 64 for `cvt.rzi`; 32 for
/// `v_cvt`, or 16 if it converts numbers of 16 bits.
fn result_width(width: u32, from_short: bool, is_amdgcn: bool) -> Option<u32> {
    let shortest = if is_amdgcn && !from_short { 32 } else { 16 };
    (width <= 64).then(|| width.next_power_of_two().max(shortest))
}

/// The type of a vector's elements, or the scalar type itself.
///
/// # Safety
/// The type must belong to a live context.
unsafe fn element(ty: LLVMTypeRef) -> LLVMTypeRef {
    // SAFETY: by the contract above.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMVectorTypeKind | LLVMTypeKind::LLVMScalableVectorTypeKind => LLVMGetElementType(ty),
            _ => ty,
        }
    }
}

//! Folding of grid and block dimensions into the code.
//!
//! Sizes become constants, indices get ranges.

use inkwell::module::Module;
use llvm_sys::core::{
    LLVMConstInt, LLVMGetMDKindIDInContext, LLVMGetModuleContext, LLVMMDNodeInContext2, LLVMMetadataAsValue,
    LLVMSetMetadata, LLVMValueAsMetadata,
};
use mneme_core::launch::Dim3;

use crate::ir::{self, Value};

pub fn fold(module: &Module<'_>, grid: Dim3, block: Dim3) {
    for (size, index, dimensions) in [("ntid", "tid", block), ("nctaid", "ctaid", grid)] {
        for (axis, count) in ["x", "y", "z"].into_iter().zip(dimensions.as_array()) {
            for call in reads(module, size, axis) {
                replace(call, count);
            }
            for call in reads(module, index, axis) {
                if count == 1 {
                    replace(call, 0);
                } else {
                    bound(module, call, count);
                }
            }
        }
    }
}

/// Calls that read a special register.
fn reads<'m>(module: &'m Module<'_>, register: &str, axis: &str) -> Vec<Value<'m>> {
    let Some(intrinsic) = ir::function(module, &format!("llvm.nvvm.read.ptx.sreg.{register}.{axis}")) else {
        return Vec::new();
    };
    intrinsic.users().into_iter().filter(|user| user.is_call() && user.callee() == Some(intrinsic)).collect()
}

fn replace(call: Value<'_>, number: u32) {
    // SAFETY: the intrinsic returns i32, so its type takes an integer constant.
    if let Some(constant) = Value::new(unsafe { LLVMConstInt(call.ty(), u64::from(number), 0) }) {
        call.replace_uses_with(constant);
        call.erase_instruction();
    }
}

/// States that the call's result is below `limit`.
fn bound(module: &Module<'_>, call: Value<'_>, limit: u32) {
    let kind = "range";
    // SAFETY: `!range` on an integer call is a pair of constants of its type, lower bound included, upper excluded.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let mut pair = [0, u64::from(limit)].map(|number| LLVMValueAsMetadata(LLVMConstInt(call.ty(), number, 0)));
        let node = LLVMMetadataAsValue(context, LLVMMDNodeInContext2(context, pair.as_mut_ptr(), pair.len()));
        LLVMSetMetadata(call.raw(), LLVMGetMDKindIDInContext(context, kind.as_ptr().cast(), kind.len() as u32), node);
    }
}

//! Numbers of the places where lanes of a wave meet, in the order of the code.
//!
//! Lanes that wait at several places go on at the lowest number first. Machine code has another order than the program,
//! so the addresses of the calls do not tell.

use inkwell::module::Module;
use llvm_sys::core::*;

use crate::ir::{self, Value, edit};

use super::lockstep::CONVERGE;

const SITE: &str = "__mneme_cpu_wave_site";
const OPERATIONS: [&str; 3] = ["__mneme_cpu_wave_ballot", "__mneme_cpu_wave_exchange", "__mneme_cpu_wave_permute"];

/// Numbers the operations of waves and the gatherings of lanes. Everything that is always inlined has to be.
pub fn number(module: &Module<'_>) {
    let name = |call: Value<'_>| call.callee().map(Value::name).unwrap_or_default();
    // SAFETY: the types belong to the module's context; the builder lives for this function only and is moved to live
    // calls, those of `converge` have the number as their operand.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let int = LLVMInt32TypeInContext(context);
        let mut parameter = [int];
        let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), parameter.as_mut_ptr(), 1, 0);
        let builder = LLVMCreateBuilderInContext(context);
        let mut next = 0;
        for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
            for call in function.instructions().into_iter().filter(|instruction| instruction.is_call()) {
                let name = name(call);
                let mut number = [LLVMConstInt(int, next, 0)];
                if name == CONVERGE {
                    LLVMSetOperand(call.raw(), 0, number[0]);
                } else if OPERATIONS.contains(&&*name) {
                    let site = edit::declare(module, SITE, ty);
                    LLVMPositionBuilderBefore(builder, call.raw());
                    LLVMBuildCall2(builder, ty, site.raw(), number.as_mut_ptr(), 1, c"".as_ptr());
                } else {
                    continue;
                }
                next += 1;
            }
        }
        LLVMDisposeBuilder(builder);
    }
}

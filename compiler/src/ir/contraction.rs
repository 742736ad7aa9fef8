//! Which `-ffp-contract` a module was compiled with, as far as the back end goes by it.
//!
//! Under `fast`, which is CUDA's default, clang lets the back end fuse products and sums wherever they meet, and marks every operation
//! with the flag `contract`. Under `on` it forms calls of `llvm.fmuladd` within statements and marks nothing; under `off`
//! neither. So the IR says it itself, whoever has made it.

use inkwell::module::Module;
use llvm_sys::LLVMFastMathAllowContract;
use llvm_sys::LLVMOpcode;
use llvm_sys::core::{LLVMCanValueUseFastMathFlags, LLVMGetFastMathFlags};

use super::{Value, functions};

/// How the names of libdevice's functions begin: NVIDIA compiled it without flags, whatever the program is compiled with.
const LIBDEVICE: &str = "__nv_";

/// Whether it is `fast`: an operation is marked, or there is none that could be.
pub fn is_fast(module: &Module<'_>) -> bool {
    let mut unmarked = false;
    for function in functions(module).into_iter().filter(|function| !function.is_declaration() && !function.name().starts_with(LIBDEVICE)) {
        for instruction in function.instructions() {
            if marked(instruction) {
                return true;
            }
            unmarked |= is_arithmetic(instruction);
        }
    }
    !unmarked
}

fn marked(instruction: Value<'_>) -> bool {
    // SAFETY: the instruction is alive, and is one that has the flags.
    unsafe {
        LLVMCanValueUseFastMathFlags(instruction.raw()) != 0 && LLVMGetFastMathFlags(instruction.raw()) & LLVMFastMathAllowContract != 0
    }
}

/// What could be fused: sums and products, and calls that are both.
fn is_arithmetic(instruction: Value<'_>) -> bool {
    match instruction.opcode() {
        LLVMOpcode::LLVMFAdd | LLVMOpcode::LLVMFSub | LLVMOpcode::LLVMFMul => true,
        LLVMOpcode::LLVMCall => instruction.callee().is_some_and(|callee| callee.name().starts_with("llvm.fmuladd.")),
        _ => false,
    }
}

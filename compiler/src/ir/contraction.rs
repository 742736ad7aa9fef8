//! The `-ffp-contract` with which a module was compiled, as far as it affects the back end.
//!
//! With `fast`, CUDA's default, clang lets the back end fuse any product into a sum, and marks every operation with the
//! flag `contract`. With `on`, it forms calls of `llvm.fmuladd` within statements, without marks. With `off`, it does
//! neither. The IR itself therefore contains the setting, whichever compiler made it.

use inkwell::module::Module;
use llvm_sys::LLVMFastMathAllowContract;
use llvm_sys::LLVMOpcode;
use llvm_sys::core::{LLVMCanValueUseFastMathFlags, LLVMGetFastMathFlags};

use super::{Value, functions};

/// The prefix of libdevice's functions, which NVIDIA compiled without flags, however the program is compiled.
const LIBDEVICE: &str = "__nv_";

/// Whether the setting is `fast`: an operation is marked, or no operation could be.
pub fn is_fast(module: &Module<'_>) -> bool {
    let mut unmarked = false;
    for function in functions(module)
        .into_iter()
        .filter(|function| !function.is_declaration() && !function.name().starts_with(LIBDEVICE))
    {
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
    // SAFETY: the instruction is alive. It is checked to have the flags.
    unsafe {
        LLVMCanValueUseFastMathFlags(instruction.raw()) != 0
            && LLVMGetFastMathFlags(instruction.raw()) & LLVMFastMathAllowContract != 0
    }
}

/// Whether an instruction could be fused: sums and products, and calls that are both.
fn is_arithmetic(instruction: Value<'_>) -> bool {
    match instruction.opcode() {
        LLVMOpcode::LLVMFAdd | LLVMOpcode::LLVMFSub | LLVMOpcode::LLVMFMul => true,
        LLVMOpcode::LLVMCall => instruction.callee().is_some_and(|callee| callee.name().starts_with("llvm.fmuladd.")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkwell::context::Context;
    use inkwell::memory_buffer::MemoryBuffer;

    fn is_fast_of(functions: &str) -> bool {
        let text = format!("target triple = \"nvptx64-nvidia-cuda\"\n{functions}\n");
        let context = Context::create();
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "test");
        is_fast(&context.create_module_from_ir(buffer).unwrap())
    }

    fn function(name: &str, instruction: &str) -> String {
        format!(
            "declare float @llvm.fmuladd.f32(float, float, float)\ndefine float @{name}(float %a, float %b) {{\n  %r = {instruction}\n  ret float %r\n}}"
        )
    }

    #[test]
    fn marks_are_those_of_fast() {
        for (instruction, fast) in [
            ("fmul contract float %a, %b", true),
            ("fmul fast float %a, %b", true),
            ("fneg contract float %a", true),
            ("fmul float %a, %b", false),
            ("fadd nnan float %a, %b", false),
            ("fsub float %a, %b", false),
            ("call float @llvm.fmuladd.f32(float %a, float %b, float %a)", false),
            ("call contract float @llvm.fmuladd.f32(float %a, float %b, float %a)", true),
            // No operation that could be fused means the default.
            ("fdiv float %a, %b", true),
        ] {
            assert_eq!(is_fast_of(&function("k", instruction)), fast, "{instruction}");
        }
    }

    #[test]
    fn one_mark_is_enough_and_libdevice_says_nothing() {
        let unmarked = function("k", "fmul float %a, %b");
        let marked = "define float @f(float %a) {\n  %r = fadd contract float %a, %a\n  ret float %r\n}";
        assert!(is_fast_of(&format!("{unmarked}\n{marked}")));
        assert!(
            !is_fast_of(&format!("{unmarked}\n{}", marked.replace("@f", "@__nv_f"))),
            "libdevice's marks are not the program's"
        );
        assert!(is_fast_of(&function("__nv_sin", "fmul float %a, %b")), "nor is that it has none");
        assert!(is_fast_of("declare float @k(float)"));
    }
}

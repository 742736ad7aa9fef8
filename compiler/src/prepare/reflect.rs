//! Resolves `__nvvm_reflect`, with which libdevice queries the compilation, before any pipeline runs.
//!
//! LLVM resolves it in a pass that only the NVPTX `default<…>` pipelines and the NVPTX back end run, but hand-written
//! pipelines and the CPU device need the answers too.

use inkwell::module::Module;
use llvm_sys::core::LLVMConstInt;

use crate::architecture::CodegenArchitecture;
use crate::ir::{self, Value};

/// Replaces each call by its answer. Like in LLVM, unknown queries give 0. `flush` means that denormals are flushed to
/// zero, however the module was compiled.
pub fn resolve(module: &Module<'_>, architecture: &CodegenArchitecture, flush: bool) {
    let flush = if flush { 1 } else { ir::flag(module, "nvvm-reflect-ftz").unwrap_or(0) };
    for name in ["__nvvm_reflect", "__nvvm_reflect_ocl"] {
        let Some(reflect) = ir::function(module, name) else { continue };
        for call in reflect.users() {
            if !call.is_call() || call.callee() != Some(reflect) {
                continue;
            }
            let answer = match call.call_arguments().first().and_then(|argument| question(*argument)).as_deref() {
                Some("__CUDA_ARCH") => u64::from(architecture.number) * 10,
                Some("__CUDA_FTZ") => flush,
                _ => 0,
            };
            // SAFETY: the call's type is an integer type by the function's signature.
            if let Some(constant) = Value::new(unsafe { LLVMConstInt(call.ty(), answer, 0) }) {
                call.replace_uses_with(constant);
                call.erase_instruction();
            }
        }
    }
}

/// The string to which the argument points, through casts.
fn question(argument: Value<'_>) -> Option<String> {
    let mut value = argument;
    while value.as_variable().is_none() {
        value = *value.operands().first()?;
    }
    let bytes = value.initializer()?.as_bytes()?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).ok()
}

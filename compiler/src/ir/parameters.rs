//! Where a kernel's parameters lie in its parameter buffer: in order, each at its natural alignment, as NVPTX lays out
//! `.param` space and the driver's launch call expects.

use inkwell::module::Module;
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::*;
use llvm_sys::target::{LLVMABIAlignmentOfType, LLVMABISizeOfType, LLVMGetModuleDataLayout};
use mneme_core::image::ir_section::Argument;

use super::{Value, attributes};

/// The parameters of `kernel`, in order.
pub fn of(module: &Module<'_>, kernel: Value<'_>) -> Vec<Argument> {
    let mut offset = 0u64;
    kernel
        .parameters()
        .into_iter()
        .enumerate()
        .map(|(index, parameter)| {
            let (kind, size, alignment) = layout(module, kernel, index as u32, parameter);
            offset = offset.next_multiple_of(alignment.max(1));
            let argument = Argument { name: parameter.name(), kind, offset: offset as u32, size: size as u32 };
            offset += size;
            argument
        })
        .collect()
}

/// Kind, size and alignment (bytes) of one parameter.
fn layout(module: &Module<'_>, kernel: Value<'_>, index: u32, parameter: Value<'_>) -> (String, u64, u64) {
    // SAFETY: the module and the function are alive; attribute index 1 is the first parameter.
    unsafe {
        let data = LLVMGetModuleDataLayout(module.as_mut_ptr());
        if let Some(ty) = attributes::by_value(kernel, index) {
            let declared = LLVMGetEnumAttributeAtIndex(kernel.raw(), index + 1, attributes::kind("align"));
            let declared = if declared.is_null() { 0 } else { LLVMGetEnumAttributeValue(declared) };
            let natural = u64::from(LLVMABIAlignmentOfType(data, ty));
            return ("byval".into(), LLVMABISizeOfType(data, ty), if declared == 0 { natural } else { declared });
        }
        let ty = parameter.ty();
        (spelling(ty), LLVMABISizeOfType(data, ty), u64::from(LLVMABIAlignmentOfType(data, ty)))
    }
}

/// How LLVM prints a type: "ptr", "i32", "float", "[2 x i64]".
fn spelling(ty: llvm_sys::prelude::LLVMTypeRef) -> String {
    // SAFETY: the type is alive; LLVM returns a NUL-terminated string that is ours to dispose of.
    unsafe {
        if LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMPointerTypeKind {
            return "ptr".into();
        }
        let text = LLVMPrintTypeToString(ty);
        let spelling = std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        spelling
    }
}

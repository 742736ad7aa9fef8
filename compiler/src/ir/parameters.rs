//! The layout of a kernel's parameter buffer.
//!
//! Parameters lie in order, each at its natural alignment, as in NVPTX's `.param` space, in the explicit part of
//! AMDGPU's kernarg segment, and in the drivers' launch calls.

use inkwell::module::Module;
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMTypeRef;
use llvm_sys::target::{LLVMABIAlignmentOfType, LLVMABISizeOfType, LLVMGetModuleDataLayout, LLVMOffsetOfElement};
use mneme_image::ir_section::IrArgument;

use super::{Value, attributes};

/// The kind of an aggregate that is passed by value, in any form in the IR.
const BY_VALUE: &str = "byval";
/// An aggregate with more pointers is not analysed. As many fit into the parameters of most kernels (4 KiB).
const MOST_POINTERS: usize = 512;

/// The parameters of `kernel`, in order.
pub fn of(module: &Module<'_>, kernel: Value<'_>) -> Vec<IrArgument> {
    let mut offset = 0u64;
    kernel
        .parameters()
        .into_iter()
        .enumerate()
        .map(|(index, parameter)| {
            let (kind, size, alignment) = layout(module, kernel, index as u32, parameter);
            offset = offset.next_multiple_of(alignment.max(1));
            let pointers = passed_aggregate(kernel, index as u32, parameter).and_then(|ty| pointers(module, ty));
            let pointers = pointers.map(|pointers| pointers.into_iter().map(|(offset, _)| offset as u32).collect());
            let argument =
                IrArgument { name: parameter.name(), kind, offset: offset as u32, size: size as u32, pointers };
            offset += size;
            argument
        })
        .collect()
}

/// The type of the aggregate that a parameter passes, in any form.
fn passed_aggregate(kernel: Value<'_>, index: u32, parameter: Value<'_>) -> Option<LLVMTypeRef> {
    attributes::by_value(kernel, index).or_else(|| direct_aggregate(parameter))
}

/// Kind, size and alignment (bytes) of one parameter.
fn layout(module: &Module<'_>, kernel: Value<'_>, index: u32, parameter: Value<'_>) -> (String, u64, u64) {
    // SAFETY: the module is alive, and the types are those of its values.
    unsafe {
        let data = LLVMGetModuleDataLayout(module.as_mut_ptr());
        if let Some(ty) = passed_aggregate(kernel, index, parameter) {
            return (BY_VALUE.into(), LLVMABISizeOfType(data, ty), alignment(module, kernel, index, parameter));
        }
        let ty = parameter.ty();
        (spelling(ty), LLVMABISizeOfType(data, ty), u64::from(LLVMABIAlignmentOfType(data, ty)))
    }
}

/// The alignment in bytes of the value that a parameter passes, in any form.
pub fn alignment(module: &Module<'_>, kernel: Value<'_>, index: u32, parameter: Value<'_>) -> u64 {
    let declared = attributes::value(kernel, index, "align").filter(|declared| *declared > 0);
    let ty = passed_aggregate(kernel, index, parameter).unwrap_or_else(|| parameter.ty());
    // SAFETY: the module is alive, and the passed type is sized.
    declared.unwrap_or_else(|| unsafe {
        u64::from(LLVMABIAlignmentOfType(LLVMGetModuleDataLayout(module.as_mut_ptr()), ty))
    })
}

/// The type of an aggregate that is passed directly as a value, as clang does on AMD GPUs for aggregates with pointers.
pub fn direct_aggregate(parameter: Value<'_>) -> Option<LLVMTypeRef> {
    // SAFETY: the type of a live value.
    let kind = unsafe { LLVMGetTypeKind(parameter.ty()) };
    matches!(kind, LLVMTypeKind::LLVMStructTypeKind | LLVMTypeKind::LLVMArrayTypeKind).then(|| parameter.ty())
}

/// How LLVM prints a type: "ptr", "i32", "float", "[2 x i64]".
fn spelling(ty: LLVMTypeRef) -> String {
    // SAFETY: the type is alive. LLVM returns a NUL-terminated string, which this function disposes of.
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

/// The offset in bytes and the type of every pointer in a type that is passed by value; `None` if there are too many,
/// or some are in vectors.
pub fn pointers(module: &Module<'_>, ty: LLVMTypeRef) -> Option<Vec<(u64, LLVMTypeRef)>> {
    let mut found = Vec::new();
    find_pointers(module, ty, 0, &mut found).then_some(found)
}

/// Adds the pointers of a part of the type. Returns false if they cannot be determined.
fn find_pointers(module: &Module<'_>, ty: LLVMTypeRef, offset: u64, found: &mut Vec<(u64, LLVMTypeRef)>) -> bool {
    // SAFETY: the type is sized, because it is passed by value or part of such a type. Indices are below its element
    // count.
    unsafe {
        let data = LLVMGetModuleDataLayout(module.as_mut_ptr());
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => found.push((offset, ty)),
            LLVMTypeKind::LLVMStructTypeKind => {
                return (0..LLVMCountStructElementTypes(ty)).all(|index| {
                    let element = LLVMStructGetTypeAtIndex(ty, index);
                    find_pointers(module, element, offset + LLVMOffsetOfElement(data, ty, index), found)
                });
            }
            LLVMTypeKind::LLVMArrayTypeKind => {
                let element = LLVMGetElementType(ty);
                let mut first = Vec::new();
                if !find_pointers(module, element, 0, &mut first) {
                    return false;
                }
                let (count, size) = (LLVMGetArrayLength2(ty), LLVMABISizeOfType(data, element));
                if first.len() as u64 * count > MOST_POINTERS as u64 {
                    return false;
                }
                for index in (0..count).take_while(|_| !first.is_empty()) {
                    found.extend(first.iter().map(|(at, ty)| (offset + index * size + at, *ty)));
                }
            }
            LLVMTypeKind::LLVMVectorTypeKind => {
                return LLVMGetTypeKind(LLVMGetElementType(ty)) != LLVMTypeKind::LLVMPointerTypeKind;
            }
            _ => {}
        }
    }
    found.len() <= MOST_POINTERS
}

//! A small safe view of LLVM modules, beside inkwell's.
//!
//! It offers what inkwell lacks: walking operands through constants, replacing and deleting globals, editing named
//! metadata.

pub mod annotations;
pub mod attributes;
pub mod contraction;
pub mod diagnostics;
pub(crate) mod edit;
pub mod parameters;
pub mod reach;
pub mod read;
pub mod value;

pub use value::Value;

use std::ffi::{CStr, CString};

use inkwell::module::Module;
use llvm_sys::core::{
    LLVMConstIntGetZExtValue, LLVMDisposeMessage, LLVMGetFirstFunction, LLVMGetFirstGlobal, LLVMGetFirstGlobalAlias,
    LLVMGetMDNodeNumOperands, LLVMGetMDNodeOperands, LLVMGetModuleContext, LLVMGetModuleFlag, LLVMGetNamedFunction,
    LLVMGetNamedGlobal, LLVMGetNamedMetadata, LLVMGetNextFunction, LLVMGetNextGlobal, LLVMGetNextGlobalAlias,
    LLVMIsAConstantInt, LLVMMetadataAsValue, LLVMPrintModuleToString,
};
use llvm_sys::prelude::LLVMValueRef;
use mneme_image::bitcode;

use crate::error::BuildError;

/// Functions, defined and declared.
pub fn functions<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    // SAFETY: the module is alive, and the walk follows its own list.
    unsafe { walk(LLVMGetFirstFunction(module.as_mut_ptr()), |value| LLVMGetNextFunction(value)) }
}

/// Global variables, defined and declared.
pub fn variables<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    // SAFETY: as above.
    unsafe { walk(LLVMGetFirstGlobal(module.as_mut_ptr()), |value| LLVMGetNextGlobal(value)) }
}

/// Aliases.
pub fn aliases<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    // SAFETY: as above.
    unsafe { walk(LLVMGetFirstGlobalAlias(module.as_mut_ptr()), |value| LLVMGetNextGlobalAlias(value)) }
}

pub fn function<'m>(module: &'m Module<'_>, name: &str) -> Option<Value<'m>> {
    let name = CString::new(name).ok()?;
    // SAFETY: the module is alive and the name NUL-terminated.
    Value::new(unsafe { LLVMGetNamedFunction(module.as_mut_ptr(), name.as_ptr()) })
}

/// The kernel's definition.
pub fn kernel<'m>(module: &'m Module<'_>, name: &str) -> Result<Value<'m>, BuildError> {
    let kernels = annotations::kernels(module);
    kernels.iter().copied().find(|function| function.name() == name).ok_or_else(|| BuildError::NoKernel {
        code: "IR",
        kernel: name.to_owned(),
        found: kernels.iter().map(|kernel| kernel.name()).collect(),
    })
}

pub fn variable<'m>(module: &'m Module<'_>, name: &str) -> Option<Value<'m>> {
    let name = CString::new(name).ok()?;
    // SAFETY: the module is alive and the name NUL-terminated.
    Value::new(unsafe { LLVMGetNamedGlobal(module.as_mut_ptr(), name.as_ptr()) })
}

/// Whether a module has named metadata of this name.
pub fn has_named_metadata(module: &Module<'_>, name: &str) -> bool {
    // SAFETY: the module is alive; LLVM reads `len` bytes of the name.
    unsafe { !LLVMGetNamedMetadata(module.as_mut_ptr(), name.as_ptr().cast(), name.len()).is_null() }
}

/// An integer module flag.
pub fn flag(module: &Module<'_>, key: &str) -> Option<u64> {
    // SAFETY: LLVM reads `len` bytes of the key. If the flag's value is a constant, it is the node's only operand.
    unsafe {
        let metadata = LLVMGetModuleFlag(module.as_mut_ptr(), key.as_ptr().cast(), key.len());
        if metadata.is_null() {
            return None;
        }
        let value = LLVMMetadataAsValue(LLVMGetModuleContext(module.as_mut_ptr()), metadata);
        if LLVMGetMDNodeNumOperands(value) != 1 {
            return None;
        }
        let mut operand = std::ptr::null_mut();
        LLVMGetMDNodeOperands(value, &mut operand);
        Value::new(operand)
            .filter(|value| !LLVMIsAConstantInt(value.raw()).is_null())
            .map(|value| LLVMConstIntGetZExtValue(value.raw()))
    }
}

/// The module as text. Unlike inkwell's, bytes that are not UTF-8 are not undefined behaviour.
pub fn text(module: &Module<'_>) -> String {
    // SAFETY: LLVM returns a NUL-terminated string, which this function disposes of.
    let text = unsafe {
        let message = LLVMPrintModuleToString(module.as_mut_ptr());
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeMessage(message);
        text
    };
    format!("{}{}\n{text}", bitcode::TEXT_HEAD, crate::version::llvm_version())
}

fn walk<'m>(first: LLVMValueRef, next: impl Fn(LLVMValueRef) -> LLVMValueRef) -> Vec<Value<'m>> {
    std::iter::successors(Value::new(first), |value| Value::new(next(value.raw()))).collect()
}

/// The calls of an intrinsic.
pub fn calls<'m>(module: &'m Module<'_>, name: &str) -> Vec<Value<'m>> {
    let Some(intrinsic) = function(module, name) else { return Vec::new() };
    intrinsic.users().into_iter().filter(|user| user.is_call() && user.callee() == Some(intrinsic)).collect()
}

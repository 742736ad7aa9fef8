//! Attributes of functions and parameters.

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMTypeRef;

use super::Value;

/// A parameter's attribute index: LLVM counts from 1.
fn place(parameter: u32) -> u32 {
    parameter + 1
}

/// The enumeration value of an attribute's name.
pub fn kind(name: &str) -> u32 {
    // SAFETY: LLVM reads `len` bytes.
    unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
}

/// The type of the aggregate that `parameter` passes by value, behind a pointer: `byval` on NVIDIA GPUs, `byref` on AMD
/// GPUs, where code must not write to it.
pub fn by_value(function: Value<'_>, parameter: u32) -> Option<LLVMTypeRef> {
    ["byval", "byref"].into_iter().find_map(|name| {
        // SAFETY: the function is alive. LLVM returns null for a missing attribute.
        unsafe {
            let attribute = LLVMGetEnumAttributeAtIndex(function.raw(), place(parameter), kind(name));
            (!attribute.is_null()).then(|| LLVMGetTypeAttributeValue(attribute))
        }
    })
}

/// The value of a parameter's attribute, if it has the attribute. Attributes without a value have 0.
pub fn value(function: Value<'_>, parameter: u32, name: &str) -> Option<u64> {
    // SAFETY: the function is alive. LLVM returns null for a missing attribute.
    unsafe {
        let attribute = LLVMGetEnumAttributeAtIndex(function.raw(), place(parameter), kind(name));
        (!attribute.is_null()).then(|| LLVMGetEnumAttributeValue(attribute))
    }
}

/// Removes an attribute from a parameter.
pub fn remove(function: Value<'_>, parameter: u32, name: &str) {
    // SAFETY: the function is alive; the index is a parameter's.
    unsafe { LLVMRemoveEnumAttributeAtIndex(function.raw(), place(parameter), kind(name)) }
}

/// Removes a string attribute from a function.
pub fn remove_string(function: Value<'_>, name: &str) {
    // SAFETY: the function is alive; LLVM reads `len` bytes.
    unsafe {
        LLVMRemoveStringAttributeAtIndex(
            function.raw(),
            llvm_sys::LLVMAttributeFunctionIndex,
            name.as_ptr().cast(),
            name.len() as u32,
        );
    }
}

/// Adds an attribute to a parameter. Attributes without a value take 0.
pub fn add(module: &Module<'_>, function: Value<'_>, parameter: u32, name: &str, value: u64) {
    // SAFETY: function and context are alive; the index is a parameter's.
    unsafe {
        let attribute = LLVMCreateEnumAttribute(LLVMGetModuleContext(module.as_mut_ptr()), kind(name), value);
        LLVMAddAttributeAtIndex(function.raw(), place(parameter), attribute);
    }
}

/// States that an integer parameter of at most 64 bits is at least `low` and below `high`, counting upwards from `low`.
pub fn add_range(module: &Module<'_>, function: Value<'_>, parameter: u32, bits: u32, low: u64, high: u64) {
    // SAFETY: function and context are alive. With at most 64 bits, one word holds a bound.
    unsafe {
        let attribute = LLVMCreateConstantRangeAttribute(
            LLVMGetModuleContext(module.as_mut_ptr()),
            kind("range"),
            bits,
            &low,
            &high,
        );
        LLVMAddAttributeAtIndex(function.raw(), place(parameter), attribute);
    }
}

/// Sets a string attribute of a function, or replaces it.
pub fn set_string(function: Value<'_>, name: &std::ffi::CStr, value: &std::ffi::CStr) {
    // SAFETY: the function is alive, the texts are copied.
    unsafe { LLVMAddTargetDependentFunctionAttr(function.raw(), name.as_ptr(), value.as_ptr()) }
}

/// The value of a string attribute of a function.
pub fn string(function: Value<'_>, name: &str) -> Option<String> {
    // SAFETY: the function is alive. Name and value have the given lengths, and the value lives as long as the
    // function.
    unsafe {
        let attribute = LLVMGetStringAttributeAtIndex(
            function.raw(),
            llvm_sys::LLVMAttributeFunctionIndex,
            name.as_ptr().cast(),
            name.len() as u32,
        );
        if attribute.is_null() {
            return None;
        }
        let mut length = 0;
        let value = LLVMGetStringAttributeValue(attribute, &mut length);
        let bytes = std::slice::from_raw_parts(value.cast::<u8>(), length as usize);
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

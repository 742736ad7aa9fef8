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

/// The type of the aggregate that `parameter` passes by value, behind a pointer: `byval` on NVIDIA's GPUs, `byref` on
/// AMD's, where code must not write it.
pub fn by_value(function: Value<'_>, parameter: u32) -> Option<LLVMTypeRef> {
    ["byval", "byref"].into_iter().find_map(|name| {
        // SAFETY: the function is alive; LLVM returns null where there is no such attribute.
        unsafe {
            let attribute = LLVMGetEnumAttributeAtIndex(function.raw(), place(parameter), kind(name));
            (!attribute.is_null()).then(|| LLVMGetTypeAttributeValue(attribute))
        }
    })
}

/// The value of a parameter's attribute, if it has the attribute; 0 for those that have none.
pub fn value(function: Value<'_>, parameter: u32, name: &str) -> Option<u64> {
    // SAFETY: the function is alive; LLVM returns null where there is no such attribute.
    unsafe {
        let attribute = LLVMGetEnumAttributeAtIndex(function.raw(), place(parameter), kind(name));
        (!attribute.is_null()).then(|| LLVMGetEnumAttributeValue(attribute))
    }
}

/// Takes an attribute off a parameter.
pub fn remove(function: Value<'_>, parameter: u32, name: &str) {
    // SAFETY: the function is alive; the index is a parameter's.
    unsafe { LLVMRemoveEnumAttributeAtIndex(function.raw(), place(parameter), kind(name)) }
}

/// Takes a string attribute off a function.
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

/// Gives a parameter an attribute; a value of 0 for those that have none.
pub fn add(module: &Module<'_>, function: Value<'_>, parameter: u32, name: &str, value: u64) {
    // SAFETY: function and context are alive; the index is a parameter's.
    unsafe {
        let attribute = LLVMCreateEnumAttribute(LLVMGetModuleContext(module.as_mut_ptr()), kind(name), value);
        LLVMAddAttributeAtIndex(function.raw(), place(parameter), attribute);
    }
}

/// States that an integer parameter of at most 64 bits is at least `low` and below `high`, going upwards from `low`.
pub fn add_range(module: &Module<'_>, function: Value<'_>, parameter: u32, bits: u32, low: u64, high: u64) {
    // SAFETY: function and context are alive; one word holds a bound, as there are at most 64 bits.
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

/// Sets a string attribute of a function, in place of one of that name.
pub fn set_string(function: Value<'_>, name: &std::ffi::CStr, value: &std::ffi::CStr) {
    // SAFETY: the function is alive, the texts are copied.
    unsafe { LLVMAddTargetDependentFunctionAttr(function.raw(), name.as_ptr(), value.as_ptr()) }
}

/// The value of a string attribute of a function.
pub fn string(function: Value<'_>, name: &str) -> Option<String> {
    // SAFETY: the function is alive; the name and the value have the lengths given, the value as long as the function.
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

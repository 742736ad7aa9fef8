//! Edits of operands, callees, attributes and declarations that LLVM's C interface lacks.
//!
//! All functions take live values of the module being lowered ([`Value`]'s invariant).

use std::ffi::{CStr, CString};

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMOpcode, LLVMVisibility};

use crate::ir::{self, Value};

/// The attribute index of the function itself. A parameter's is its own index plus one.
pub const FUNCTION: u32 = u32::MAX;

pub fn is_constant_expression(value: Value<'_>) -> bool {
    // SAFETY: a checked cast of a live value.
    unsafe { !LLVMIsAConstantExpr(value.raw()).is_null() }
}

pub fn is_phi(value: Value<'_>) -> bool {
    // SAFETY: a checked cast of a live value.
    unsafe { !LLVMIsAPHINode(value.raw()).is_null() }
}

/// The operand that a call calls, a function or not.
pub fn called_value(call: Value<'_>) -> Option<Value<'_>> {
    // SAFETY: `call` is a live call.
    Value::new(unsafe { LLVMGetCalledValue(call.raw()) })
}

/// Assembly text and constraints of a value that is inline assembly.
pub fn inline_asm(value: Value<'_>) -> Option<(String, String)> {
    // SAFETY: the value is alive. Both texts live in the context and have the length that LLVM returns.
    unsafe {
        let asm = LLVMIsAInlineAsm(value.raw());
        if asm.is_null() {
            return None;
        }
        let text = |read: unsafe extern "C" fn(LLVMValueRef, *mut usize) -> *const std::ffi::c_char| {
            let mut length = 0;
            let start = read(asm, &mut length);
            String::from_utf8_lossy(std::slice::from_raw_parts(start.cast::<u8>(), length)).into_owned()
        };
        Some((text(LLVMGetInlineAsmAsmString), text(LLVMGetInlineAsmConstraintString)))
    }
}

/// Whether an instruction has metadata of a kind.
pub fn has_metadata(instruction: Value<'_>, kind: &str) -> bool {
    // SAFETY: a live instruction; LLVM reads `len` bytes of the name.
    unsafe {
        let context = LLVMGetTypeContext(LLVMTypeOf(instruction.raw()));
        let number = LLVMGetMDKindIDInContext(context, kind.as_ptr().cast(), kind.len() as u32);
        !LLVMGetMetadata(instruction.raw(), number).is_null()
    }
}

pub fn set_operand(user: Value<'_>, index: u32, operand: Value<'_>) {
    // SAFETY: a live user and an index below its operand count.
    unsafe { LLVMSetOperand(user.raw(), index, operand.raw()) }
}

/// Makes a call use another function of the same type. The callee is the call's last operand.
pub fn set_callee(call: Value<'_>, function: Value<'_>) {
    // SAFETY: a live call has at least one operand.
    let count = unsafe { LLVMGetNumOperands(call.raw()) } as u32;
    set_operand(call, count - 1, function);
}

pub fn called_function_type(call: Value<'_>) -> LLVMTypeRef {
    // SAFETY: `call` is a live call.
    unsafe { LLVMGetCalledFunctionType(call.raw()) }
}

pub fn opcode(value: Value<'_>) -> LLVMOpcode {
    // SAFETY: the value is a live instruction or constant expression.
    unsafe {
        if is_constant_expression(value) {
            LLVMGetConstOpcode(value.raw())
        } else {
            LLVMGetInstructionOpcode(value.raw())
        }
    }
}

/// Declares `name`, or returns the existing function.
pub fn declare<'m>(module: &'m Module<'_>, name: &str, function_type: LLVMTypeRef) -> Value<'m> {
    if let Some(function) = ir::function(module, name) {
        return function;
    }
    let name = CString::new(name.replace('\0', "")).unwrap_or_default();
    // SAFETY: the module is alive and the type belongs to its context. LLVM returns a new function, never null.
    let raw = unsafe { LLVMAddFunction(module.as_mut_ptr(), name.as_ptr(), function_type) };
    Value::new(raw).expect("LLVM returns the function that it added")
}

/// A value as LLVM writes it in assembly.
pub fn text(value: Value<'_>) -> String {
    // SAFETY: the value is alive. LLVM's string is copied and disposed of.
    unsafe {
        let raw = LLVMPrintValueToString(value.raw());
        let text = CStr::from_ptr(raw).to_string_lossy().into_owned();
        LLVMDisposeMessage(raw);
        text
    }
}

/// A type as LLVM writes it in assembly.
pub fn type_text(ty: LLVMTypeRef) -> String {
    // SAFETY: `ty` is alive. LLVM's string is copied and disposed of.
    unsafe {
        let raw = LLVMPrintTypeToString(ty);
        let text = CStr::from_ptr(raw).to_string_lossy().into_owned();
        LLVMDisposeMessage(raw);
        text
    }
}

/// Result and parameter types of a function type.
pub fn signature(function_type: LLVMTypeRef) -> (LLVMTypeRef, Vec<LLVMTypeRef>) {
    // SAFETY: a live function type. LLVM fills exactly as many as it counted.
    unsafe {
        let mut parameters = vec![std::ptr::null_mut(); LLVMCountParamTypes(function_type) as usize];
        LLVMGetParamTypes(function_type, parameters.as_mut_ptr());
        (LLVMGetReturnType(function_type), parameters)
    }
}

pub fn alignment(global: Value<'_>) -> u32 {
    // SAFETY: a live global.
    unsafe { LLVMGetAlignment(global.raw()) }
}

pub fn set_visibility(global: Value<'_>, visibility: LLVMVisibility) {
    // SAFETY: a live global.
    unsafe { LLVMSetVisibility(global.raw(), visibility) }
}

pub fn has_uses(value: Value<'_>) -> bool {
    // SAFETY: a live value.
    unsafe { !LLVMGetFirstUse(value.raw()).is_null() }
}

pub fn attributes(function: Value<'_>, index: u32) -> Vec<LLVMAttributeRef> {
    // SAFETY: a live function. LLVM fills exactly as many as it counted.
    unsafe {
        let mut attributes = vec![std::ptr::null_mut(); LLVMGetAttributeCountAtIndex(function.raw(), index) as usize];
        LLVMGetAttributesAtIndex(function.raw(), index, attributes.as_mut_ptr());
        attributes
    }
}

pub fn string_attribute(function: Value<'_>, name: &str) -> Option<String> {
    // SAFETY: a live function. The attribute's text lives in the context.
    unsafe {
        let attribute =
            LLVMGetStringAttributeAtIndex(function.raw(), FUNCTION, name.as_ptr().cast(), name.len() as u32);
        if attribute.is_null() {
            return None;
        }
        let mut length = 0;
        let text = LLVMGetStringAttributeValue(attribute, &mut length);
        Some(String::from_utf8_lossy(std::slice::from_raw_parts(text.cast::<u8>(), length as usize)).into_owned())
    }
}

/// Removes string attributes from a function, if `goes` returns true for their names.
pub fn remove_string_attributes(function: Value<'_>, goes: impl Fn(&str) -> bool) {
    for attribute in attributes(function, FUNCTION) {
        // SAFETY: a live function. The kind's text lives in the context and has the length that LLVM returns.
        unsafe {
            if LLVMIsStringAttribute(attribute) == 0 {
                continue;
            }
            let mut length = 0;
            let kind = LLVMGetStringAttributeKind(attribute, &mut length);
            let name = String::from_utf8_lossy(std::slice::from_raw_parts(kind.cast::<u8>(), length as usize));
            if goes(&name) {
                LLVMRemoveStringAttributeAtIndex(function.raw(), FUNCTION, kind, length);
            }
        }
    }
}

pub fn remove_enum_attribute(function: Value<'_>, name: &str) {
    // SAFETY: a live function.
    unsafe { LLVMRemoveEnumAttributeAtIndex(function.raw(), FUNCTION, attribute_kind(name)) }
}

pub fn add_enum_attribute(module: &Module<'_>, function: Value<'_>, name: &str) {
    // SAFETY: a live function of `module`.
    unsafe {
        let attribute = LLVMCreateEnumAttribute(LLVMGetModuleContext(module.as_mut_ptr()), attribute_kind(name), 0);
        LLVMAddAttributeAtIndex(function.raw(), FUNCTION, attribute);
    }
}

pub fn add_string_attribute(module: &Module<'_>, function: Value<'_>, name: &str, value: &str) {
    // SAFETY: a live function of `module`; LLVM copies both texts.
    unsafe {
        let attribute = LLVMCreateStringAttribute(
            LLVMGetModuleContext(module.as_mut_ptr()),
            name.as_ptr().cast(),
            name.len() as u32,
            value.as_ptr().cast(),
            value.len() as u32,
        );
        LLVMAddAttributeAtIndex(function.raw(), FUNCTION, attribute);
    }
}

/// The value of a constant integer.
pub fn constant(value: Value<'_>) -> Option<u64> {
    // SAFETY: a checked cast of a live value.
    unsafe { (!LLVMIsAConstantInt(value.raw()).is_null()).then(|| LLVMConstIntGetZExtValue(value.raw())) }
}

/// An integer flag of the module.
pub fn module_flag(module: &Module<'_>, name: &str) -> Option<u64> {
    // SAFETY: the module is alive. LLVM reads `len` bytes and returns null for a missing flag.
    unsafe {
        let flag = LLVMGetModuleFlag(module.as_mut_ptr(), name.as_ptr().cast(), name.len());
        if flag.is_null() {
            return None;
        }
        // Constant metadata counts as a node of one operand.
        let node = LLVMMetadataAsValue(LLVMGetModuleContext(module.as_mut_ptr()), flag);
        if LLVMGetMDNodeNumOperands(node) != 1 {
            return None;
        }
        let mut value = std::ptr::null_mut();
        LLVMGetMDNodeOperands(node, &mut value);
        constant(Value::new(value)?)
    }
}

/// The register that a call of `llvm.read_register` names.
pub fn named_register(call: Value<'_>) -> Option<String> {
    // SAFETY: a live call. Its operand is a metadata node with a string, or the result is null.
    unsafe {
        let node = call.call_arguments().first()?.raw();
        if LLVMIsAMDNode(node).is_null() || LLVMGetMDNodeNumOperands(node) != 1 {
            return None;
        }
        let mut name = std::ptr::null_mut();
        LLVMGetMDNodeOperands(node, &mut name);
        let mut length = 0;
        let text = LLVMGetMDString(name, &mut length);
        (!text.is_null()).then(|| {
            String::from_utf8_lossy(std::slice::from_raw_parts(text.cast::<u8>(), length as usize)).into_owned()
        })
    }
}

/// Replaces calls by calls of a new function without parameters and with the same result. Returns the function, if
/// there were calls.
pub fn replace_calls<'m>(module: &'m Module<'_>, calls: &[Value<'m>], name: &str) -> Option<Value<'m>> {
    let first = calls.first()?;
    // SAFETY: live calls, whose types belong to the module's context. A call is not used after it is erased.
    unsafe {
        let ty = LLVMFunctionType(first.ty(), std::ptr::null_mut(), 0, 0);
        let function = declare(module, name, ty);
        let builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr()));
        for call in calls {
            LLVMPositionBuilderBefore(builder, call.raw());
            let new = LLVMBuildCall2(builder, ty, function.raw(), std::ptr::null_mut(), 0, c"".as_ptr());
            LLVMReplaceAllUsesWith(call.raw(), new);
            LLVMInstructionEraseFromParent(call.raw());
        }
        LLVMDisposeBuilder(builder);
        Some(function)
    }
}

fn attribute_kind(name: &str) -> u32 {
    // SAFETY: LLVM reads `name.len()` bytes.
    unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
}

//! Lowers PTX `exit` and similar instructions, which end a thread inside the kernel.
//!
//! They become returns after the functions that contain them were inlined into the kernel.

use std::collections::HashSet;
use std::ffi::CStr;

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use llvm_sys::transforms::pass_builder::{LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPasses};

use crate::ir::{self, Value, annotations};

use super::LowerError;
use crate::ir::edit;

pub fn lower(module: &Module<'_>) -> Result<(), LowerError> {
    let kernels: HashSet<Value<'_>> = annotations::kernels(module).into_iter().collect();
    let mut enders: HashSet<Value<'_>> =
        ir::functions(module).into_iter().filter(|f| f.instructions().into_iter().any(Value::ends_thread)).collect();
    if enders.is_empty() {
        return Ok(());
    }
    loop {
        let callers: Vec<Value<'_>> = ir::functions(module)
            .into_iter()
            .filter(|function| !enders.contains(function))
            .filter(|function| {
                let mut calls = function.instructions().into_iter().filter(|instruction| instruction.is_call());
                calls.any(|call| {
                    call.callee().is_some_and(|callee| enders.contains(&callee) && !kernels.contains(&callee))
                })
            })
            .collect();
        if callers.is_empty() {
            break;
        }
        enders.extend(callers);
    }
    for function in enders.into_iter().filter(|function| !kernels.contains(function)) {
        edit::remove_enum_attribute(function, "noinline");
        edit::remove_enum_attribute(function, "optnone");
        edit::add_enum_attribute(module, function, "alwaysinline");
    }
    inline(module)?;
    for kernel in annotations::kernels(module) {
        while let Some(call) = kernel.instructions().into_iter().find(|instruction| instruction.ends_thread()) {
            return_at(module, call);
        }
    }
    Ok(())
}

/// Inlines the marked functions without a target machine, because the functions still have the GPU's processor.
fn inline(module: &Module<'_>) -> Result<(), LowerError> {
    // SAFETY: the module is alive, the options are created and disposed of here, and the message of an error is
    // consumed.
    unsafe {
        let options = LLVMCreatePassBuilderOptions();
        let error = LLVMRunPasses(module.as_mut_ptr(), c"always-inline".as_ptr(), std::ptr::null_mut(), options);
        LLVMDisposePassBuilderOptions(options);
        if error.is_null() {
            return Ok(());
        }
        let raw = LLVMGetErrorMessage(error);
        let message = CStr::from_ptr(raw).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(raw);
        Err(LowerError::Codegen(message))
    }
}

/// Turns `call`, in a function without a result, into a return.
///
/// The instructions before it move to a new block, to which the old block's predecessors now branch. The old block
/// becomes unreachable but keeps its successors, because their phis name it.
fn return_at(module: &Module<'_>, call: Value<'_>) {
    // SAFETY: a live call in a defined function. The old block has no terminator while its uses are replaced, so the
    // phis of its successors do not count as uses. It gets the same terminator back.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let old = LLVMGetInstructionParent(call.raw());
        let new = LLVMInsertBasicBlockInContext(context, old, c"exit".as_ptr());
        let builder = LLVMCreateBuilderInContext(context);
        LLVMPositionBuilderAtEnd(builder, new);
        while LLVMGetFirstInstruction(old) != call.raw() {
            let first = LLVMGetFirstInstruction(old);
            LLVMInstructionRemoveFromParent(first);
            LLVMInsertIntoBuilder(builder, first);
        }
        LLVMBuildRetVoid(builder);
        let terminator = LLVMGetBasicBlockTerminator(old);
        LLVMInstructionRemoveFromParent(terminator);
        LLVMReplaceAllUsesWith(LLVMBasicBlockAsValue(old), LLVMBasicBlockAsValue(new));
        LLVMPositionBuilderAtEnd(builder, old);
        LLVMInsertIntoBuilder(builder, terminator);
        LLVMDisposeBuilder(builder);
        LLVMInstructionEraseFromParent(call.raw());
    }
}

//! Collects what LLVM reports while it works on a context.
//!
//! Without a handler LLVM prints errors and ends the process.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};

use inkwell::context::Context;
use llvm_sys::LLVMDiagnosticSeverity;
use llvm_sys::core::{LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity};
use llvm_sys::prelude::LLVMDiagnosticInfoRef;

/// While it lives, errors of the context land in it.
pub struct Diagnostics<'c> {
    context: &'c Context,
    errors: Box<RefCell<Vec<String>>>,
}

impl<'c> Diagnostics<'c> {
    pub fn collect(context: &'c Context) -> Self {
        let errors = Box::new(RefCell::new(Vec::new()));
        // SAFETY: the box outlives the registration, which Drop undoes.
        unsafe { LLVMContextSetDiagnosticHandler(context.raw(), Some(handle), std::ptr::from_ref(&*errors).cast_mut().cast()) };
        Self { context, errors }
    }

    /// The errors so far, as one line; they are forgotten.
    pub fn take(&self) -> Option<String> {
        let errors = self.errors.take();
        (!errors.is_empty()).then(|| errors.join("; "))
    }
}

impl Drop for Diagnostics<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive; no handler is a valid state.
        unsafe { LLVMContextSetDiagnosticHandler(self.context.raw(), None, std::ptr::null_mut()) };
    }
}

extern "C" fn handle(info: LLVMDiagnosticInfoRef, errors: *mut c_void) {
    // SAFETY: `errors` is the box that `collect` registered; LLVM calls this on the thread that uses the context.
    let (errors, severity) = unsafe { (&*errors.cast::<RefCell<Vec<String>>>(), LLVMGetDiagInfoSeverity(info)) };
    if severity != LLVMDiagnosticSeverity::LLVMDSError {
        return;
    }
    // SAFETY: LLVM returns a NUL-terminated string that is ours to dispose of.
    let message = unsafe {
        let text = LLVMGetDiagInfoDescription(info);
        let message = CStr::from_ptr(text).to_string_lossy().trim().to_owned();
        LLVMDisposeMessage(text);
        message
    };
    if let Ok(mut errors) = errors.try_borrow_mut() {
        errors.push(message);
    }
}

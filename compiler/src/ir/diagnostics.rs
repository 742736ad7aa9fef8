//! Collects LLVM's messages while it works on a context.
//!
//! Without a handler, LLVM prints errors and ends the process.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};

use inkwell::context::Context;
use llvm_sys::LLVMDiagnosticSeverity;
use llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity,
};
use llvm_sys::prelude::LLVMDiagnosticInfoRef;

/// The most remarks to keep. Options of LLVM can produce as many as there are instructions.
const REMARKS: usize = 1000;

/// Receives LLVM's reports about the context as long as it lives.
pub struct Diagnostics<'c> {
    context: &'c Context,
    reports: Box<RefCell<Reports>>,
}

#[derive(Default)]
struct Reports {
    errors: Vec<String>,
    /// Warnings, remarks and notes, each after its kind.
    remarks: Vec<String>,
}

impl<'c> Diagnostics<'c> {
    pub fn collect(context: &'c Context) -> Self {
        let reports = Box::new(RefCell::new(Reports::default()));
        // SAFETY: the box outlives the registration, which Drop undoes.
        unsafe {
            LLVMContextSetDiagnosticHandler(
                context.raw(),
                Some(handle),
                std::ptr::from_ref(&*reports).cast_mut().cast(),
            )
        };
        Self { context, reports }
    }

    /// Takes the errors so far, in one line.
    pub fn take(&self) -> Option<String> {
        let errors = std::mem::take(&mut self.reports.borrow_mut().errors);
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    /// Takes all other messages so far, one per line.
    pub fn remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.reports.borrow_mut().remarks)
    }
}

impl Drop for Diagnostics<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is alive; no handler is a valid state.
        unsafe { LLVMContextSetDiagnosticHandler(self.context.raw(), None, std::ptr::null_mut()) };
    }
}

extern "C" fn handle(info: LLVMDiagnosticInfoRef, reports: *mut c_void) {
    // SAFETY: `reports` is the box that `collect` registered, and LLVM calls this on the thread that uses the context.
    // The description is a NUL-terminated string, which this function disposes of.
    let (reports, severity, message) = unsafe {
        let text = LLVMGetDiagInfoDescription(info);
        let message = CStr::from_ptr(text).to_string_lossy().trim().to_owned();
        LLVMDisposeMessage(text);
        (&*reports.cast::<RefCell<Reports>>(), LLVMGetDiagInfoSeverity(info), message)
    };
    let Ok(mut reports) = reports.try_borrow_mut() else { return };
    let kind = match severity {
        LLVMDiagnosticSeverity::LLVMDSError => return reports.errors.push(message),
        LLVMDiagnosticSeverity::LLVMDSWarning => "warning",
        LLVMDiagnosticSeverity::LLVMDSRemark => "remark",
        LLVMDiagnosticSeverity::LLVMDSNote => "note",
    };
    if reports.remarks.len() < REMARKS {
        reports.remarks.push(format!("{kind}: {message}"));
    }
}

//! A collector of LLVM's messages while it works on a context.
//!
//! Without a handler LLVM prints errors and ends the process.

use std::cell::RefCell;
use std::ffi::{CStr, c_void};

use inkwell::context::Context;
use llvm_sys::LLVMDiagnosticSeverity;
use llvm_sys::core::{
    LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity,
};
use llvm_sys::prelude::LLVMDiagnosticInfoRef;

/// Remarks that are kept; options of LLVM's can ask for as many as there are instructions.
const REMARKS: usize = 1000;

/// While it lives, what LLVM reports of the context lands in it.
pub struct Diagnostics<'c> {
    context: &'c Context,
    reports: Box<RefCell<Reports>>,
}

#[derive(Default)]
struct Reports {
    errors: Vec<String>,
    /// Warnings, remarks and notes, each with its kind before it.
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

    /// The errors so far, as one line; they are forgotten.
    pub fn take(&self) -> Option<String> {
        let errors = std::mem::take(&mut self.reports.borrow_mut().errors);
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    /// Everything else so far, a line each; it is forgotten.
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
    // SAFETY: `reports` is the box that `collect` registered; LLVM calls this on the thread that uses the context. It
    // returns a NUL-terminated string that is ours to dispose of.
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

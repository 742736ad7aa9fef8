//! The processor that the CPU device runs on: registers, rounding, thread-local storage and caches.
//!
//! There is a file with the same functions for each processor. Differences between code objects are in
//! `loader/machine`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::ffi::c_void;

use corosensei::trap::TrapHandlerRegs;

#[cfg(target_arch = "aarch64")]
use aarch64 as own;
#[cfg(target_arch = "x86_64")]
use x86_64 as own;

pub(crate) use own::with_call_site;

/// A multiple, in bytes, of every page size that systems use on this processor, so memory that is placed and protected
/// in these units is so on every system.
pub const PAGE: u64 = own::PAGE;

/// The signals that instructions of a kernel may raise.
pub const FAULTS: [i32; 4] = own::FAULTS;

unsafe extern "C" {
    fn mneme_cpu_running_context() -> *const c_void;
}

// The pointer to the running thread's context. Kernels read it at least once per thread, so it uses the initial-exec
// TLS model, which takes two loads instead of a call. Rust's `thread_local!` does not offer that to shared libraries.
std::arch::global_asm!(
    ".section .tbss.mneme_cpu_context,\"awT\",@nobits",
    ".p2align 3",
    ".globl mneme_cpu_context",
    ".hidden mneme_cpu_context",
    ".type mneme_cpu_context,@tls_object",
    ".size mneme_cpu_context,8",
    "mneme_cpu_context:",
    ".zero 8",
    ".text",
);

/// The function that returns the pointer to the running thread's context, for kernels.
pub fn context_function() -> *const () {
    mneme_cpu_running_context as *const ()
}

/// The pointer to the running thread's context, null outside kernels. Safe to call in a signal handler.
#[inline]
pub fn context() -> *const c_void {
    own::context()
}

/// Sets the pointer to the running thread's context.
#[inline]
pub fn set_context(context: *const c_void) {
    own::set_context(context);
}

/// Makes code that was written to memory executable for all processors.
pub fn publish_code(start: usize, length: usize) {
    own::publish_code(start, length);
}

/// Arithmetic on doubles under a rounding mode of `__mneme_cpu_round`: nearest, zero, down, up.
pub fn round_double(op: u32, mode: u32, a: f64, b: f64, c: f64) -> f64 {
    own::round_double(op, mode, a, b, c)
}

/// The same for floats.
pub fn round_float(op: u32, mode: u32, a: f32, b: f32, c: f32) -> f32 {
    own::round_float(op, mode, a, b, c)
}

/// The registers of a thread that a signal has interrupted.
pub struct InterruptedRegisters<'a>(&'a mut libc::mcontext_t);

impl InterruptedRegisters<'_> {
    /// # Safety
    /// `ucontext` must be what a handler with `SA_SIGINFO` received, and that handler must not have returned.
    pub unsafe fn of(ucontext: *mut c_void) -> Self {
        // SAFETY: promised by the caller.
        Self(unsafe { &mut (*ucontext.cast::<libc::ucontext_t>()).uc_mcontext })
    }

    /// The address of the interrupted instruction.
    pub fn instruction(&self) -> usize {
        own::instruction(self.0)
    }

    /// The stack pointer.
    pub fn stack(&self) -> usize {
        own::stack(self.0)
    }

    /// Lets the thread continue with other registers.
    pub fn redirect(&mut self, to: TrapHandlerRegs) {
        own::redirect(self.0, to);
    }
}

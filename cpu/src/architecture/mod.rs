//! The processor that the CPU device runs on.
//!
//! It decides registers, rounding modes, thread-local storage and caches. Each processor has a file of the same
//! functions. What differs between the objects that they run is in `loader/machine`.

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

/// A multiple of the pages that systems for this processor have, in bytes: memory that is placed and protected by these
/// is so everywhere.
pub const PAGE: u64 = own::PAGE;

/// The signals that instructions of a kernel may cause.
pub const FAULTS: [i32; 4] = own::FAULTS;

unsafe extern "C" {
    fn mneme_cpu_running_context() -> *const c_void;
}

// The pointer to the running thread's context. Kernels ask for it at least once a thread, so it is in the initial-exec
// TLS model, which Rust's `thread_local!` does not offer to shared libraries: two loads instead of a call.
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

/// The function that gives kernels the pointer to the running thread's context.
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

/// Makes code that was written to memory what processors execute there.
pub fn publish_code(start: usize, length: usize) {
    own::publish_code(start, length);
}

/// Arithmetic on doubles under a rounding mode of `__mneme_cpu_round`: nearest, zero, down, up.
pub fn round_double(op: u32, mode: u32, a: f64, b: f64, c: f64) -> f64 {
    own::round_double(op, mode, a, b, c)
}

/// The same on floats.
pub fn round_float(op: u32, mode: u32, a: f32, b: f32, c: f32) -> f32 {
    own::round_float(op, mode, a, b, c)
}

/// The registers of a thread that a signal has interrupted.
pub struct InterruptedRegisters<'a>(&'a mut libc::mcontext_t);

impl InterruptedRegisters<'_> {
    /// # Safety
    /// `ucontext` is what a handler with `SA_SIGINFO` got, and it has not returned.
    pub unsafe fn of(ucontext: *mut c_void) -> Self {
        // SAFETY: by the contract above, it points to a ucontext.
        Self(unsafe { &mut (*ucontext.cast::<libc::ucontext_t>()).uc_mcontext })
    }

    /// The address of the instruction.
    pub fn instruction(&self) -> usize {
        own::instruction(self.0)
    }

    /// The stack pointer.
    pub fn stack(&self) -> usize {
        own::stack(self.0)
    }

    /// Has the thread go on elsewhere.
    pub fn redirect(&mut self, to: TrapHandlerRegs) {
        own::redirect(self.0, to);
    }
}

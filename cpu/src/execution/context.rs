//! What a running thread knows of itself. The compiler's code reads it by offset (docs/how-it-works/cpu-device.md).

use std::arch::asm;
use std::cell::Cell;

use corosensei::trap::CoroutineTrapHandler;

use super::fibers::Block;
use super::stack::{Ended, Yielder};

/// The thread context of the contract with the compiler.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ThreadContext {
    pub tid: [u32; 3],
    pub ntid: [u32; 3],
    pub ctaid: [u32; 3],
    pub nctaid: [u32; 3],
    pub lane: u32,
    pub warp: u32,
    pub dynamic_shared_bytes: u32,
    pub total_shared_bytes: u32,
    pub shared: *mut u8,
}

const _: () = assert!(std::mem::offset_of!(ThreadContext, lane) == 48 && std::mem::offset_of!(ThreadContext, shared) == 64);

impl ThreadContext {
    /// Sets the position in the block from the linear index (x varies fastest, as in a warp).
    pub fn place(&mut self, linear: u32) {
        let [x, y, _] = self.ntid;
        self.tid = [linear % x, linear / x % y, linear / x / y];
        self.lane = linear % 32;
        self.warp = linear / 32;
    }
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
    ".p2align 4",
    ".globl mneme_cpu_running_context",
    ".hidden mneme_cpu_running_context",
    ".type mneme_cpu_running_context,@function",
    "mneme_cpu_running_context:",
    "mov rax, qword ptr [rip + mneme_cpu_context@gottpoff]",
    "mov rax, qword ptr fs:[rax]",
    "ret",
    ".size mneme_cpu_running_context, . - mneme_cpu_running_context",
);

unsafe extern "C" {
    fn mneme_cpu_running_context() -> *const ThreadContext;
}

/// A thread that runs, or a loop over threads that runs: its context and what the device calls need besides.
#[repr(C)]
pub struct Running {
    /// First, so that one thread-local pointer serves kernels and device calls.
    pub context: ThreadContext,
    /// The fiber's way back to its worker.
    pub yielder: Cell<*const Yielder>,
    /// How the signal handler leaves the fiber; `None` before there is one.
    pub escape: Option<CoroutineTrapHandler<Ended>>,
    /// The block, null where threads do not wait for one another.
    pub block: *mut Block,
    /// Where threads run one after the other: whether they go on elsewhere, and this stack ends with the thread that it runs.
    pub aside: Cell<bool>,
}

impl Running {
    pub fn new(context: ThreadContext, block: *mut Block) -> Self {
        Self { context, yielder: Cell::new(std::ptr::null()), escape: None, block, aside: Cell::new(false) }
    }
}

/// The function that kernels import as `__mneme_cpu_thread`.
pub fn running_address() -> *const () {
    mneme_cpu_running_context as *const ()
}

/// What runs on this worker, null outside kernels. Safe to call in a signal handler.
#[inline]
pub fn running() -> *const Running {
    let running: *const Running;
    // SAFETY: reads one thread-local pointer.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + mneme_cpu_context@gottpoff]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) running,
            options(nostack, readonly, preserves_flags),
        );
    }
    running
}

/// Names what runs next on this worker.
#[inline]
pub fn set_running(running: *const Running) {
    // SAFETY: writes one thread-local pointer.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + mneme_cpu_context@gottpoff]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) running,
            options(nostack, preserves_flags),
        );
    }
}

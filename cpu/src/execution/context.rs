//! What a running thread knows of itself. The compiler's code reads it by offset (docs/cpu-device.md).

use std::cell::Cell;

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
    ".local mneme_cpu_context",
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
    ".p2align 4",
    ".globl mneme_cpu_set_running_context",
    ".hidden mneme_cpu_set_running_context",
    ".type mneme_cpu_set_running_context,@function",
    "mneme_cpu_set_running_context:",
    "mov rax, qword ptr [rip + mneme_cpu_context@gottpoff]",
    "mov qword ptr fs:[rax], rdi",
    "ret",
    ".size mneme_cpu_set_running_context, . - mneme_cpu_set_running_context",
);

unsafe extern "C" {
    fn mneme_cpu_running_context() -> *const ThreadContext;
    fn mneme_cpu_set_running_context(context: *const ThreadContext);
}

/// The function that kernels import as `__mneme_cpu_thread`.
pub fn running_address() -> *const () {
    mneme_cpu_running_context as *const ()
}

/// The context of the thread that runs on this worker, null outside kernels.
pub fn running() -> *const ThreadContext {
    // SAFETY: reads one thread-local pointer.
    unsafe { mneme_cpu_running_context() }
}

/// Names the context of the thread that runs next on this worker.
pub fn set_running(context: *const ThreadContext) {
    // SAFETY: writes one thread-local pointer.
    unsafe { mneme_cpu_set_running_context(context) }
}

thread_local! {
    /// The block that this worker runs, while it runs one.
    static BLOCK: Cell<*mut super::fibers::Block> = const { Cell::new(std::ptr::null_mut()) };
    /// The fiber's way back to its worker.
    static YIELDER: Cell<*const super::stack::Yielder> = const { Cell::new(std::ptr::null()) };
}

pub fn block() -> *mut super::fibers::Block {
    BLOCK.get()
}

pub fn set_block(block: *mut super::fibers::Block) {
    BLOCK.set(block);
}

pub fn yielder() -> *const super::stack::Yielder {
    YIELDER.get()
}

pub fn set_yielder(yielder: *const super::stack::Yielder) {
    YIELDER.set(yielder);
}

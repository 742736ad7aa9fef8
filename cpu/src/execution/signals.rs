//! The signal handler that turns an invalid access of a kernel into a fault.

use std::sync::Once;

use super::block::{RunningThread, running};
use super::fault::KernelFault;
use super::limit;
use super::stack::{FIBER, LOOP};
use crate::architecture::{FAULTS, InterruptedRegisters};

static INSTALL: Once = Once::new();
/// The previous handlers, by position in [`FAULTS`]. Each is written once, before the device's handler is installed.
static mut PREVIOUS: [Option<libc::sigaction>; FAULTS.len()] = [None; FAULTS.len()];

/// Installs the handlers once per process. Faults outside kernels go to the previous handlers.
pub fn install() {
    INSTALL.call_once(|| {
        for (index, signal) in FAULTS.into_iter().enumerate() {
            // SAFETY: zeroed is a valid sigaction; both structures outlive the calls; the handler is async-signal-safe.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut previous);
                (&raw mut PREVIOUS[index]).write(Some(previous));
                let mut ours: libc::sigaction = std::mem::zeroed();
                ours.sa_sigaction = on_signal as *const () as usize;
                ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&mut ours.sa_mask);
                libc::sigaction(signal, &ours, std::ptr::null_mut());
            }
        }
    });
}

/// Whether the device's handler receives a signal.
pub fn are_ours(signal: i32) -> bool {
    // SAFETY: zeroed is a valid sigaction, which outlives the call.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == on_signal as *const () as usize
    }
}

/// Gives the calling thread a separate stack for the handler, because the fiber's stack may have overflowed. It lasts
/// as long as the thread.
pub fn prepare_thread() {
    const SIZE: usize = 64 << 10;
    let memory = Box::leak(vec![0u8; SIZE].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIZE };
    // SAFETY: the memory is leaked, so it stays valid; a failure leaves the thread without an alternate stack.
    unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) };
}

unsafe extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, ucontext: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid ucontext to a SA_SIGINFO handler.
    let mut registers = unsafe { InterruptedRegisters::of(ucontext) };
    let running = running();
    // SAFETY: not null, so this is running on this worker, and does not move while a fiber runs.
    let running = unsafe { running.as_ref() };
    // SAFETY: the kernel passes a valid siginfo.
    let overdue = signal == limit::SIGNAL && unsafe { limit::requests_exit(info) };
    // SAFETY: the launch keeps its dispatch while it runs.
    let may_leave = |running: &RunningThread| unsafe { (*running.dispatch).may_leave(registers.instruction()) };
    if overdue && !running.is_some_and(may_leave) {
        return;
    }
    if let Some(running) = running
        && let Some(escape) = running.escape.as_ref().filter(|escape| escape.stack_ptr_in_bounds(registers.stack()))
    {
        // SAFETY: valid for the same reason.
        let address = unsafe { (*info).si_addr() } as usize;
        // The only part of a fiber's own stack that is out of bounds is the guard page.
        let size = if running.block.is_null() { LOOP } else { FIBER };
        let fault = if overdue {
            // The seconds do not matter: the thread that asked has recorded the fault, and only the first is reported.
            KernelFault::TimeLimit(0)
        } else if escape.stack_ptr_in_bounds(address) {
            KernelFault::StackOverflow(size)
        } else {
            KernelFault::Signal(signal, address)
        };
        // SAFETY: the fiber is the one that runs on this thread (it was set right before it was resumed), the stack
        // pointer lies in it, and the registers become those that it demands. Kernel code shares no Rust object.
        registers.redirect(unsafe { escape.setup_trap_handler(move || Err(fault)) });
        return;
    }
    if overdue {
        return;
    }
    let index = FAULTS.iter().position(|known| *known == signal);
    // SAFETY: written before the handler was installed, never after.
    let previous = index.and_then(|index| unsafe { (&raw const PREVIOUS[index]).read() });
    match previous {
        Some(previous) if previous.sa_sigaction != libc::SIG_DFL && previous.sa_sigaction != libc::SIG_IGN => {
            if previous.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: a SA_SIGINFO handler has this type, and it was installed for this signal.
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { std::mem::transmute(previous.sa_sigaction) };
                handler(signal, info, ucontext);
            } else {
                // SAFETY: a handler without SA_SIGINFO has this type.
                let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(previous.sa_sigaction) };
                handler(signal);
            }
        }
        _ => {
            // Returning repeats the fault, which then gets the default action.
            // SAFETY: zeroed is a valid sigaction with the default handler.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &default, std::ptr::null_mut());
                // A signal that a process sent does not repeat by itself.
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
    }
}

//! AArch64.

use std::arch::{asm, global_asm};
use std::ffi::c_void;

use corosensei::trap::TrapHandlerRegs;

/// The largest page size with which Linux can be built.
pub const PAGE: u64 = 64 << 10;
/// Divisions raise no signal. The compiler puts a breakpoint at code that it considers unreachable.
pub const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGILL];

global_asm!(
    ".text",
    ".p2align 4",
    ".globl mneme_cpu_running_context",
    ".hidden mneme_cpu_running_context",
    ".type mneme_cpu_running_context,@function",
    "mneme_cpu_running_context:",
    "adrp x0, :gottprel:mneme_cpu_context",
    "ldr x0, [x0, :gottprel_lo12:mneme_cpu_context]",
    "mrs x1, tpidr_el0",
    "ldr x0, [x1, x0]",
    "ret",
    ".size mneme_cpu_running_context, . - mneme_cpu_running_context",
);

#[inline]
pub fn context() -> *const c_void {
    let context: *const c_void;
    // SAFETY: reads one thread-local pointer.
    unsafe {
        asm!(
            "adrp {0}, :gottprel:mneme_cpu_context",
            "ldr {0}, [{0}, :gottprel_lo12:mneme_cpu_context]",
            "mrs {1}, tpidr_el0",
            "ldr {0}, [{1}, {0}]",
            out(reg) context,
            out(reg) _,
            options(nostack, readonly, preserves_flags),
        );
    }
    context
}

#[inline]
pub fn set_context(context: *const c_void) {
    // SAFETY: writes one thread-local pointer.
    unsafe {
        asm!(
            "adrp {0}, :gottprel:mneme_cpu_context",
            "ldr {0}, [{0}, :gottprel_lo12:mneme_cpu_context]",
            "mrs {1}, tpidr_el0",
            "str {2}, [{1}, {0}]",
            out(reg) _,
            out(reg) _,
            in(reg) context,
            options(nostack, preserves_flags),
        );
    }
}

/// Writes the data cache back to where instructions are fetched from, then invalidates the instruction caches. Threads
/// that execute the code later synchronise before they do.
pub fn publish_code(start: usize, length: usize) {
    let types: u64;
    // SAFETY: reads a register that user code may read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags)) };
    // The fields are logarithms of the shortest cache lines, in words.
    let data = 4usize << (types >> 16 & 15);
    let instructions = 4usize << (types & 15);
    let lines = |size: usize| (start & !(size - 1)..start + length).step_by(size);
    for line in lines(data) {
        // SAFETY: leaves the contents of memory unchanged.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: barriers and cache maintenance change no memory.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    for line in lines(instructions) {
        // SAFETY: as above.
        unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: as above.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

/// Lanes are grouped by their call site, so the function gets the return address as its last argument.
macro_rules! with_call_site {
    ($($name:ident($($argument:ident),*) -> $result:ty, $address:ident, argument $number:literal: $at:ident;)*) => {
        $(
            #[unsafe(naked)]
            extern "C" fn $name($($argument: u32),*) -> $result {
                std::arch::naked_asm!(concat!("mov x", $number, ", x30"), "b {}", sym $at)
            }

            pub fn $address() -> *const () {
                $name as *const ()
            }
        )*
    };
}
pub(crate) use with_call_site;

/// FPCR's rounding field, in the order of the contract's modes: nearest, zero, down, up.
const FIELD: [u64; 4] = [0 << 22, 3 << 22, 2 << 22, 1 << 22];

/// Runs the instruction under a rounding mode, in one piece, so the compiler moves no other instruction between the
/// writes.
macro_rules! under {
    ($mode:expr, $instruction:literal, $a:expr $(, $name:ident = $other:expr)*) => {{
        let mut value = $a;
        // SAFETY: changes only `value` and, for its duration, the rounding mode of this thread.
        unsafe {
            asm!(
                "mrs {before}, fpcr",
                "msr fpcr, {control}",
                $instruction,
                "msr fpcr, {before}",
                before = out(reg) _,
                control = in(reg) FIELD[$mode as usize & 3],
                a = inout(vreg) value,
                $($name = in(vreg) $other,)*
                options(nomem, nostack, preserves_flags),
            );
        }
        value
    }};
}

pub fn round_double(op: u32, mode: u32, a: f64, b: f64, c: f64) -> f64 {
    match op {
        0 => under!(mode, "fadd {a:d}, {a:d}, {b:d}", a, b = b),
        1 => under!(mode, "fmul {a:d}, {a:d}, {b:d}", a, b = b),
        2 => under!(mode, "fmadd {a:d}, {a:d}, {b:d}, {c:d}", a, b = b, c = c),
        3 => under!(mode, "fdiv {a:d}, {a:d}, {b:d}", a, b = b),
        4 => under!(mode, "fsqrt {a:d}, {a:d}", a),
        _ => under!(mode, "fdiv {a:d}, {a:d}, {b:d}", 1.0f64, b = a),
    }
}

pub fn round_float(op: u32, mode: u32, a: f32, b: f32, c: f32) -> f32 {
    match op {
        0 => under!(mode, "fadd {a:s}, {a:s}, {b:s}", a, b = b),
        1 => under!(mode, "fmul {a:s}, {a:s}, {b:s}", a, b = b),
        2 => under!(mode, "fmadd {a:s}, {a:s}, {b:s}, {c:s}", a, b = b, c = c),
        3 => under!(mode, "fdiv {a:s}, {a:s}, {b:s}", a, b = b),
        4 => under!(mode, "fsqrt {a:s}, {a:s}", a),
        _ => under!(mode, "fdiv {a:s}, {a:s}, {b:s}", 1.0f32, b = a),
    }
}

pub fn instruction(registers: &libc::mcontext_t) -> usize {
    registers.pc as usize
}

pub fn stack(registers: &libc::mcontext_t) -> usize {
    registers.sp as usize
}

pub fn redirect(registers: &mut libc::mcontext_t, to: TrapHandlerRegs) {
    let TrapHandlerRegs { pc, sp, x0, x1, x29, lr } = to;
    (registers.pc, registers.sp) = (pc, sp);
    for (register, value) in [(0, x0), (1, x1), (29, x29), (30, lr)] {
        registers.regs[register] = value;
    }
}

//! x86-64.

use std::arch::{asm, global_asm};
use std::ffi::c_void;

use corosensei::trap::TrapHandlerRegs;

pub const PAGE: u64 = 4096;
pub const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

global_asm!(
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

#[inline]
pub fn context() -> *const c_void {
    let context: *const c_void;
    // SAFETY: reads one thread-local pointer.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + mneme_cpu_context@gottpoff]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) context,
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
            "mov {0}, qword ptr [rip + mneme_cpu_context@gottpoff]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) context,
            options(nostack, preserves_flags),
        );
    }
}

/// Does nothing: x86-64 keeps its instruction caches coherent.
pub fn publish_code(_start: usize, _length: usize) {}

/// Lanes are grouped by their call site, so the function gets the return address as its last argument.
macro_rules! with_call_site {
    (@register 0) => { "rdi" };
    (@register 1) => { "rsi" };
    (@register 2) => { "rdx" };
    ($($name:ident($($argument:ident),*) -> $result:ty, $address:ident, argument $number:tt: $at:ident;)*) => {
        $(
            #[unsafe(naked)]
            extern "C" fn $name($($argument: u32),*) -> $result {
                std::arch::naked_asm!(
                    concat!("mov ", $crate::architecture::with_call_site!(@register $number), ", qword ptr [rsp]"),
                    "jmp {}",
                    sym $at,
                )
            }

            pub fn $address() -> *const () {
                $name as *const ()
            }
        )*
    };
}
pub(crate) use with_call_site;

/// MXCSR's rounding field, in the order of the contract's modes: nearest, zero, down, up.
const FIELD: [u32; 4] = [0 << 13, 3 << 13, 1 << 13, 2 << 13];
/// Exceptions masked, rounding to nearest, denormals kept.
const DEFAULT: u32 = 0x1f80;

/// Runs the instruction under a rounding mode, in one piece, so the compiler moves no other instruction between the
/// loads.
macro_rules! under {
    ($mode:expr, $type:ty, $instruction:literal, $a:expr, $b:expr) => {{
        let control = DEFAULT | FIELD[$mode as usize & 3];
        let mut before = 0u32;
        let mut value: $type = $a;
        // SAFETY: changes only `value` and, for its duration, the rounding mode of this thread.
        unsafe {
            asm!(
                "stmxcsr dword ptr [{before}]",
                "ldmxcsr dword ptr [{control}]",
                concat!($instruction, " {value}, {other}"),
                "ldmxcsr dword ptr [{before}]",
                before = in(reg) &raw mut before,
                control = in(reg) &raw const control,
                value = inout(xmm_reg) value,
                other = in(xmm_reg) $b,
                options(nostack),
            );
        }
        value
    }};
}

macro_rules! fused {
    ($mode:expr, $type:ty, $instruction:literal, $libm:ident, $a:expr, $b:expr, $c:expr) => {{
        let (a, b, c): ($type, $type, $type) = ($a, $b, $c);
        let control = DEFAULT | FIELD[$mode as usize & 3];
        let mut before = 0u32;
        if std::is_x86_feature_detected!("fma") {
            let mut value = a;
            // SAFETY: the processor has the instruction, which changes only `value` and, for its duration, the rounding
            // mode.
            unsafe {
                asm!(
                    "stmxcsr dword ptr [{before}]",
                    "ldmxcsr dword ptr [{control}]",
                    concat!($instruction, " {value}, {b}, {c}"),
                    "ldmxcsr dword ptr [{before}]",
                    before = in(reg) &raw mut before,
                    control = in(reg) &raw const control,
                    value = inout(xmm_reg) value,
                    b = in(xmm_reg) b,
                    c = in(xmm_reg) c,
                    options(nostack),
                );
            }
            value
        } else {
            // SAFETY: only the rounding mode changes, and libm's function honours it.
            unsafe {
                asm!("stmxcsr dword ptr [{0}]", "ldmxcsr dword ptr [{1}]", in(reg) &raw mut before, in(reg) &raw const control, options(nostack));
                let value = $libm(a, b, c);
                asm!("ldmxcsr dword ptr [{0}]", in(reg) &raw const before, options(nostack));
                value
            }
        }
    }};
}

unsafe extern "C" {
    fn fma(a: f64, b: f64, c: f64) -> f64;
    fn fmaf(a: f32, b: f32, c: f32) -> f32;
}

pub fn round_double(op: u32, mode: u32, a: f64, b: f64, c: f64) -> f64 {
    match op {
        0 => under!(mode, f64, "addsd", a, b),
        1 => under!(mode, f64, "mulsd", a, b),
        2 => fused!(mode, f64, "vfmadd213sd", fma, a, b, c),
        3 => under!(mode, f64, "divsd", a, b),
        4 => under!(mode, f64, "sqrtsd", a, a),
        _ => under!(mode, f64, "divsd", 1.0, a),
    }
}

pub fn round_float(op: u32, mode: u32, a: f32, b: f32, c: f32) -> f32 {
    match op {
        0 => under!(mode, f32, "addss", a, b),
        1 => under!(mode, f32, "mulss", a, b),
        2 => fused!(mode, f32, "vfmadd213ss", fmaf, a, b, c),
        3 => under!(mode, f32, "divss", a, b),
        4 => under!(mode, f32, "sqrtss", a, a),
        _ => under!(mode, f32, "divss", 1.0, a),
    }
}

pub fn instruction(registers: &libc::mcontext_t) -> usize {
    registers.gregs[libc::REG_RIP as usize] as usize
}

pub fn stack(registers: &libc::mcontext_t) -> usize {
    registers.gregs[libc::REG_RSP as usize] as usize
}

pub fn redirect(registers: &mut libc::mcontext_t, to: TrapHandlerRegs) {
    let TrapHandlerRegs { rip, rsp, rbp, rdi, rsi } = to;
    for (register, value) in
        [(libc::REG_RIP, rip), (libc::REG_RSP, rsp), (libc::REG_RBP, rbp), (libc::REG_RDI, rdi), (libc::REG_RSI, rsi)]
    {
        registers.gregs[register as usize] = value as i64;
    }
}

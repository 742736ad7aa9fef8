//! Arithmetic with a directed rounding mode.
//!
//! These are the `.rz`, `.rm` and `.rp` forms of PTX, which x86 selects by a control register instead of by
//! instruction.

use std::arch::asm;

/// MXCSR's rounding field, in the order of the contract's modes: nearest, zero, down, up.
const FIELD: [u32; 4] = [0 << 13, 3 << 13, 1 << 13, 2 << 13];
/// Exceptions masked, nearest, nothing flushed.
const DEFAULT: u32 = 0x1f80;

/// Runs the instruction under a rounding mode. In one piece, so that the compiler moves nothing else between the loads.
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
            // SAFETY: the processor has the instruction; changes only `value` and, for its duration, the rounding mode.
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

/// `__mneme_cpu_round` (docs/how-it-works/cpu-device.md).
pub extern "C" fn round(op: u32, mode: u32, a: u64, b: u64, c: u64) -> u64 {
    if op & 16 == 0 {
        let [a, b, c] = [a, b, c].map(f64::from_bits);
        double(op, mode, a, b, c).to_bits()
    } else {
        let [a, b, c] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        u64::from(float(op & 15, mode, a, b, c).to_bits())
    }
}

fn double(op: u32, mode: u32, a: f64, b: f64, c: f64) -> f64 {
    match op {
        0 => under!(mode, f64, "addsd", a, b),
        1 => under!(mode, f64, "mulsd", a, b),
        2 => fused!(mode, f64, "vfmadd213sd", fma, a, b, c),
        3 => under!(mode, f64, "divsd", a, b),
        4 => under!(mode, f64, "sqrtsd", a, a),
        _ => under!(mode, f64, "divsd", 1.0, a),
    }
}

fn float(op: u32, mode: u32, a: f32, b: f32, c: f32) -> f32 {
    match op {
        0 => under!(mode, f32, "addss", a, b),
        1 => under!(mode, f32, "mulss", a, b),
        2 => fused!(mode, f32, "vfmadd213ss", fmaf, a, b, c),
        3 => under!(mode, f32, "divss", a, b),
        4 => under!(mode, f32, "sqrtss", a, a),
        _ => under!(mode, f32, "divss", 1.0, a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(op: u32, mode: u32, a: f64, b: f64, c: f64) -> f64 {
        f64::from_bits(round(op, mode, a.to_bits(), b.to_bits(), c.to_bits()))
    }

    #[test]
    fn an_inexact_sum_goes_where_the_mode_says() {
        let tiny = f64::EPSILON / 4.0;
        let above = 1.0 + f64::EPSILON;
        assert_eq!([0, 1, 2, 3].map(|mode| doubles(0, mode, 1.0, tiny, 0.0)), [1.0, 1.0, 1.0, above]);
        assert_eq!([0, 1, 2, 3].map(|mode| doubles(0, mode, -1.0, -tiny, 0.0)), [-1.0, -1.0, -above, -1.0]);
        assert_eq!([0, 1, 2, 3].map(|mode| doubles(2, mode, 1.0, 1.0, tiny)), [1.0, 1.0, 1.0, above]);
    }

    #[test]
    fn quotients_and_roots_bracket_the_true_value() {
        for op in [3, 4, 5] {
            let (down, up) = (doubles(op, 2, 3.0, 7.0, 0.0), doubles(op, 3, 3.0, 7.0, 0.0));
            assert_eq!(down.to_bits() + 1, up.to_bits());
        }
        let single =
            |mode| f32::from_bits(round(16 + 3, mode, u64::from(1f32.to_bits()), u64::from(3f32.to_bits()), 0) as u32);
        assert_eq!(single(2).to_bits() + 1, single(3).to_bits());
        assert_eq!(single(0), 1.0 / 3.0);
    }

    #[test]
    fn the_mode_is_put_back() {
        doubles(0, 3, 1.0, 1e-30, 0.0);
        assert_eq!(std::hint::black_box(1.0) + std::hint::black_box(1e-30), 1.0);
    }
}

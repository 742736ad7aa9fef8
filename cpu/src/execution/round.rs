//! Arithmetic with a directed rounding mode.
//!
//! These are the `.rz`, `.rm` and `.rp` forms of PTX. Processors select the mode by a control register, not by
//! instruction.

use crate::architecture::{round_double, round_float};

/// `__mneme_cpu_round` (docs/reference/cpu-code-objects.md).
pub extern "C" fn round(op: u32, mode: u32, a: u64, b: u64, c: u64) -> u64 {
    if op & 16 == 0 {
        let [a, b, c] = [a, b, c].map(f64::from_bits);
        round_double(op, mode, a, b, c).to_bits()
    } else {
        let [a, b, c] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        u64::from(round_float(op & 15, mode, a, b, c).to_bits())
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

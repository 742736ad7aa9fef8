//! Independent fused multiply-adds on the widest vectors of the host.

use std::hint::black_box;

/// Chains of operations, enough for two a cycle that each take six.
const CHAINS: usize = 12;

/// The width of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Half,
    Single,
    Double,
}

impl Width {
    /// In the order in which instrumented code counts them.
    pub const ALL: [Self; 3] = [Self::Half, Self::Single, Self::Double];
}

/// Code for vectors of one width.
#[derive(Clone, Copy)]
pub struct Vectors {
    /// Only called on a processor with its features.
    code: unsafe fn(u32),
    lanes: usize,
}

impl Vectors {
    /// The operations of a round.
    pub fn flops(self) -> usize {
        2 * self.lanes * CHAINS
    }

    pub fn run(self, rounds: u32) {
        // SAFETY: `find` returns code whose features the processor has.
        unsafe { (self.code)(rounds) }
    }

    /// Code for this processor, if it has the instructions. The CPU device computes 16-bit numbers in single precision.
    pub fn find(width: Width) -> Option<Self> {
        let is_double = width == Width::Double;
        let of = |single: unsafe fn(u32), double: unsafe fn(u32), lanes| {
            Some(if is_double { Self { code: double, lanes: lanes / 2 } } else { Self { code: single, lanes } })
        };
        #[cfg(target_arch = "x86_64")]
        return if std::arch::is_x86_feature_detected!("avx512f") {
            of(single_512, double_512, 16)
        } else if std::arch::is_x86_feature_detected!("fma") {
            of(single_256, double_256, 8)
        } else {
            None
        };
        #[cfg(target_arch = "aarch64")]
        return of(single_128, double_128, 4);
    }
}

macro_rules! chains {
    ($name:ident, $features:literal, $splat:ident, |$one:ident, $half:ident, $sum:ident| $fma:expr) => {
        #[target_feature(enable = $features)]
        fn $name(rounds: u32) {
            let ($one, $half) = (black_box($splat(1.0)), black_box($splat(0.5)));
            let mut sums = [$one; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    let $sum = *sum;
                    *sum = $fma;
                }
            }
            black_box(sums);
        }
    };
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
#[cfg(target_arch = "x86_64")]
chains!(single_512, "avx512f", _mm512_set1_ps, |one, half, sum| _mm512_fmadd_ps(one, half, sum));
#[cfg(target_arch = "x86_64")]
chains!(double_512, "avx512f", _mm512_set1_pd, |one, half, sum| _mm512_fmadd_pd(one, half, sum));
#[cfg(target_arch = "x86_64")]
chains!(single_256, "avx,fma", _mm256_set1_ps, |one, half, sum| _mm256_fmadd_ps(one, half, sum));
#[cfg(target_arch = "x86_64")]
chains!(double_256, "avx,fma", _mm256_set1_pd, |one, half, sum| _mm256_fmadd_pd(one, half, sum));

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "aarch64")]
chains!(single_128, "neon", vdupq_n_f32, |one, half, sum| vfmaq_f32(sum, one, half));
#[cfg(target_arch = "aarch64")]
chains!(double_128, "neon", vdupq_n_f64, |one, half, sum| vfmaq_f64(sum, one, half));

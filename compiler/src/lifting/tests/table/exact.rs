//! Numbers of PTX's float formats, computed with exactly and rounded once.

use std::cmp::Ordering;

/// A float format: its width, and the bits of its fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub bits: u32,
    pub fraction: u32,
}

pub const E4M3: Format = Format { bits: 8, fraction: 3 };
pub const E5M2: Format = Format { bits: 8, fraction: 2 };
pub const F16: Format = Format { bits: 16, fraction: 10 };
pub const BF16: Format = Format { bits: 16, fraction: 7 };
pub const F32: Format = Format { bits: 32, fraction: 23 };
pub const F64: Format = Format { bits: 64, fraction: 52 };

impl Format {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name.trim_end_matches("x2") {
            "e4m3" => E4M3,
            "e5m2" => E5M2,
            "f16" => F16,
            "bf16" => BF16,
            "f32" => F32,
            "f64" => F64,
            _ => return None,
        })
    }

    pub fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    fn exponents(self) -> u64 {
        (1 << (self.bits - 1 - self.fraction)) - 1
    }

    pub fn infinity(self) -> u64 {
        self.exponents() << self.fraction
    }

    fn bias(self) -> i32 {
        (self.exponents() >> 1) as i32
    }

    /// The greatest finite number.
    fn greatest(self) -> u64 {
        if self == E4M3 { 0x7e } else { self.infinity() - 1 }
    }

    /// The result beyond the largest number: infinity, or a NaN in the format without infinity.
    fn overflow(self) -> u64 {
        if self == E4M3 { 0x7f } else { self.infinity() }
    }

    pub fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign() - 1);
        if self == E4M3 { magnitude == 0x7f } else { magnitude > self.infinity() }
    }

    /// Subnormal numbers as zeros (`.ftz`).
    pub fn flushed(self, bits: u64) -> u64 {
        if bits & self.infinity() == 0 { bits & self.sign() } else { bits }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Nearest,
    /// Ties away from zero.
    Away,
    Zero,
    Down,
    Up,
}

impl Mode {
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "rn" | "rni" => Self::Nearest,
            "rna" => Self::Away,
            "rz" | "rzi" => Self::Zero,
            "rm" | "rmi" => Self::Down,
            "rp" | "rpi" => Self::Up,
            _ => return None,
        })
    }

    /// Whether a magnitude with this remainder, in units of the last place, is rounded up.
    fn raises(self, negative: bool, odd: bool, remainder: Ordering, exact: bool) -> bool {
        match self {
            Self::Nearest => remainder == Ordering::Greater || remainder == Ordering::Equal && odd,
            Self::Away => remainder != Ordering::Less,
            Self::Zero => false,
            Self::Down => negative && !exact,
            Self::Up => !negative && !exact,
        }
    }
}

/// A number: `mantissa` times two to the power of `exponent`. The last bit of a mantissa with more than 64 bits may
/// stand for all that are smaller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Nan,
    Infinity(bool),
    Finite { negative: bool, mantissa: u128, exponent: i32 },
}

use Number::{Finite, Infinity, Nan};

impl Number {
    pub const ZERO: Self = Finite { negative: false, mantissa: 0, exponent: 0 };

    pub fn decode(bits: u64, format: Format) -> Self {
        let negative = bits & format.sign() != 0;
        let fraction = bits & ((1 << format.fraction) - 1);
        let exponent = (bits >> format.fraction & format.exponents()) as i32;
        let least = 1 - format.bias() - format.fraction as i32;
        if format.is_nan(bits) {
            return Nan;
        }
        if exponent as u64 == format.exponents() && format != E4M3 {
            return Infinity(negative);
        }
        match exponent {
            0 => Finite { negative, mantissa: fraction.into(), exponent: least },
            _ => {
                Finite { negative, mantissa: (fraction | 1 << format.fraction).into(), exponent: least + exponent - 1 }
            }
        }
    }

    pub fn of_integer(value: i128) -> Self {
        Finite { negative: value < 0, mantissa: value.unsigned_abs(), exponent: 0 }
    }

    /// The bits in a format; `None` for a NaN.
    pub fn encode(self, format: Format, mode: Mode) -> Option<u64> {
        let (negative, mantissa, exponent) = match self {
            Nan => return None,
            Infinity(negative) => return Some(format.overflow() | if negative { format.sign() } else { 0 }),
            Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
        };
        let sign = if negative { format.sign() } else { 0 };
        if mantissa == 0 {
            return Some(sign);
        }
        let top = 127 - mantissa.leading_zeros() as i32 + exponent;
        let least = 1 - format.bias() - format.fraction as i32;
        let last = (top - format.fraction as i32).max(least);
        let rounded = shifted(mantissa, last - exponent, negative, mode);
        // A carry goes into the exponent.
        let field = (last - least) as u64;
        let bits = (field << format.fraction) + rounded as u64;
        let raised = if bits > format.greatest() {
            let stays = mode == Mode::Zero || mode == Mode::Down && !negative || mode == Mode::Up && negative;
            if stays { format.greatest() } else { format.overflow() }
        } else {
            bits
        };
        Some(sign | raised)
    }

    /// The nearest integer; `None` for infinities and NaNs.
    pub fn integer(self, mode: Mode) -> Option<i128> {
        let Finite { negative, mantissa, exponent } = self else { return None };
        let magnitude = if exponent >= 0 {
            if exponent > 70 { i128::MAX as u128 } else { mantissa << exponent }
        } else {
            shifted(mantissa, -exponent, negative, mode)
        };
        Some(if negative { -(magnitude as i128) } else { magnitude as i128 })
    }

    pub fn is_negative(self) -> bool {
        matches!(self, Infinity(true) | Finite { negative: true, .. })
    }

    pub fn is_zero(self) -> bool {
        matches!(self, Finite { mantissa: 0, .. })
    }

    pub fn opposite(self) -> Self {
        match self {
            Nan => Nan,
            Infinity(negative) => Infinity(!negative),
            Finite { negative, mantissa, exponent } => Finite { negative: !negative, mantissa, exponent },
        }
    }

    pub fn plus(self, other: Self, mode: Mode) -> Self {
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinity(a), Infinity(b)) => {
                if a == b {
                    self
                } else {
                    Nan
                }
            }
            (Infinity(_), _) => self,
            (_, Infinity(_)) => other,
            (Finite { negative, mantissa: 0, .. }, Finite { negative: other, mantissa: 0, .. }) => Finite {
                negative: if negative == other { negative } else { mode == Mode::Down },
                mantissa: 0,
                exponent: 0,
            },
            (_, Finite { mantissa: 0, .. }) => self,
            (Finite { mantissa: 0, .. }, _) => other,
            (Finite { negative: a, mantissa: m, exponent: e }, Finite { negative: b, mantissa: n, exponent: f }) => {
                // Both with their first bit at the same place, two bits below the top.
                let (m, e) = raised(m, e);
                let (n, f) = raised(n, f);
                let exponent = e.max(f);
                let (m, n) = (jammed(m, exponent - e), jammed(n, exponent - f));
                let value =
                    |negative: bool, mantissa: u128| if negative { -(mantissa as i128) } else { mantissa as i128 };
                let sum = value(a, m) + value(b, n);
                if sum == 0 {
                    return Finite { negative: mode == Mode::Down, mantissa: 0, exponent: 0 };
                }
                Finite { negative: sum < 0, mantissa: sum.unsigned_abs(), exponent }
            }
        }
    }

    pub fn times(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinity(_), it) | (it, Infinity(_)) => {
                if it.is_zero() {
                    Nan
                } else {
                    Infinity(negative)
                }
            }
            (Finite { mantissa: m, exponent: e, .. }, Finite { mantissa: n, exponent: f, .. }) => {
                Finite { negative, mantissa: m * n, exponent: e + f }
            }
        }
    }

    pub fn over(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Nan, _) | (_, Nan) | (Infinity(_), Infinity(_)) => Nan,
            (Infinity(_), _) => Infinity(negative),
            (_, Infinity(_)) => Finite { negative, mantissa: 0, exponent: 0 },
            (a, b) if b.is_zero() => {
                if a.is_zero() {
                    Nan
                } else {
                    Infinity(negative)
                }
            }
            (Finite { mantissa: m, exponent: e, .. }, Finite { mantissa: n, exponent: f, .. }) => {
                let (m, e) = raised(m, e);
                Finite { negative, mantissa: (m / n) << 1 | u128::from(m % n != 0), exponent: e - f - 1 }
            }
        }
    }

    pub fn root(self) -> Self {
        match self {
            Finite { mantissa: 0, .. } | Infinity(false) => self,
            Finite { negative: false, mantissa, exponent } => {
                let (m, e) = raised(mantissa, exponent);
                let (m, e) = if e % 2 == 0 { (m, e) } else { (m << 1, e - 1) };
                let root = m.isqrt();
                Finite { negative: false, mantissa: root << 1 | u128::from(root * root != m), exponent: e / 2 - 1 }
            }
            _ => Nan,
        }
    }

    /// The smaller of two; `None` if one is a NaN.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        if self == Nan || other == Nan {
            return None;
        }
        if self == other || self.is_zero() && other.is_zero() {
            return Some(Ordering::Equal);
        }
        Some(match self.plus(other.opposite(), Mode::Nearest) {
            it if it.is_zero() => Ordering::Equal,
            it if it.is_negative() => Ordering::Less,
            _ => Ordering::Greater,
        })
    }

    pub fn to_f64(self) -> f64 {
        self.encode(F64, Mode::Nearest).map_or(f64::NAN, f64::from_bits)
    }
}

/// A mantissa whose first bit is the third from the top, and its exponent.
fn raised(mantissa: u128, exponent: i32) -> (u128, i32) {
    let places = mantissa.leading_zeros().saturating_sub(2) as i32;
    if mantissa == 0 { (0, exponent) } else { (mantissa << places, exponent - places) }
}

/// A mantissa shifted down; its last bit represents the lost ones.
fn jammed(mantissa: u128, places: i32) -> u128 {
    match places {
        0 => mantissa,
        1..=127 => mantissa >> places | u128::from(mantissa & ((1 << places) - 1) != 0),
        _ => u128::from(mantissa != 0),
    }
}

/// A mantissa shifted down and rounded.
fn shifted(mantissa: u128, places: i32, negative: bool, mode: Mode) -> u128 {
    if places <= 0 {
        return mantissa << -places;
    }
    let (whole, rest, half) = match places {
        1..=127 => (mantissa >> places, mantissa & ((1 << places) - 1), 1u128 << (places - 1)),
        128 => (0, mantissa, 1 << 127),
        _ => (0, u128::from(mantissa != 0), 2),
    };
    whole + u128::from(mode.raises(negative, whole & 1 == 1, rest.cmp(&half), rest == 0))
}

#[test]
fn numbers_are_computed_as_by_the_processor() {
    let mut random = super::super::random::Random(5);
    for _ in 0..20_000 {
        let [a, b, c] = [(); 3].map(|()| random.double());
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        let [a, b, c] = [a, b, c].map(|bits| Number::decode(bits, F64));
        for (own, found) in [
            (x + y, a.plus(b, Mode::Nearest)),
            (x * y, a.times(b)),
            (x / y, a.over(b)),
            (x.mul_add(y, z), a.times(b).plus(c, Mode::Nearest)),
            (x.sqrt(), a.root()),
        ] {
            let found = found.encode(F64, Mode::Nearest);
            assert_eq!(Some(own.to_bits()).filter(|_| !own.is_nan()), found, "{x:e} {y:e} {z:e}");
        }
        assert_eq!(x.partial_cmp(&y), a.compare(b));
        assert_eq!(Some((x as f32).to_bits().into()).filter(|_| !x.is_nan()), a.encode(F32, Mode::Nearest));
    }
}

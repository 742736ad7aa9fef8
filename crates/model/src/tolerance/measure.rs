//! The errors that tolerances bound.
//!
//! This is the definition; devices compute the same values faster.
//!
//! With a recorded element e and a replayed element r of the buffer's type:
//!
//! - absolute: |r - e|; relative: |r - e| / max(|e|, m), where m is the type's smallest normal number (1 for integers);
//!   ULP: the number of representable values from e to r (for integers |r - e|). The error is 0 if both are NaN or equal
//!   infinities, and otherwise infinite if one of them is NaN or infinite. 0.0 and -0.0 are equal.
//! - Without a norm, the tolerance bounds each element's error. With one, it bounds the norm of all elements' |r - e|
//!   (for ULP: of their distances); for a relative threshold, that is divided by max(the same norm of all e, m). L1
//!   sums, L2 is the root of the sum of squares, Linf the largest. The norm of all e skips infinite recorded elements.
//! - A tail shorter than an element is compared by bytes: 0 if equal, otherwise infinite.

use super::{DataType, Norm, Threshold, Tolerance};

/// The lower limit on a recorded value's magnitude in relative errors.
///
/// With a fixed floor, a kernel that writes nothing would pass if its results are smaller (entropies are around 1e-23).
pub fn smallest_reference(dtype: DataType) -> f64 {
    match dtype {
        // 2^-14.
        DataType::F16 => 6.103515625e-5,
        DataType::F32 => f32::MIN_POSITIVE.into(),
        DataType::F64 => f64::MIN_POSITIVE,
        _ => 1.0,
    }
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementValue {
    Integer(i128),
    /// A floating-point value, and its index among the values of its type: neighbours differ by 1.
    Float(f64, i64),
}

impl ElementValue {
    /// The value of exactly one element's bytes, little endian.
    ///
    /// # Panics
    /// If the length of `bytes` differs from [`DataType::size`].
    pub fn read(dtype: DataType, bytes: &[u8]) -> Self {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            bytes.try_into().expect("one element's bytes")
        }
        match dtype {
            DataType::U8 => Self::Integer(u8::from_le_bytes(array(bytes)).into()),
            DataType::I8 => Self::Integer(i8::from_le_bytes(array(bytes)).into()),
            DataType::U16 => Self::Integer(u16::from_le_bytes(array(bytes)).into()),
            DataType::I16 => Self::Integer(i16::from_le_bytes(array(bytes)).into()),
            DataType::U32 => Self::Integer(u32::from_le_bytes(array(bytes)).into()),
            DataType::I32 => Self::Integer(i32::from_le_bytes(array(bytes)).into()),
            DataType::U64 => Self::Integer(u64::from_le_bytes(array(bytes)).into()),
            DataType::I64 => Self::Integer(i64::from_le_bytes(array(bytes)).into()),
            DataType::F16 => {
                let bits = u16::from_le_bytes(array(bytes));
                Self::Float(half(bits), ordered(bits.into(), 16))
            }
            DataType::F32 => {
                let value = f32::from_le_bytes(array(bytes));
                Self::Float(value.into(), ordered(value.to_bits().into(), 32))
            }
            DataType::F64 => {
                let value = f64::from_le_bytes(array(bytes));
                Self::Float(value, ordered(value.to_bits(), 64))
            }
        }
    }

    /// The magnitude for norms.
    fn magnitude(self) -> f64 {
        match self {
            Self::Integer(value) => value.unsigned_abs() as f64,
            Self::Float(value, _) => value.abs(),
        }
    }

    /// |r - e|, or the distance in ULP.
    fn difference(recorded: Self, replayed: Self, ulp: bool) -> f64 {
        match (recorded, replayed) {
            (Self::Integer(recorded), Self::Integer(replayed)) => recorded.abs_diff(replayed) as f64,
            (Self::Float(recorded, at), Self::Float(replayed, to)) => {
                if recorded == replayed || (recorded.is_nan() && replayed.is_nan()) {
                    0.0
                } else if !recorded.is_finite() || !replayed.is_finite() {
                    f64::INFINITY
                } else if ulp {
                    at.abs_diff(to) as f64
                } else {
                    (replayed - recorded).abs()
                }
            }
            _ => f64::INFINITY,
        }
    }
}

/// For people: integers in decimal, floats in the shortest form that reads back exactly.
impl std::fmt::Display for ElementValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(formatter),
            // Without an exponent, the largest and smallest values have 300 digits.
            Self::Float(value, _) if value.is_normal() && !(1e-5..1e16).contains(&value.abs()) => {
                write!(formatter, "{value:e}")
            }
            Self::Float(value, _) => value.fmt(formatter),
        }
    }
}

/// The index of a float of `width` bits among the values of its type: 0 for both zeros, negative below.
fn ordered(bits: u64, width: u32) -> i64 {
    let sign = 1u64 << (width - 1);
    let magnitude = (bits & !sign) as i64;
    if bits & sign == 0 { magnitude } else { -magnitude }
}

/// The value of an IEEE 754 half-precision number.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    sign * magnitude
}

/// The error of one element of a type.
pub fn error(dtype: DataType, kind: Threshold, recorded: ElementValue, replayed: ElementValue) -> f64 {
    let difference = ElementValue::difference(recorded, replayed, kind == Threshold::Ulp);
    match kind {
        // Relative to an infinite reference, every error would be small.
        Threshold::Relative if difference.is_finite() => {
            difference / recorded.magnitude().max(smallest_reference(dtype))
        }
        _ => difference,
    }
}

/// The errors of a buffer, or of a part of it: combine parts with [`Self::and`], in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Elements whose own error exceeds the threshold (0 with a norm).
    pub beyond: u64,
    /// Largest error of an element, in the unit of the threshold.
    pub largest: f64,
    /// The sum, sum of squares or maximum (depending on the norm) of |r - e| or of ULP distances.
    difference: f64,
    /// The same for |e|.
    reference: f64,
}

impl Errors {
    /// Measures a range that begins at the start of an element.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn of(tolerance: &Tolerance, recorded: &[u8], replayed: &[u8]) -> Self {
        assert_eq!(recorded.len(), replayed.len(), "both moments have the same length");
        let size = tolerance.dtype.size();
        let mut errors = Self::default();
        for (recorded, replayed) in recorded.chunks(size).zip(replayed.chunks(size)) {
            if recorded.len() == size {
                errors.add(
                    tolerance,
                    ElementValue::read(tolerance.dtype, recorded),
                    ElementValue::read(tolerance.dtype, replayed),
                );
            } else if recorded != replayed {
                errors.add(tolerance, ElementValue::Integer(0), ElementValue::Float(f64::NAN, 0));
            }
        }
        errors
    }

    pub fn add(&mut self, tolerance: &Tolerance, recorded: ElementValue, replayed: ElementValue) {
        let own = error(tolerance.dtype, tolerance.kind, recorded, replayed);
        self.largest = self.largest.max(own);
        if tolerance.norm == Norm::None {
            self.beyond += u64::from(own > tolerance.threshold);
            return;
        }
        let difference = ElementValue::difference(recorded, replayed, tolerance.kind == Threshold::Ulp);
        let magnitude = Some(recorded.magnitude()).filter(|it| it.is_finite()).unwrap_or_default();
        match tolerance.norm {
            Norm::None => {}
            Norm::L1 => (self.difference, self.reference) = (self.difference + difference, self.reference + magnitude),
            Norm::L2 => {
                self.difference += difference * difference;
                self.reference += magnitude * magnitude;
            }
            Norm::Linf => {
                (self.difference, self.reference) = (self.difference.max(difference), self.reference.max(magnitude))
            }
        }
    }

    /// Combines the errors of both parts of a buffer.
    #[must_use]
    pub fn and(self, other: Self, norm: Norm) -> Self {
        let join = |one: f64, other: f64| if norm == Norm::Linf { one.max(other) } else { one + other };
        Self {
            beyond: self.beyond + other.beyond,
            largest: self.largest.max(other.largest),
            difference: join(self.difference, other.difference),
            reference: join(self.reference, other.reference),
        }
    }

    /// Errors measured elsewhere: elements beyond the threshold, the largest error, and the sum, sum of squares or
    /// maximum of |r - e|.
    pub fn found(beyond: u64, largest: f64, difference: f64) -> Self {
        Self { beyond, largest, difference, reference: 0.0 }
    }

    /// Combines these errors of the differing parts with the magnitudes in `whole` (the entire buffer, measured against
    /// itself).
    #[must_use]
    pub fn within(self, whole: &Self) -> Self {
        Self { reference: whole.reference, ..self }
    }

    /// The error that the threshold bounds: the norm's, or the largest of an element.
    pub fn value(&self, tolerance: &Tolerance) -> f64 {
        let root = |sum: f64| if tolerance.norm == Norm::L2 { sum.sqrt() } else { sum };
        match (tolerance.norm, tolerance.kind) {
            (Norm::None, _) => self.largest,
            (_, Threshold::Relative) => {
                root(self.difference) / root(self.reference).max(smallest_reference(tolerance.dtype))
            }
            _ => root(self.difference),
        }
    }

    pub fn pass(&self, tolerance: &Tolerance) -> bool {
        tolerance.ignore || self.value(tolerance) <= tolerance.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tolerance(dtype: DataType, kind: Threshold, norm: Norm, threshold: f64) -> Tolerance {
        Tolerance { dtype, threshold, kind, norm, ignore: false }
    }

    fn doubles(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn value_of(tolerance: &Tolerance, recorded: &[f64], replayed: &[f64]) -> f64 {
        Errors::of(tolerance, &doubles(recorded), &doubles(replayed)).value(tolerance)
    }

    #[test]
    fn elements_without_a_norm() {
        use Threshold::{Absolute, Relative, Ulp};
        let element = |kind, recorded, replayed| {
            value_of(&tolerance(DataType::F64, kind, Norm::None, 0.0), &[recorded], &[replayed])
        };
        assert_eq!(element(Absolute, 10.0, 10.5), 0.5);
        assert_eq!(element(Relative, -10.0, -10.5), 0.05);
        assert_eq!(element(Relative, 0.0, f64::MIN_POSITIVE), 1.0, "a zero counts as the smallest normal number");
        assert_eq!(element(Relative, 1e-23, 0.0), 1.0, "small values are as exact as others");
        assert_eq!(element(Relative, 0.0, 1e10), f64::INFINITY);
        assert_eq!(element(Ulp, 1.0, 1.0 + 3.0 * f64::EPSILON), 3.0);
        assert_eq!(element(Ulp, -f64::from_bits(1), f64::from_bits(2)), 3.0, "across zero");
        for kind in Threshold::ALL {
            assert_eq!(element(kind, 0.0, -0.0), 0.0);
            assert_eq!(element(kind, f64::NAN, -f64::NAN), 0.0);
            assert_eq!(element(kind, f64::INFINITY, f64::INFINITY), 0.0);
            for (recorded, replayed) in
                [(f64::INFINITY, f64::NEG_INFINITY), (f64::INFINITY, 1.0), (1.0, f64::NAN), (f64::NAN, 1.0)]
            {
                assert_eq!(element(kind, recorded, replayed), f64::INFINITY, "{kind:?} {recorded} {replayed}");
            }
        }
    }

    #[test]
    fn norms_of_a_buffer() {
        use Threshold::{Absolute, Relative, Ulp};
        let (recorded, replayed) = ([3.0, 4.0, 0.0], [3.0, 1.0, 4.0]);
        let value = |kind, norm| value_of(&tolerance(DataType::F64, kind, norm, 0.0), &recorded, &replayed);
        assert_eq!(
            (value(Absolute, Norm::L1), value(Absolute, Norm::L2), value(Absolute, Norm::Linf)),
            (7.0, 5.0, 4.0)
        );
        assert_eq!(
            (value(Relative, Norm::L1), value(Relative, Norm::L2), value(Relative, Norm::Linf)),
            (1.0, 1.0, 1.0)
        );
        let ulps = |norm| {
            value_of(
                &tolerance(DataType::F64, Ulp, norm, 0.0),
                &[1.0, 2.0],
                &[1.0 + f64::EPSILON, 2.0 + 4.0 * f64::EPSILON],
            )
        };
        assert_eq!((ulps(Norm::L1), ulps(Norm::Linf)), (3.0, 2.0));
    }

    #[test]
    fn wide_integers_are_exact() {
        let exact = tolerance(DataType::U64, Threshold::Absolute, Norm::None, 0.0);
        let errors = Errors::of(&exact, &u64::MAX.to_le_bytes(), &(u64::MAX - 1).to_le_bytes());
        assert!((errors.beyond, errors.largest) == (1, 1.0) && !errors.pass(&exact));
        let signed = tolerance(DataType::I64, Threshold::Absolute, Norm::None, 0.0);
        assert_eq!(Errors::of(&signed, &i64::MIN.to_le_bytes(), &i64::MAX.to_le_bytes()).largest, 2f64.powi(64));
    }

    #[test]
    fn half_precision() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (0x0001, 2f64.powi(-24)), (0x3555, 0.333251953125)]
        {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
        let ulp = tolerance(DataType::F16, Threshold::Ulp, Norm::None, 1.0);
        assert_eq!(Errors::of(&ulp, &0x3c00u16.to_le_bytes(), &0x3c02u16.to_le_bytes()).beyond, 1);
    }

    #[test]
    fn a_short_tail_is_compared_by_bytes() {
        let loose = tolerance(DataType::F64, Threshold::Absolute, Norm::None, 1e9);
        assert!(Errors::of(&loose, &[1, 2, 3], &[1, 2, 3]).pass(&loose));
        assert!(!Errors::of(&loose, &[1, 2, 3], &[1, 2, 4]).pass(&loose));
    }

    #[test]
    fn an_ignored_buffer_passes() {
        assert!(Errors::of(&Tolerance::ignored(), &[1], &[2]).pass(&Tolerance::ignored()));
    }

    proptest! {
        #[test]
        fn parts_add_up(
            values in proptest::collection::vec((-1e6..1e6f64, -1e6..1e6f64), 1..40),
            cut in 0usize..40,
            norm in 0u8..4,
            kind in 0u8..3,
        ) {
            let (kind, norm) = (Threshold::from_code(kind).unwrap(), Norm::from_code(norm).unwrap());
            let tolerance = tolerance(DataType::F64, kind, norm, 1.0);
            let (recorded, replayed): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            let (recorded, replayed) = (doubles(&recorded), doubles(&replayed));
            let cut = cut * 8 % recorded.len();
            let whole = Errors::of(&tolerance, &recorded, &replayed);
            let parts = Errors::of(&tolerance, &recorded[..cut], &replayed[..cut])
                .and(Errors::of(&tolerance, &recorded[cut..], &replayed[cut..]), tolerance.norm);
            prop_assert_eq!(whole.beyond, parts.beyond);
            let (whole, parts) = (whole.value(&tolerance), parts.value(&tolerance));
            prop_assert!((whole - parts).abs() <= 1e-9 * whole.abs());
        }
    }
}

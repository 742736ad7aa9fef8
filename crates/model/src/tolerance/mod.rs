//! Tolerances: the allowed differences between replayed and recorded memory.
//!
//! Types and their codes come from the existing Mneme's annotations; ULP distances and `ignore` are Mneme's additions.
//! [`measure`] defines the errors that a tolerance bounds; the file `<static-hash>.tolerances.json` belongs to a
//! recording (`mneme_recording::rules`).

pub mod measure;

use serde::{Deserialize, Serialize};

pub use measure::Errors;

/// The element type of a buffer. The discriminants are the existing Mneme's codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum DataType {
    #[default]
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    U64 = 6,
    I64 = 7,
    F16 = 8,
    F32 = 9,
    F64 = 10,
}

impl DataType {
    /// All types, in the order of their codes.
    pub const ALL: [Self; 11] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
    ];

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The name in JSON and on command lines.
    pub fn name(self) -> &'static str {
        ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64"][usize::from(self.code())]
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }
}

/// The kind of error that a threshold bounds. The discriminants are the existing Mneme's codes; it supports the first
/// two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Threshold {
    /// |r - e| for a replayed r and a recorded e.
    #[default]
    Absolute = 0,
    /// |r - e| / max(|e|, the type's smallest normal number).
    Relative = 1,
    /// The number of representable values from e to r.
    Ulp = 2,
}

impl Threshold {
    pub const ALL: [Self; 3] = [Self::Absolute, Self::Relative, Self::Ulp];

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        ["absolute", "relative", "ulp"][usize::from(self.code())]
    }
}

/// The way to combine the errors of a buffer's elements. The discriminants are the existing Mneme's codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Norm {
    /// No combination: every element must pass by itself.
    #[default]
    None = 0,
    L1 = 1,
    L2 = 2,
    Linf = 3,
}

impl Norm {
    pub const ALL: [Self; 4] = [Self::None, Self::L1, Self::L2, Self::Linf];

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        ["none", "l1", "l2", "linf"][usize::from(self.code())]
    }
}

/// The reason for an invalid tolerance.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ToleranceError {
    #[error("a threshold of {threshold:e} accepts every {} there is; give a smaller one, or 'ignore' the buffer by name", dtype.name())]
    AcceptsAll { threshold: f64, dtype: DataType },
    #[error("a threshold of {0} makes no sense; it has to be a number of at least 0")]
    NoBound(f64),
}

/// The comparison of a buffer. The default, all zero, compares bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "an object with dtype, threshold, kind and norm")]
pub struct Tolerance {
    #[serde(default)]
    pub dtype: DataType,
    /// The largest passing error, in the unit of `kind`; not negative and not NaN (see [`Self::check`]).
    #[serde(default)]
    pub threshold: f64,
    #[serde(default)]
    pub kind: Threshold,
    #[serde(default)]
    pub norm: Norm,
    /// Skips the comparison of the buffer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore: bool,
}

/// Compares the threshold's bits, so configurations with a tolerance have a total equality.
impl PartialEq for Tolerance {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.dtype, it.threshold.to_bits(), it.kind, it.norm, it.ignore);
        key(self) == key(other)
    }
}

impl Eq for Tolerance {}

impl Tolerance {
    /// The tolerance that skips a buffer.
    pub fn ignored() -> Self {
        Self { ignore: true, ..Self::default() }
    }

    /// The value of `--tolerance` for all buffers.
    pub fn option(&self) -> String {
        let Self { dtype, threshold, kind, norm, ignore } = self;
        if *ignore {
            return "ignore".into();
        }
        format!("{}:{threshold:e}:{}:{}", dtype.name(), kind.name(), norm.name())
    }

    /// Whether bytes must be equal, regardless of elements.
    pub fn is_exact(&self) -> bool {
        !self.ignore && self.threshold == 0.0 && !self.dtype.is_float()
    }

    /// Checks that this tolerance is valid.
    ///
    /// # Errors
    /// The threshold is not a bound, or every result of the type would pass.
    pub fn check(&self) -> Result<(), ToleranceError> {
        let Self { threshold, dtype, .. } = *self;
        if !self.ignore && threshold >= self.largest_error() {
            return Err(ToleranceError::AcceptsAll { threshold, dtype });
        }
        if threshold.is_nan() || threshold < 0.0 {
            return Err(ToleranceError::NoBound(threshold));
        }
        Ok(())
    }
}

impl Tolerance {
    /// The largest possible error of one element in the unit of the threshold, between finite values. Norms of whole
    /// buffers are unlimited.
    fn largest_error(&self) -> f64 {
        if self.norm != Norm::None {
            return f64::INFINITY;
        }
        let bits = 8 * self.dtype.size() as i32;
        match (self.kind, self.dtype) {
            (Threshold::Relative, _) => f64::INFINITY,
            (Threshold::Absolute, DataType::F16) => 2.0 * 65504.0,
            (Threshold::Absolute, DataType::F32) => 2.0 * f64::from(f32::MAX),
            (Threshold::Absolute, DataType::F64) => f64::MAX,
            // From the largest finite value to its negative.
            (Threshold::Ulp, DataType::F16) => f64::from(2 * 0x7bff_u32),
            (Threshold::Ulp, DataType::F32) => 2.0 * f64::from(0x7f7f_ffff_u32),
            (Threshold::Ulp, DataType::F64) => 2.0 * 0x7fef_ffff_ffff_ffff_u64 as f64,
            (Threshold::Absolute | Threshold::Ulp, _) => 2f64.powi(bits) - 1.0,
        }
    }
}

/// One line for people, such as "f64 within 1e-9 (relative, l2)".
impl std::fmt::Display for Tolerance {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.ignore {
            return formatter.write_str("ignored");
        }
        write!(formatter, "{} within {:e} ({}", self.dtype.name(), self.threshold, self.kind.name())?;
        if self.norm != Norm::None {
            write!(formatter, ", {}", self.norm.name())?;
        }
        formatter.write_str(")")
    }
}

/// An application's annotation of its buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// A name for people, or "".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    #[serde(flatten)]
    pub tolerance: Tolerance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_existing_mnemes() {
        assert_eq!(DataType::ALL.map(DataType::code), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for dtype in DataType::ALL {
            assert_eq!(DataType::from_code(dtype.code()), Some(dtype));
            assert_eq!(serde_json::to_value(dtype).unwrap(), dtype.name());
        }
        for kind in Threshold::ALL {
            assert_eq!(Threshold::from_code(kind.code()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for norm in Norm::ALL {
            assert_eq!(Norm::from_code(norm.code()), Some(norm));
            assert_eq!(serde_json::to_value(norm).unwrap(), norm.name());
        }
        assert_eq!((DataType::from_code(11), Threshold::from_code(3), Norm::from_code(4)), (None, None, None));
    }

    #[test]
    fn all_zero_compares_bytes() {
        assert!(Tolerance::default().is_exact());
        assert!(!Tolerance::ignored().is_exact());
        assert!(
            !Tolerance { dtype: DataType::F32, ..Tolerance::default() }.is_exact(),
            "0.0 and -0.0 are equal as floats"
        );
    }

    #[test]
    fn thresholds_are_checked() {
        for (threshold, fine) in [(0.0, true), (1e-9, true), (f64::INFINITY, false), (-1.0, false), (f64::NAN, false)] {
            assert_eq!(Tolerance { threshold, ..Tolerance::default() }.check().is_ok(), fine, "{threshold}");
        }
    }

    #[test]
    fn thresholds_that_nothing_exceeds_are_refused() {
        use Threshold::{Absolute, Relative, Ulp};
        for (dtype, kind, most) in [
            (DataType::U8, Absolute, 255.0),
            (DataType::I16, Ulp, 65535.0),
            (DataType::F16, Absolute, 131008.0),
            (DataType::F32, Ulp, 2.0 * f64::from(f32::MAX.to_bits())),
            (DataType::F64, Absolute, f64::MAX),
        ] {
            for (threshold, fine) in [(most, false), (0.9 * most, true)] {
                let tolerance = Tolerance { dtype, kind, threshold, ..Tolerance::default() };
                assert_eq!(tolerance.check().is_ok(), fine, "{tolerance}");
            }
        }
        let bounded = |threshold| Tolerance { dtype: DataType::F32, kind: Relative, threshold, ..Tolerance::default() };
        assert!(bounded(1e300).check().is_ok() && bounded(f64::INFINITY).check().is_err());
        let ignored = Tolerance { threshold: f64::INFINITY, ..Tolerance::ignored() };
        assert!(ignored.check().is_ok(), "a buffer that is ignored by name");
    }

    #[test]
    fn a_line_for_people() {
        let tolerance =
            Tolerance { dtype: DataType::F64, threshold: 1e-9, kind: Threshold::Relative, ..Tolerance::default() };
        assert_eq!(tolerance.to_string(), "f64 within 1e-9 (relative)");
        assert_eq!(Tolerance { norm: Norm::L2, ..tolerance }.to_string(), "f64 within 1e-9 (relative, l2)");
        assert_eq!(Tolerance::ignored().to_string(), "ignored");
    }
}

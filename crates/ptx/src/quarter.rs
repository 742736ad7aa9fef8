//! Conversions of floats of eight bits: `cvt` from and to `e4m3x2` and `e5m2x2`.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::Op;
use super::syntax::{Kind, Scalar};

/// The GPU's NaNs: for 16-bit floats, and for both 8-bit formats.
const HALF_NAN: u16 = 0x7fff;
const QUARTER_NAN: u8 = 0x7f;

pub const HALF: Scalar = Scalar { kind: Kind::Float, bits: 16 };

impl<'a> Emitter<'a, '_> {
    /// A float rounded to eight bits; larger values become the largest number.
    pub fn narrow_quarter(&mut self, op: &Op<'a>, bits: &str, from: Scalar, to: Scalar) -> Option<String> {
        let (mantissa, bias, greatest) = match to.kind {
            Kind::E4m3 => (3, 7, 448),
            Kind::E5m2 => (2, 15, 57344),
            _ => return None,
        };
        let least = if op.has("relu") { 0 } else { -greatest };
        let value = self.float_of(bits, from).filter(|_| from.bits < 64)?;
        let value = self.intrinsic("minimum", Ty::F32, &[&value, &format!("{greatest}.0")]);
        let value = self.intrinsic("maximum", Ty::F32, &[&value, &format!("{least}.0")]);
        let wide = self.value(format!("fpext float {value} to double"));
        // This allows more exponents than the remaining numbers need; the all-ones pattern is not a number.
        let rounded = self.narrow_16(&wide, 0, mantissa, bias);
        let sign = self.value(format!("lshr i16 {rounded}, 8"));
        let sign = self.value(format!("and i16 {sign}, 128"));
        let magnitude = self.value(format!("and i16 {rounded}, {QUARTER_NAN}"));
        let both = self.value(format!("or i16 {sign}, {magnitude}"));
        Some(self.value(format!("trunc i16 {both} to i8")))
    }

    /// An 8-bit float as a 16-bit float, exactly.
    pub fn widen_quarter(&mut self, op: &Op<'a>, bits: &str, from: Scalar) -> Option<String> {
        let wide = self.value(format!("zext i8 {bits} to i16"));
        let upper = self.value(format!("shl i16 {wide}, 8"));
        let magnitude = self.value(format!("and i16 {wide}, {QUARTER_NAN}"));
        let (half, from_nan) = match from.kind {
            Kind::E4m3 => {
                // Read as the fields of a 16-bit float, the value is 2^8 times too small: the biases are 7 and 15.
                let fields = self.value(format!("shl i16 {magnitude}, 7"));
                let sign = self.value(format!("and i16 {upper}, -32768"));
                let small = self.value(format!("or i16 {fields}, {sign}"));
                let small = self.float_of(&small, HALF)?;
                let value = self.value(format!("fmul float {small}, 256.0"));
                (self.bits_of(&value, Ty::F32, HALF, 0)?, QUARTER_NAN)
            }
            // The patterns after infinity are NaNs.
            Kind::E5m2 => (upper.clone(), 0x7d),
            _ => return None,
        };
        let mut half = half;
        if op.has("relu") {
            let negative = self.value(format!("icmp slt i16 {upper}, 0"));
            half = self.value(format!("select i1 {negative}, i16 0, i16 {half}"));
        }
        let nan = self.value(format!("icmp uge i16 {magnitude}, {from_nan}"));
        Some(self.value(format!("select i1 {nan}, i16 {HALF_NAN}, i16 {half}")))
    }
}

//! Conversions of floats of eight bits, two at a time: `cvt` from and to `e4m3x2` and `e5m2x2`.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::Op;
use super::syntax::{Kind, Scalar, Type};

/// The GPU's NaNs: for 16-bit floats, and for both 8-bit formats.
const HALF_NAN: u16 = 0x7fff;
const QUARTER_NAN: u8 = 0x7f;

const HALF: Scalar = Scalar { kind: Kind::Float, bits: 16 };
const SINGLE: Scalar = Scalar { kind: Kind::Float, bits: 32 };

impl<'a> Emitter<'a, '_> {
    pub fn convert_quarters(&mut self, op: &Op<'a>, [to_type, from_type]: [Type; 2]) -> Option<()> {
        let (relu, words) = match &op.words[..] {
            [rest @ .., "relu"] => (true, rest),
            all => (false, all),
        };
        let is_half_pair = |ty: Type| ty.scalar == HALF && ty.lanes == 2;
        match (words, &op.operands[..]) {
            (["rn", "satfinite"], [to, sources @ ..]) => {
                let lanes = match sources {
                    // The first goes to the upper half.
                    [upper, lower] if from_type.scalar == SINGLE => [self.bits(lower, 32)?, self.bits(upper, 32)?],
                    [pair] if is_half_pair(from_type) => {
                        let pair = self.bits(pair, 32)?;
                        [0, 1].map(|lane| self.lane(&pair, from_type, lane))
                    }
                    _ => return None,
                };
                let mut quarters = Vec::new();
                for bits in lanes {
                    let value = self.float_of(&bits, from_type.scalar)?;
                    quarters.push(self.narrow_quarter(&value, to_type.scalar, relu)?);
                }
                let value = self.join(&quarters, 8);
                self.write_bits(to, 16, &value, false)
            }
            (["rn"], [to, from]) if is_half_pair(to_type) => {
                let pair = self.bits(from, 16)?;
                let mut halves = Vec::new();
                for lane in 0..2 {
                    let bits = self.lane(&pair, from_type, lane);
                    halves.push(self.widen_quarter(&bits, from_type.scalar, relu)?);
                }
                let value = self.join(&halves, 16);
                self.write_bits(to, 32, &value, false)
            }
            _ => None,
        }
    }

    /// A float rounded to eight bits; larger values become the largest number.
    fn narrow_quarter(&mut self, value: &str, to: Scalar, relu: bool) -> Option<String> {
        let (mantissa, bias, greatest) = match to.kind {
            Kind::E4m3 => (3, 7, 448),
            Kind::E5m2 => (2, 15, 57344),
            _ => return None,
        };
        let least = if relu { 0 } else { -greatest };
        let over = self.value(format!("fcmp ogt float {value}, {greatest}.0"));
        let value = self.value(format!("select i1 {over}, float {greatest}.0, float {value}"));
        let under = self.value(format!("fcmp ole float {value}, {least}.0"));
        let value = self.value(format!("select i1 {under}, float {least}.0, float {value}"));
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
    fn widen_quarter(&mut self, bits: &str, from: Scalar, relu: bool) -> Option<String> {
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
        if relu {
            let negative = self.value(format!("icmp slt i16 {upper}, 0"));
            half = self.value(format!("select i1 {negative}, i16 0, i16 {half}"));
        }
        let nan = self.value(format!("icmp uge i16 {magnitude}, {from_nan}"));
        Some(self.value(format!("select i1 {nan}, i16 {HALF_NAN}, i16 {half}")))
    }
}

//! Conversions of floats of eight bits, two at a time: `cvt` from and to `e4m3x2` and `e5m2x2`.

use super::Machine;
use super::parse::InlineOperand;
use super::types::{Type, TypeKind};

/// What the GPU makes of no number: in halves, and in either format of eight bits.
const HALF_NAN: u16 = 0x7fff;
const QUARTER_NAN: u8 = 0x7f;

const HALF: Type = Type { kind: TypeKind::Float, bits: 16, lanes: 1 };

impl Machine {
    pub(super) fn convert_quarters(
        &mut self,
        modifiers: &[&str],
        [to_type, from_type]: [Type; 2],
        operands: &[InlineOperand],
    ) -> Option<()> {
        let (relu, modifiers) = match modifiers {
            [rest @ .., "relu"] => (true, rest),
            all => (false, all),
        };
        let is_half_pair = |ty: Type| ty.kind == TypeKind::Float && ty.bits == 16 && ty.lanes == 2;
        match (modifiers, operands) {
            // The first becomes the upper half.
            (["rn", "satfinite"], [to, upper, lower]) if from_type.kind == TypeKind::Float && from_type.bits == 32 => {
                let (lower, upper) = (self.read(lower, 32)?, self.read(upper, 32)?);
                self.narrow_quarters(to, to_type, from_type, [lower, upper], relu)
            }
            (["rn", "satfinite"], [to, from]) if is_half_pair(from_type) => {
                let pair = self.read(from, 32)?;
                let lanes = [0, 1].map(|lane| self.lane(&pair, from_type, lane));
                self.narrow_quarters(to, to_type, HALF, lanes, relu)
            }
            (["rn"], [to, from]) if is_half_pair(to_type) => {
                let pair = self.read(from, 16)?;
                let mut halves = Vec::new();
                for lane in 0..2 {
                    let bits = self.lane(&pair, from_type, lane);
                    halves.push(self.widen_quarter(&bits, from_type, relu)?);
                }
                let value = self.join(&halves, 16);
                self.write(to, 32, &value, false)
            }
            _ => None,
        }
    }

    fn narrow_quarters(
        &mut self,
        to: &InlineOperand,
        to_type: Type,
        from_type: Type,
        lanes: [String; 2],
        relu: bool,
    ) -> Option<()> {
        let mut quarters = Vec::new();
        for bits in lanes {
            let value = self.float_of(&bits, from_type)?;
            quarters.push(self.narrow_quarter(&value, to_type, relu)?);
        }
        let value = self.join(&quarters, 8);
        self.write(to, 16, &value, false)
    }

    /// A float rounded to eight bits; what is beyond the greatest number becomes that.
    fn narrow_quarter(&mut self, value: &str, to: Type, relu: bool) -> Option<String> {
        let (mantissa, bias, greatest) = match to.kind {
            TypeKind::E4m3 => (3, 7, 448),
            TypeKind::E5m2 => (2, 15, 57344),
            _ => return None,
        };
        let least = if relu { 0 } else { -greatest };
        let over = self.body.value(format!("fcmp ogt float {value}, {greatest}.0"));
        let value = self.body.value(format!("select i1 {over}, float {greatest}.0, float {value}"));
        let under = self.body.value(format!("fcmp ole float {value}, {least}.0"));
        let value = self.body.value(format!("select i1 {under}, float {least}.0, float {value}"));
        let wide = self.body.value(format!("fpext float {value} to double"));
        // With more bits for the exponent, of which the numbers that are left need none; no number is all ones.
        let rounded = self
            .body
            .value(format!("call i16 @__mneme_cpu.narrow16(double {wide}, i32 0, i64 {mantissa}, i64 {bias})"));
        let sign = self.body.value(format!("lshr i16 {rounded}, 8"));
        let sign = self.body.value(format!("and i16 {sign}, 128"));
        let magnitude = self.body.value(format!("and i16 {rounded}, {QUARTER_NAN}"));
        let both = self.body.value(format!("or i16 {sign}, {magnitude}"));
        Some(self.body.value(format!("trunc i16 {both} to i8")))
    }

    /// A float of eight bits as a half, exactly.
    fn widen_quarter(&mut self, bits: &str, from: Type, relu: bool) -> Option<String> {
        let wide = self.body.value(format!("zext i8 {bits} to i16"));
        let upper = self.body.value(format!("shl i16 {wide}, 8"));
        let magnitude = self.body.value(format!("and i16 {wide}, {QUARTER_NAN}"));
        let (half, from_nan) = match from.kind {
            TypeKind::E4m3 => {
                // As the fields of a half it is 2^8 times too small: the biases are 7 and 15.
                let fields = self.body.value(format!("shl i16 {magnitude}, 7"));
                let sign = self.body.value(format!("and i16 {upper}, -32768"));
                let small = self.body.value(format!("or i16 {fields}, {sign}"));
                let small = self.float_of(&small, HALF)?;
                let value = self.body.value(format!("fmul float {small}, 256.0"));
                (self.bits_of(&value, "float", HALF, 0)?, QUARTER_NAN)
            }
            // Infinity is followed by what is no number.
            TypeKind::E5m2 => (upper.clone(), 0x7d),
            _ => return None,
        };
        let mut half = half;
        if relu {
            let negative = self.body.value(format!("icmp slt i16 {upper}, 0"));
            half = self.body.value(format!("select i1 {negative}, i16 0, i16 {half}"));
        }
        let nan = self.body.value(format!("icmp uge i16 {magnitude}, {from_nan}"));
        Some(self.body.value(format!("select i1 {nan}, i16 {HALF_NAN}, i16 {half}")))
    }
}

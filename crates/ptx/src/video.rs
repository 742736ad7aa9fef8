//! Video instructions on two halves or four bytes, such as `vadd4`, `vabsdiff2` and `vset4`.

use super::comparisons;
use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::Op;
use super::syntax::{Kind, Scalar};

/// The type of lanes in computations.
const WORD: Scalar = Scalar { kind: Kind::Signed, bits: 32 };

impl<'a> Emitter<'a, '_> {
    pub fn video(&mut self, op: &Op<'a>) -> Option<()> {
        let lanes = if op.name.ends_with('2') { 2 } else { 4 };
        let [to, a, b, c] = &op.operands[..] else { return None };
        let (a, b, c) = (self.bits(a, 32)?, self.bits(b, 32)?, self.bits(c, 32)?);
        let (result, left, right) = match op.types[..] {
            [result, left, right] => (result.scalar, left.scalar, right.scalar),
            // `vset` lacks a type for its result.
            [left, right] => (left.scalar, left.scalar, right.scalar),
            _ => return None,
        };
        let (saturate, add) = (op.has("sat"), op.has("add"));
        let bits = 32 / lanes;
        let mut values = Vec::new();
        for lane in 0..lanes {
            let mut part = |value: &str, scalar: Scalar| {
                let low = self.part(value, 32, lane * bits, bits);
                self.extend(&low, bits, 32, scalar.is_signed())
            };
            let (x, y) = (part(&a, left), part(&b, right));
            let value = self.video_lane(op, &x, &y)?;
            values.push(if saturate { self.saturate(&value, WORD, Scalar { bits, ..result }) } else { value });
        }
        if add {
            let mut sum = c;
            for value in &values {
                sum = self.value(format!("add i32 {sum}, {value}"));
            }
            return self.write_bits(to, 32, &sum, false);
        }
        // Lanes outside an instruction's mask come from c; here all lanes are in the mask.
        let parts: Vec<String> = values.iter().map(|value| self.resize(value, 32, bits, false)).collect();
        let value = self.join(&parts, bits);
        self.write_bits(to, 32, &value, false)
    }

    fn video_lane(&mut self, op: &Op<'a>, x: &str, y: &str) -> Option<String> {
        let mut extremum = |name: &str| self.intrinsic(name, Ty::Int(32), &[x, y]);
        // Lanes are extended to 32 bits, so signed comparison works for both signs.
        Some(match op.name.trim_end_matches(['2', '4']) {
            "vadd" => self.value(format!("add i32 {x}, {y}")),
            "vsub" => self.value(format!("sub i32 {x}, {y}")),
            "vmin" => extremum("smin"),
            "vmax" => extremum("smax"),
            "vabsdiff" => {
                let (greater, less) = (extremum("smax"), extremum("smin"));
                self.value(format!("sub i32 {greater}, {less}"))
            }
            "vavrg" => {
                let sum = self.value(format!("add i32 {x}, {y}"));
                let positive = self.value(format!("icmp sge i32 {sum}, 0"));
                let round = self.resize(&positive, 1, 32, false);
                let rounded = self.value(format!("add i32 {sum}, {round}"));
                self.value(format!("ashr i32 {rounded}, 1"))
            }
            "vset" => {
                let relation = op.words.iter().find_map(|word| comparisons::of_integers(word, true))?;
                let flag = self.value(format!("icmp {relation} i32 {x}, {y}"));
                self.resize(&flag, 1, 32, false)
            }
            _ => return None,
        })
    }
}

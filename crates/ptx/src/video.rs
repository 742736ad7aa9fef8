//! Video instructions on two halves or four bytes, such as `vadd4`, `vabsdiff2` and `vset4`.

use super::comparisons;
use super::emitter::Emitter;
use super::resolve::Op;
use super::syntax::Scalar;

/// The operation and number of lanes of a video instruction.
fn family(name: &str) -> Option<(&str, u32)> {
    let (operation, lanes) = match name.strip_suffix('2') {
        Some(operation) => (operation, 2),
        None => (name.strip_suffix('4')?, 4),
    };
    ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg", "vset"].contains(&operation).then_some((operation, lanes))
}

impl<'a> Emitter<'a, '_> {
    pub fn video(&mut self, op: &Op<'a>) -> Option<()> {
        let (operation, lanes) = family(op.name)?;
        let [to, a, b, c] = &op.operands[..] else { return None };
        let (a, b, c) = (self.bits(a, 32)?, self.bits(b, 32)?, self.bits(c, 32)?);
        let (result, left, right) = match op.types()[..] {
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
            let value = self.video_lane(op, operation, &x, &y)?;
            values.push(if saturate { self.clamp(&value, bits, result.is_signed()) } else { value });
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

    fn video_lane(&mut self, op: &Op<'a>, operation: &str, x: &str, y: &str) -> Option<String> {
        let mut extremum = |name: &str| self.value(format!("call i32 @llvm.{name}.i32(i32 {x}, i32 {y})"));
        // Lanes are extended to 32 bits, so signed comparison works for both signs.
        Some(match operation {
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
                let relation = op.modifiers.iter().find(|part| ["eq", "ne", "lt", "le", "gt", "ge"].contains(*part))?;
                let relation = comparisons::of_integers(relation, true)?;
                let flag = self.value(format!("icmp {relation} i32 {x}, {y}"));
                self.resize(&flag, 1, 32, false)
            }
            _ => return None,
        })
    }

    fn clamp(&mut self, value: &str, bits: u32, signed: bool) -> String {
        let (low, high) =
            if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
        let raised = self.value(format!("call i32 @llvm.smax.i32(i32 {value}, i32 {low})"));
        self.value(format!("call i32 @llvm.smin.i32(i32 {raised}, i32 {high})"))
    }
}

//! Video instructions on two halves or four bytes, such as `vadd4`, `vabsdiff2` and `vset4`.

use super::Machine;
use super::parse::InlineOperand;
use super::types::Type;

/// The operation and number of lanes of a video instruction.
pub fn family(name: &str) -> Option<(&str, u32)> {
    let (operation, lanes) = match name.strip_suffix('2') {
        Some(operation) => (operation, 2),
        None => (name.strip_suffix('4')?, 4),
    };
    ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg", "vset"].contains(&operation).then_some((operation, lanes))
}

impl Machine {
    pub(super) fn simd(
        &mut self,
        operation: &str,
        lanes: u32,
        modifiers: &[&str],
        types: &[Type],
        operands: &[InlineOperand],
    ) -> Option<()> {
        let [to, a, b, c] = operands else { return None };
        let (a, b, c) = (self.read(a, 32)?, self.read(b, 32)?, self.read(c, 32)?);
        let (result, left, right) = match types {
            [result, left, right] => (*result, *left, *right),
            // `vset` has no type of its result.
            [left, right] => (*left, *left, *right),
            _ => return None,
        };
        let (saturate, add) = (modifiers.contains(&"sat"), modifiers.contains(&"add"));
        let bits = 32 / lanes;
        let mut values = Vec::new();
        for lane in 0..lanes {
            let mut part = |value: &str, ty: Type| {
                let moved = self.body.value(format!("lshr i32 {value}, {}", lane * bits));
                let low = self.resize(&moved, 32, bits, false);
                self.resize(&low, bits, 32, ty.is_signed())
            };
            let (x, y) = (part(&a, left), part(&b, right));
            let value = self.simd_lane(operation, modifiers, left, &x, &y)?;
            values.push(if saturate { self.clamp(&value, bits, result.is_signed()) } else { value });
        }
        if add {
            let mut sum = c;
            for value in &values {
                sum = self.body.value(format!("add i32 {sum}, {value}"));
            }
            return self.write(to, 32, &sum, false);
        }
        // Lanes that an instruction's mask leaves out come from c; all lanes are taken here.
        let parts: Vec<String> = values.iter().map(|value| self.resize(value, 32, bits, false)).collect();
        let value = self.join(&parts, bits);
        self.write(to, 32, &value, false)
    }

    fn simd_lane(&mut self, operation: &str, modifiers: &[&str], ty: Type, x: &str, y: &str) -> Option<String> {
        let mut extremum = |name: &str| self.body.value(format!("call i32 @llvm.{name}.i32(i32 {x}, i32 {y})"));
        // Lanes are extended to 32 bits, so that signed comparison is right for both signs.
        Some(match operation {
            "vadd" => self.body.value(format!("add i32 {x}, {y}")),
            "vsub" => self.body.value(format!("sub i32 {x}, {y}")),
            "vmin" => extremum("smin"),
            "vmax" => extremum("smax"),
            "vabsdiff" => {
                let (greater, less) = (extremum("smax"), extremum("smin"));
                self.body.value(format!("sub i32 {greater}, {less}"))
            }
            "vavrg" => {
                let sum = self.body.value(format!("add i32 {x}, {y}"));
                let positive = self.body.value(format!("icmp sge i32 {sum}, 0"));
                let round = self.resize(&positive, 1, 32, false);
                let rounded = self.body.value(format!("add i32 {sum}, {round}"));
                self.body.value(format!("ashr i32 {rounded}, 1"))
            }
            "vset" => {
                let relation = modifiers.iter().find(|part| ["eq", "ne", "lt", "le", "gt", "ge"].contains(*part))?;
                let sign = match (*relation, ty.is_signed()) {
                    ("eq" | "ne", _) => "",
                    (_, true) => "s",
                    (_, false) => "u",
                };
                let flag = self.body.value(format!("icmp {sign}{relation} i32 {x}, {y}"));
                self.resize(&flag, 1, 32, false)
            }
            _ => return None,
        })
    }

    fn clamp(&mut self, value: &str, bits: u32, signed: bool) -> String {
        let (low, high) =
            if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
        let raised = self.body.value(format!("call i32 @llvm.smax.i32(i32 {value}, i32 {low})"));
        self.body.value(format!("call i32 @llvm.smin.i32(i32 {raised}, i32 {high})"))
    }
}

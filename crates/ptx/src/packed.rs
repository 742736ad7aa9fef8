//! Integer instructions on two numbers of 16 bits.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::Op;

impl<'a> Emitter<'a, '_> {
    pub fn packed(&mut self, op: &Op<'a>) -> Option<()> {
        let (ty, [to, a, b]) = (op.ty()?, &op.operands[..]) else { return None };
        let (number, signed) = (Ty::of(ty.scalar), ty.scalar.is_signed());
        let text = number.text();
        let (a, b) = (self.bits(a, ty.bits())?, self.bits(b, ty.bits())?);
        let mut lanes = Vec::new();
        for lane in 0..ty.lanes {
            let (a, b) = (self.lane(&a, ty, lane), self.lane(&b, ty, lane));
            let arguments = [(number, a.as_str()), (number, b.as_str())];
            let value = match op.name {
                "add" | "sub" => self.value(format_args!("{} {text} {a}, {b}", op.name)),
                "min" | "max" => {
                    let sign = if signed { "s" } else { "u" };
                    self.call(number, &format!("llvm.{sign}{}.{text}", op.name), &arguments)
                }
                _ => return None,
            };
            lanes.push(match op.words[..] {
                [] => value,
                ["relu"] => self.call(number, &format!("llvm.smax.{text}"), &[(number, &value), (number, "0")]),
                _ => return None,
            });
        }
        let value = self.join(&lanes, ty.scalar.bits);
        self.write_bits(to, ty.bits(), &value, false)
    }
}

//! Floating-point arithmetic.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::Op;

impl<'a> Emitter<'a, '_> {
    pub fn float(&mut self, op: &Op<'a>) -> Option<()> {
        let scalar = op.scalar()?;
        let ty = Ty::of(scalar);
        let text = ty.text();
        let (to, sources) = op.operands.split_first()?;
        let flushes = op.has("ftz");
        let suffix = match ty {
            Ty::Half => "f16",
            Ty::F32 => "f32",
            _ => "f64",
        };
        // Approximations are the device's own; the intrinsics say for themselves what they flush.
        if op.has("approx") && op.only(1, &["approx", "ftz"]) {
            let name = match (op.name, ty, flushes) {
                ("rcp" | "rsqrt", Ty::F64, _) => return None,
                ("rcp", Ty::F32, false) => return None,
                ("rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "div", Ty::F32, true) => "approx.ftz.f",
                ("sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "div", Ty::F32, false) => "approx.f",
                _ => return None,
            };
            let name = format!("llvm.nvvm.{}.{name}", op.name);
            let values = sources.iter().map(|source| self.read(source, ty)).collect::<Option<Vec<_>>>()?;
            let arguments: Vec<(Ty, &str)> = values.iter().map(|value| (ty, value.as_str())).collect();
            if arguments.len() != if op.name == "div" { 2 } else { 1 } {
                return None;
            }
            let value = self.call(ty, &name, &arguments);
            return self.write_to(to, ty, &value, false);
        }
        if flushes {
            return self.flushing(op, ty);
        }
        let strict = op.has("rn");
        if !op.only(1, &["rn"]) {
            return self.special_minimum(op, ty, suffix);
        }
        match (op.name, sources) {
            ("add" | "sub" | "mul", [a, b]) => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                // Without a rounding mode they may be fused.
                let flag = if strict { "" } else { "contract " };
                let value = self.value(format_args!("f{} {flag}{text} {a}, {b}", op.name));
                self.write_to(to, ty, &value, false)
            }
            ("fma" | "mad", [a, b, c]) if strict => {
                let (a, b, c) = (self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
                let arguments = [(ty, a.as_str()), (ty, b.as_str()), (ty, c.as_str())];
                let value = self.call(ty, &format!("llvm.fma.{suffix}"), &arguments);
                self.write_to(to, ty, &value, false)
            }
            ("div", [a, b]) if strict && ty != Ty::Half => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let value = self.value(format_args!("fdiv {text} {a}, {b}"));
                self.write_to(to, ty, &value, false)
            }
            ("rcp", [a]) if strict && ty != Ty::Half => {
                let a = self.read(a, ty)?;
                let value = self.value(format_args!("fdiv {text} 1.0, {a}"));
                self.write_to(to, ty, &value, false)
            }
            ("sqrt", [a]) if strict && ty != Ty::Half => {
                let a = self.read(a, ty)?;
                let value = self.call(ty, &format!("llvm.sqrt.{suffix}"), &[(ty, a.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            ("neg", [a]) => {
                let a = self.read(a, ty)?;
                let value = self.value(format_args!("fneg {text} {a}"));
                self.write_to(to, ty, &value, false)
            }
            ("abs", [a]) => {
                let a = self.read(a, ty)?;
                let value = self.call(ty, &format!("llvm.fabs.{suffix}"), &[(ty, a.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            ("min" | "max", [a, b]) if ty != Ty::Half => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let name = format!("llvm.{}num.{suffix}", op.name);
                let value = self.call(ty, &name, &[(ty, a.as_str()), (ty, b.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            ("copysign", [a, b]) if ty != Ty::Half => {
                // The sign is the first one's.
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let name = format!("llvm.copysign.{suffix}");
                let value = self.call(ty, &name, &[(ty, b.as_str()), (ty, a.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            _ => None,
        }
    }

    /// What flushes denormals (`.ftz`): intrinsics that flush by themselves. LLVM's own operations do it for whole
    /// functions, and forget it where they fold (`x * 1`). What may be fused stays for the assembler to do so.
    fn flushing(&mut self, op: &Op<'a>, ty: Ty) -> Option<()> {
        let (to, sources) = op.operands.split_first()?;
        let name = match (op.name, &op.modifiers[..]) {
            ("add" | "mul" | "fma" | "div" | "rcp" | "sqrt", ["rn", "ftz", "f32"]) => format!("{}.rn.ftz.f", op.name),
            ("min" | "max", ["ftz", "f32"]) => format!("f{}.ftz.f", op.name),
            ("min" | "max", ["ftz", "NaN", "f32"]) => format!("f{}.ftz.nan.f", op.name),
            _ => return None,
        };
        let count = match op.name {
            "rcp" | "sqrt" => 1,
            "fma" => 3,
            _ => 2,
        };
        if sources.len() != count {
            return None;
        }
        let values = sources.iter().map(|source| self.read(source, ty)).collect::<Option<Vec<_>>>()?;
        let arguments: Vec<(Ty, &str)> = values.iter().map(|value| (ty, value.as_str())).collect();
        let value = self.call(ty, &format!("llvm.nvvm.{name}"), &arguments);
        self.write_to(to, ty, &value, false)
    }

    /// The least or greatest where NaN comes out of NaN.
    fn special_minimum(&mut self, op: &Op<'a>, ty: Ty, suffix: &str) -> Option<()> {
        let [to, a, b] = &op.operands[..] else { return None };
        if ty != Ty::F32 || !op.only(1, &["NaN"]) || !matches!(op.name, "min" | "max") {
            return None;
        }
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let name = format!("llvm.{}imum.{suffix}", op.name);
        let value = self.call(ty, &name, &[(ty, a.as_str()), (ty, b.as_str())]);
        self.write_to(to, ty, &value, false)
    }
}

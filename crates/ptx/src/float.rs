//! Floating-point arithmetic.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::{Kind, Scalar, Type};

/// Rounding modes by the CPU device's numbers: to nearest, to zero, down, up.
const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

pub fn rounding_mode(word: &str) -> Option<usize> {
    ROUNDINGS.iter().position(|mode| *mode == word)
}

impl Scalar {
    /// The type in which the CPU device computes values of a float type.
    pub fn computed(self) -> Ty {
        if self.bits == 64 { Ty::F64 } else { Ty::F32 }
    }
}

/// The suffix of intrinsics for a type.
fn suffix(ty: Ty) -> &'static str {
    if ty == Ty::F64 { "d" } else { "f" }
}

impl<'a> Emitter<'a, '_> {
    pub fn float(&mut self, op: &Op<'a>) -> Option<()> {
        if op.name == "copysign" {
            return self.copy_sign(op);
        }
        let plain = op.scalar().and_then(|scalar| self.plain_float(op, Ty::of(scalar)));
        match plain {
            None if self.is_cpu() => self.float_lanes(op),
            done => done,
        }
    }

    /// The sign of one number before the other bits of another.
    ///
    /// These have to be the bits of the operands, also of NaNs. Not so `abs.f64` of a GPU, which LLVM uses for
    /// `llvm.copysign` and for `and` with a mask. It does not see through a shift of both numbers.
    fn copy_sign(&mut self, op: &Op<'a>) -> Option<()> {
        let ([to, sign, rest], scalar) = (&op.operands[..], op.scalar()?) else { return None };
        let ty = Ty::Int(scalar.bits);
        let (text, last) = (ty.text(), (scalar.bits - 1).to_string());
        let (sign, rest) = (self.read(sign, ty)?, self.read(rest, ty)?);
        let sign = self.value(format_args!("lshr {text} {sign}, {last}"));
        let rest = self.value(format_args!("shl {text} {rest}, 1"));
        let value = self.call(ty, &format!("llvm.fshl.{text}"), &[(ty, &sign), (ty, &rest), (ty, &last)]);
        self.write_to(to, ty, &value, false)
    }

    /// Instructions with equivalent operations or intrinsics in LLVM.
    fn plain_float(&mut self, op: &Op<'a>, ty: Ty) -> Option<()> {
        let (to, sources) = op.operands.split_first()?;
        let (text, flushes, strict, cpu) = (ty.text(), op.has("ftz"), op.has("rn"), self.is_cpu());
        let suffix = match ty {
            // Sums of 16-bit floats are rounded once; the C library rounds twice.
            Ty::Half if cpu => return None,
            Ty::Half => "f16",
            Ty::F32 => "f32",
            _ => "f64",
        };
        let operands: Vec<(Ty, &Resolved<'a>)> = sources.iter().map(|source| (ty, source)).collect();
        let count = match op.name {
            "fma" | "mad" => 3,
            "add" | "sub" | "mul" | "div" | "min" | "max" => 2,
            _ => 1,
        };
        if operands.len() != count {
            return None;
        }
        // Approximations are specific to the device; the intrinsics' names include the flushing.
        if op.has("approx") && op.only(1, &["approx", "ftz"]) {
            let name = match (op.name, ty, flushes) {
                ("rcp" | "rsqrt", Ty::F64, _) => return None,
                ("rcp", Ty::F32, false) => return None,
                ("rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "div", Ty::F32, true) => "approx.ftz.f",
                ("sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "div", Ty::F32, false) => "approx.f",
                _ => return None,
            };
            let value = self.apply(ty, &format!("llvm.nvvm.{}.{name}", op.name), &operands)?;
            return self.write_to(to, ty, &value, false);
        }
        // Use intrinsics that flush: LLVM's own operations flush for whole functions only, and lose it when folded (`x
        // * 1`). Fusing is left to the assembler.
        let name = match (op.name, &op.modifiers[..]) {
            ("add" | "mul" | "fma" | "div" | "rcp" | "sqrt", ["rn", "ftz", "f32"]) => {
                format!("llvm.nvvm.{}.rn.ftz.f", op.name)
            }
            ("min" | "max", ["ftz", "f32"]) => format!("llvm.nvvm.f{}.ftz.f", op.name),
            ("min" | "max", ["ftz", "NaN", "f32"]) => format!("llvm.nvvm.f{}.ftz.nan.f", op.name),
            _ if flushes => return None,
            ("min" | "max", ["NaN", "f32"]) => format!("llvm.{}imum.{suffix}", op.name),
            _ if !op.only(1, &["rn"]) => return None,
            ("fma" | "mad", _) if strict => format!("llvm.fma.{suffix}"),
            ("abs", _) => format!("llvm.fabs.{suffix}"),
            ("sqrt", _) if strict && ty != Ty::Half => format!("llvm.sqrt.{suffix}"),
            // Here the sign of zeros matters.
            ("min" | "max", _) if cpu => return None,
            ("min" | "max", _) if ty != Ty::Half => format!("llvm.{}num.{suffix}", op.name),
            _ => {
                let values = sources.iter().map(|source| self.read(source, ty)).collect::<Option<Vec<_>>>()?;
                let value = match (op.name, &values[..]) {
                    ("add" | "sub" | "mul", [a, b]) => {
                        // Without a rounding mode they may be fused.
                        let flag = if strict || cpu { "" } else { "contract " };
                        self.value(format_args!("f{} {flag}{text} {a}, {b}", op.name))
                    }
                    ("div", [a, b]) if strict && ty != Ty::Half => self.value(format_args!("fdiv {text} {a}, {b}")),
                    ("rcp", [a]) if strict && ty != Ty::Half => self.value(format_args!("fdiv {text} 1.0, {a}")),
                    ("neg", [a]) => self.value(format_args!("fneg {text} {a}")),
                    _ => return None,
                };
                return self.write_to(to, ty, &value, false);
            }
        };
        let value = self.apply(ty, &name, &operands)?;
        self.write_to(to, ty, &value, false)
    }

    // The rest is for the CPU device, which computes 16-bit floats in wider types and rounds once.

    /// An arithmetic instruction, applied number by number.
    fn float_lanes(&mut self, op: &Op<'a>) -> Option<()> {
        let (ty, (to, sources)) = (op.ty()?, op.operands.split_first()?);
        let whole = sources.iter().map(|source| self.bits(source, ty.bits())).collect::<Option<Vec<_>>>()?;
        let mut lanes = Vec::new();
        for lane in 0..ty.lanes {
            let arguments: Vec<String> = whole.iter().map(|value| self.lane(value, ty, lane)).collect();
            lanes.push(self.float_lane(op, ty.scalar, &arguments)?);
        }
        let value = self.join(&lanes, ty.scalar.bits);
        self.write_bits(to, ty.bits(), &value, false)
    }

    fn float_lane(&mut self, op: &Op<'a>, scalar: Scalar, arguments: &[String]) -> Option<String> {
        let bits = scalar.bits;
        let (magnitude, sign) = (u64::MAX >> (65 - bits), 1u64 << (bits - 1));
        let flush = op.has("ftz");
        match (op.name, arguments) {
            ("neg", [a]) if !flush => return Some(self.value(format_args!("xor i{bits} {a}, {sign}"))),
            ("abs", [a]) if !flush => return Some(self.value(format_args!("and i{bits} {a}, {magnitude}"))),
            _ => {}
        }
        let sixteen = bits == 16;
        // Sums and products of 16-bit floats are exact or nearly so in double; float suffices for everything else.
        let is_exact = sixteen && matches!(op.name, "add" | "sub" | "mul" | "fma" | "mad");
        let computed = if is_exact { Ty::F64 } else { scalar.computed() };
        let mut values = Vec::new();
        for argument in arguments {
            let argument = if flush { self.flush(argument, bits) } else { argument.clone() };
            let mut value = self.float_of(&argument, scalar)?;
            if computed != scalar.computed() {
                value = self.value(format_args!("fpext float {value} to double"));
            }
            values.push(value);
        }
        let mode = op.modifiers.iter().find_map(|word| rounding_mode(word)).unwrap_or(0);
        let rounding = ROUNDINGS[if sixteen { 0 } else { mode }];
        let approximate = op.has("approx") || op.has("full");
        let mut value = match op.name {
            "fma" if scalar.kind == Kind::Brain => self.fused_to_odd(&values),
            "add" | "mul" | "fma" => self.operate(op.name, rounding, computed, &values),
            "mad" => self.operate("fma", rounding, computed, &values),
            "sub" => {
                let [a, b] = &values[..] else { return None };
                let opposite = self.value(format_args!("fneg {} {b}", computed.text()));
                self.operate("add", rounding, computed, &[a.clone(), opposite])
            }
            "div" | "rcp" | "sqrt" if !approximate => self.operate(op.name, rounding, computed, &values),
            "div" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                self.operate(op.name, "approx", computed, &values)
            }
            "min" | "max" => {
                let how = [("NaN", ".nan"), ("xorsign", ".xorsign"), ("abs", ".abs")];
                let how: String = how.iter().filter(|(word, _)| op.has(word)).map(|(_, name)| *name).collect();
                let name = format!("f{}{how}", op.name);
                let (first, rest) = values.split_first()?;
                rest.iter().fold(first.clone(), |least, other| {
                    let arguments = [(computed, least.as_str()), (computed, other.as_str())];
                    self.call(computed, &format!("llvm.nvvm.{name}.{}", suffix(computed)), &arguments)
                })
            }
            "neg" => self.value(format_args!("fneg {} {}", computed.text(), values.first()?)),
            "abs" => self.call(computed, &format!("llvm.fabs.f{}", computed.bits()), &[(computed, values.first()?)]),
            _ => return None,
        };
        value = self.bounded(op, computed, value);
        let value = self.bits_of(&value, computed, scalar, mode)?;
        Some(if flush { self.flush(&value, bits) } else { value })
    }

    /// An operation with a rounding mode, or an approximate one.
    fn operate(&mut self, operation: &str, how: &str, ty: Ty, values: &[String]) -> String {
        let arguments: Vec<(Ty, &str)> = values.iter().map(|value| (ty, value.as_str())).collect();
        self.call(ty, &format!("llvm.nvvm.{operation}.{how}.{}", suffix(ty)), &arguments)
    }

    /// A fused multiply-add in double precision that may be rounded again: the last bit is set if bits are lost. The
    /// exponents of `bf16` operands may differ by more than a double's precision.
    fn fused_to_odd(&mut self, values: &[String]) -> String {
        let [cut, below, above] = ["rz", "rm", "rp"].map(|how| self.operate("fma", how, Ty::F64, values));
        let inexact = self.value(format_args!("fcmp one double {below}, {above}"));
        let (last, bits) = (self.extend(&inexact, 1, 64, false), self.cast(&cut, Ty::F64, Ty::Int(64)));
        let odd = self.value(format_args!("or i64 {bits}, {last}"));
        self.cast(&odd, Ty::Int(64), Ty::F64)
    }

    /// The value limited to the range of `.sat` and `.relu`.
    pub fn bounded(&mut self, op: &Op<'a>, ty: Ty, mut value: String) -> String {
        if op.has("sat") {
            value = self.call(ty, &format!("llvm.nvvm.saturate.{}", suffix(ty)), &[(ty, value.as_str())]);
        }
        if op.has("relu") {
            let text = ty.text();
            let negative = self.value(format_args!("fcmp ole {text} {value}, 0.0"));
            value = self.value(format_args!("select i1 {negative}, {text} 0.0, {text} {value}"));
        }
        value
    }

    /// A float with denormals flushed to zero of the same sign (`.ftz`).
    pub fn flush(&mut self, value: &str, bits: u32) -> String {
        let (exponent, sign): (u64, u64) = match bits {
            16 => (0x7c00, 0x8000),
            32 => (0x7f80_0000, 0x8000_0000),
            _ => (0x7ff << 52, 1 << 63),
        };
        let own = self.value(format_args!("and i{bits} {value}, {exponent}"));
        let small = self.value(format_args!("icmp eq i{bits} {own}, 0"));
        let zero = self.value(format_args!("and i{bits} {value}, {sign}"));
        self.value(format_args!("select i1 {small}, i{bits} {zero}, i{bits} {value}"))
    }

    /// One of several numbers in a value, in the type for computing.
    pub fn number(&mut self, whole: &str, ty: Type, lane: u32, flushes: bool) -> Option<String> {
        let mut bits = self.lane(whole, ty, lane);
        if flushes && matches!(ty.scalar.bits, 16 | 32) {
            bits = self.flush(&bits, ty.scalar.bits);
        }
        if ty.scalar.is_float() { self.float_of(&bits, ty.scalar) } else { Some(bits) }
    }

    /// The bits of a float as a value in the type for computing.
    pub fn float_of(&mut self, bits: &str, scalar: Scalar) -> Option<String> {
        Some(match (scalar.kind, scalar.bits) {
            (Kind::Float, 64) => self.cast(bits, Ty::Int(64), Ty::F64),
            (Kind::Float, 32) => self.cast(bits, Ty::Int(32), Ty::F32),
            (Kind::Float, 16) => {
                let half = self.cast(bits, Ty::Int(16), Ty::Half);
                self.value(format_args!("fpext half {half} to float"))
            }
            (Kind::Brain, 16) => {
                let high = self.join(&["0".into(), bits.to_owned()], 16);
                self.cast(&high, Ty::Int(32), Ty::F32)
            }
            _ => return None,
        })
    }

    /// A computed value, rounded to a float type, as bits.
    pub fn bits_of(&mut self, value: &str, from: Ty, scalar: Scalar, mode: usize) -> Option<String> {
        let mut wide = |value: &str| match from {
            Ty::F64 => value.to_owned(),
            _ => self.value(format_args!("fpext float {value} to double")),
        };
        let (value, ty) = match (scalar.kind, scalar.bits, from) {
            (Kind::Float, 64, _) => (wide(value), Ty::F64),
            (Kind::Float, 32, Ty::F32) => (value.to_owned(), Ty::F32),
            (Kind::Float, 32, _) if mode == 0 => (self.value(format_args!("fptrunc double {value} to float")), Ty::F32),
            (Kind::Float, 32, _) => {
                let call = format!("call float @__mneme_cpu.narrow(double {value}, i32 {mode})");
                (self.value(call), Ty::F32)
            }
            (kind, 16, _) => {
                let wide = wide(value);
                let (mantissa, bias) = if kind == Kind::Brain { (7, 127) } else { (10, 15) };
                return Some(self.narrow_16(&wide, mode, mantissa, bias));
            }
            _ => return None,
        };
        Some(self.cast(&value, ty, Ty::Int(ty.bits())))
    }

    /// The bits of a float with this many bits of fraction, and a bias of the exponent.
    pub fn narrow_16(&mut self, value: &str, mode: usize, mantissa: u32, bias: u32) -> String {
        self.value(format_args!(
            "call i16 @__mneme_cpu.narrow16(double {value}, i32 {mode}, i64 {mantissa}, i64 {bias})"
        ))
    }

    pub fn test_property(&mut self, op: &Op<'a>) -> Option<()> {
        let (scalar, [to, from]) = (op.scalar()?, &op.operands[..]) else { return None };
        // LLVM's classes: NaN 3, infinity 0x204, normal 0x108, subnormal 0x90, zero 0x60.
        let classes = match op.words()[..] {
            ["finite"] => 0x1f8,
            ["infinite"] => 0x204,
            ["number"] => 0x3fc,
            ["notanumber"] => 0x3,
            // Zeros count as normal.
            ["normal"] => 0x168,
            ["subnormal"] => 0x90,
            _ => return None,
        };
        let ty = Ty::of(scalar);
        let value = self.read(from, ty)?;
        let call = format!("call i1 @llvm.is.fpclass.f{}({} {value}, i32 {classes})", ty.bits(), ty.text());
        let flag = self.value(call);
        self.write_bits(to, 1, &flag, false)
    }
}

//! Floating-point arithmetic.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::Op;
use super::syntax::{Kind, Scalar, Type};

/// Rounding modes by the CPU device's numbers: to nearest, to zero, down, up.
pub const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

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
pub fn suffix(ty: Ty) -> &'static str {
    if ty == Ty::F64 { "d" } else { "f" }
}

impl<'a> Emitter<'a, '_> {
    /// The CPU device computes 16-bit floats in wider types and rounds once; a GPU's instructions are LLVM's.
    pub fn float(&mut self, op: &Op<'a>) -> Option<()> {
        match op.name {
            "copysign" => self.copy_sign(op),
            _ if self.is_cpu() => self.float_lanes(op),
            _ => self.gpu_float(op),
        }
    }

    /// The sign of one number before the other bits of another.
    ///
    /// PTX copies the bits of NaNs, too. On a GPU `abs.f64` and `neg.f64` change them, and LLVM uses these for
    /// `llvm.copysign` and for an `and` with a mask. It does not recognise the shift of both numbers.
    fn copy_sign(&mut self, op: &Op<'a>) -> Option<()> {
        let ([to, sign, rest], scalar) = (&op.operands[..], op.scalar()?) else { return None };
        let ty = Ty::Int(scalar.bits);
        let (sign, rest, last) = (self.read(sign, ty)?, self.read(rest, ty)?, (scalar.bits - 1).to_string());
        let sign = self.value(format_args!("lshr {} {sign}, {last}", ty.text()));
        let rest = self.value(format_args!("shl {} {rest}, 1", ty.text()));
        let value = self.intrinsic("fshl", ty, &[&sign, &rest, &last]);
        self.write_to(to, ty, &value, false)
    }

    /// Instructions with equivalent operations or intrinsics in LLVM.
    fn gpu_float(&mut self, op: &Op<'a>) -> Option<()> {
        let (ty, (to, sources)) = (Ty::of(op.scalar()?), op.operands.split_first()?);
        let (name, text, is_wide, strict) = (op.name, ty.text(), ty != Ty::Half, op.has("rn"));
        let values = sources.iter().map(|source| self.read(source, ty)).collect::<Option<Vec<_>>>()?;
        // Use intrinsics that flush: LLVM's own operations flush for whole functions only, and lose it when folded (`x
        // * 1`). Fusing is left to the assembler. Approximations are specific to the device.
        let special = match (name, &op.modifiers[..]) {
            ("rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "div", ["approx", "ftz", "f32"]) => {
                format!("{name}.approx.ftz")
            }
            ("sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "div", ["approx", "f32"]) => format!("{name}.approx"),
            ("add" | "mul" | "fma" | "div" | "rcp" | "sqrt", ["rn", "ftz", "f32"]) => format!("{name}.rn.ftz"),
            ("min" | "max", ["ftz", "f32"]) => format!("f{name}.ftz"),
            ("min" | "max", ["ftz", "NaN", "f32"]) => format!("f{name}.ftz.nan"),
            _ => String::new(),
        };
        let value = match (name, &values[..], &op.modifiers[..op.modifiers.len() - 1]) {
            _ if !special.is_empty() => self.operate(&special, ty, &values),
            ("min" | "max", [_, _], ["NaN"]) => self.intrinsic(&format!("{name}imum"), ty, &values),
            ("min" | "max", [_, _], []) if is_wide => self.intrinsic(&format!("{name}num"), ty, &values),
            ("fma" | "mad", [_, _, _], ["rn"]) => self.intrinsic("fma", ty, &values),
            ("sqrt", [_], ["rn"]) if is_wide => self.intrinsic("sqrt", ty, &values),
            ("div", [a, b], ["rn"]) if is_wide => self.value(format_args!("fdiv {text} {a}, {b}")),
            ("rcp", [a], ["rn"]) if is_wide => self.value(format_args!("fdiv {text} 1.0, {a}")),
            ("abs", [_], []) => self.intrinsic("fabs", ty, &values),
            ("neg", [a], []) => self.value(format_args!("fneg {text} {a}")),
            ("add" | "sub" | "mul", [a, b], [] | ["rn"]) => {
                // Without a rounding mode they may be fused.
                let flag = if strict { "" } else { "contract " };
                self.value(format_args!("f{name} {flag}{text} {a}, {b}"))
            }
            _ => return None,
        };
        self.write_to(to, ty, &value, false)
    }

    /// An arithmetic instruction, applied number by number.
    fn float_lanes(&mut self, op: &Op<'a>) -> Option<()> {
        let (ty, (to, sources)) = (op.ty()?, op.operands.split_first()?);
        let whole = sources.iter().map(|source| self.bits(source, ty.bits())).collect::<Option<Vec<_>>>()?;
        let mut lanes = Vec::new();
        for lane in 0..ty.lanes {
            let arguments: Vec<String> = whole.iter().map(|value| self.lane(value, ty, lane)).collect();
            lanes.push(self.float_lane(op, ty.scalar, arguments)?);
        }
        let value = self.join(&lanes, ty.scalar.bits);
        self.write_bits(to, ty.bits(), &value, false)
    }

    fn float_lane(&mut self, op: &Op<'a>, scalar: Scalar, mut arguments: Vec<String>) -> Option<String> {
        let (bits, flush) = (scalar.bits, op.has("ftz"));
        if flush {
            arguments = arguments.iter().map(|argument| self.flush(argument, bits)).collect();
        }
        let (magnitude, sign) = (u64::MAX >> (65 - bits), 1u64 << (bits - 1));
        match (op.name, &arguments[..]) {
            ("neg", [a]) => return Some(self.value(format_args!("xor i{bits} {a}, {sign}"))),
            ("abs", [a]) => return Some(self.value(format_args!("and i{bits} {a}, {magnitude}"))),
            _ => {}
        }
        let sixteen = bits == 16;
        // Sums and products of 16-bit floats are exact or nearly so in double; float suffices for everything else.
        let is_exact = sixteen && matches!(op.name, "add" | "sub" | "mul" | "fma" | "mad");
        let computed = if is_exact { Ty::F64 } else { scalar.computed() };
        let mut values = Vec::new();
        for argument in &arguments {
            let value = self.float_of(argument, scalar)?;
            values.push(self.widened(&value, scalar.computed(), computed));
        }
        if let ("sub", Some(last)) = (op.name, values.last_mut()) {
            *last = self.value(format_args!("fneg {} {last}", computed.text()));
        }
        let mode = op.modifiers.iter().find_map(|word| rounding_mode(word)).unwrap_or(0);
        let approximate = op.has("approx") || op.has("full");
        let how = if approximate { "approx" } else { ROUNDINGS[if sixteen { 0 } else { mode }] };
        let mut value = match op.name {
            "fma" if scalar.kind == Kind::Brain => self.fused_to_odd(&values),
            "add" | "sub" => self.operate(&format!("add.{how}"), computed, &values),
            "fma" | "mad" => self.operate(&format!("fma.{how}"), computed, &values),
            "mul" | "div" | "rcp" | "sqrt" => self.operate(&format!("{}.{how}", op.name), computed, &values),
            "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                self.operate(&format!("{}.approx", op.name), computed, &values)
            }
            "min" | "max" => {
                let how = [("NaN", ".nan"), ("xorsign", ".xorsign"), ("abs", ".abs")];
                let how: String = how.iter().filter(|(word, _)| op.has(word)).map(|(_, name)| *name).collect();
                let (first, rest) = values.split_first()?;
                rest.iter().fold(first.clone(), |least, other| {
                    self.operate(&format!("f{}{how}", op.name), computed, &[&least, other])
                })
            }
            _ => return None,
        };
        value = self.bounded(op, computed, value);
        let value = self.bits_of(&value, computed, scalar, mode)?;
        Some(if flush { self.flush(&value, bits) } else { value })
    }

    /// One of NVVM's operations of a name and modifiers.
    fn operate(&mut self, operation: &str, ty: Ty, values: &[impl AsRef<str>]) -> String {
        let arguments: Vec<(Ty, &str)> = values.iter().map(|value| (ty, value.as_ref())).collect();
        self.call(ty, &format!("llvm.nvvm.{operation}.{}", suffix(ty)), &arguments)
    }

    /// A fused multiply-add in double precision that may be rounded again: the last bit is set if bits are lost. The
    /// exponents of `bf16` operands may differ by more than a double's precision.
    fn fused_to_odd(&mut self, values: &[String]) -> String {
        let [cut, below, above] = ["fma.rz", "fma.rm", "fma.rp"].map(|name| self.operate(name, Ty::F64, values));
        let inexact = self.value(format_args!("fcmp one double {below}, {above}"));
        let (last, bits) = (self.extend(&inexact, 1, 64, false), self.cast(&cut, Ty::F64, Ty::Int(64)));
        let odd = self.value(format_args!("or i64 {bits}, {last}"));
        self.cast(&odd, Ty::Int(64), Ty::F64)
    }

    /// The value limited to the range of `.sat` and `.relu`.
    pub fn bounded(&mut self, op: &Op<'a>, ty: Ty, mut value: String) -> String {
        if op.has("sat") {
            value = self.operate("saturate", ty, &[&value]);
        }
        if op.has("relu") {
            value = self.intrinsic("maximum", ty, &[&value, "0.0"]);
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
            (Kind::Float, 32 | 64) => self.cast(bits, Ty::Int(scalar.bits), scalar.computed()),
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

    /// A value in the same or in double precision.
    fn widened(&mut self, value: &str, from: Ty, to: Ty) -> String {
        match from == to {
            true => value.to_owned(),
            false => self.value(format_args!("fpext float {value} to double")),
        }
    }

    /// A computed value, rounded to a float type, as bits.
    pub fn bits_of(&mut self, value: &str, from: Ty, scalar: Scalar, mode: usize) -> Option<String> {
        let value = match (scalar.kind, scalar.bits) {
            (Kind::Float, 64) => self.widened(value, from, Ty::F64),
            (Kind::Float, 32) if from == Ty::F32 => value.to_owned(),
            (Kind::Float, 32) if mode == 0 => self.value(format_args!("fptrunc double {value} to float")),
            (Kind::Float, 32) => self.value(format_args!("call float @__mneme_cpu.narrow(double {value}, i32 {mode})")),
            (kind, 16) => {
                let wide = self.widened(value, from, Ty::F64);
                let (mantissa, bias) = if kind == Kind::Brain { (7, 127) } else { (10, 15) };
                return Some(self.narrow_16(&wide, mode, mantissa, bias));
            }
            _ => return None,
        };
        Some(self.cast(&value, scalar.computed(), Ty::Int(scalar.bits)))
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
        let classes = match op.words[..] {
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

//! Floating-point instructions and conversions.
//!
//! 16-bit floats are computed in wider ones and rounded once.

use crate::cpu::operations::{arithmetic, convert};

use super::Machine;
use super::parse::InlineOperand;
use super::types::{Type, TypeKind};

impl Type {
    /// The LLVM type that values of a float type are computed in.
    pub(super) fn computed(self) -> &'static str {
        if self.bits == 64 { "double" } else { "float" }
    }
}

impl Machine {
    /// The bits of one float as a value of its computed type.
    pub(super) fn float_of(&mut self, bits: &str, ty: Type) -> Option<String> {
        Some(match (ty.kind, ty.bits) {
            (TypeKind::Float, 64) => self.body.value(format!("bitcast i64 {bits} to double")),
            (TypeKind::Float, 32) => self.body.value(format!("bitcast i32 {bits} to float")),
            (TypeKind::Float, 16) => {
                let half = self.body.value(format!("bitcast i16 {bits} to half"));
                self.body.value(format!("fpext half {half} to float"))
            }
            (TypeKind::Brain, 16) => {
                let wide = self.body.value(format!("zext i16 {bits} to i32"));
                let high = self.body.value(format!("shl i32 {wide}, 16"));
                self.body.value(format!("bitcast i32 {high} to float"))
            }
            _ => return None,
        })
    }

    /// A value of LLVM type `from` rounded to a float type, as bits.
    pub(super) fn bits_of(&mut self, value: &str, from: &str, ty: Type, mode: usize) -> Option<String> {
        Some(match (ty.kind, ty.bits, from) {
            (TypeKind::Float, 64, "double") => self.body.value(format!("bitcast double {value} to i64")),
            (TypeKind::Float, 64, _) => {
                let wide = self.body.value(format!("fpext float {value} to double"));
                self.body.value(format!("bitcast double {wide} to i64"))
            }
            (TypeKind::Float, 32, "float") => self.body.value(format!("bitcast float {value} to i32")),
            (TypeKind::Float, 32, _) => {
                let narrow = if mode == 0 {
                    self.body.value(format!("fptrunc double {value} to float"))
                } else {
                    self.body.value(format!("call float @__mneme_cpu.narrow(double {value}, i32 {mode})"))
                };
                self.body.value(format!("bitcast float {narrow} to i32"))
            }
            (kind, 16, from) => {
                let wide = if from == "double" {
                    value.to_owned()
                } else {
                    self.body.value(format!("fpext float {value} to double"))
                };
                let (mantissa, bias) = if kind == TypeKind::Brain { (7, 127) } else { (10, 15) };
                self.body.value(format!(
                    "call i16 @__mneme_cpu.narrow16(double {wide}, i32 {mode}, i64 {mantissa}, i64 {bias})"
                ))
            }
            _ => return None,
        })
    }

    /// An arithmetic instruction on floats, lane by lane.
    pub(super) fn float(&mut self, name: &str, modifiers: &[&str], ty: Type, operands: &[InlineOperand]) -> Option<()> {
        let [to, from @ ..] = operands else { return None };
        if name == "testp" {
            return self.test_property(modifiers, ty, to, from);
        }
        let whole = from.iter().map(|operand| self.read(operand, ty.whole())).collect::<Option<Vec<_>>>()?;
        let mut lanes = Vec::new();
        for lane in 0..ty.lanes {
            let arguments: Vec<String> = whole.iter().map(|value| self.lane(value, ty, lane)).collect();
            lanes.push(self.float_lane(name, modifiers, ty.element(), &arguments)?);
        }
        let value = self.join(&lanes, ty.bits);
        self.write(to, ty.whole(), &value, false)
    }

    fn float_lane(&mut self, name: &str, modifiers: &[&str], ty: Type, arguments: &[String]) -> Option<String> {
        let bits = ty.bits;
        let (magnitude, sign) = (u64::MAX >> (65 - bits), 1u64 << (bits - 1));
        let flush = modifiers.contains(&"ftz");
        match (name, arguments) {
            ("neg", [a]) if !flush => return Some(self.body.value(format!("xor i{bits} {a}, {sign}"))),
            ("abs", [a]) if !flush => return Some(self.body.value(format!("and i{bits} {a}, {magnitude}"))),
            // The sign of the first, the rest of the second.
            ("copysign", [a, b]) => {
                let sign = self.body.value(format!("and i{bits} {a}, {sign}"));
                let rest = self.body.value(format!("and i{bits} {b}, {magnitude}"));
                return Some(self.body.value(format!("or i{bits} {sign}, {rest}")));
            }
            _ => {}
        }
        let sixteen = bits == 16;
        // Sums and products of 16-bit floats are exact in double or nearly so; everything else needs no more than
        // float.
        let computed =
            if sixteen && matches!(name, "add" | "sub" | "mul" | "fma" | "mad") { "double" } else { ty.computed() };
        let mut values = Vec::new();
        for argument in arguments {
            let argument = if flush { self.flush(argument, bits) } else { argument.clone() };
            let mut value = self.float_of(&argument, ty)?;
            if computed != ty.computed() {
                value = self.body.value(format!("fpext float {value} to double"));
            }
            values.push(value);
        }
        let mode = modifiers.iter().find_map(|part| convert::rounding_mode(part)).unwrap_or(0);
        let rounding = ["rn", "rz", "rm", "rp"][if sixteen { 0 } else { mode }];
        let approximate = modifiers.contains(&"approx") || modifiers.contains(&"full");
        let mut operate = |operation: &str, how: &[&str], values: &[String]| {
            arithmetic::operate(operation, how, computed, values, &mut self.body)
        };
        let mut value = match name {
            "add" | "mul" | "fma" => operate(name, &[rounding], &values)?,
            "mad" => operate("fma", &[rounding], &values)?,
            "sub" => {
                let [a, b] = values.as_slice() else { return None };
                let opposite = self.body.value(format!("fneg {computed} {b}"));
                arithmetic::operate("add", &[rounding], computed, &[a.clone(), opposite], &mut self.body)?
            }
            "div" | "rcp" | "sqrt" if !approximate => operate(name, &[rounding], &values)?,
            "div" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                operate(name, &["approx"], &values)?
            }
            "min" | "max" => {
                let how: Vec<&str> = [("NaN", "nan"), ("xorsign", "xorsign"), ("abs", "abs")]
                    .iter()
                    .filter(|(part, _)| modifiers.contains(part))
                    .map(|(_, name)| *name)
                    .collect();
                let mut value = operate(&format!("f{name}"), &how, values.get(..2)?)?;
                if let Some(third) = values.get(2) {
                    value = operate(&format!("f{name}"), &how, &[value, third.clone()])?;
                }
                value
            }
            "neg" => self.body.value(format!("fneg {computed} {}", values.first()?)),
            "abs" => operate("fabs", &[], &values)?,
            _ => return None,
        };
        if modifiers.contains(&"sat") {
            value = arithmetic::saturated(&mut self.body, computed, &value);
        }
        if modifiers.contains(&"relu") {
            let negative = self.body.value(format!("fcmp olt {computed} {value}, 0.0"));
            value = self.body.value(format!("select i1 {negative}, {computed} 0.0, {computed} {value}"));
        }
        let value = self.bits_of(&value, computed, ty, mode)?;
        Some(if flush { self.flush(&value, bits) } else { value })
    }

    /// A float of 16 or 32 bits whose denormals become zero of the same sign (`.ftz`).
    pub(super) fn flush(&mut self, value: &str, bits: u32) -> String {
        let (exponent, sign) = if bits == 16 { (0x7c00u32, 0x8000u32) } else { (0x7f80_0000, 0x8000_0000) };
        let own = self.body.value(format!("and i{bits} {value}, {exponent}"));
        let small = self.body.value(format!("icmp eq i{bits} {own}, 0"));
        let zero = self.body.value(format!("and i{bits} {value}, {sign}"));
        self.body.value(format!("select i1 {small}, i{bits} {zero}, i{bits} {value}"))
    }

    fn test_property(
        &mut self,
        modifiers: &[&str],
        ty: Type,
        to: &InlineOperand,
        from: &[InlineOperand],
    ) -> Option<()> {
        // LLVM's classes: NaN 3, infinity 0x204, normal 0x108, subnormal 0x90, zero 0x60.
        let classes = match *modifiers.first()? {
            "finite" => 0x1f8,
            "infinite" => 0x204,
            "number" => 0x3fc,
            "notanumber" => 0x3,
            "normal" => 0x108,
            "subnormal" => 0x90,
            _ => return None,
        };
        let bits = self.read(from.first()?, ty.bits)?;
        let value = self.float_of(&bits, ty)?;
        let (computed, suffix) = (ty.computed(), ty.bits.max(32));
        let flag = self.body.value(format!("call i1 @llvm.is.fpclass.f{suffix}({computed} {value}, i32 {classes})"));
        self.write(to, 1, &flag, false)
    }

    /// `cvt`.
    pub(super) fn convert(&mut self, modifiers: &[&str], types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        if let ([mode, "tf32"], [ty]) = (modifiers, types) {
            return self.convert_to_tf32(mode, *ty, operands);
        }
        let (&to_type, &from_type) = (types.first()?, types.get(1)?);
        if to_type.is_quarter() || from_type.is_quarter() {
            return self.convert_quarters(modifiers, [to_type, from_type], operands);
        }
        let mode = modifiers.iter().find_map(|part| convert::rounding_mode(part));
        let integral = ["rni", "rzi", "rmi", "rpi"].iter().position(|name| modifiers.contains(name));
        let known = ["rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu"];
        if modifiers.iter().any(|part| !known.contains(part)) {
            return None;
        }
        let [to, sources @ ..] = operands else { return None };
        // Two floats packed: the first becomes the upper half.
        if to_type.lanes == 2 {
            let mut lanes = Vec::new();
            for source in sources.iter().rev() {
                let bits = self.read(source, from_type.bits)?;
                lanes.push(self.convert_float(&bits, from_type, to_type.element(), mode, integral, modifiers)?);
            }
            let value = (lanes.len() == 2).then(|| self.join(&lanes, 16))?;
            return self.write(to, 32, &value, false);
        }
        let [source] = sources else { return None };
        let bits = self.read(source, from_type.whole())?;
        match (from_type.is_float(), to_type.is_float()) {
            (false, false) => {
                let value = self.convert_integer(&bits, from_type, to_type, modifiers.contains(&"sat"));
                self.write(to, to_type.bits, &value, to_type.is_signed())
            }
            (true, false) => {
                let flushes = modifiers.contains(&"ftz") && from_type.bits == 32;
                let bits = if flushes { self.flush(&bits, 32) } else { bits };
                let value = self.float_of(&bits, from_type)?;
                let value = convert::to_integer(
                    &mut self.body,
                    from_type.computed(),
                    &value,
                    to_type.bits,
                    to_type.is_signed(),
                    integral.or(mode)?,
                );
                self.write(to, to_type.bits, &value, to_type.is_signed())
            }
            (false, true) => {
                let signed = from_type.is_signed();
                let width = from_type.bits.max(32);
                let value = self.resize(&bits, from_type.bits, width, signed);
                // 16-bit floats take a second rounding from double.
                let computed = if to_type.bits == 16 { "double" } else { to_type.computed() };
                let first = if to_type.bits == 16 { 0 } else { mode.unwrap_or(0) };
                let mut value = convert::from_integer(&mut self.body, &value, width, signed, computed, first);
                if modifiers.contains(&"sat") {
                    value = arithmetic::saturated(&mut self.body, computed, &value);
                }
                let value = self.bits_of(&value, computed, to_type, mode.unwrap_or(0))?;
                self.write(to, to_type.bits, &value, false)
            }
            (true, true) => {
                let value = self.convert_float(&bits, from_type, to_type, mode, integral, modifiers)?;
                self.write(to, to_type.bits, &value, false)
            }
        }
    }

    /// `tf32` is a float whose last thirteen bits are zeros.
    fn convert_to_tf32(&mut self, mode: &str, from: Type, operands: &[InlineOperand]) -> Option<()> {
        let ([to, source], TypeKind::Float, 32) = (operands, from.kind, from.bits) else { return None };
        let bits = self.read(source, 32)?;
        let rounded = match mode {
            // Ties away from zero.
            "rna" => self.body.value(format!("add i32 {bits}, 4096")),
            "rn" => {
                let last = self.body.value(format!("lshr i32 {bits}, 13"));
                let odd = self.body.value(format!("and i32 {last}, 1"));
                let step = self.body.value(format!("add i32 {odd}, 4095"));
                self.body.value(format!("add i32 {bits}, {step}"))
            }
            "rz" => bits.clone(),
            _ => return None,
        };
        let rounded = self.body.value(format!("and i32 {rounded}, -8192"));
        let value = self.float_of(&bits, from)?;
        let nan = self.body.value(format!("fcmp uno float {value}, {value}"));
        let rounded = self.body.value(format!("select i1 {nan}, i32 {}, i32 {rounded}", i32::MAX));
        self.write(to, 32, &rounded, false)
    }

    fn convert_float(
        &mut self,
        bits: &str,
        from: Type,
        to: Type,
        mode: Option<usize>,
        integral: Option<usize>,
        modifiers: &[&str],
    ) -> Option<String> {
        let computed = from.computed();
        let flushes = |ty: Type| modifiers.contains(&"ftz") && ty.bits == 32;
        let bits = if flushes(from) { self.flush(bits, 32) } else { bits.to_owned() };
        let mut value = self.float_of(&bits, from)?;
        // From a float to the same, `rn` alone has nothing to round.
        if let Some(rounding) = integral {
            let operation = ["round", "trunc", "floor", "ceil"][rounding];
            value = arithmetic::operate(operation, &[], computed, &[value], &mut self.body)?;
        }
        if modifiers.contains(&"sat") {
            value = arithmetic::saturated(&mut self.body, computed, &value);
        }
        if modifiers.contains(&"relu") {
            let negative = self.body.value(format!("fcmp olt {computed} {value}, 0.0"));
            value = self.body.value(format!("select i1 {negative}, {computed} 0.0, {computed} {value}"));
        }
        let narrowed = self.bits_of(&value, computed, to, mode.unwrap_or(0))?;
        Some(if flushes(to) { self.flush(&narrowed, 32) } else { narrowed })
    }

    fn convert_integer(&mut self, bits: &str, from: Type, to: Type, saturate: bool) -> String {
        let wide = self.resize(bits, from.bits, 128, from.is_signed());
        let clamped = if saturate {
            let (low, high) = if to.is_signed() {
                (-(1i128 << (to.bits - 1)), (1i128 << (to.bits - 1)) - 1)
            } else {
                (0, (1i128 << to.bits) - 1)
            };
            let raised = self.body.value(format!("call i128 @llvm.smax.i128(i128 {wide}, i128 {low})"));
            self.body.value(format!("call i128 @llvm.smin.i128(i128 {raised}, i128 {high})"))
        } else {
            wide
        };
        self.resize(&clamped, 128, to.bits, false)
    }
}

//! Conversions between numbers.

use std::cmp::Ordering;

use super::emitter::{Emitter, integer_text};
use super::float::{ROUNDINGS, rounding_mode, suffix};
use super::quarter::HALF;
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::{Kind, Scalar};

/// Modes of rounding to an integer, and LLVM's operations.
const INTEGRAL: [(&str, &str); 4] = [("rni", "rint"), ("rzi", "trunc"), ("rmi", "floor"), ("rpi", "ceil")];

impl<'a> Emitter<'a, '_> {
    pub fn convert(&mut self, op: &Op<'a>) -> Option<()> {
        let is_whole = |scalar: Option<Scalar>| scalar.is_some_and(|scalar| !scalar.is_float());
        if self.is_cpu() && !(is_whole(op.first_scalar()) && is_whole(op.scalar())) {
            return self.conversion(op);
        }
        let ([to, from], wanted, own) = (&op.operands[..], op.first_scalar()?, op.scalar()?) else { return None };
        let (ty, own_type) = (Ty::of(wanted), Ty::of(own));
        let value = self.read(from, own_type)?;
        let value = self.plain_conversion(op, &value, wanted, own)?;
        self.write_to(to, ty, &value, wanted.is_signed())
    }

    /// Conversions with an equivalent operation in LLVM. Outside an integer's range LLVM's conversions of floats are
    /// undefined, but PTX's are defined.
    fn plain_conversion(&mut self, op: &Op<'a>, value: &str, wanted: Scalar, own: Scalar) -> Option<String> {
        let (ty, own_type, is_wide) = (Ty::of(wanted), Ty::of(own), Ty::of(wanted) != Ty::Half);
        let mut converted =
            |opcode: &str| Some(self.value(format_args!("{opcode} {} {value} to {}", own_type.text(), ty.text())));
        match (wanted.is_float(), own.is_float(), wanted.bits.cmp(&own.bits), &op.words[..]) {
            (false, false, _, []) => Some(self.resize(value, own.bits, wanted.bits, own.is_signed())),
            (false, false, _, ["sat"]) => {
                let value = self.saturate(value, own, wanted);
                Some(self.resize(&value, own.bits, wanted.bits, own.is_signed()))
            }
            (true, false, _, ["rn"]) if is_wide => converted(if own.is_signed() { "sitofp" } else { "uitofp" }),
            (true, true, Ordering::Greater, []) => converted("fpext"),
            (true, true, Ordering::Less, ["rn"]) => converted("fptrunc"),
            (true, true, Ordering::Equal, ["sat"]) if ty == Ty::F32 => {
                Some(self.call(ty, "llvm.nvvm.saturate.f", &[(ty, value)]))
            }
            (true, true, Ordering::Equal, [mode]) if is_wide => {
                let (_, name) = INTEGRAL.iter().find(|(word, _)| word == mode)?;
                Some(self.intrinsic(name, ty, &[value]))
            }
            _ => None,
        }
    }

    /// The nearest number in the other type's range, as a value of the own type.
    pub fn saturate(&mut self, value: &str, own: Scalar, wanted: Scalar) -> String {
        let ty = Ty::of(own);
        let (low, high) = range(wanted);
        let (own_low, own_high) = range(own);
        let sign = if own.is_signed() { "s" } else { "u" };
        let mut value = value.to_owned();
        for (bound, name, needed) in [(low, "max", low > own_low), (high, "min", high < own_high)] {
            if needed {
                value = self.intrinsic(&format!("{sign}{name}"), ty, &[&value, &integer_text(bound, own.bits)]);
            }
        }
        value
    }

    // The rest is for the CPU device.

    /// Any conversion.
    fn conversion(&mut self, op: &Op<'a>) -> Option<()> {
        if let ([mode, "tf32"], [ty]) = (&op.words[..], &op.types[..]) {
            return self.convert_to_tf32(mode, ty.scalar, &op.operands);
        }
        let ([wanted, own], [to, sources @ ..]) = (&op.types[..], &op.operands[..]) else { return None };
        let numbers = match sources {
            [source] => {
                let whole = self.bits(source, own.bits())?;
                (0..own.lanes).map(|lane| self.lane(&whole, *own, lane)).collect()
            }
            // The first goes to the upper half.
            [upper, lower] if own.lanes == 1 => vec![self.bits(lower, own.bits())?, self.bits(upper, own.bits())?],
            _ => return None,
        };
        (numbers.len() as u32 == wanted.lanes).then_some(())?;
        let convert = |bits: &String| self.convert_number(op, bits, own.scalar, wanted.scalar);
        let values = numbers.iter().map(convert).collect::<Option<Vec<_>>>()?;
        let value = self.join(&values, wanted.scalar.bits);
        self.write_bits(to, wanted.bits(), &value, wanted.scalar.is_signed())
    }

    fn convert_number(&mut self, op: &Op<'a>, bits: &str, own: Scalar, wanted: Scalar) -> Option<String> {
        match op.words[..] {
            ["rn", "satfinite"] | ["rn", "satfinite", "relu"] if wanted.is_quarter() => {
                return self.narrow_quarter(op, bits, own, wanted);
            }
            ["rn"] | ["rn", "relu"] if own.is_quarter() && wanted == HALF => return self.widen_quarter(op, bits, own),
            _ if own.is_quarter() || wanted.is_quarter() => return None,
            _ => {}
        }
        let known = |word: &&str| {
            rounding_mode(word).is_some()
                || INTEGRAL.iter().any(|(mode, _)| mode == word)
                || matches!(*word, "ftz" | "sat" | "relu")
        };
        if !op.words.iter().all(known) {
            return None;
        }
        match (own.is_float(), wanted.is_float()) {
            (true, true) => self.convert_float(op, bits, own, wanted),
            (true, false) => self.convert_to_integer(op, bits, own, wanted),
            (false, true) => {
                let mode = op.modifiers.iter().find_map(|word| rounding_mode(word)).unwrap_or(0);
                // 16-bit floats need a second rounding from double.
                let (computed, first) = match wanted.bits {
                    16 => (Ty::F64, "rn"),
                    _ => (wanted.computed(), ROUNDINGS[mode]),
                };
                let width = own.bits.max(32);
                let wide = self.extend(bits, own.bits, width, own.is_signed());
                let name = format!("{}2{}.{first}", integer(width, own.is_signed()), suffix(computed));
                let value = self.call(computed, &format!("llvm.nvvm.{name}"), &[(Ty::Int(width), &wide)]);
                let value = self.bounded(op, computed, value);
                self.bits_of(&value, computed, wanted, mode)
            }
            (false, false) => None,
        }
    }

    /// A float rounded to an integer; outside the range, the nearest limit.
    fn convert_to_integer(&mut self, op: &Op<'a>, bits: &str, own: Scalar, wanted: Scalar) -> Option<String> {
        let place = |word: &&str| INTEGRAL.iter().position(|(mode, _)| mode == word).or_else(|| rounding_mode(word));
        let mode = ROUNDINGS[op.modifiers.iter().find_map(place)?];
        let (computed, width) = (own.computed(), wanted.bits.max(32));
        let bits = if op.has("ftz") && own.bits == 32 { self.flush(bits, 32) } else { bits.to_owned() };
        let float = self.float_of(&bits, own)?;
        let name = format!("llvm.nvvm.{}2{}.{mode}", suffix(computed), integer(width, wanted.is_signed()));
        let whole = self.call(Ty::Int(width), &name, &[(computed, &float)]);
        let mut value = self.saturate(&whole, Scalar { bits: width, ..wanted }, wanted);
        // A 64-bit NaN becomes the highest bit alone, which saturation of a wider integer would change.
        if own.bits == 64 && width > wanted.bits && !wanted.is_signed() {
            let nan = self.value(format_args!("fcmp uno double {float}, {float}"));
            let highest = 1u64 << (wanted.bits - 1);
            value = self.value(format_args!("select i1 {nan}, i32 {highest}, i32 {value}"));
        }
        Some(self.cast(&value, Ty::Int(width), Ty::Int(wanted.bits)))
    }

    /// `tf32` is a float with zeros in the last thirteen bits.
    fn convert_to_tf32(&mut self, mode: &str, from: Scalar, operands: &[Resolved<'a>]) -> Option<()> {
        let ([to, source], Kind::Float, 32) = (operands, from.kind, from.bits) else { return None };
        let bits = self.bits(source, 32)?;
        let rounded = match mode {
            // Ties away from zero.
            "rna" => self.value(format_args!("add i32 {bits}, 4096")),
            "rn" => {
                let last = self.value(format_args!("lshr i32 {bits}, 13"));
                let odd = self.value(format_args!("and i32 {last}, 1"));
                let step = self.value(format_args!("add i32 {odd}, 4095"));
                self.value(format_args!("add i32 {bits}, {step}"))
            }
            "rz" => bits.clone(),
            _ => return None,
        };
        let rounded = self.value(format_args!("and i32 {rounded}, -8192"));
        let value = self.float_of(&bits, from)?;
        let nan = self.value(format_args!("fcmp uno float {value}, {value}"));
        let rounded = self.value(format_args!("select i1 {nan}, i32 {}, i32 {rounded}", i32::MAX));
        self.write_bits(to, 32, &rounded, false)
    }

    fn convert_float(&mut self, op: &Op<'a>, bits: &str, from: Scalar, to: Scalar) -> Option<String> {
        let computed = from.computed();
        let flushes = |scalar: Scalar| op.has("ftz") && scalar.bits == 32;
        let bits = if flushes(from) { self.flush(bits, 32) } else { bits.to_owned() };
        let mut value = self.float_of(&bits, from)?;
        // For a float of the same type, `rn` alone means no rounding.
        if let Some((_, name)) = INTEGRAL.iter().find(|(word, _)| op.has(word)) {
            value = self.intrinsic(name, computed, &[&value]);
        }
        let value = self.bounded(op, computed, value);
        let mode = op.modifiers.iter().find_map(|word| rounding_mode(word)).unwrap_or(0);
        let narrowed = self.bits_of(&value, computed, to, mode)?;
        Some(if flushes(to) { self.flush(&narrowed, 32) } else { narrowed })
    }
}

/// The name of a type in intrinsics' names.
fn integer(bits: u32, signed: bool) -> &'static str {
    match (bits, signed) {
        (64, true) => "ll",
        (64, false) => "ull",
        (_, true) => "i",
        (_, false) => "ui",
    }
}

fn range(scalar: Scalar) -> (i128, i128) {
    if scalar.is_signed() {
        (-(1i128 << (scalar.bits - 1)), (1i128 << (scalar.bits - 1)) - 1)
    } else {
        (0, (1i128 << scalar.bits.min(100)) - 1)
    }
}

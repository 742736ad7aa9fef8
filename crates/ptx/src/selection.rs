//! Comparison, selection and moves.

use super::comparisons;
use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::{Kind, Scalar, Type};

impl<'a> Emitter<'a, '_> {
    pub fn select(&mut self, op: &Op<'a>) -> Option<()> {
        let [to, a, b, by] = &op.operands[..] else { return None };
        let scalar = op.types.first().filter(|ty| ty.lanes == 1)?.scalar;
        let condition = match (op.name, &op.types[1..], &op.words[..]) {
            ("selp", [], []) => self.read(by, Ty::Int(1))?,
            ("slct", [Type { scalar: Scalar { kind: Kind::Signed, .. }, .. }], []) => {
                let value = self.bits(by, 32)?;
                self.value(format_args!("icmp sge i32 {value}, 0"))
            }
            ("slct", [Type { scalar: Scalar { kind: Kind::Float, .. }, .. }], [] | ["ftz"]) if self.is_cpu() => {
                let value = self.bits(by, 32)?;
                let value = if op.has("ftz") { self.flush(&value, 32) } else { value };
                let value = self.cast(&value, Ty::Int(32), Ty::F32);
                self.value(format_args!("fcmp oge float {value}, 0.0"))
            }
            _ => return None,
        };
        let ty = self.held(to, scalar);
        let (a, b) = (self.selected(a, ty, scalar)?, self.selected(b, ty, scalar)?);
        let value = self.value(format_args!("select i1 {condition}, {0} {a}, {0} {b}", ty.text()));
        self.write_to(to, ty, &value, scalar.is_signed())
    }

    /// The type of a register with values of this type.
    fn held(&self, to: &Resolved<'a>, scalar: Scalar) -> Ty {
        match to {
            Resolved::Register(register) if self.ty(*register).bits() == scalar.bits => self.ty(*register),
            _ => Ty::stored(scalar),
        }
    }

    /// An operand that is only moved; numbers may be written as the other kind.
    fn selected(&mut self, operand: &Resolved<'a>, ty: Ty, scalar: Scalar) -> Option<String> {
        if let Some(value) = self.read(operand, ty) {
            return Some(value);
        }
        let own = if Ty::stored(scalar) == ty { Ty::Int(scalar.bits) } else { Ty::stored(scalar) };
        let value = self.read(operand, own)?;
        Some(self.cast(&value, own, ty))
    }

    /// `setp` and `set`.
    pub fn compare(&mut self, op: &Op<'a>) -> Option<()> {
        let (ty, words, is_set, cpu) = (op.ty()?, &op.words, op.name == "set", self.is_cpu());
        let (flushes, words) = match &words[..] {
            [words @ .., "ftz"] => (true, words),
            words => (false, words),
        };
        let (comparison, boolean, to, a, b, c) = match (words, &op.operands[..]) {
            ([comparison], [to, a, b]) => (comparison, "", to, a, b, None),
            ([comparison, boolean @ ("and" | "or" | "xor")], [to, a, b, c]) => {
                (comparison, *boolean, to, a, b, Some(c))
            }
            _ => return None,
        };
        let plain = !flushes && ty.lanes == 1 && ty.scalar.kind != Kind::Brain;
        if op.types.len() != 1 + usize::from(is_set) || !(plain || cpu) {
            return None;
        }
        let combine = |this: &mut Self, value: &str| -> Option<String> {
            let Some(c) = c else { return Some(value.to_owned()) };
            let c = this.read(c, Ty::Int(1))?;
            Some(this.value(format_args!("{boolean} i1 {value}, {c}")))
        };
        let own = Ty::of(ty.scalar);
        let conditions = if cpu {
            let (a, b) = (self.bits(a, ty.bits())?, self.bits(b, ty.bits())?);
            let computed = if ty.scalar.is_float() { ty.scalar.computed() } else { own };
            let mut lane = |lane| {
                let (a, b) = (self.number(&a, ty, lane, flushes)?, self.number(&b, ty, lane, flushes)?);
                self.relation(comparison, ty.scalar, computed, &a, &b)
            };
            (0..ty.lanes).map(&mut lane).collect::<Option<Vec<_>>>()?
        } else {
            let (a, b) = (self.read(a, own)?, self.read(b, own)?);
            vec![self.relation(comparison, ty.scalar, own, &a, &b)?]
        };
        let combined = conditions.iter().map(|value| combine(self, value)).collect::<Option<Vec<_>>>()?;
        if is_set {
            return self.truth(to, op.types[0], &combined);
        }
        let Resolved::Pair(first, second) = to else {
            return self.write_to(to, Ty::Int(1), combined.first().filter(|_| combined.len() == 1)?, false);
        };
        let other = match &combined[..] {
            [_, high] => high.clone(),
            _ => {
                // Negates the comparison, but not the combined predicate.
                let not = self.value(format_args!("xor i1 {}, true", conditions[0]));
                combine(self, &not)?
            }
        };
        self.write_to(first, Ty::Int(1), &combined[0], false)?;
        self.write_to(second, Ty::Int(1), &other, false)
    }

    fn relation(&mut self, comparison: &str, scalar: Scalar, ty: Ty, a: &str, b: &str) -> Option<String> {
        let (opcode, condition) = match scalar.is_float() {
            true => ("fcmp", comparisons::of_floats(comparison)?),
            false => ("icmp", comparisons::of_integers(comparison, scalar.is_signed())?.into()),
        };
        Some(self.value(format_args!("{opcode} {condition} {} {a}, {b}", ty.text())))
    }

    /// Writes booleans as numbers: 1.0 for floats, all ones for integers.
    fn truth(&mut self, to: &Resolved<'a>, wanted: Type, conditions: &[String]) -> Option<()> {
        let each = wanted.bits() / conditions.len() as u32;
        let one: i128 = match (wanted.scalar.kind, each) {
            (Kind::Float, 32) => 0x3f80_0000,
            (Kind::Float | Kind::Brain, _) if !self.is_cpu() => return None,
            (Kind::Float, 16) => 0x3c00,
            (Kind::Brain, 16) => 0x3f80,
            _ => -1,
        };
        let choose = |condition: &String| self.value(format_args!("select i1 {condition}, i{each} {one}, i{each} 0"));
        let lanes: Vec<String> = conditions.iter().map(choose).collect();
        let value = self.join(&lanes, each);
        self.write_bits(to, wanted.bits(), &value, false)
    }

    pub fn mov(&mut self, op: &Op<'a>) -> Option<()> {
        let [to, from] = &op.operands[..] else { return None };
        if op.modifiers.len() != 1 {
            return None;
        }
        let scalar = op.scalar()?;
        let bits = scalar.bits;
        match (to, from) {
            (Resolved::Vector(parts), from) => {
                let each = width_of_parts(bits, parts)?;
                let whole = self.read(from, Ty::Int(bits))?;
                let part = |(index, part): (u32, &Resolved<'a>)| match part {
                    Resolved::Sink => String::new(),
                    _ => self.part(&whole, bits, index * each, each),
                };
                let values: Vec<String> = (0..).zip(parts).map(part).collect();
                parts.iter().zip(values).try_for_each(|(part, value)| self.write_to(part, Ty::Int(each), &value, false))
            }
            (to, Resolved::Vector(parts)) => {
                let each = width_of_parts(bits, parts)?;
                let values = parts.iter().map(|part| self.bits(part, each)).collect::<Option<Vec<_>>>()?;
                let value = self.join(&values, each);
                self.write_to(to, Ty::Int(bits), &value, false)
            }
            (Resolved::Register(register), from) => {
                let ty = self.held(to, scalar);
                let value = self.selected(from, ty, scalar)?;
                self.write_register(*register, ty, &value, false);
                Some(())
            }
            _ => None,
        }
    }
}

/// The width of each of several parts of a register.
fn width_of_parts(bits: u32, parts: &[Resolved<'_>]) -> Option<u32> {
    let count = parts.len().max(1) as u32;
    Some(bits / count).filter(|each| matches!(each, 8 | 16 | 32 | 64) && each * count == bits)
}

//! Integer arithmetic and logic.

use super::emitter::{Emitter, integer_text};
use super::registers::Ty;
use super::resolve::{CARRY, Op, Resolved};
use super::syntax::{Scalar, Type};

/// The shift that fills a number by its sign or with zeros.
pub fn right_shift(scalar: Scalar) -> &'static str {
    if scalar.is_signed() { "ashr" } else { "lshr" }
}

impl<'a> Emitter<'a, '_> {
    pub fn integer(&mut self, op: &Op<'a>) -> Option<()> {
        let (Type { scalar, lanes }, (to, sources)) = (op.ty()?, op.operands.split_first()?);
        if let Some((ty, value)) = self.moved_pointer(op, scalar) {
            return self.write_to(to, ty, &value, false);
        }
        let ty = match (op.name, lanes, &op.words[..]) {
            (_, 1, _) => Ty::of(scalar),
            ("add" | "sub", 2, []) | ("min" | "max", 2, _) if self.is_cpu() => Ty::Pair,
            _ => return None,
        };
        let (ty, value) = match op.name {
            "mul" | "mad" | "madc" => self.product(op, scalar, sources)?,
            _ => (ty, self.plain_integer(op, scalar, ty, sources)?),
        };
        self.write_to(to, ty, &value, scalar.is_signed())
    }

    /// An operation whose result has the type of its operands.
    fn plain_integer(&mut self, op: &Op<'a>, scalar: Scalar, ty: Ty, sources: &[Resolved<'a>]) -> Option<String> {
        let (text, sign, cpu) = (ty.text(), if scalar.is_signed() { "s" } else { "u" }, self.is_cpu());
        if let ("shl" | "shr", [a, b], []) = (op.name, sources, &op.words[..]) {
            return self.shift(op.name, scalar, a, b);
        }
        let values = sources.iter().map(|source| self.read(source, ty)).collect::<Option<Vec<_>>>()?;
        Some(match (op.name, &values[..], &op.words[..]) {
            ("add" | "sub" | "addc" | "subc", [a, b], [] | ["cc"]) if op.reads_carry() || op.writes_carry() => {
                self.sum(op, scalar.bits, a, b)
            }
            ("add" | "sub" | "and" | "or" | "xor", [a, b], []) => {
                self.value(format_args!("{} {text} {a}, {b}", op.name))
            }
            ("add" | "sub", [_, _], ["sat"]) if cpu => self.intrinsic(&format!("s{}.sat", op.name), ty, &values),
            ("mul24" | "mad24", [a, b, rest @ ..], [half]) if cpu => self.multiply_24(scalar, half, a, b, rest.first()),
            ("div" | "rem", [a, b], []) => self.divide(op.name, scalar, &sources[1], a, b),
            ("abs", [a], []) => self.call(ty, &format!("llvm.abs.{text}"), &[(ty, a), (Ty::Int(1), "false")]),
            ("neg", [a], []) => self.value(format_args!("sub {text} 0, {a}")),
            ("min" | "max", [_, _], []) => self.intrinsic(&format!("{sign}{}", op.name), ty, &values),
            ("min" | "max", [_, _], ["relu"]) if cpu => {
                let value = self.intrinsic(&format!("{sign}{}", op.name), ty, &values);
                self.intrinsic("smax", ty, &[&value, "zeroinitializer"])
            }
            ("sad", [a, b, c], []) if cpu => {
                let [greater, less] = ["max", "min"].map(|name| self.intrinsic(&format!("{sign}{name}"), ty, &[a, b]));
                let difference = self.value(format_args!("sub {text} {greater}, {less}"));
                self.value(format_args!("add {text} {difference}, {c}"))
            }
            ("not", [a], []) => self.value(format_args!("xor {text} {a}, -1")),
            ("cnot", [a], []) => {
                let is_zero = self.value(format_args!("icmp eq {text} {a}, 0"));
                self.cast(&is_zero, Ty::Int(1), ty)
            }
            _ => return None,
        })
    }

    /// A product of 24-bit numbers, and a sum with it.
    fn multiply_24(&mut self, scalar: Scalar, half: &str, a: &str, b: &str, addend: Option<&String>) -> String {
        let shift = right_shift(scalar);
        let [a, b] = [a, b].map(|value| {
            let raised = self.value(format_args!("shl i32 {value}, 8"));
            let value = self.value(format_args!("{shift} i32 {raised}, 8"));
            self.extend(&value, 32, 64, scalar.is_signed())
        });
        let product = self.value(format_args!("mul i64 {a}, {b}"));
        let value = self.part(&product, 64, if half == "hi" { 16 } else { 0 }, 32);
        match addend {
            Some(addend) => self.value(format_args!("add i32 {value}, {addend}")),
            None => value,
        }
    }

    /// An address and an offset. If one address is offset by its distance to another, the result belongs to the other.
    fn moved_pointer(&mut self, op: &Op<'a>, scalar: Scalar) -> Option<(Ty, String)> {
        let pointer_type = |this: &Self, operand: &Resolved<'a>| match operand {
            Resolved::Register(register) => Some(this.ty(*register)).filter(|ty| matches!(ty, Ty::Ptr(_))),
            _ => None,
        };
        let [to, sources @ ..] = &op.operands[..] else { return None };
        let wanted = pointer_type(self, to)?;
        let (base, offset) = match (op.name, sources, &op.words[..]) {
            ("add", [offset, base], []) if pointer_type(self, base).is_some() => (base, offset),
            ("add" | "sub", [base, offset], []) => (base, offset),
            _ => return None,
        };
        if scalar.bits != 64 || pointer_type(self, base) != Some(wanted) || !self.is_offset(offset) {
            return None;
        }
        let base = self.read(base, wanted)?;
        let offset = self.read(offset, Ty::Int(64))?;
        Some((wanted, self.displaced(&base, wanted, offset, op.name == "sub")))
    }

    /// Shifts by a word or more give 0, or the sign.
    fn shift(&mut self, name: &str, scalar: Scalar, a: &Resolved<'a>, b: &Resolved<'a>) -> Option<String> {
        let (ty, word, bits) = (Ty::of(scalar), Ty::Int(32), scalar.bits);
        let (text, a) = (ty.text(), self.read(a, ty)?);
        let opcode = if name == "shl" { name } else { right_shift(scalar) };
        if let Resolved::Int(amount) = b {
            return Some(match *amount as u32 {
                amount if amount < bits => self.value(format_args!("{opcode} {text} {a}, {amount}")),
                _ if opcode == "ashr" => self.value(format_args!("ashr {text} {a}, {}", bits - 1)),
                _ => "0".into(),
            });
        }
        let amount = self.read(b, word)?;
        let least = self.intrinsic("umin", word, &[&amount, &(bits - 1).to_string()]);
        let narrow = self.cast(&least, word, ty);
        let shifted = self.value(format_args!("{opcode} {text} {a}, {narrow}"));
        if opcode == "ashr" {
            return Some(shifted);
        }
        let inside = self.value(format_args!("icmp ult i32 {amount}, {bits}"));
        Some(self.value(format_args!("select i1 {inside}, {text} {shifted}, {text} 0")))
    }

    /// Division by zero gives all ones, as on the devices; the least number divided by -1 gives itself.
    fn divide(&mut self, name: &str, scalar: Scalar, divisor: &Resolved<'a>, a: &str, b: &str) -> String {
        let (text, signed) = (Ty::of(scalar).text(), scalar.is_signed());
        let opcode = format!("{}{name}", if signed { "s" } else { "u" });
        let minus_one = integer_text(-1, scalar.bits);
        if matches!(divisor, Resolved::Int(_)) && b != "0" && (!signed || b != minus_one) {
            return self.value(format_args!("{opcode} {text} {a}, {b}"));
        }
        let is_zero = self.value(format_args!("icmp eq {text} {b}, 0"));
        let mut unsafe_divisor = is_zero.clone();
        if signed {
            let least = integer_text(1i128 << (scalar.bits - 1), scalar.bits);
            let is_least = self.value(format_args!("icmp eq {text} {a}, {least}"));
            let is_minus_one = self.value(format_args!("icmp eq {text} {b}, -1"));
            let overflows = self.value(format_args!("and i1 {is_least}, {is_minus_one}"));
            unsafe_divisor = self.value(format_args!("or i1 {is_zero}, {overflows}"));
        }
        let divisor = self.value(format_args!("select i1 {unsafe_divisor}, {text} 1, {text} {b}"));
        let result = self.value(format_args!("{opcode} {text} {a}, {divisor}"));
        self.value(format_args!("select i1 {is_zero}, {text} -1, {text} {result}"))
    }

    /// A product of two operands, or its sum with a third.
    fn product(&mut self, op: &Op<'a>, scalar: Scalar, sources: &[Resolved<'a>]) -> Option<(Ty, String)> {
        let [a, b, c @ ..] = sources else { return None };
        let half = match op.words[..] {
            [half] | [half, "cc"] => half,
            _ => return None,
        };
        let (bits, signed, ty) = (scalar.bits, scalar.is_signed(), Ty::of(scalar));
        let is_offset = self.is_offset(a) && self.is_offset(b);
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let (product, result) = if half == "lo" {
            (self.value(format_args!("mul {} {a}, {b}", ty.text())), ty)
        } else {
            let wide = Ty::Int(bits * 2);
            let [a, b] = [a, b].map(|value| self.extend(&value, bits, bits * 2, signed));
            let product = self.value(format_args!("mul {} {a}, {b}", wide.text()));
            match half {
                "wide" => (product, wide),
                "hi" => (self.part(&product, bits * 2, bits, bits), ty),
                _ => return None,
            }
        };
        let Some(c) = c.first() else { return Some((result, product)) };
        if !(op.has("cc") || op.name == "madc")
            && let (Some(Resolved::Register(to)), Resolved::Register(base)) = (op.operands.first(), c)
            && let pointer @ Ty::Ptr(_) = self.ty(*to)
            && (self.ty(*base), result, is_offset) == (pointer, Ty::Int(64), true)
        {
            let base = self.read_register(*base, pointer);
            return Some((pointer, self.displaced(&base, pointer, product, false)));
        }
        let c = self.read(c, result)?;
        Some((
            result,
            match op.has("cc") || op.name == "madc" {
                true => self.sum(op, result.bits(), &product, &c),
                false => self.value(format_args!("add {} {product}, {c}", result.text())),
            },
        ))
    }

    /// A sum or difference that reads the carry flag, or sets it, or both.
    ///
    /// The devices compute a difference as a + ~b + 1, so the flag is set if there is no borrow. nvcc's code relies on
    /// this when it reads a difference's flag by `addc`, as its 128-bit division does.
    fn sum(&mut self, op: &Op<'a>, bits: u32, a: &str, b: &str) -> String {
        let (subtracts, wide) = (op.name.starts_with("sub"), 2 * bits);
        let b = if subtracts { self.value(format_args!("xor i{bits} {b}, -1")) } else { b.to_owned() };
        let carry = match op.reads_carry() {
            true => self.read_register(CARRY, Ty::Int(1)),
            false => subtracts.to_string(),
        };
        let [a, b] = [a, &b].map(|value| self.extend(value, bits, wide, false));
        let carry = self.extend(&carry, 1, wide, false);
        let sum = self.value(format_args!("add i{wide} {a}, {b}"));
        let sum = self.value(format_args!("add i{wide} {sum}, {carry}"));
        if op.writes_carry() {
            let carry = self.part(&sum, wide, bits, 1);
            self.write_register(CARRY, Ty::Int(1), &carry, false);
        }
        self.part(&sum, wide, 0, bits)
    }
}

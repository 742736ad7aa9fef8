//! Integer arithmetic, logic, selection, comparison and moves.

use crate::comparisons;

use super::emitter::{Emitter, integer_text};
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::{Kind, Scalar};

impl<'a> Emitter<'a, '_> {
    pub fn integer(&mut self, op: &Op<'a>) -> Option<()> {
        let scalar = op.scalar()?;
        let ty = Ty::of(scalar);
        let text = ty.text();
        let signed = scalar.is_signed();
        let (to, sources) = op.operands.split_first()?;
        match (op.name, sources) {
            ("add" | "sub", [a, b]) if op.only(1, &["cc"]) => {
                if op.has("cc") {
                    return self.add_with_carry(op, scalar, to, a, b);
                }
                if let Some(done) = self.add_to_pointer(op, scalar, to, a, b) {
                    return Some(done);
                }
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let value = self.value(format_args!("{} {text} {a}, {b}", op.name));
                self.write_to(to, ty, &value, signed)
            }
            ("addc" | "subc", [a, b]) if op.only(1, &["cc"]) => self.add_with_carry(op, scalar, to, a, b),
            ("mul" | "mad" | "madc", [a, b, rest @ ..]) => self.multiply(op, scalar, to, a, b, rest.first()),
            ("mul24" | "mad24", _) => None,
            ("div" | "rem", [a, b]) if op.modifiers.len() == 1 => self.divide(op.name, scalar, to, a, b),
            ("abs", [a]) if op.modifiers.len() == 1 => {
                let a = self.read(a, ty)?;
                let value = self.call(ty, &format!("llvm.abs.{text}"), &[(ty, a.as_str()), (Ty::Int(1), "false")]);
                self.write_to(to, ty, &value, signed)
            }
            ("neg", [a]) if op.modifiers.len() == 1 => {
                let a = self.read(a, ty)?;
                let value = self.value(format_args!("sub {text} 0, {a}"));
                self.write_to(to, ty, &value, signed)
            }
            ("min" | "max", [a, b]) if op.modifiers.len() == 1 => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let name = format!("llvm.{}{}.{text}", if signed { "s" } else { "u" }, op.name);
                let value = self.call(ty, &name, &[(ty, a.as_str()), (ty, b.as_str())]);
                self.write_to(to, ty, &value, signed)
            }
            ("and" | "or" | "xor", [a, b]) if op.modifiers.len() == 1 => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let value = self.value(format_args!("{} {text} {a}, {b}", op.name));
                self.write_to(to, ty, &value, signed)
            }
            ("not", [a]) if op.modifiers.len() == 1 => {
                let a = self.read(a, ty)?;
                let value = self.value(format_args!("xor {text} {a}, -1"));
                self.write_to(to, ty, &value, signed)
            }
            ("cnot", [a]) if op.modifiers.len() == 1 => {
                let a = self.read(a, ty)?;
                let is_zero = self.value(format_args!("icmp eq {text} {a}, 0"));
                self.write_to(to, Ty::Int(1), &is_zero, false)
            }
            ("shl" | "shr", [a, b]) if op.modifiers.len() == 1 => self.shift(op.name, scalar, to, a, b),
            ("shf", [a, b, c]) if op.modifiers.len() == 3 => {
                // Beyond a word the clamped form stays where the other begins again.
                let constant = match c {
                    Resolved::Int(amount) => Some(*amount as u32),
                    _ => None,
                };
                if op.has("clamp") && constant.is_none_or(|amount| amount > 31) {
                    return None;
                }
                let name = if op.has("l") { "llvm.fshl.i32" } else { "llvm.fshr.i32" };
                let (low, high, amount) = (self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
                let value = self.call(ty, name, &[(ty, high.as_str()), (ty, low.as_str()), (ty, amount.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            ("popc" | "brev", [a]) if op.modifiers.len() == 1 => {
                let a = self.read(a, ty)?;
                let name = if op.name == "popc" { "ctpop" } else { "bitreverse" };
                let value = self.call(ty, &format!("llvm.{name}.{text}"), &[(ty, a.as_str())]);
                self.counted(op.name == "popc", to, ty, &value)
            }
            ("clz", [a]) if op.modifiers.len() == 1 => {
                let a = self.read(a, ty)?;
                let value = self.call(ty, &format!("llvm.ctlz.{text}"), &[(ty, a.as_str()), (Ty::Int(1), "false")]);
                self.counted(true, to, ty, &value)
            }
            ("bfind", [a]) if op.modifiers.len() == 1 => {
                let mut a = self.read(a, ty)?;
                if signed {
                    let sign = self.value(format_args!("ashr {text} {a}, {}", scalar.bits - 1));
                    a = self.value(format_args!("xor {text} {a}, {sign}"));
                }
                let zeros = self.call(ty, &format!("llvm.ctlz.{text}"), &[(ty, a.as_str()), (Ty::Int(1), "false")]);
                let value = self.value(format_args!("sub {text} {}, {zeros}", scalar.bits - 1));
                self.counted(true, to, ty, &value)
            }
            ("bfe", [a, Resolved::Int(from), Resolved::Int(count)]) if op.modifiers.len() == 1 => {
                let (from, count) = bits_of_field(scalar, *from, *count)?;
                let a = self.read(a, ty)?;
                let value = self.extract(scalar, &a, from, count);
                self.write_to(to, ty, &value, signed)
            }
            ("bfi", [a, b, Resolved::Int(from), Resolved::Int(count)]) if op.modifiers.len() == 1 => {
                let (from, count) = bits_of_field(scalar, *from, *count)?;
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                if count == 0 {
                    return self.write_to(to, ty, &b, false);
                }
                let mask = i128::from(((1u64 << count) - 1) << from);
                let moved = self.value(format_args!("shl {text} {a}, {from}"));
                let new = self.value(format_args!("and {text} {moved}, {}", integer_text(mask, scalar.bits)));
                let old = self.value(format_args!("and {text} {b}, {}", integer_text(!mask, scalar.bits)));
                let value = self.value(format_args!("or {text} {new}, {old}"));
                self.write_to(to, ty, &value, false)
            }
            ("prmt", [a, b, c]) if op.modifiers.len() == 1 => {
                let (a, b, c) = (self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
                let value = self.call(ty, "llvm.nvvm.prmt", &[(ty, a.as_str()), (ty, b.as_str()), (ty, c.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            ("lop3", [a, b, c, Resolved::Int(table)]) if op.modifiers.len() == 1 => {
                let (a, b, c) = (self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
                let table = *table as u32;
                let (with, without) = (self.table(&b, &c, table >> 4), self.table(&b, &c, table));
                let first = self.value(format_args!("and i32 {a}, {with}"));
                let not = self.value(format_args!("xor i32 {a}, -1"));
                let second = self.value(format_args!("and i32 {not}, {without}"));
                let value = self.value(format_args!("or i32 {first}, {second}"));
                self.write_to(to, ty, &value, false)
            }
            ("selp", [a, b, condition]) if op.modifiers.len() == 1 => {
                let ty = match to {
                    Resolved::Register(register) if self.ty(*register).bits() == scalar.bits => self.ty(*register),
                    _ => Ty::stored(scalar),
                };
                let condition = self.read(condition, Ty::Int(1))?;
                let (a, b) = (self.selected(a, ty, scalar)?, self.selected(b, ty, scalar)?);
                let value = self.value(format_args!("select i1 {condition}, {0} {a}, {0} {b}", ty.text()));
                self.write_to(to, ty, &value, signed)
            }
            ("slct", [a, b, c]) if op.modifiers.len() == 2 && scalar.kind == Kind::Signed => {
                let ty = Ty::stored(op.first_scalar()?);
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let c = self.read(c, Ty::Int(32))?;
                let condition = self.value(format_args!("icmp sge i32 {c}, 0"));
                let value = self.value(format_args!("select i1 {condition}, {0} {a}, {0} {b}", ty.text()));
                self.write_to(to, ty, &value, false)
            }
            _ => None,
        }
    }

    /// A choice: numbers may be written as the other kind.
    fn selected(&mut self, operand: &Resolved<'a>, ty: Ty, scalar: Scalar) -> Option<String> {
        if let Some(value) = self.read(operand, ty) {
            return Some(value);
        }
        let own = Ty::stored(scalar);
        let value = self.read(operand, if own == ty { Ty::Int(scalar.bits) } else { own })?;
        Some(self.cast(&value, if own == ty { Ty::Int(scalar.bits) } else { own }, ty))
    }

    /// Writes a number of bits, which has 32 of them whatever was counted.
    fn counted(&mut self, count: bool, to: &Resolved<'a>, ty: Ty, value: &str) -> Option<()> {
        if !count || ty == Ty::Int(32) {
            return self.write_to(to, ty, value, false);
        }
        let value = self.cast(value, ty, Ty::Int(32));
        self.write_to(to, Ty::Int(32), &value, false)
    }

    /// One of the sixteen functions of two words.
    fn table(&mut self, b: &str, c: &str, table: u32) -> String {
        let mut terms = Vec::new();
        match table & 15 {
            0 => return "0".into(),
            15 => return "-1".into(),
            12 => return b.to_owned(),
            10 => return c.to_owned(),
            3 => return self.value(format_args!("xor i32 {b}, -1")),
            5 => return self.value(format_args!("xor i32 {c}, -1")),
            8 => return self.value(format_args!("and i32 {b}, {c}")),
            14 => return self.value(format_args!("or i32 {b}, {c}")),
            6 => return self.value(format_args!("xor i32 {b}, {c}")),
            table => {
                for (bit, b_is, c_is) in [(0, false, false), (1, false, true), (2, true, false), (3, true, true)] {
                    if table >> bit & 1 == 0 {
                        continue;
                    }
                    let of = |this: &mut Self, value: &str, is: bool| {
                        if is { value.to_owned() } else { this.value(format_args!("xor i32 {value}, -1")) }
                    };
                    let (b, c) = (of(self, b, b_is), of(self, c, c_is));
                    terms.push(self.value(format_args!("and i32 {b}, {c}")));
                }
            }
        }
        let first = terms.remove(0);
        terms.into_iter().fold(first, |sum, term| self.value(format_args!("or i32 {sum}, {term}")))
    }

    fn extract(&mut self, scalar: Scalar, a: &str, from: u32, count: u32) -> String {
        let (bits, text) = (scalar.bits, Ty::of(scalar).text());
        if count == 0 {
            return "0".into();
        }
        let end = from + count;
        if scalar.is_signed() {
            // Beyond the word its sign goes on.
            if end >= bits {
                return self.value(format_args!("ashr {text} {a}, {from}"));
            }
            let moved = self.value(format_args!("shl {text} {a}, {}", bits - end));
            return self.value(format_args!("ashr {text} {moved}, {}", bits - count));
        }
        let moved = self.value(format_args!("lshr {text} {a}, {from}"));
        if end >= bits {
            return moved;
        }
        self.value(format_args!("and {text} {moved}, {}", (1u64 << count) - 1))
    }

    /// An address and an offset.
    fn add_to_pointer(
        &mut self,
        op: &Op<'a>,
        scalar: Scalar,
        to: &Resolved<'a>,
        a: &Resolved<'a>,
        b: &Resolved<'a>,
    ) -> Option<()> {
        if scalar.bits != 64 {
            return None;
        }
        let pointer_type = |this: &Self, operand: &Resolved<'a>| match operand {
            Resolved::Register(register) => Some(this.ty(*register)).filter(|ty| matches!(ty, Ty::Ptr(_))),
            _ => None,
        };
        let wanted = pointer_type(self, to)?;
        let (base, offset) = match (pointer_type(self, a), pointer_type(self, b)) {
            (Some(ty), None) if ty == wanted => (a, b),
            (None, Some(ty)) if ty == wanted && op.name == "add" => (b, a),
            _ => return None,
        };
        // What is far from one address by its distance to another is the other's.
        if !self.is_offset(offset) {
            return None;
        }
        let base = self.read(base, wanted)?;
        let mut offset = self.read(offset, Ty::Int(64))?;
        if op.name == "sub" {
            offset = self.value(format_args!("sub i64 0, {offset}"));
        }
        let value = self.value(format_args!("getelementptr i8, {} {base}, i64 {offset}", wanted.text()));
        self.write_to(to, wanted, &value, false)
    }

    /// Shifts by a word or more leave nothing, or the sign.
    fn shift(
        &mut self,
        name: &str,
        scalar: Scalar,
        to: &Resolved<'a>,
        a: &Resolved<'a>,
        b: &Resolved<'a>,
    ) -> Option<()> {
        let (ty, bits) = (Ty::of(scalar), scalar.bits);
        let text = ty.text();
        let is_arithmetic = name == "shr" && scalar.is_signed();
        let opcode = match name {
            "shl" => "shl",
            _ if is_arithmetic => "ashr",
            _ => "lshr",
        };
        let a = self.read(a, ty)?;
        let value = match b {
            Resolved::Int(amount) => {
                let amount = *amount as u32;
                if amount < bits {
                    self.value(format_args!("{opcode} {text} {a}, {amount}"))
                } else if is_arithmetic {
                    self.value(format_args!("ashr {text} {a}, {}", bits - 1))
                } else {
                    "0".into()
                }
            }
            b => {
                let amount = self.read(b, Ty::Int(32))?;
                let word = Ty::Int(32);
                let most = (bits - 1).to_string();
                let least = self.call(word, "llvm.umin.i32", &[(word, amount.as_str()), (word, most.as_str())]);
                let narrow = self.cast(&least, word, Ty::Int(bits));
                let shifted = self.value(format_args!("{opcode} {text} {a}, {narrow}"));
                if is_arithmetic {
                    shifted
                } else {
                    let inside = self.value(format_args!("icmp ult i32 {amount}, {bits}"));
                    self.value(format_args!("select i1 {inside}, {text} {shifted}, {text} 0"))
                }
            }
        };
        self.write_to(to, ty, &value, scalar.is_signed())
    }

    /// Division by zero comes to all ones, as on the devices; that of the least number by -1 to itself.
    fn divide(
        &mut self,
        name: &str,
        scalar: Scalar,
        to: &Resolved<'a>,
        a: &Resolved<'a>,
        b: &Resolved<'a>,
    ) -> Option<()> {
        let ty = Ty::of(scalar);
        let (text, signed) = (ty.text(), scalar.is_signed());
        let opcode = format!("{}{name}", if signed { "s" } else { "u" });
        let constant = match b {
            Resolved::Int(value) => Some(*value),
            _ => None,
        };
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        if constant.is_some_and(|value| value != 0 && value != -1 && integer_text(value, scalar.bits) != "0") {
            let minus_one = integer_text(-1, scalar.bits);
            if !signed || b != minus_one {
                let value = self.value(format_args!("{opcode} {text} {a}, {b}"));
                return self.write_to(to, ty, &value, signed);
            }
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
        let value = self.value(format_args!("select i1 {is_zero}, {text} -1, {text} {result}"));
        self.write_to(to, ty, &value, signed)
    }

    fn multiply(
        &mut self,
        op: &Op<'a>,
        scalar: Scalar,
        to: &Resolved<'a>,
        a: &Resolved<'a>,
        b: &Resolved<'a>,
        c: Option<&Resolved<'a>>,
    ) -> Option<()> {
        if !op.only(1, &["lo", "hi", "wide", "cc"]) {
            return None;
        }
        let (bits, signed) = (scalar.bits, scalar.is_signed());
        let ty = Ty::of(scalar);
        let is_offset = self.is_offset(a) && self.is_offset(b);
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let wide = bits * 2;
        let (product, result) = if op.has("lo") {
            (self.value(format_args!("mul {} {a}, {b}", ty.text())), bits)
        } else {
            let (a, b) = (self.extend(&a, bits, wide, signed), self.extend(&b, bits, wide, signed));
            let text = Ty::Int(wide).text();
            let product = self.value(format_args!("mul {text} {a}, {b}"));
            if op.has("wide") {
                (product, wide)
            } else if op.has("hi") {
                let high = self.value(format_args!("lshr {text} {product}, {bits}"));
                (self.cast(&high, Ty::Int(wide), ty), bits)
            } else {
                return None;
            }
        };
        let result_type = Ty::Int(result);
        let Some(c) = c else { return self.write_to(to, result_type, &product, signed) };
        if op.has("cc") || op.name == "madc" {
            let c = self.read(c, result_type)?;
            return self.sum(op, result, to, &product, &c);
        }
        if let (Resolved::Register(to_register), Resolved::Register(base)) = (to, c)
            && let (Ty::Ptr(space), Ty::Ptr(other)) = (self.ty(*to_register), self.ty(*base))
            && space == other
            && result == 64
            && is_offset
        {
            let pointer = Ty::Ptr(space);
            let base = self.read_register(*base, pointer);
            let value = self.value(format_args!("getelementptr i8, {} {base}, i64 {product}", pointer.text()));
            return self.write_to(to, pointer, &value, false);
        }
        let c = self.read(c, result_type)?;
        let value = self.value(format_args!("add {} {product}, {c}", result_type.text()));
        self.write_to(to, result_type, &value, signed)
    }

    fn add_with_carry(
        &mut self,
        op: &Op<'a>,
        scalar: Scalar,
        to: &Resolved<'a>,
        a: &Resolved<'a>,
        b: &Resolved<'a>,
    ) -> Option<()> {
        let ty = Ty::of(scalar);
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        self.sum(op, scalar.bits, to, &a, &b)
    }

    /// A sum or difference that takes the carry flag, or sets it, or both: exact in one bit more.
    ///
    /// A difference is a + ~b + 1 to the devices: the flag is set where nothing is borrowed. Code of nvcc relies on it
    /// where it reads the flag of a difference by `addc`, as its division of 128 bits does.
    fn sum(&mut self, op: &Op<'a>, bits: u32, to: &Resolved<'a>, a: &str, b: &str) -> Option<()> {
        let subtracts = op.name.starts_with("sub");
        let (ty, opcode) = (Ty::Int(bits), if subtracts { "sub" } else { "add" });
        let text = ty.text();
        let intrinsic = format!("llvm.u{opcode}.with.overflow.{text}");
        self.context.declare(format!("declare {{ {text}, i1 }} @{intrinsic}({text}, {text})"));
        let carry_in = if op.reads_carry() {
            let mut carry = self.read_carry();
            if subtracts {
                carry = self.value(format_args!("xor i1 {carry}, true"));
            }
            Some(self.cast(&carry, Ty::Int(1), ty))
        } else {
            None
        };
        let step = |this: &mut Self, a: &str, b: &str| {
            let pair = this.value(format_args!("call {{ {text}, i1 }} @{intrinsic}({text} {a}, {text} {b})"));
            let sum = this.value(format_args!("extractvalue {{ {text}, i1 }} {pair}, 0"));
            let over = this.value(format_args!("extractvalue {{ {text}, i1 }} {pair}, 1"));
            (sum, over)
        };
        let (mut value, mut carry) = step(self, a, b);
        if let Some(carry_in) = carry_in {
            let (sum, over) = step(self, &value, &carry_in);
            value = sum;
            carry = self.value(format_args!("or i1 {carry}, {over}"));
        }
        if op.writes_carry() {
            if subtracts {
                carry = self.value(format_args!("xor i1 {carry}, true"));
            }
            self.write_carry(&carry);
        }
        self.write_to(to, ty, &value, false)
    }

    pub fn compare(&mut self, op: &Op<'a>) -> Option<()> {
        let scalar = op.scalar()?;
        let is_set = op.name == "set";
        let comparison = *op.modifiers.first()?;
        let boolean = op.modifiers.iter().find(|word| matches!(**word, "and" | "or" | "xor")).copied();
        let known = 1 + usize::from(boolean.is_some()) + 1 + usize::from(is_set);
        if op.modifiers.len() != known {
            return None;
        }
        let (to, a, b, c) = match (&op.operands[..], boolean) {
            ([to, a, b], None) => (to, a, b, None),
            ([to, a, b, c], Some(_)) => (to, a, b, Some(c)),
            _ => return None,
        };
        let ty = Ty::of(scalar);
        let value = if scalar.is_float() {
            let condition = comparisons::of_floats(comparison)?;
            let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
            self.value(format_args!("fcmp {condition} {} {a}, {b}", ty.text()))
        } else {
            let condition = comparisons::of_integers(comparison, scalar.is_signed())?;
            let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
            self.value(format_args!("icmp {condition} {} {a}, {b}", ty.text()))
        };
        let combine = |this: &mut Self, value: &str| -> Option<String> {
            let (Some(boolean), Some(c)) = (boolean, c) else { return Some(value.to_owned()) };
            let c = this.read(c, Ty::Int(1))?;
            Some(this.value(format_args!("{boolean} i1 {value}, {c}")))
        };
        if is_set {
            let value = combine(self, &value)?;
            let wanted = op.modifiers.get(op.modifiers.len() - 2).and_then(|word| Scalar::of(word))?;
            let ty = Ty::of(wanted);
            let (yes, no) = match ty {
                Ty::F32 => ("1.0", "0.0"),
                Ty::Int(_) => ("-1", "0"),
                _ => return None,
            };
            let value = self.value(format_args!("select i1 {value}, {0} {yes}, {0} {no}", ty.text()));
            return self.write_to(to, ty, &value, false);
        }
        match to {
            Resolved::Pair(first, second) => {
                let not = self.value(format_args!("xor i1 {value}, true"));
                let (value, not) = (combine(self, &value)?, combine(self, &not)?);
                self.write_to(first, Ty::Int(1), &value, false)?;
                self.write_to(second, Ty::Int(1), &not, false)
            }
            to => {
                let value = combine(self, &value)?;
                self.write_to(to, Ty::Int(1), &value, false)
            }
        }
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
                let each = bits / parts.len().max(1) as u32;
                if !matches!(each, 8 | 16 | 32 | 64) || each * parts.len() as u32 != bits {
                    return None;
                }
                let whole = self.read(from, Ty::Int(bits))?;
                let text = Ty::Int(bits).text();
                let mut values = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    if *part == Resolved::Sink {
                        values.push(String::new());
                        continue;
                    }
                    let moved = match index as u32 * each {
                        0 => whole.clone(),
                        distance => self.value(format_args!("lshr {text} {whole}, {distance}")),
                    };
                    values.push(self.cast(&moved, Ty::Int(bits), Ty::Int(each)));
                }
                parts.iter().zip(values).try_for_each(|(part, value)| self.write_to(part, Ty::Int(each), &value, false))
            }
            (to, Resolved::Vector(parts)) => {
                let each = bits / parts.len().max(1) as u32;
                if !matches!(each, 8 | 16 | 32 | 64) || each * parts.len() as u32 != bits {
                    return None;
                }
                let text = Ty::Int(bits).text();
                let mut whole: Option<String> = None;
                for (index, part) in parts.iter().enumerate() {
                    let value = self.read(part, Ty::Int(each))?;
                    let mut value = self.cast(&value, Ty::Int(each), Ty::Int(bits));
                    if index > 0 {
                        value = self.value(format_args!("shl {text} {value}, {}", index as u32 * each));
                    }
                    whole = Some(match whole {
                        None => value,
                        Some(whole) => self.value(format_args!("or {text} {whole}, {value}")),
                    });
                }
                self.write_to(to, Ty::Int(bits), &whole?, false)
            }
            (Resolved::Register(register), from) => {
                let own = self.ty(*register);
                let ty = if own.bits() == bits { own } else { Ty::Int(bits) };
                let value = match self.read(from, ty) {
                    Some(value) => value,
                    None => {
                        let plain = if ty == Ty::Int(bits) { Ty::stored(scalar) } else { Ty::Int(bits) };
                        let value = self.read(from, plain)?;
                        self.cast(&value, plain, ty)
                    }
                };
                self.write_register(*register, ty, &value, false);
                Some(())
            }
            _ => None,
        }
    }
}

/// The constant place and length of a field of `bfe` or `bfi`. Both within the word: beyond it ptxas (12 and 13) takes
/// constants otherwise than registers, and than the manual; there the instruction stays as it is.
fn bits_of_field(scalar: Scalar, from: i128, count: i128) -> Option<(u32, u32)> {
    let within = |bits: i128| u32::try_from(bits).ok().filter(|bits| *bits < scalar.bits);
    Some((within(from)?, within(count)?))
}

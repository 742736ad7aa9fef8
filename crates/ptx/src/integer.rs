//! Integer arithmetic and logic.

use super::emitter::{Emitter, integer_text};
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::Scalar;

impl<'a> Emitter<'a, '_> {
    pub fn integer(&mut self, op: &Op<'a>) -> Option<()> {
        let scalar = op.scalar()?;
        let (ty, signed, cpu) = (Ty::of(scalar), scalar.is_signed(), self.is_cpu());
        let text = ty.text();
        let sign = if signed { "s" } else { "u" };
        let (to, sources) = op.operands.split_first()?;
        let value = match (op.name, sources, &op.words()[..]) {
            ("add" | "sub" | "addc" | "subc", [a, b], [] | ["cc"]) if op.reads_carry() || op.writes_carry() => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                return self.sum(op, scalar.bits, to, &a, &b);
            }
            ("add" | "sub", [a, b], []) => {
                if let Some(done) = self.add_to_pointer(op, scalar, to, a, b) {
                    return Some(done);
                }
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                self.value(format_args!("{} {text} {a}, {b}", op.name))
            }
            ("add" | "sub", [a, b], ["sat"]) if cpu => {
                self.apply(ty, &format!("llvm.s{}.sat.{text}", op.name), &[(ty, a), (ty, b)])?
            }
            ("mul" | "mad" | "madc", [a, b, rest @ ..], _) => {
                return self.multiply(op, scalar, to, a, b, rest.first());
            }
            ("mul24" | "mad24", [a, b, rest @ ..], [half]) if cpu => self.multiply_24(scalar, half, a, b, rest)?,
            ("div" | "rem", [a, b], []) => return self.divide(op.name, scalar, to, a, b),
            ("abs", [a], []) => {
                let a = self.read(a, ty)?;
                self.call(ty, &format!("llvm.abs.{text}"), &[(ty, a.as_str()), (Ty::Int(1), "false")])
            }
            ("neg", [a], []) => {
                let a = self.read(a, ty)?;
                self.value(format_args!("sub {text} 0, {a}"))
            }
            ("min" | "max", [a, b], []) => {
                self.apply(ty, &format!("llvm.{sign}{}.{text}", op.name), &[(ty, a), (ty, b)])?
            }
            ("min" | "max", [a, b], ["relu"]) if cpu => {
                let value = self.apply(ty, &format!("llvm.{sign}{}.{text}", op.name), &[(ty, a), (ty, b)])?;
                self.call(ty, &format!("llvm.smax.{text}"), &[(ty, &value), (ty, "0")])
            }
            ("sad", [a, b, c], []) if cpu => {
                let greater = self.apply(ty, &format!("llvm.{sign}max.{text}"), &[(ty, a), (ty, b)])?;
                let less = self.apply(ty, &format!("llvm.{sign}min.{text}"), &[(ty, a), (ty, b)])?;
                let difference = self.value(format_args!("sub {text} {greater}, {less}"));
                let c = self.read(c, ty)?;
                self.value(format_args!("add {text} {difference}, {c}"))
            }
            ("and" | "or" | "xor", [a, b], []) => {
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                self.value(format_args!("{} {text} {a}, {b}", op.name))
            }
            ("not", [a], []) => {
                let a = self.read(a, ty)?;
                self.value(format_args!("xor {text} {a}, -1"))
            }
            ("cnot", [a], []) => {
                let a = self.read(a, ty)?;
                let is_zero = self.value(format_args!("icmp eq {text} {a}, 0"));
                return self.write_to(to, Ty::Int(1), &is_zero, false);
            }
            ("shl" | "shr", [a, b], []) => return self.shift(op.name, scalar, to, a, b),
            _ => return None,
        };
        self.write_to(to, ty, &value, signed)
    }

    /// A product of 24-bit numbers, and a sum with it.
    fn multiply_24(
        &mut self,
        scalar: Scalar,
        half: &str,
        a: &Resolved<'a>,
        b: &Resolved<'a>,
        rest: &[Resolved<'a>],
    ) -> Option<String> {
        let shift = if scalar.is_signed() { "ashr" } else { "lshr" };
        let mut wide = |operand: &Resolved<'a>| {
            let value = self.bits(operand, 32)?;
            let raised = self.value(format_args!("shl i32 {value}, 8"));
            let value = self.value(format_args!("{shift} i32 {raised}, 8"));
            Some(self.extend(&value, 32, 64, scalar.is_signed()))
        };
        let (a, b) = (wide(a)?, wide(b)?);
        let product = self.value(format_args!("mul i64 {a}, {b}"));
        let value = self.part(&product, 64, if half == "hi" { 16 } else { 0 }, 32);
        let Some(addend) = rest.first() else { return Some(value) };
        let addend = self.bits(addend, 32)?;
        Some(self.value(format_args!("add i32 {value}, {addend}")))
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
        // If one address is offset by its distance to another, the result belongs to the other.
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

    /// Shifts by a word or more give 0, or the sign.
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

    /// Division by zero gives all ones, as on the devices; the least number divided by -1 gives itself.
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

    /// A sum or difference that reads the carry flag, or sets it, or both: exact with one additional bit.
    ///
    /// The devices compute a difference as a + ~b + 1, so the flag is set if there is no borrow. nvcc's code relies on
    /// this when it reads a difference's flag by `addc`, as its 128-bit division does.
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
        let signed = op.scalar().is_some_and(Scalar::is_signed);
        self.write_to(to, ty, &value, signed)
    }
}

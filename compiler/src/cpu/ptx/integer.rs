//! Integer and logic instructions.

use crate::cpu::operations::bits;

use super::Machine;
use super::parse::InlineOperand;
use super::types::Type;

impl Machine {
    pub(super) fn integer(
        &mut self,
        name: &str,
        modifiers: &[&str],
        types: &[Type],
        operands: &[InlineOperand],
    ) -> Option<()> {
        let ty = *types.first()?;
        if ty.lanes > 1 {
            return self.packed(name, modifiers, ty, operands);
        }
        let bits = ty.bits;
        let [to, from @ ..] = operands else { return None };
        let sets_carry = modifiers.last() == Some(&"cc");
        let modifiers: Vec<&str> = modifiers.iter().copied().filter(|part| *part != "cc").collect();
        let sign = if ty.is_signed() { "s" } else { "u" };
        match name {
            "add" | "sub" if modifiers == ["sat"] => {
                let [a, b] = self.all(from, bits)?;
                let value =
                    self.body.value(format!("call i{bits} @llvm.s{name}.sat.i{bits}(i{bits} {a}, i{bits} {b})"));
                self.write(to, bits, &value, true)
            }
            "add" | "addc" | "sub" | "subc" if modifiers.is_empty() => {
                let [a, b] = self.all(from, bits)?;
                let carry = name.ends_with('c').then(|| self.carry.clone());
                let value = self.with_carry(&name[..3], &a, &b, carry, bits, sets_carry);
                self.write(to, bits, &value, ty.is_signed())
            }
            "mul" | "mad" | "madc" => {
                let [half] = modifiers.as_slice() else { return None };
                let a = self.read(from.first()?, bits)?;
                let b = self.read(from.get(1)?, bits)?;
                let (value, width) = self.product(half, ty, &a, &b)?;
                let value = if name == "mul" {
                    value
                } else {
                    let c = self.read(from.get(2)?, width)?;
                    let carry = (name == "madc").then(|| self.carry.clone());
                    self.with_carry("add", &value, &c, carry, width, sets_carry)
                };
                self.write(to, width, &value, ty.is_signed())
            }
            "mul24" | "mad24" => {
                let [half] = modifiers.as_slice() else { return None };
                let shift = if ty.is_signed() { "ashr" } else { "lshr" };
                let mut wide = Vec::new();
                for operand in from.get(..2)? {
                    let value = self.read(operand, 32)?;
                    let raised = self.body.value(format!("shl i32 {value}, 8"));
                    let value = self.body.value(format!("{shift} i32 {raised}, 8"));
                    wide.push(self.resize(&value, 32, 64, ty.is_signed()));
                }
                let product = self.body.value(format!("mul i64 {}, {}", wide[0], wide[1]));
                let moved = match *half {
                    "lo" => product,
                    "hi" => self.body.value(format!("lshr i64 {product}, 16")),
                    _ => return None,
                };
                let mut value = self.resize(&moved, 64, 32, false);
                if name == "mad24" {
                    let c = self.read(from.get(2)?, 32)?;
                    value = self.body.value(format!("add i32 {value}, {c}"));
                }
                self.write(to, 32, &value, ty.is_signed())
            }
            "div" | "rem" => {
                let [a, b] = self.all(from, bits)?;
                let value = self.quotient(name, ty, &a, &b);
                self.write(to, bits, &value, ty.is_signed())
            }
            "min" | "max" => {
                let [a, b] = self.all(from, bits)?;
                let mut value =
                    self.body.value(format!("call i{bits} @llvm.{sign}{name}.i{bits}(i{bits} {a}, i{bits} {b})"));
                if modifiers == ["relu"] {
                    value = self.body.value(format!("call i{bits} @llvm.smax.i{bits}(i{bits} {value}, i{bits} 0)"));
                }
                self.write(to, bits, &value, ty.is_signed())
            }
            "sad" => {
                let [a, b, c] = self.all(from, bits)?;
                let greater =
                    self.body.value(format!("call i{bits} @llvm.{sign}max.i{bits}(i{bits} {a}, i{bits} {b})"));
                let less = self.body.value(format!("call i{bits} @llvm.{sign}min.i{bits}(i{bits} {a}, i{bits} {b})"));
                let difference = self.body.value(format!("sub i{bits} {greater}, {less}"));
                let value = self.body.value(format!("add i{bits} {difference}, {c}"));
                self.write(to, bits, &value, ty.is_signed())
            }
            "abs" => {
                let [a] = self.all(from, bits)?;
                let value = self.body.value(format!("call i{bits} @llvm.abs.i{bits}(i{bits} {a}, i1 false)"));
                self.write(to, bits, &value, true)
            }
            "neg" => {
                let [a] = self.all(from, bits)?;
                let value = self.body.value(format!("sub i{bits} 0, {a}"));
                self.write(to, bits, &value, true)
            }
            "and" | "or" | "xor" => {
                let [a, b] = self.all(from, bits)?;
                let value = self.body.value(format!("{name} i{bits} {a}, {b}"));
                self.write(to, bits, &value, false)
            }
            "not" => {
                let [a] = self.all(from, bits)?;
                let value = self.body.value(format!("xor i{bits} {a}, {}", super::literal(-1, bits)));
                self.write(to, bits, &value, false)
            }
            "cnot" => {
                let [a] = self.all(from, bits)?;
                let zero = self.body.value(format!("icmp eq i{bits} {a}, 0"));
                let value = self.resize(&zero, 1, bits, false);
                self.write(to, bits, &value, false)
            }
            "shl" | "shr" => {
                let [value, amount] = from else { return None };
                let (value, amount) = (self.read(value, bits)?, self.read(amount, 32)?);
                let value = self.shift(name, ty, &value, &amount);
                self.write(to, bits, &value, ty.is_signed())
            }
            "shf" => self.funnel(&modifiers, to, from),
            "lop3" => self.logic3(to, from),
            "prmt" if modifiers.is_empty() => {
                let [a, b, c] = self.all(from, 32)?;
                let value = self.body.value(format!("call i32 @__mneme_cpu.permute(i32 {a}, i32 {b}, i32 {c})"));
                self.write(to, 32, &value, false)
            }
            "popc" | "clz" => {
                let [a] = self.all(from, bits)?;
                let value = if name == "popc" {
                    self.body.value(format!("call i{bits} @llvm.ctpop.i{bits}(i{bits} {a})"))
                } else {
                    self.body.value(format!("call i{bits} @llvm.ctlz.i{bits}(i{bits} {a}, i1 false)"))
                };
                let value = self.resize(&value, bits, 32, false);
                self.write(to, 32, &value, false)
            }
            "brev" => {
                let [a] = self.all(from, bits)?;
                let value = self.body.value(format!("call i{bits} @llvm.bitreverse.i{bits}(i{bits} {a})"));
                self.write(to, bits, &value, false)
            }
            "fns" => {
                let [mask, base, offset] = self.all(from, 32)?;
                let place = bits::nth_set(&mut self.body, &mask, &base, &offset);
                self.write(to, 32, &place, false)
            }
            "bfind" => self.find_bit(modifiers == ["shiftamt"], ty, to, from),
            "bfe" => self.extract_field(ty, to, from),
            "bfi" => self.insert_field(bits, to, from),
            "dp4a" => self.dot_product(8, 0, types, to, from),
            "dp2a" => {
                let first = ["lo", "hi"].iter().position(|half| modifiers == [*half])?;
                self.dot_product(16, 2 * first, types, to, from)
            }
            _ => None,
        }
    }

    fn all<const N: usize>(&mut self, operands: &[InlineOperand], bits: u32) -> Option<[String; N]> {
        let values = operands.iter().map(|operand| self.read(operand, bits)).collect::<Option<Vec<_>>>()?;
        values.try_into().ok()
    }

    /// `a + b + carry` or `a + ~b + carry`, the carry into CC.CF on demand: that of a difference is set where nothing
    /// is borrowed. Without a carry it is the plain sum or difference.
    fn with_carry(
        &mut self,
        operation: &str,
        a: &str,
        b: &str,
        carry: Option<String>,
        bits: u32,
        sets: bool,
    ) -> String {
        let (wide, subtracts) = (2 * bits, operation == "sub");
        let a = self.resize(a, bits, wide, false);
        let b = self.resize(b, bits, wide, false);
        let mut total = self.body.value(format!("{operation} i{wide} {a}, {b}"));
        if let Some(mut carry) = carry {
            if subtracts {
                carry = self.body.value(format!("xor i1 {carry}, true"));
            }
            let carry = self.resize(&carry, 1, wide, false);
            total = self.body.value(format!("{operation} i{wide} {total}, {carry}"));
        }
        if sets {
            let out = self.body.value(format!("lshr i{wide} {total}, {bits}"));
            self.carry = self.resize(&out, wide, 1, false);
            if subtracts {
                self.carry = self.body.value(format!("xor i1 {}, true", self.carry));
            }
        }
        self.resize(&total, wide, bits, false)
    }

    /// `lo`, `hi` or `wide` product, with its width.
    fn product(&mut self, half: &str, ty: Type, a: &str, b: &str) -> Option<(String, u32)> {
        let (bits, wide) = (ty.bits, 2 * ty.bits);
        let a = self.resize(a, bits, wide, ty.is_signed());
        let b = self.resize(b, bits, wide, ty.is_signed());
        let product = self.body.value(format!("mul i{wide} {a}, {b}"));
        match half {
            "wide" => Some((product, wide)),
            "lo" => Some((self.resize(&product, wide, bits, false), bits)),
            "hi" => {
                let high = self.body.value(format!("lshr i{wide} {product}, {bits}"));
                Some((self.resize(&high, wide, bits, false), bits))
            }
            _ => None,
        }
    }

    /// Division as on the GPU, where it does not trap: all ones for a quotient by zero.
    fn quotient(&mut self, name: &str, ty: Type, a: &str, b: &str) -> String {
        let (bits, wide) = (ty.bits, 2 * ty.bits);
        let operation = format!("{}{name}", if ty.is_signed() { "s" } else { "u" });
        let zero = self.body.value(format!("icmp eq i{bits} {b}, 0"));
        let divisor = self.body.value(format!("select i1 {zero}, i{bits} 1, i{bits} {b}"));
        let (wide_a, wide_b, width) = if bits == 64 {
            // The smallest number by -1 is the one overflow; by 1 it gives the same bits.
            (a.to_owned(), self.without_overflow(ty, a, &divisor), bits)
        } else {
            (self.resize(a, bits, wide, ty.is_signed()), self.resize(&divisor, bits, wide, ty.is_signed()), wide)
        };
        let value = self.body.value(format!("{operation} i{width} {wide_a}, {wide_b}"));
        let value = self.resize(&value, width, bits, false);
        let undefined = if name == "div" { super::literal(-1, bits) } else { a.to_owned() };
        self.body.value(format!("select i1 {zero}, i{bits} {undefined}, i{bits} {value}"))
    }

    fn without_overflow(&mut self, ty: Type, a: &str, divisor: &str) -> String {
        if !ty.is_signed() {
            return divisor.to_owned();
        }
        let least = self.body.value(format!("icmp eq i64 {a}, {}", i64::MIN));
        let minus_one = self.body.value(format!("icmp eq i64 {divisor}, -1"));
        let overflow = self.body.value(format!("and i1 {least}, {minus_one}"));
        self.body.value(format!("select i1 {overflow}, i64 1, i64 {divisor}"))
    }

    /// Shifts by the width or more give zero, or the sign.
    fn shift(&mut self, name: &str, ty: Type, value: &str, amount: &str) -> String {
        let bits = ty.bits;
        let most = self.body.value(format!("call i32 @llvm.umin.i32(i32 {amount}, i32 {})", bits - 1));
        let most = self.resize(&most, 32, bits, false);
        if name == "shr" && ty.is_signed() {
            return self.body.value(format!("ashr i{bits} {value}, {most}"));
        }
        let operation = if name == "shl" { "shl" } else { "lshr" };
        let shifted = self.body.value(format!("{operation} i{bits} {value}, {most}"));
        let inside = self.body.value(format!("icmp ult i32 {amount}, {bits}"));
        self.body.value(format!("select i1 {inside}, i{bits} {shifted}, i{bits} 0"))
    }

    fn funnel(&mut self, modifiers: &[&str], to: &InlineOperand, from: &[InlineOperand]) -> Option<()> {
        let [direction, mode] = modifiers else { return None };
        let [low, high, amount] = self.all(from, 32)?;
        let amount = match *mode {
            "wrap" => self.body.value(format!("and i32 {amount}, 31")),
            "clamp" => self.body.value(format!("call i32 @llvm.umin.i32(i32 {amount}, i32 32)")),
            _ => return None,
        };
        let amount = self.resize(&amount, 32, 64, false);
        let (low, high) = (self.resize(&low, 32, 64, false), self.resize(&high, 32, 64, false));
        let high = self.body.value(format!("shl i64 {high}, 32"));
        let both = self.body.value(format!("or i64 {high}, {low}"));
        let value = match *direction {
            "l" => {
                let moved = self.body.value(format!("shl i64 {both}, {amount}"));
                self.body.value(format!("lshr i64 {moved}, 32"))
            }
            "r" => self.body.value(format!("lshr i64 {both}, {amount}")),
            _ => return None,
        };
        let value = self.resize(&value, 64, 32, false);
        self.write(to, 32, &value, false)
    }

    /// Any function of three bits, from its truth table.
    fn logic3(&mut self, to: &InlineOperand, from: &[InlineOperand]) -> Option<()> {
        let [a, b, c, table] = self.all(from, 32)?;
        let mut value = "0".to_owned();
        for row in 0..8u32 {
            let mut term = "-1".to_owned();
            for (input, bit) in [(&a, 4), (&b, 2), (&c, 1)] {
                let input =
                    if row & bit != 0 { input.clone() } else { self.body.value(format!("xor i32 {input}, -1")) };
                term = self.body.value(format!("and i32 {term}, {input}"));
            }
            let moved = self.body.value(format!("lshr i32 {table}, {row}"));
            let bit = self.resize(&moved, 32, 1, false);
            let term = self.body.value(format!("select i1 {bit}, i32 {term}, i32 0"));
            value = self.body.value(format!("or i32 {value}, {term}"));
        }
        self.write(to, 32, &value, false)
    }

    fn find_bit(&mut self, as_shift: bool, ty: Type, to: &InlineOperand, from: &[InlineOperand]) -> Option<()> {
        let bits = ty.bits;
        let [mut a] = self.all(from, bits)?;
        if ty.is_signed() {
            let sign = self.body.value(format!("ashr i{bits} {a}, {}", bits - 1));
            a = self.body.value(format!("xor i{bits} {a}, {sign}"));
        }
        let zeros = self.body.value(format!("call i{bits} @llvm.ctlz.i{bits}(i{bits} {a}, i1 false)"));
        let place = if as_shift { zeros } else { self.body.value(format!("sub i{bits} {}, {zeros}", bits - 1)) };
        let none = self.body.value(format!("icmp eq i{bits} {a}, 0"));
        let place = self.resize(&place, bits, 32, false);
        let value = self.body.value(format!("select i1 {none}, i32 -1, i32 {place}"));
        self.write(to, 32, &value, false)
    }

    /// Position and length of a bit field: the low bytes of two operands, at most the width.
    fn field(&mut self, operands: &[InlineOperand], bits: u32, wide: u32) -> Option<[String; 2]> {
        let mut found = Vec::new();
        for operand in operands {
            let value = self.read(operand, 32)?;
            let byte = self.body.value(format!("and i32 {value}, 255"));
            let most = self.body.value(format!("call i32 @llvm.umin.i32(i32 {byte}, i32 {bits})"));
            found.push(self.resize(&most, 32, wide, false));
        }
        found.try_into().ok()
    }

    fn extract_field(&mut self, ty: Type, to: &InlineOperand, from: &[InlineOperand]) -> Option<()> {
        let (bits, wide) = (ty.bits, 2 * ty.bits);
        let (value, place) = from.split_first()?;
        let value = self.read(value, bits)?;
        let [position, length] = self.field(place, bits, wide)?;
        let whole = self.resize(&value, bits, wide, ty.is_signed());
        let moved = self.body.value(format!("ashr i{wide} {whole}, {position}"));
        // Length 0 would shift by the width.
        let empty = self.body.value(format!("icmp eq i{wide} {length}, 0"));
        let at_least_one = self.body.value(format!("call i{wide} @llvm.umax.i{wide}(i{wide} {length}, i{wide} 1)"));
        let unused = self.body.value(format!("sub i{wide} {wide}, {at_least_one}"));
        let raised = self.body.value(format!("shl i{wide} {moved}, {unused}"));
        let shift = if ty.is_signed() { "ashr" } else { "lshr" };
        let field = self.body.value(format!("{shift} i{wide} {raised}, {unused}"));
        let field = self.body.value(format!("select i1 {empty}, i{wide} 0, i{wide} {field}"));
        let field = self.resize(&field, wide, bits, false);
        self.write(to, bits, &field, false)
    }

    fn insert_field(&mut self, bits: u32, to: &InlineOperand, from: &[InlineOperand]) -> Option<()> {
        let wide = 2 * bits;
        let [field, base, place @ ..] = from else { return None };
        let (field, base) = (self.read(field, bits)?, self.read(base, bits)?);
        let [position, length] = self.field(place, bits, wide)?;
        let unit = self.body.value(format!("shl i{wide} 1, {length}"));
        let low = self.body.value(format!("sub i{wide} {unit}, 1"));
        let mask = self.body.value(format!("shl i{wide} {low}, {position}"));
        let mask = self.resize(&mask, wide, bits, false);
        let field = self.resize(&field, bits, wide, false);
        let moved = self.body.value(format!("shl i{wide} {field}, {position}"));
        let moved = self.resize(&moved, wide, bits, false);
        let inside = self.body.value(format!("and i{bits} {moved}, {mask}"));
        let hole = self.body.value(format!("xor i{bits} {mask}, {}", super::literal(-1, bits)));
        let outside = self.body.value(format!("and i{bits} {base}, {hole}"));
        let value = self.body.value(format!("or i{bits} {inside}, {outside}"));
        self.write(to, bits, &value, false)
    }

    /// The sum of four products of bytes (`dp4a`), or of two of halves and bytes from `first` (`dp2a`).
    fn dot_product(
        &mut self,
        width: u32,
        first: usize,
        types: &[Type],
        to: &InlineOperand,
        from: &[InlineOperand],
    ) -> Option<()> {
        let [a_type, b_type] = types else { return None };
        let [a, b, mut sum] = self.all(from, 32)?;
        for element in 0..32 / width {
            let mut term = |value: &str, width: u32, index: u32, signed: bool| {
                let moved = self.body.value(format!("lshr i32 {value}, {}", width * index));
                let low = self.resize(&moved, 32, width, false);
                self.resize(&low, width, 32, signed)
            };
            let x = term(&a, width, element, a_type.is_signed());
            let y = term(&b, 8, element + first as u32, b_type.is_signed());
            let product = self.body.value(format!("mul i32 {x}, {y}"));
            sum = self.body.value(format!("add i32 {sum}, {product}"));
        }
        self.write(to, 32, &sum, false)
    }

    /// Instructions on two 16-bit integers.
    fn packed(&mut self, name: &str, modifiers: &[&str], ty: Type, operands: &[InlineOperand]) -> Option<()> {
        let [to, from @ ..] = operands else { return None };
        let [a, b] = self.all(from, ty.whole())?;
        let bits = ty.bits;
        let mut lanes = Vec::new();
        for lane in 0..ty.lanes {
            let (a, b) = (self.lane(&a, ty, lane), self.lane(&b, ty, lane));
            let mut value = match name {
                "add" | "sub" => self.body.value(format!("{name} i{bits} {a}, {b}")),
                "min" | "max" => {
                    let sign = if ty.is_signed() { "s" } else { "u" };
                    self.body.value(format!("call i{bits} @llvm.{sign}{name}.i{bits}(i{bits} {a}, i{bits} {b})"))
                }
                _ => return None,
            };
            match modifiers {
                [] => {}
                ["relu"] => {
                    value = self.body.value(format!("call i{bits} @llvm.smax.i{bits}(i{bits} {value}, i{bits} 0)"));
                }
                _ => return None,
            }
            lanes.push(value);
        }
        let value = self.join(&lanes, bits);
        self.write(to, ty.whole(), &value, false)
    }
}

//! Bits of words: counts, fields, bytes, and functions of three words.

use super::emitter::{Emitter, integer_text};
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::Scalar;

const WORD: Ty = Ty::Int(32);

impl<'a> Emitter<'a, '_> {
    pub fn bit_operation(&mut self, op: &Op<'a>) -> Option<()> {
        if let ("prmt", [.., mode], [to, a, b, c]) = (op.name, &op.modifiers[..], &op.operands[..])
            && let Some(selectors) = selectors_of(mode)
        {
            return self.is_cpu().then(|| self.permute(selectors, to, [a, b, c]))?;
        }
        let scalar = op.scalar()?;
        let (ty, cpu) = (Ty::of(scalar), self.is_cpu());
        let text = ty.text();
        let (to, sources) = op.operands.split_first()?;
        match (op.name, sources, &op.words()[..]) {
            ("shf", [low, high, amount], [direction @ ("l" | "r"), mode @ ("wrap" | "clamp")]) => {
                // For shifts beyond a word the clamped form saturates, while the other wraps.
                let wraps = *mode == "wrap" || matches!(amount, Resolved::Int(amount) if (*amount as u32) < 32);
                if wraps {
                    let name = format!("llvm.fsh{direction}.i32");
                    let value = self.apply(ty, &name, &[(ty, high), (ty, low), (ty, amount)])?;
                    return self.write_to(to, ty, &value, false);
                }
                cpu.then(|| self.clamped_shift(direction, to, [low, high, amount]))?
            }
            ("popc" | "brev", [a], []) => {
                let name = if op.name == "popc" { "ctpop" } else { "bitreverse" };
                let value = self.apply(ty, &format!("llvm.{name}.{text}"), &[(ty, a)])?;
                self.counted(op.name == "popc", to, ty, &value)
            }
            ("clz", [a], []) => {
                let a = self.read(a, ty)?;
                let value = self.leading_zeros(ty, &a);
                self.counted(true, to, ty, &value)
            }
            ("bfind", [a], words) => {
                let mut a = self.read(a, ty)?;
                if scalar.is_signed() {
                    let sign = self.value(format_args!("ashr {text} {a}, {}", scalar.bits - 1));
                    a = self.value(format_args!("xor {text} {a}, {sign}"));
                }
                let zeros = self.leading_zeros(ty, &a);
                let mut value = match words {
                    [] => self.value(format_args!("sub {text} {}, {zeros}", scalar.bits - 1)),
                    ["shiftamt"] if cpu => zeros,
                    _ => return None,
                };
                if op.has("shiftamt") {
                    let none = self.value(format_args!("icmp eq {text} {a}, 0"));
                    value = self.value(format_args!("select i1 {none}, {text} -1, {text} {value}"));
                }
                self.counted(true, to, ty, &value)
            }
            ("bfe", [a, from, count], []) => {
                let value = match constant_field(scalar, from, count) {
                    Some((from, count)) => {
                        let a = self.read(a, ty)?;
                        self.extract(scalar, &a, from, count)
                    }
                    None => cpu.then(|| self.extract_field(scalar, a, [from, count]))??,
                };
                self.write_to(to, ty, &value, scalar.is_signed())
            }
            ("bfi", [a, b, from, count], []) => {
                let value = match constant_field(scalar, from, count) {
                    Some((from, count)) => self.insert(scalar, a, b, from, count)?,
                    None => cpu.then(|| self.insert_field(scalar.bits, a, b, [from, count]))??,
                };
                self.write_to(to, ty, &value, false)
            }
            ("prmt", [a, b, c], []) => {
                let value = self.apply(ty, "llvm.nvvm.prmt", &[(ty, a), (ty, b), (ty, c)])?;
                self.write_to(to, ty, &value, false)
            }
            ("lop3", [a, b, c, table], []) => {
                let (a, b, c) = (self.read(a, ty)?, self.read(b, ty)?, self.read(c, ty)?);
                let value = match table {
                    Resolved::Int(table) => {
                        let (with, without) =
                            (self.table(&b, &c, *table as u32 >> 4), self.table(&b, &c, *table as u32));
                        let first = self.value(format_args!("and i32 {a}, {with}"));
                        let not = self.value(format_args!("xor i32 {a}, -1"));
                        let second = self.value(format_args!("and i32 {not}, {without}"));
                        self.value(format_args!("or i32 {first}, {second}"))
                    }
                    table => cpu.then(|| self.by_table(table, [a, b, c]))??,
                };
                self.write_to(to, ty, &value, false)
            }
            ("fns", [mask, base, offset], []) if cpu => {
                let value = self.apply(WORD, "llvm.nvvm.fns", &[(WORD, mask), (WORD, base), (WORD, offset)])?;
                self.write_to(to, WORD, &value, false)
            }
            ("dp4a", [a, b, c], []) if cpu => self.dot_product(op, 8, 0, to, [a, b, c]),
            ("dp2a", [a, b, c], ["lo"]) if cpu => self.dot_product(op, 16, 0, to, [a, b, c]),
            ("dp2a", [a, b, c], ["hi"]) if cpu => self.dot_product(op, 16, 2, to, [a, b, c]),
            _ => None,
        }
    }

    /// `prmt` with a mode: the third operand chooses among four selectors.
    fn permute(&mut self, selectors: u64, to: &Resolved<'a>, [a, b, c]: [&Resolved<'a>; 3]) -> Option<()> {
        let (a, b, c) = (self.bits(a, 32)?, self.bits(b, 32)?, self.bits(c, 32)?);
        let number = self.value(format_args!("and i32 {c}, 3"));
        let place = self.value(format_args!("shl i32 {number}, 4"));
        let place = self.extend(&place, 32, 64, false);
        let selector = self.value(format_args!("lshr i64 {selectors}, {place}"));
        let selector = self.cast(&selector, Ty::Int(64), WORD);
        let value = self.call(WORD, "llvm.nvvm.prmt", &[(WORD, &a), (WORD, &b), (WORD, &selector)]);
        self.write_bits(to, 32, &value, false)
    }

    fn leading_zeros(&mut self, ty: Ty, a: &str) -> String {
        self.call(ty, &format!("llvm.ctlz.{}", ty.text()), &[(ty, a), (Ty::Int(1), "false")])
    }

    /// A shift of two words by a number that may exceed one word.
    fn clamped_shift(
        &mut self,
        direction: &str,
        to: &Resolved<'a>,
        [low, high, amount]: [&Resolved<'a>; 3],
    ) -> Option<()> {
        let amount = self.bits(amount, 32)?;
        let amount = self.call(WORD, "llvm.umin.i32", &[(WORD, &amount), (WORD, "32")]);
        let amount = self.extend(&amount, 32, 64, false);
        let words = [self.bits(low, 32)?, self.bits(high, 32)?];
        let both = self.join(&words, 32);
        let value = if direction == "l" {
            let moved = self.value(format_args!("shl i64 {both}, {amount}"));
            self.value(format_args!("lshr i64 {moved}, 32"))
        } else {
            self.value(format_args!("lshr i64 {both}, {amount}"))
        };
        self.write_bits(to, 64, &value, false)
    }

    /// Writes a count of bits, which is always a 32-bit number.
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

    /// Any function of three words, from its truth table.
    fn by_table(&mut self, table: &Resolved<'a>, inputs: [String; 3]) -> Option<String> {
        let table = self.bits(table, 32)?;
        let mut value = "0".to_owned();
        for row in 0..8u32 {
            let mut term = "-1".to_owned();
            for (input, bit) in inputs.iter().zip([4, 2, 1]) {
                let input = match row & bit {
                    0 => self.value(format_args!("xor i32 {input}, -1")),
                    _ => input.clone(),
                };
                term = self.value(format_args!("and i32 {term}, {input}"));
            }
            let bit = self.part(&table, 32, row, 1);
            let term = self.value(format_args!("select i1 {bit}, i32 {term}, i32 0"));
            value = self.value(format_args!("or i32 {value}, {term}"));
        }
        Some(value)
    }

    fn extract(&mut self, scalar: Scalar, a: &str, from: u32, count: u32) -> String {
        let (bits, text) = (scalar.bits, Ty::of(scalar).text());
        if count == 0 {
            return "0".into();
        }
        let end = from + count;
        if scalar.is_signed() {
            // The sign continues beyond the word.
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

    fn insert(&mut self, scalar: Scalar, a: &Resolved<'a>, b: &Resolved<'a>, from: u32, count: u32) -> Option<String> {
        let (ty, bits) = (Ty::of(scalar), scalar.bits);
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        if count == 0 {
            return Some(b);
        }
        let text = ty.text();
        let mask = i128::from(((1u64 << count) - 1) << from);
        let moved = self.value(format_args!("shl {text} {a}, {from}"));
        let new = self.value(format_args!("and {text} {moved}, {}", integer_text(mask, bits)));
        let old = self.value(format_args!("and {text} {b}, {}", integer_text(!mask, bits)));
        Some(self.value(format_args!("or {text} {new}, {old}")))
    }

    /// Position and length of a field: the low bytes of two operands, limited to the width.
    fn field(&mut self, operands: [&Resolved<'a>; 2], bits: u32, wide: u32) -> Option<[String; 2]> {
        let most = bits.to_string();
        let mut part = |operand: &Resolved<'a>| {
            let value = self.bits(operand, 32)?;
            let byte = self.value(format_args!("and i32 {value}, 255"));
            let least = self.call(WORD, "llvm.umin.i32", &[(WORD, &byte), (WORD, &most)]);
            Some(self.extend(&least, 32, wide, false))
        };
        Some([part(operands[0])?, part(operands[1])?])
    }

    fn extract_field(&mut self, scalar: Scalar, value: &Resolved<'a>, place: [&Resolved<'a>; 2]) -> Option<String> {
        let (bits, wide) = (scalar.bits, 2 * scalar.bits);
        let value = self.bits(value, bits)?;
        let [from, count] = self.field(place, bits, wide)?;
        let whole = self.extend(&value, bits, wide, scalar.is_signed());
        let moved = self.value(format_args!("ashr i{wide} {whole}, {from}"));
        // A length of 0 would shift by the full width.
        let empty = self.value(format_args!("icmp eq i{wide} {count}, 0"));
        let some = self.value(format_args!("select i1 {empty}, i{wide} 1, i{wide} {count}"));
        let unused = self.value(format_args!("sub i{wide} {wide}, {some}"));
        let raised = self.value(format_args!("shl i{wide} {moved}, {unused}"));
        let shift = if scalar.is_signed() { "ashr" } else { "lshr" };
        let field = self.value(format_args!("{shift} i{wide} {raised}, {unused}"));
        let field = self.value(format_args!("select i1 {empty}, i{wide} 0, i{wide} {field}"));
        Some(self.cast(&field, Ty::Int(wide), Ty::Int(bits)))
    }

    fn insert_field(
        &mut self,
        bits: u32,
        field: &Resolved<'a>,
        base: &Resolved<'a>,
        place: [&Resolved<'a>; 2],
    ) -> Option<String> {
        let wide = 2 * bits;
        let (field, base) = (self.bits(field, bits)?, self.bits(base, bits)?);
        let [from, count] = self.field(place, bits, wide)?;
        let unit = self.value(format_args!("shl i{wide} 1, {count}"));
        let low = self.value(format_args!("sub i{wide} {unit}, 1"));
        let mask = self.value(format_args!("shl i{wide} {low}, {from}"));
        let field = self.extend(&field, bits, wide, false);
        let moved = self.value(format_args!("shl i{wide} {field}, {from}"));
        let inside = self.value(format_args!("and i{wide} {moved}, {mask}"));
        let hole = self.value(format_args!("xor i{wide} {mask}, -1"));
        let base = self.extend(&base, bits, wide, false);
        let outside = self.value(format_args!("and i{wide} {base}, {hole}"));
        let value = self.value(format_args!("or i{wide} {inside}, {outside}"));
        Some(self.cast(&value, Ty::Int(wide), Ty::Int(bits)))
    }

    /// The sum of four products of bytes (`dp4a`), or of two of halves and bytes from `first` (`dp2a`).
    fn dot_product(
        &mut self,
        op: &Op<'a>,
        width: u32,
        first: u32,
        to: &Resolved<'a>,
        [a, b, sum]: [&Resolved<'a>; 3],
    ) -> Option<()> {
        let [a_type, b_type] = op.types()[..] else { return None };
        let (a, b, mut sum) = (self.bits(a, 32)?, self.bits(b, 32)?, self.bits(sum, 32)?);
        for element in 0..32 / width {
            let x = self.part(&a, 32, width * element, width);
            let x = self.extend(&x, width, 32, a_type.scalar.is_signed());
            let y = self.part(&b, 32, 8 * (element + first), 8);
            let y = self.extend(&y, 8, 32, b_type.scalar.is_signed());
            let product = self.value(format_args!("mul i32 {x}, {y}"));
            sum = self.value(format_args!("add i32 {sum}, {product}"));
        }
        self.write_bits(to, 32, &sum, false)
    }
}

/// The four selectors of a mode of `prmt`, the first lowest.
fn selectors_of(mode: &str) -> Option<u64> {
    Some(match mode {
        "f4e" => 0x6543_5432_4321_3210,
        "b4e" => 0x0123_7012_6701_5670,
        "rc8" => 0x3333_2222_1111_0000,
        "ecl" => 0x3333_3222_3211_3210,
        "ecr" => 0x3210_2210_1110_0000,
        "rc16" => 0x3232_1010_3232_1010,
        _ => return None,
    })
}

/// The constant position and length of a field of `bfe` or `bfi`, both within the word. Beyond the word, ptxas 12 and 13
/// treat constants differently from registers and from the manual, so the instruction is left unchanged.
fn constant_field(scalar: Scalar, from: &Resolved<'_>, count: &Resolved<'_>) -> Option<(u32, u32)> {
    let within = |bits: &Resolved<'_>| match bits {
        Resolved::Int(bits) => u32::try_from(*bits).ok().filter(|bits| *bits < scalar.bits),
        _ => None,
    };
    Some((within(from)?, within(count)?))
}

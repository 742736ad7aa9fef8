//! Bits of words: counts, fields, bytes, and functions of three words.

use super::emitter::{Emitter, integer_text};
use super::integer::right_shift;
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::Scalar;

const WORD: Ty = Ty::Int(32);

impl<'a> Emitter<'a, '_> {
    pub fn bit_operation(&mut self, op: &Op<'a>) -> Option<()> {
        let (scalar, (to, sources)) = (op.types.first()?.scalar, op.operands.split_first()?);
        let ty = Ty::of(scalar);
        let value = self.bits_result(op, scalar, sources)?;
        // Counts are always numbers of 32 bits.
        let result = if matches!(op.name, "popc" | "clz" | "bfind") { WORD } else { ty };
        let value = self.cast(&value, ty, result);
        self.write_to(to, result, &value, op.name == "bfe" && scalar.is_signed())
    }

    fn bits_result(&mut self, op: &Op<'a>, scalar: Scalar, sources: &[Resolved<'a>]) -> Option<String> {
        let (ty, cpu) = (Ty::of(scalar), self.is_cpu());
        let text = ty.text();
        let types = if op.name == "bfe" || op.name == "bfi" { sources.len().saturating_sub(2) } else { sources.len() };
        let values = sources[..types].iter().map(|source| self.read(source, ty)).collect::<Option<Vec<_>>>()?;
        let field = |place: &[Resolved<'a>]| constant_field(scalar, &place[0], &place[1]);
        Some(match (op.name, &values[..], &op.words[..]) {
            // For shifts beyond a word the clamped form saturates, while the other wraps.
            ("shf", [low, high, amount], [direction @ ("l" | "r"), mode @ ("wrap" | "clamp")]) => {
                let is_short = matches!(sources[2], Resolved::Int(amount) if (amount as u32) < 32);
                match *mode == "wrap" || is_short {
                    true => self.intrinsic(&format!("fsh{direction}"), ty, &[high, low, amount]),
                    false if cpu => self.clamped_shift(direction, low, high, amount),
                    false => return None,
                }
            }
            ("popc", [_], []) => self.intrinsic("ctpop", ty, &values),
            ("brev", [_], []) => self.intrinsic("bitreverse", ty, &values),
            ("clz", [a], []) => self.leading_zeros(ty, a),
            ("bfind", [a], words) => {
                let mut a = a.clone();
                if scalar.is_signed() {
                    let sign = self.value(format_args!("ashr {text} {a}, {}", scalar.bits - 1));
                    a = self.value(format_args!("xor {text} {a}, {sign}"));
                }
                let zeros = self.leading_zeros(ty, &a);
                match words {
                    [] => self.value(format_args!("sub {text} {}, {zeros}", scalar.bits - 1)),
                    ["shiftamt"] if cpu => {
                        let none = self.value(format_args!("icmp eq {text} {a}, 0"));
                        self.value(format_args!("select i1 {none}, {text} -1, {text} {zeros}"))
                    }
                    _ => return None,
                }
            }
            ("bfe", [a], []) => match field(&sources[1..]) {
                Some((from, count)) => self.extract(scalar, a, from, count),
                None => cpu.then(|| self.extract_field(scalar, a, &sources[1..]))??,
            },
            ("bfi", [a, b], []) => match field(&sources[2..]) {
                Some((from, count)) => self.insert(scalar, a, b, from, count),
                None => cpu.then(|| self.insert_field(scalar.bits, a, b, &sources[2..]))??,
            },
            ("prmt", [a, b, selector], []) => self.bytes(a, b, selector),
            ("prmt", [a, b, number], [mode]) if cpu => self.permute(selectors_of(mode)?, a, b, number),
            ("lop3", [a, b, c, table], []) if cpu || matches!(sources[3], Resolved::Int(_)) => {
                self.by_table(table, &[a, b, c])
            }
            ("fns", [mask, base, offset], []) if cpu => {
                self.call(WORD, "llvm.nvvm.fns", &[(WORD, mask), (WORD, base), (WORD, offset)])
            }
            ("dp4a", [a, b, sum], []) if cpu => self.dot_product(op, 8, 0, a, b, sum),
            ("dp2a", [a, b, sum], ["lo"]) if cpu => self.dot_product(op, 16, 0, a, b, sum),
            ("dp2a", [a, b, sum], ["hi"]) if cpu => self.dot_product(op, 16, 2, a, b, sum),
            _ => return None,
        })
    }

    fn bytes(&mut self, a: &str, b: &str, selector: &str) -> String {
        self.call(WORD, "llvm.nvvm.prmt", &[(WORD, a), (WORD, b), (WORD, selector)])
    }

    /// `prmt` with a mode: the third operand chooses among four selectors.
    fn permute(&mut self, selectors: u64, a: &str, b: &str, number: &str) -> String {
        let number = self.value(format_args!("and i32 {number}, 3"));
        let place = self.value(format_args!("shl i32 {number}, 4"));
        let place = self.extend(&place, 32, 64, false);
        let selector = self.value(format_args!("lshr i64 {selectors}, {place}"));
        let selector = self.cast(&selector, Ty::Int(64), WORD);
        self.bytes(a, b, &selector)
    }

    fn leading_zeros(&mut self, ty: Ty, a: &str) -> String {
        self.call(ty, &format!("llvm.ctlz.{}", ty.text()), &[(ty, a), (Ty::Int(1), "false")])
    }

    /// A shift of two words by one word at most.
    fn clamped_shift(&mut self, direction: &str, low: &str, high: &str, amount: &str) -> String {
        let moved = self.intrinsic(&format!("fsh{direction}"), WORD, &[high, low, amount]);
        let is_short = self.value(format_args!("icmp ult i32 {amount}, 32"));
        let whole = if direction == "l" { low } else { high };
        self.value(format_args!("select i1 {is_short}, i32 {moved}, i32 {whole}"))
    }

    /// The function of words with this truth table, in which the first word counts most.
    fn by_table(&mut self, table: &str, words: &[&str]) -> String {
        let number = table.parse::<u32>();
        let Some((word, rest)) = words.split_first() else {
            return match number {
                Ok(table) => if table & 1 == 1 { "-1" } else { "0" }.to_owned(),
                Err(_) => {
                    let bit = self.part(table, 32, 0, 1);
                    self.extend(&bit, 1, 32, true)
                }
            };
        };
        // The upper half of the table is for rows with the word. Where the halves differ, the word matters.
        let half = 1 << rest.len();
        let differences = match number {
            Ok(table) => (table >> half ^ table).to_string(),
            Err(_) => {
                let upper = self.value(format_args!("lshr i32 {table}, {half}"));
                self.value(format_args!("xor i32 {upper}, {table}"))
            }
        };
        let (without, differs) = (self.by_table(table, rest), self.by_table(&differences, rest));
        let own = match &*differs {
            "0" => return without,
            "-1" => (*word).to_owned(),
            _ => self.value(format_args!("and i32 {word}, {differs}")),
        };
        if without == "0" { own } else { self.value(format_args!("xor i32 {without}, {own}")) }
    }

    /// A constant field; the sign continues beyond the word.
    fn extract(&mut self, scalar: Scalar, a: &str, from: u32, count: u32) -> String {
        if count == 0 {
            return "0".into();
        }
        let (bits, text) = (scalar.bits, Ty::of(scalar).text());
        let end = bits.min(from + count);
        let raised = self.value(format_args!("shl {text} {a}, {}", bits - end));
        self.value(format_args!("{} {text} {raised}, {}", right_shift(scalar), bits - end + from))
    }

    fn insert(&mut self, scalar: Scalar, a: &str, b: &str, from: u32, count: u32) -> String {
        let (text, bits) = (Ty::of(scalar).text(), scalar.bits);
        let mask = i128::from(((1u64 << count) - 1) << from);
        let moved = self.value(format_args!("shl {text} {a}, {from}"));
        let new = self.value(format_args!("and {text} {moved}, {}", integer_text(mask, bits)));
        let old = self.value(format_args!("and {text} {b}, {}", integer_text(!mask, bits)));
        self.value(format_args!("or {text} {new}, {old}"))
    }

    /// Position and length of a field: the low bytes of two operands, limited to the width.
    fn field(&mut self, place: &[Resolved<'a>], bits: u32, wide: u32) -> Option<[String; 2]> {
        let mut part = |operand: &Resolved<'a>| {
            let value = self.bits(operand, 32)?;
            let byte = self.value(format_args!("and i32 {value}, 255"));
            let least = self.intrinsic("umin", WORD, &[&byte, &bits.to_string()]);
            Some(self.extend(&least, 32, wide, false))
        };
        Some([part(&place[0])?, part(&place[1])?])
    }

    fn extract_field(&mut self, scalar: Scalar, value: &str, place: &[Resolved<'a>]) -> Option<String> {
        let (bits, wide) = (scalar.bits, 2 * scalar.bits);
        let [from, count] = self.field(place, bits, wide)?;
        let whole = self.extend(value, bits, wide, scalar.is_signed());
        let moved = self.value(format_args!("ashr i{wide} {whole}, {from}"));
        // In the upper half the field is raised to the end and lowered again. An empty one leaves no bits.
        let upper = self.value(format_args!("shl i{wide} {moved}, {bits}"));
        let unused = self.value(format_args!("sub i{wide} {bits}, {count}"));
        let raised = self.value(format_args!("shl i{wide} {upper}, {unused}"));
        let lowered = self.value(format_args!("{} i{wide} {raised}, {unused}", right_shift(scalar)));
        Some(self.part(&lowered, wide, bits, bits))
    }

    fn insert_field(&mut self, bits: u32, field: &str, base: &str, place: &[Resolved<'a>]) -> Option<String> {
        let wide = 2 * bits;
        let [from, count] = self.field(place, bits, wide)?;
        let unit = self.value(format_args!("shl i{wide} 1, {count}"));
        let low = self.value(format_args!("sub i{wide} {unit}, 1"));
        let mask = self.value(format_args!("shl i{wide} {low}, {from}"));
        let field = self.extend(field, bits, wide, false);
        let moved = self.value(format_args!("shl i{wide} {field}, {from}"));
        let inside = self.value(format_args!("and i{wide} {moved}, {mask}"));
        let hole = self.value(format_args!("xor i{wide} {mask}, -1"));
        let base = self.extend(base, bits, wide, false);
        let outside = self.value(format_args!("and i{wide} {base}, {hole}"));
        let value = self.value(format_args!("or i{wide} {inside}, {outside}"));
        Some(self.cast(&value, Ty::Int(wide), Ty::Int(bits)))
    }

    /// The sum of four products of bytes (`dp4a`), or of two of halves and bytes from `first` (`dp2a`).
    fn dot_product(&mut self, op: &Op<'a>, width: u32, first: u32, a: &str, b: &str, sum: &str) -> String {
        let signed: Vec<bool> = op.types.iter().map(|ty| ty.scalar.is_signed()).collect();
        let mut sum = sum.to_owned();
        for element in 0..32 / width {
            let x = self.part(a, 32, width * element, width);
            let x = self.extend(&x, width, 32, signed[0]);
            let y = self.part(b, 32, 8 * (element + first), 8);
            let y = self.extend(&y, 8, 32, signed[signed.len() - 1]);
            let product = self.value(format_args!("mul i32 {x}, {y}"));
            sum = self.value(format_args!("add i32 {sum}, {product}"));
        }
        sum
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

//! The effect of each form of the table by PTX's manual.
//!
//! [`lane`] has instructions of single threads, and [`warp`] those of warps.

use std::cmp::Ordering;

use super::exact::{E4M3, F16, F32, F64, Format, Mode, Number};

/// The result that an instruction must have.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    Bits(u64),
    /// Any NaN of a format.
    Nan(Format),
    /// Two numbers in one register, the lower one first.
    Pair(Box<[Want; 2]>),
    /// A number of a format, with a bound on the error.
    Near {
        value: f64,
        error: f64,
        format: Format,
    },
    /// The manual leaves the value open.
    Open,
}

use Want::{Bits, Near, Open, Pair};

impl Want {
    pub fn holds(&self, found: u64, bits: u32) -> bool {
        let found = found & mask(bits);
        match self {
            Bits(wanted) => found == wanted & mask(bits),
            Self::Nan(format) => format.is_nan(found),
            Pair(both) => both[0].holds(found, bits / 2) && both[1].holds(found >> (bits / 2), bits / 2),
            Near { value, error, format } => {
                let (found, value) = (Number::decode(found, *format).to_f64(), *value);
                found == value || found.is_nan() && value.is_nan() || (found - value).abs() <= *error
            }
            Open => true,
        }
    }

    fn float(bits: Option<u64>, format: Format) -> Self {
        bits.map_or(Self::Nan(format), Bits)
    }
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// An instruction's name and modifiers.
pub struct Opcode<'a> {
    pub name: &'a str,
    pub words: Vec<&'a str>,
}

/// An integer type.
#[derive(Clone, Copy, PartialEq)]
struct Integer {
    signed: bool,
    bits: u32,
}

impl Integer {
    fn of(word: &str) -> Option<Self> {
        if word == "pred" {
            return Some(Self { signed: false, bits: 1 });
        }
        let (kind, bits) = word.split_at_checked(1)?;
        let bits = bits.parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits))?;
        matches!(kind, "s" | "u" | "b").then_some(Self { signed: kind == "s", bits })
    }

    fn read(self, value: u64) -> i128 {
        let value = i128::from(value & mask(self.bits));
        if self.signed && value >> (self.bits - 1) != 0 { value - (1 << self.bits) } else { value }
    }

    fn range(self) -> (i128, i128) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    fn saturated(self, value: i128) -> i128 {
        value.clamp(self.range().0, self.range().1)
    }
}

impl<'a> Opcode<'a> {
    pub fn of(text: &'a str) -> Self {
        let mut words = text.split('.');
        Self { name: words.next().unwrap_or_default(), words: words.collect() }
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn last(&self) -> &'a str {
        self.words.last().copied().unwrap_or_default()
    }

    fn types(&self) -> Vec<&'a str> {
        self.words.iter().copied().filter(|it| Integer::of(it).is_some() || Format::of(it).is_some()).collect()
    }

    fn mode(&self) -> Mode {
        self.words.iter().find_map(|word| Mode::of(word)).unwrap_or(Mode::Nearest)
    }

    /// The comparison among its modifiers.
    fn comparison(&self) -> Option<&'a str> {
        const ALL: [&str; 18] = [
            "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
            "num", "nan",
        ];
        self.words.iter().copied().find(|word| ALL.contains(word))
    }

    pub fn takes_carry(&self) -> bool {
        matches!(self.name, "addc" | "subc" | "madc")
    }
}

/// The results of a single thread's instruction, and its memory afterwards; `None` without a model. Besides its inputs
/// it has the carry flag, which is the last result of an instruction that writes it.
pub fn lane(op: &Opcode<'_>, a: &[u64], carry: bool, memory: &mut [u8; 32]) -> Option<Vec<Want>> {
    let types = op.types();
    match op.name {
        "mov" => mov(op, a),
        "cvt" => convert(op, &types, a).map(|it| vec![it]),
        "setp" | "set" => compare(op, &types, a),
        "selp" => Some(vec![Bits(if a[2] & 1 != 0 { a[0] } else { a[1] })]),
        "slct" => {
            let first = match Integer::of(op.last()) {
                Some(ty) => ty.read(a[2]) >= 0,
                None => {
                    let value = if op.has("ftz") { F32.flushed(a[2]) } else { a[2] };
                    Number::decode(value, F32).compare(Number::ZERO).is_some_and(Ordering::is_ge)
                }
            };
            Some(vec![Bits(if first { a[0] } else { a[1] })])
        }
        "testp" => {
            let format = Format::of(op.last())?;
            let magnitude = a[0] & (format.sign() - 1);
            Some(vec![Bits(u64::from(match op.words[0] {
                "finite" => magnitude < format.infinity(),
                "infinite" => magnitude == format.infinity(),
                "number" => magnitude <= format.infinity(),
                "notanumber" => magnitude > format.infinity(),
                "normal" => magnitude == 0 || (magnitude < format.infinity() && magnitude & format.infinity() != 0),
                "subnormal" => magnitude != 0 && magnitude & format.infinity() == 0,
                _ => return None,
            }))])
        }
        "ld" | "ldu" => {
            let ty = types.last()?;
            let bytes = ty[1..].parse::<usize>().ok()? / 8;
            let count = if op.has("v2") {
                2
            } else if op.has("v4") {
                4
            } else {
                1
            };
            let element = |index: usize| {
                let mut word = [0; 8];
                word[..bytes].copy_from_slice(&memory[index * bytes..][..bytes]);
                let value = u64::from_le_bytes(word);
                Bits(Integer::of(ty).map_or(value, |ty| ty.read(value) as u64))
            };
            Some((0..count).map(element).collect())
        }
        "st" => {
            let bytes = types.last()?[1..].parse::<usize>().ok()? / 8;
            for (index, value) in a.iter().enumerate() {
                memory[index * bytes..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            }
            Some(Vec::new())
        }
        "atom" | "red" => atomic(op, &types, a, memory),
        _ if op.last() == "f16x2" || op.last() == "bf16x2" => {
            let format = Format::of(op.last())?;
            let part = |place: u32| {
                let parts: Vec<u64> = a.iter().map(|value| value >> place & 0xffff).collect();
                float(op, format, &parts)
            };
            Some(vec![Pair(Box::new([part(0)?, part(16)?]))])
        }
        "lop3" | "prmt" | "shf" | "popc" | "clz" | "brev" | "bfind" | "bfe" | "bfi" | "fns" | "dp4a" | "dp2a" => {
            bits(op, a).map(|it| vec![Bits(it)])
        }
        name if name.starts_with('v') && types.len() >= 2 => video(op, &types, a).map(|it| vec![Bits(it)]),
        _ => match Format::of(op.last()) {
            Some(format) => float(op, format, a).map(|it| vec![it]),
            None => integer(op, a, carry),
        },
    }
}

fn mov(op: &Opcode<'_>, a: &[u64]) -> Option<Vec<Want>> {
    let bits: u32 = op.last()[1..].parse().unwrap_or(1);
    Some(match (bits, a) {
        (128, [low, high]) => vec![Bits(*low), Bits(*high)],
        (_, [value]) if op.has("unpack") => vec![Bits(*value), Bits(value >> (bits / 2))],
        (_, [value]) => vec![Bits(*value)],
        (_, [low, high]) => vec![Bits(low & mask(bits / 2) | high << (bits / 2))],
        _ => return None,
    })
}

fn convert(op: &Opcode<'_>, types: &[&str], a: &[u64]) -> Option<Want> {
    if op.has("tf32") {
        let mode = op.mode();
        let number = Number::decode(a[0], F32);
        let format = Format { bits: 19, fraction: 10 };
        return Some(number.encode(format, mode).map_or(Want::Nan(F32), |bits| Bits(bits << 13)));
    }
    let [wanted, own] = types else { return None };
    let relu = |number: Number| if op.has("relu") && number.is_negative() { Number::ZERO } else { number };
    if wanted.ends_with("x2") {
        let (to, from) = (Format::of(wanted)?, Format::of(own)?);
        // The first becomes the upper half.
        let sources = match a {
            [upper, lower] => [*lower, *upper],
            [both] => [both & mask(from.bits), both >> from.bits & mask(from.bits)],
            _ => return None,
        };
        let halves = sources.map(|source| {
            let number = relu(Number::decode(source, from));
            let encoded = number.encode(to, op.mode());
            let greatest = if to == E4M3 { 0x7e } else { to.infinity() - 1 };
            let finite = |bits: u64| if bits & (to.sign() - 1) > greatest { bits & to.sign() | greatest } else { bits };
            Want::float(encoded.map(|bits| if op.has("satfinite") { finite(bits) } else { bits }), to)
        });
        return Some(Pair(Box::new(halves)));
    }
    let flushes = op.has("ftz");
    let flushed = |bits: u64, format: Format| if flushes && format == F32 { format.flushed(bits) } else { bits };
    let number = match Format::of(own) {
        Some(format) => Number::decode(flushed(a[0], format), format),
        None => Number::of_integer(Integer::of(own)?.read(a[0])),
    };
    let Some(format) = Format::of(wanted) else {
        let to = Integer::of(wanted)?;
        let value = match (Format::of(own), number) {
            (None, _) => {
                let value = Integer::of(own)?.read(a[0]);
                if op.has("sat") { to.saturated(value) } else { value }
            }
            (Some(F64), Number::Nan) => 1 << (to.bits - 1),
            (Some(_), Number::Nan) => {
                if to.bits == 64 {
                    1 << 63
                } else {
                    0
                }
            }
            (Some(_), Number::Infinity(negative)) => {
                if negative {
                    to.range().0
                } else {
                    to.range().1
                }
            }
            (Some(_), number) => to.saturated(number.integer(op.mode())?),
        };
        return Some(Bits(to.read(value as u64) as u64));
    };
    let integral = op.words.iter().any(|word| matches!(*word, "rni" | "rzi" | "rmi" | "rpi"));
    let number = match (integral, number) {
        (true, Number::Finite { negative, .. }) => match Number::of_integer(number.integer(op.mode())?) {
            it if it.is_zero() => Number::Finite { negative, mantissa: 0, exponent: 0 },
            _ if number.integer(op.mode())?.unsigned_abs() > 1 << 60 => number,
            it => it,
        },
        _ => relu(number),
    };
    let number = if op.has("sat") { saturated(number) } else { number };
    let encoded = number.encode(format, if integral { Mode::Nearest } else { op.mode() });
    Some(Want::float(encoded.map(|bits| flushed(bits, format)), format))
}

/// A number within 0 and 1 (`.sat`).
fn saturated(number: Number) -> Number {
    let one = Number::of_integer(1);
    match number.compare(one) {
        None => Number::ZERO,
        Some(Ordering::Greater) => one,
        _ if number.is_negative() => Number::ZERO,
        _ => number,
    }
}

fn relation(comparison: &str, order: Option<Ordering>) -> Option<bool> {
    let unordered = order.is_none();
    let order = order.unwrap_or(Ordering::Equal);
    let plain = match comparison.trim_end_matches('u') {
        "eq" | "" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" | "lo" => order.is_lt(),
        "le" | "ls" => order.is_le(),
        "gt" | "hi" => order.is_gt(),
        "ge" | "hs" => order.is_ge(),
        "num" => return Some(!unordered),
        "nan" => return Some(unordered),
        _ => return None,
    };
    Some(if unordered { comparison.ends_with('u') } else { plain })
}

fn compare(op: &Opcode<'_>, types: &[&str], a: &[u64]) -> Option<Vec<Want>> {
    let (own, comparison) = (*types.last()?, op.comparison()?);
    let one = |x: u64, y: u64| {
        let order = match Format::of(own) {
            None => {
                let ty = Integer::of(own)?;
                Some(ty.read(x).cmp(&ty.read(y)))
            }
            Some(format) => {
                let read = |bits: u64| Number::decode(if op.has("ftz") { format.flushed(bits) } else { bits }, format);
                read(x & mask(format.bits)).compare(read(y & mask(format.bits)))
            }
        };
        relation(comparison, order)
    };
    let combined = |value: bool| match a.get(2) {
        Some(c) if op.has("and") => value & (c & 1 != 0),
        Some(c) if op.has("or") => value | (c & 1 != 0),
        Some(c) if op.has("xor") => value ^ (c & 1 != 0),
        _ => value,
    };
    let lanes = if own.ends_with("x2") { vec![0, 16] } else { vec![0] };
    let values: Vec<bool> = lanes.iter().map(|at| one(a[0] >> at, a[1] >> at)).collect::<Option<_>>()?;
    if op.name == "setp" {
        return Some(match values[..] {
            [value] => vec![Bits(combined(value).into()), Bits(combined(!value).into())],
            _ => values.into_iter().map(|value| Bits(combined(value).into())).collect(),
        });
    }
    let each = |value: bool| match (types[0], combined(value)) {
        (_, false) => 0,
        ("f32", true) => 0x3f80_0000,
        ("f16" | "f16x2", true) => 0x3c00,
        ("bf16" | "bf16x2", true) => 0x3f80,
        _ => u64::MAX,
    };
    Some(vec![Bits(values.iter().zip(lanes).fold(0, |all, (value, at)| all | each(*value) << at))])
}

/// The value in memory before it, which it then changes.
fn atomic(op: &Opcode<'_>, types: &[&str], a: &[u64], memory: &mut [u8; 32]) -> Option<Vec<Want>> {
    let own = *types.last()?;
    let bits = match own {
        "f16x2" | "bf16x2" => 32,
        own => own.trim_start_matches("bf")[if own.starts_with("bf") { 0 } else { 1 }..].parse().ok()?,
    };
    let bytes = bits as usize / 8;
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(&memory[..bytes]);
    let old = u64::from_le_bytes(word);
    let ty = Integer::of(own);
    let order = |value: u64| ty.map(|ty| ty.read(old).cmp(&ty.read(value)));
    let new = if op.has("add") {
        match (ty, Format::of(own)) {
            (Some(_), _) => old.wrapping_add(a[0]),
            (_, Some(format)) => {
                let lanes = if own.ends_with("x2") { 2 } else { 1 };
                let mut new = 0;
                for at in (0..lanes).map(|lane| lane * format.bits) {
                    let read = |value: u64| Number::decode(value >> at & mask(format.bits), format);
                    // Any NaN is accepted, and 32-bit subnormals may be zeros; these have no model.
                    let sum = read(old).plus(read(a[0]), Mode::Nearest).encode(format, Mode::Nearest);
                    let is_small = |value: u64| format == F32 && format.flushed(value) != value;
                    let Some(sum) = sum.filter(|sum| ![old, a[0], *sum].into_iter().any(is_small)) else {
                        memory.fill(0xee);
                        return Some(if op.name == "red" { Vec::new() } else { vec![Bits(old)] });
                    };
                    new |= sum << at;
                }
                new
            }
            _ => return None,
        }
    } else if op.has("and") {
        old & a[0]
    } else if op.has("or") {
        old | a[0]
    } else if op.has("exch") {
        a[0]
    } else if op.has("min") {
        if order(a[0])?.is_lt() { old } else { a[0] }
    } else if op.has("max") {
        if order(a[0])?.is_gt() { old } else { a[0] }
    } else if op.has("inc") {
        if old >= a[0] & mask(32) { 0 } else { old + 1 }
    } else if op.has("dec") {
        if old == 0 || old > a[0] & mask(32) { a[0] } else { old - 1 }
    } else if op.has("cas") {
        if old == a[0] & mask(bits) { a[1] } else { old }
    } else {
        return None;
    };
    memory[..bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
    Some(if op.name == "red" { Vec::new() } else { vec![Bits(old)] })
}

fn integer(op: &Opcode<'_>, a: &[u64], carry: bool) -> Option<Vec<Want>> {
    if let Some(lanes) = op.last().strip_suffix("x2") {
        let ty = Integer::of(lanes)?;
        let part = |at: u32| {
            let (x, y) = (ty.read(a[0] >> at), ty.read(a[1] >> at));
            let value = match op.name {
                "add" => x + y,
                "sub" => x - y,
                "min" => x.min(y),
                "max" => x.max(y),
                _ => return None,
            };
            Some((if op.has("relu") { value.max(0) } else { value }) as u64 & 0xffff)
        };
        return Some(vec![Bits(part(0)? | part(16)? << 16)]);
    }
    let ty = Integer::of(op.last())?;
    let wide = Integer { bits: ty.bits * 2, ..ty };
    let value = |index: usize| a.get(index).map_or(0, |value| ty.read(*value));
    let (x, y, z) = (value(0), value(1), value(2));
    let bits = i128::from(ty.bits);
    // Sums with a carry flag are unsigned.
    if op.takes_carry() || op.has("cc") {
        let plain = Integer { signed: false, ..ty };
        let (left, right) = match op.name {
            "mad" | "madc" => {
                let product = x.wrapping_mul(y);
                let part = if op.has("hi") { high(product, ty) } else { product };
                (plain.read(part as u64), plain.read(a[2]))
            }
            _ => (plain.read(a[0]), plain.read(a[1])),
        };
        let carry = i128::from(carry && op.takes_carry());
        let subtracts = op.name.starts_with("sub");
        let sum = if subtracts { left - right - carry } else { left + right + carry };
        let flag = if subtracts { sum < 0 } else { sum >> ty.bits != 0 };
        let mut wanted = vec![Bits(sum as u64)];
        if op.has("cc") {
            wanted.push(Bits(if subtracts { u64::from(flag).wrapping_neg() & mask(32) } else { flag.into() }));
        }
        return Some(wanted);
    }
    let short = |value: i128| Integer { bits: 24, ..ty }.read(value as u64);
    let amount = a.get(1).map_or(0, |value| i128::from(value & mask(32)));
    let result = match op.name {
        "add" if op.has("sat") => ty.saturated(x + y),
        "sub" if op.has("sat") => ty.saturated(x - y),
        "add" => x + y,
        "sub" => x - y,
        "mul" | "mad" => {
            let product = x.wrapping_mul(y);
            if op.has("wide") {
                return Some(vec![Bits((product + a.get(2).map_or(0, |value| wide.read(*value))) as u64)]);
            }
            (if op.has("hi") { high(product, ty) } else { product }).wrapping_add(z)
        }
        "mul24" | "mad24" => {
            let product = short(x) * short(y);
            (if op.has("hi") { product >> 16 } else { product }) + z
        }
        // For division by zero, the manual leaves both open.
        "div" | "rem" if y == 0 => return Some(vec![Open]),
        "div" => x / y,
        "rem" => x % y,
        "min" | "max" => {
            let value = if op.name == "min" { x.min(y) } else { x.max(y) };
            if op.has("relu") { value.max(0) } else { value }
        }
        "neg" => -x,
        "abs" => x.abs(),
        "sad" => (x - y).abs() + z,
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        "not" => !x,
        "cnot" => i128::from(x == 0),
        "shl" => {
            if amount >= bits {
                0
            } else {
                x << amount
            }
        }
        "shr" => x >> amount.min(bits),
        _ => return None,
    };
    Some(vec![Bits(result as u64)])
}

/// The upper half of a product.
fn high(product: i128, ty: Integer) -> i128 {
    if ty.signed { product >> ty.bits } else { (product as u128 >> ty.bits) as i128 }
}

fn bits(op: &Opcode<'_>, a: &[u64]) -> Option<u64> {
    let ty = Integer::of(op.last()).unwrap_or(Integer { signed: false, bits: 32 });
    let value = a[0] & mask(ty.bits);
    let place = |index: usize| a.get(index).map(|value| value & 255);
    Some(match op.name {
        "popc" => value.count_ones().into(),
        "clz" => u64::from(value.leading_zeros() - (64 - ty.bits)),
        "brev" => value.reverse_bits() >> (64 - ty.bits),
        "bfind" => {
            let own = ty.read(value);
            let own = (if own < 0 { !own } else { own }) as u64;
            match own.checked_ilog2() {
                None => mask(32),
                Some(place) if op.has("shiftamt") => u64::from(ty.bits - 1 - place),
                Some(place) => place.into(),
            }
        }
        "bfe" => {
            let (from, count, last) = (place(1)?, place(2)?, u64::from(ty.bits) - 1);
            let bit = |at: u64| value >> at & 1;
            let sign = if !ty.signed || count == 0 { 0 } else { bit((from + count - 1).min(last)) };
            (0..=last).fold(0, |all, at| {
                let inside = at < count && from + at <= last;
                all | (if inside { bit(from + at) } else { sign }) << at
            })
        }
        "bfi" => {
            let (from, count, last) = (place(2)?, place(3)?, u64::from(ty.bits) - 1);
            let inside = |at: &u64| (from..from + count).contains(at);
            (0..=last).fold(
                a[1],
                |all, at| {
                    if inside(&at) { all & !(1 << at) | (value >> (at - from) & 1) << at } else { all }
                },
            )
        }
        "shf" => {
            let both = a[1] << 32 | a[0] & mask(32);
            let amount = if op.has("wrap") { a[2] & 31 } else { (a[2] & mask(32)).min(32) };
            if op.has("l") { (u128::from(both) << amount >> 32) as u64 } else { both >> amount }
        }
        "lop3" => (0..32).fold(0, |all, at| {
            let row = (a[0] >> at & 1) << 2 | (a[1] >> at & 1) << 1 | a[2] >> at & 1;
            all | (a[3] >> row & 1) << at
        }),
        "prmt" => {
            let bytes: Vec<u64> = (0..8).map(|at| (a[1] << 32 | a[0] & mask(32)) >> (8 * at) & 255).collect();
            let number = (a[2] & 3) as usize;
            let chosen: [usize; 4] = match op.last() {
                "f4e" => [0, 1, 2, 3].map(|at| at + number),
                "b4e" => [0usize, 1, 2, 3].map(|at| (8 + number - at) % 8),
                "rc8" => [number; 4],
                "ecl" => [0, 1, 2, 3].map(|at: usize| at.max(number)),
                "ecr" => [0, 1, 2, 3].map(|at: usize| at.min(number)),
                "rc16" => [0, 1, 0, 1].map(|at| at + 2 * (number & 1)),
                _ => {
                    return Some((0..4).fold(0, |all, at| {
                        let selector = a[2] >> (4 * at) & 15;
                        let byte = bytes[(selector & 7) as usize];
                        let byte = if selector & 8 == 0 { byte } else { (byte >> 7) * 255 };
                        all | byte << (8 * at)
                    }));
                }
            };
            chosen.iter().enumerate().fold(0, |all, (at, byte)| all | bytes[*byte] << (8 * at))
        }
        "fns" => {
            let is_set = |place: &i32| a[0] >> place & 1 == 1;
            let (base, offset) = (a[1] as i32, a[2] as i32);
            let number = (offset.unsigned_abs() as usize).saturating_sub(1);
            let found = match offset {
                0 => Some(base).filter(is_set),
                1.. => (base..32).filter(is_set).nth(number),
                _ => (0..=base).rev().filter(is_set).nth(number),
            };
            found.map_or(mask(32), |place| place as u64)
        }
        "dp4a" | "dp2a" => {
            let types = op.types();
            let (first, second) = (types[0].starts_with('s'), types[1].starts_with('s'));
            let (count, width) = if op.name == "dp4a" { (4, 8) } else { (2, 16) };
            let from = if op.has("hi") { 2 } else { 0 };
            let sum = (0..count).fold(i128::from(a[2]), |sum, at| {
                let x = Integer { signed: first, bits: width }.read(a[0] >> (at * width));
                let y = Integer { signed: second, bits: 8 }.read(a[1] >> (8 * (at + from)));
                sum + x * y
            });
            sum as u64
        }
        _ => return None,
    })
}

/// Video instructions: the last operand is a sum's beginning, or where lanes that are not written come from.
fn video(op: &Opcode<'_>, types: &[&str], a: &[u64]) -> Option<u64> {
    let (name, lanes) = op.name.split_at(op.name.len() - 1);
    let lanes: u32 = lanes.parse().ok()?;
    let width = 32 / lanes;
    let of = |word: &str| Integer { signed: word.starts_with('s'), bits: width };
    let (result, left, right) = match types {
        [result, left, right] => (of(result), of(left), of(right)),
        [left, right] => (of(left), of(left), of(right)),
        _ => return None,
    };
    let mut values = (0..lanes).map(|lane| {
        let (x, y) = (left.read(a[0] >> (lane * width)), right.read(a[1] >> (lane * width)));
        let value = match name {
            "vadd" => x + y,
            "vsub" => x - y,
            "vabsdiff" => (x - y).abs(),
            "vmin" => x.min(y),
            "vmax" => x.max(y),
            // A fraction of one half is rounded away from zero.
            "vavrg" => (x + y + i128::from(x + y >= 0)) >> 1,
            "vset" => i128::from(relation(op.comparison()?, Some(x.cmp(&y)))?),
            _ => return None,
        };
        Some(if op.has("sat") { result.saturated(value) } else { value })
    });
    if op.has("add") {
        return values.try_fold(i128::from(a[2]), |sum, value| Some(sum + value?)).map(|sum| sum as u64);
    }
    (0..lanes).zip(values).try_fold(0, |all, (lane, value)| Some(all | (value? as u64 & mask(width)) << (lane * width)))
}

fn float(op: &Opcode<'_>, format: Format, a: &[u64]) -> Option<Want> {
    if let Some(near) = near(op, format, a) {
        return Some(near);
    }
    let flushes = op.has("ftz");
    let flush = |bits: u64| if flushes { format.flushed(bits) } else { bits };
    let a: Vec<u64> = a.iter().map(|bits| flush(bits & mask(format.bits))).collect();
    let numbers: Vec<Number> = a.iter().map(|bits| Number::decode(*bits, format)).collect();
    // All 16-bit formats round to nearest.
    let mode = if format.bits == 16 { Mode::Nearest } else { op.mode() };
    let magnitude = format.sign() - 1;
    match op.name {
        "neg" if !format.is_nan(a[0]) => return Some(Bits(a[0] ^ format.sign())),
        "abs" if !format.is_nan(a[0]) => return Some(Bits(a[0] & magnitude)),
        "neg" | "abs" => return Some(Want::Nan(format)),
        // The sign comes from the first operand.
        "copysign" => return Some(Bits(a[1] & magnitude | a[0] & format.sign())),
        "min" | "max" => return Some(extremum(op, format, &a)),
        _ => {}
    }
    let number = match (op.name, &numbers[..]) {
        ("add", [a, b]) => a.plus(*b, mode),
        ("sub", [a, b]) => a.plus(b.opposite(), mode),
        ("mul", [a, b]) => a.times(*b),
        ("fma", [a, b, c]) => a.times(*b).plus(*c, mode),
        ("div", [a, b]) => a.over(*b),
        ("rcp", [a]) => Number::of_integer(1).over(*a),
        ("sqrt", [a]) => a.root(),
        _ => return None,
    };
    let number = if op.has("sat") { saturated(number) } else { number };
    let number = if op.has("relu") && number.is_negative() { Number::ZERO } else { number };
    Some(Want::float(number.encode(format, mode).map(flush), format))
}

/// The smallest or largest of two or three.
fn extremum(op: &Opcode<'_>, format: Format, a: &[u64]) -> Want {
    let magnitude = format.sign() - 1;
    let sign = a.iter().fold(0, |sign, bits| sign ^ bits & format.sign());
    let values = a.iter().map(|bits| if op.has("abs") { bits & magnitude } else { *bits });
    let chosen = values.reduce(|a, b| {
        if format.is_nan(a) || format.is_nan(b) {
            let both = format.is_nan(a) && format.is_nan(b);
            return if op.has("NaN") || both {
                magnitude
            } else if format.is_nan(a) {
                b
            } else {
                a
            };
        }
        let order = Number::decode(a, format).compare(Number::decode(b, format)).unwrap_or(Ordering::Equal);
        // -0 is less than +0.
        let order = order.then((b & format.sign()).cmp(&(a & format.sign())));
        if (op.name == "min") == order.is_le() { a } else { b }
    });
    let chosen = chosen.unwrap_or(magnitude);
    if format.is_nan(chosen) {
        return Want::Nan(format);
    }
    Bits(if op.has("xorsign") { chosen & magnitude | sign } else { chosen })
}

/// Approximations, with the manual's bounds on their errors.
fn near(op: &Opcode<'_>, format: Format, a: &[u64]) -> Option<Want> {
    if !op.has("approx") && !op.has("full") {
        return None;
    }
    let flush = |bits: &u64| if op.has("ftz") { format.flushed(*bits) } else { *bits };
    let x: Vec<f64> =
        a.iter().map(|bits| Number::decode(flush(&(bits & mask(format.bits))), format).to_f64()).collect();
    let two = 2f64;
    // The value, the error relative to it, and the absolute one.
    let (value, relative, absolute) = match (op.name, format.bits) {
        ("div", _) => {
            let divisor = x[1].abs();
            if op.has("approx") && divisor.is_finite() && divisor > two.powi(126) {
                return Some(Open);
            }
            (x[0] / x[1], two.powi(-22), 0.0)
        }
        ("rcp", 64) => (1.0 / x[0], two.powi(-19), 0.0),
        ("rsqrt", 64) => (1.0 / x[0].sqrt(), two.powi(-19), 0.0),
        ("rcp", _) => (1.0 / x[0], two.powi(-22), 0.0),
        ("sqrt", _) => (x[0].sqrt(), two.powi(-22), 0.0),
        ("rsqrt", _) => (1.0 / x[0].sqrt(), two.powi(-22), 0.0),
        ("sin" | "cos", _) => {
            // The bound holds in one period.
            if x[0].abs() > std::f64::consts::PI {
                return Some(Open);
            }
            (if op.name == "sin" { x[0].sin() } else { x[0].cos() }, 0.0, two.powf(-20.5))
        }
        ("ex2", 32) => (x[0].exp2(), two.powi(-21), 0.0),
        ("ex2", _) => (x[0].exp2(), if format == F16 { two.powf(-9.9) } else { two.powi(-7) }, 0.0),
        ("lg2", _) => (x[0].log2(), two.powi(-22), two.powf(-22.6)),
        ("tanh", 32) => (x[0].tanh(), two.powi(-11), 0.0),
        ("tanh", _) => (x[0].tanh(), if format == F16 { two.powf(-9.9) } else { two.powi(-7) }, two.powf(-10.9)),
        _ => return None,
    };
    let greatest = Number::decode(format.infinity() - 1, format).to_f64();
    let least = Number::decode(1 << format.fraction, format).to_f64();
    // Near the ends of the range a result may be rounded out of it, or flushed.
    let value = if value.abs() > greatest && value.is_finite() { f64::INFINITY.copysign(value) } else { value };
    if value.abs() >= greatest * (1.0 - relative) && value.is_finite() {
        return Some(Open);
    }
    Some(Near { value, error: value.abs() * relative + absolute + least, format })
}

/// The results of an instruction of a whole warp, by lane; `memory` is what each lane's address leads to.
pub fn warp(op: &Opcode<'_>, a: &[Vec<u64>], memory: &mut [[u8; 32]]) -> Option<Vec<Vec<Want>>> {
    let lanes = a.len();
    let column = |index: usize| a.iter().map(|lane| lane[index] & mask(32)).collect::<Vec<u64>>();
    let flags = || a.iter().map(|lane| lane[0] & 1 != 0).collect::<Vec<bool>>();
    let all = |wants: Vec<Want>| Some(vec![wants; lanes]);
    let ballot = || flags().iter().enumerate().fold(0, |all, (lane, flag)| all | u64::from(*flag) << lane);
    match op.name {
        "bar" | "barrier" if op.has("red") => {
            let votes: Vec<bool> = a.iter().map(|lane| lane.last().is_some_and(|vote| vote & 1 != 0)).collect();
            all(vec![Bits(if op.has("popc") {
                votes.iter().filter(|vote| **vote).count() as u64
            } else if op.has("and") {
                votes.iter().all(|vote| *vote).into()
            } else {
                votes.contains(&true).into()
            })])
        }
        "bar" | "barrier" if op.has("sync") => all(Vec::new()),
        "membar" | "fence" => all(Vec::new()),
        "activemask" => all(vec![Bits(mask(32))]),
        "elect" => Some((0..lanes).map(|lane| vec![Bits(0), Bits(u64::from(lane == 0))]).collect()),
        "vote" => all(vec![Bits(match () {
            () if op.has("all") => flags().iter().all(|flag| *flag).into(),
            () if op.has("any") => flags().contains(&true).into(),
            () if op.has("uni") => (ballot() == 0 || ballot() == mask(32)).into(),
            () => ballot(),
        })]),
        "match" => {
            let values: Vec<u64> = a.iter().map(|lane| lane[0] & mask(if op.has("b64") { 64 } else { 32 })).collect();
            let same = |value: u64| {
                values.iter().enumerate().fold(0, |all, (lane, own)| all | u64::from(*own == value) << lane)
            };
            let matched = |value: &u64| match same(*value) {
                found if op.has("any") => vec![Bits(found)],
                found if found == mask(32) => vec![Bits(found), Bits(1)],
                _ => vec![Bits(0), Bits(0)],
            };
            Some(values.iter().map(matched).collect())
        }
        "redux" => {
            let ty = Integer::of(op.last())?;
            let values = column(0).into_iter().map(|value| ty.read(value));
            let value = values.reduce(|a, b| match op.words[1] {
                "add" => a + b,
                "min" => a.min(b),
                "max" => a.max(b),
                "and" => a & b,
                "or" => a | b,
                _ => a ^ b,
            })?;
            all(vec![Bits(value as u64)])
        }
        "shfl" => {
            let values = column(0);
            let of = |lane: usize| {
                let (lane, distance, last) = (lane as i64, (a[lane][1] & 31) as i64, 31);
                let (source, valid) = match op.words.iter().find(|word| **word != "sync") {
                    Some(&"up") => (lane - distance, lane - distance >= last),
                    Some(&"down") => (lane + distance, lane + distance <= last),
                    Some(&"bfly") => (lane ^ distance, true),
                    _ => (distance, true),
                };
                vec![Bits(values[if valid { source } else { lane } as usize]), Bits(valid.into())]
            };
            Some((0..lanes).map(of).collect())
        }
        "ldmatrix" | "stmatrix" => matrices(op, a, memory),
        "mma" => multiply(op, a),
        _ => None,
    }
}

/// Rows of 16 bytes, which the lanes name, and two numbers of each row in a lane's register.
fn matrices(op: &Opcode<'_>, a: &[Vec<u64>], memory: &mut [[u8; 32]]) -> Option<Vec<Vec<Want>>> {
    let count = if op.has("x4") { 4 } else { 1 };
    let place = |matrix: usize, lane: usize, number: usize| {
        let (row, column) = (lane / 4, lane % 4 * 2 + number);
        let (row, column) = if op.has("trans") { (column, row) } else { (row, column) };
        (matrix * 8 + row, column * 2)
    };
    let mut wanted = vec![Vec::new(); a.len()];
    for (matrix, lane) in (0..count).flat_map(|matrix| (0..a.len()).map(move |lane| (matrix, lane))) {
        let mut value = 0;
        for number in 0..2 {
            let (row, byte) = place(matrix, lane, number);
            let bytes = &mut memory[row][byte..byte + 2];
            if op.name == "stmatrix" {
                bytes.copy_from_slice(&(a[lane][matrix] >> (16 * number)).to_le_bytes()[..2]);
            } else {
                value |= u64::from(u16::from_le_bytes([bytes[0], bytes[1]])) << (16 * number);
            }
        }
        if op.name == "ldmatrix" {
            wanted[lane].push(Bits(value));
        }
    }
    Some(wanted)
}

/// `mma`: a product of matrices, whose parts are in the lanes as the manual's figures show.
fn multiply(op: &Opcode<'_>, a: &[Vec<u64>]) -> Option<Vec<Vec<Want>>> {
    let shape = op.words.iter().find(|word| word.starts_with('m'))?;
    let [m, n, k] = shape[1..].split(['n', 'k']).map(|part| part.parse().ok()).collect::<Option<Vec<usize>>>()?[..]
    else {
        return None;
    };
    let types = &op.words[op.words.len() - 4..];
    let bits = |ty: &str| {
        if ty == "tf32" {
            32
        } else {
            Format::of(ty).map_or(0, |it| it.bits).max(Integer::of(ty).map_or(0, |it| it.bits))
        }
    };
    let number = |ty: &str, bits: u64| match (ty, Integer::of(ty), Format::of(ty)) {
        ("tf32", ..) => f64::from(f32::from_bits(bits as u32)),
        (_, Some(ty), _) => ty.read(bits) as f64,
        (_, _, Some(format)) => Number::decode(bits & mask(format.bits), format).to_f64(),
        _ => 0.0,
    };
    let word = if types[0] == "f64" { 64 } else { 32 };
    let each = (word / bits(types[1])) as usize;
    let (mut left, mut right, mut sum) = (vec![0.0; m * k], vec![0.0; k * n], vec![0.0; m * n]);
    let (left_count, right_count) = (m * k / 32, k * n / 32);
    let part = |register: u64, index: usize, bits: u32| register >> (index as u32 * bits % word);
    let result_bits = bits(types[0]);
    let per = (word / result_bits) as usize;
    let result_place = |lane: usize, index: usize| (lane / 4 + index / 2 * 8) * n + lane % 4 * 2 + index % 2;
    for (lane, registers) in a.iter().enumerate() {
        let (group, own) = (lane / 4, lane % 4);
        for index in 0..left_count {
            let register = index / each;
            let row = group + if m == 16 { 8 * (register & 1) } else { 0 };
            let column = own * each + index % each + if m == 16 { register / 2 * 4 * each } else { 0 };
            left[row * k + column] = number(types[1], part(registers[register], index, bits(types[1])));
        }
        let first = left_count / each;
        for index in 0..right_count {
            let register = index / each;
            let row = own * each + index % each + register * 4 * each;
            right[row * n + group] = number(types[2], part(registers[first + register], index, bits(types[2])));
        }
        let first = first + right_count / each;
        for index in 0..m * n / 32 {
            sum[result_place(lane, index)] = number(types[3], part(registers[first + index / per], index, result_bits));
        }
    }
    let format = Format::of(types[0]);
    let result = |lane: usize, index: usize| {
        let at = result_place(lane, index);
        let (row, column) = (at / n, at % n);
        let terms = (0..k).map(|step| left[row * k + step] * right[step * n + column]);
        let (total, size) = terms.fold((sum[at], sum[at].abs()), |(sum, size), term| (sum + term, size + term.abs()));
        match format {
            None => {
                let exact = total as i128;
                let ty = Integer::of(types[0])?;
                Some(Bits((if op.has("satfinite") { ty.saturated(exact) } else { exact }) as u64))
            }
            // The manual's accuracy is that of the type, in any order of the sums; those of eight bits keep 13 bits.
            Some(format) => {
                let kept = if each == 4 { 12 } else { format.fraction.min(50) as i32 };
                Some(Near { value: total, error: size * 2f64.powi(2 - kept), format })
            }
        }
    };
    let mut wanted = Vec::new();
    for lane in 0..a.len() {
        let all = (0..m * n / 32).map(|index| result(lane, index)).collect::<Option<Vec<Want>>>()?;
        let pair = |pair: &[Want]| Pair(Box::new([pair[0].clone(), pair[1].clone()]));
        wanted.push(if per == 2 { all.chunks(2).map(pair).collect() } else { all });
    }
    Some(wanted)
}

//! Matrix instructions of warps: `mma`, `ldmatrix` and `stmatrix`.

use super::emitter::Emitter;
use super::resolve::{Op, Resolved};

/// Elements by number (docs/how-it-works/cpu-device.md), and their bits.
pub const ELEMENTS: [(&str, u32); 12] = [
    ("f16", 16),
    ("bf16", 16),
    ("tf32", 32),
    ("f64", 64),
    ("s8", 8),
    ("u8", 8),
    ("s4", 4),
    ("u4", 4),
    ("e4m3", 8),
    ("e5m2", 8),
    ("f32", 32),
    ("s32", 32),
];

/// Lanes of a warp, and columns of a product.
pub const LANES: u32 = 32;
const COLUMNS: u32 = 8;

/// Rows and depth of `m16n8k16`.
fn shape(word: &str) -> Option<(u32, u32)> {
    let (rows, depth) = word.strip_prefix('m')?.split_once("n8k")?;
    let (rows, depth) = (rows.parse().ok()?, depth.parse().ok()?);
    (matches!(rows, 8 | 16) && matches!(depth, 4 | 8 | 16 | 32 | 64)).then_some((rows, depth))
}

/// Number and bits of an element.
pub fn element(word: &str) -> Option<(u32, u32)> {
    let number = ELEMENTS.iter().position(|(name, _)| *name == word)?;
    Some((number as u32, ELEMENTS[number].1))
}

impl<'a> Emitter<'a, '_> {
    pub fn matrix(&mut self, op: &Op<'a>) -> Option<()> {
        self.context.collective = true;
        match (op.name, &op.modifiers[..], &op.operands[..]) {
            ("mma", ["sync", "aligned", shape, "row", "col", types @ ..], [sum, left, right, addend]) => {
                let (saturates, types) = match types {
                    ["satfinite", types @ ..] => (1, types),
                    types => (0, types),
                };
                self.multiply_matrices(self::shape(shape)?, types, saturates, [sum, left, right, addend])
            }
            ("ldmatrix", ["sync", "aligned", "m8n8", modifiers @ ..], [to, from]) => {
                let (count, transposed) = matrices(modifiers)?;
                let place = self.place("[4 x i32]");
                let address = self.shared_or_generic(op, from)?;
                self.line(format_args!(
                    "call void @__mneme_cpu_load_matrices(i32 {count}, i32 {transposed}, ptr {address}, ptr {place})"
                ));
                self.take_registers(&place, 0, Self::elements(to), count, 32)
            }
            ("stmatrix", ["sync", "aligned", "m8n8", modifiers @ ..], [to, from]) => {
                let (count, transposed) = matrices(modifiers)?;
                let place = self.place("[4 x i32]");
                let address = self.shared_or_generic(op, to)?;
                self.put_registers(&place, 0, Self::elements(from), count, 32)?;
                self.line(format_args!(
                    "call void @__mneme_cpu_store_matrices(i32 {count}, i32 {transposed}, ptr {address}, ptr {place})"
                ));
                Some(())
            }
            _ => None,
        }
    }

    fn multiply_matrices(
        &mut self,
        (rows, depth): (u32, u32),
        types: &[&str],
        saturates: u32,
        [to, left, right, addend]: [&Resolved<'a>; 4],
    ) -> Option<()> {
        let [sum, a, b, before] = types else { return None };
        let (a, b, sum, before) = (element(a)?, element(b)?, element(sum)?, element(before)?);
        let is = |(number, _): (u32, u32), names: &[&str]| names.contains(&ELEMENTS[number as usize].0);
        let fits = match ELEMENTS[sum.0 as usize].0 {
            "f64" => is(a, &["f64"]) && a == b,
            "s32" => is(a, &["s8", "u8", "s4", "u4"]) && is(b, &["s8", "u8", "s4", "u4"]) && a.1 == b.1,
            "f32" => {
                (is(a, &["f16", "bf16", "tf32"]) && a == b) || (is(a, &["e4m3", "e5m2"]) && is(b, &["e4m3", "e5m2"]))
            }
            "f16" => is(a, &["f16"]) && a == b,
            _ => false,
        };
        // The oldest shape, m8n8k4 of 16-bit floats, computes four products at once.
        let registers = |count: u32, (_, bits): (u32, u32)| count * bits / bits.max(32) / LANES;
        let (of_a, of_b) = (registers(rows * depth, a), registers(COLUMNS * depth, b));
        if !fits || sum != before || of_a == 0 || of_b == 0 {
            return None;
        }
        let words = |registers: u32, (_, bits): (u32, u32)| registers * bits.max(32) / 32;
        let of_sum = registers(rows * COLUMNS, sum);
        let (start_of_b, start_of_sum) = (words(of_a, a), words(of_a, a) + words(of_b, b));
        let place = self.place(format_args!("[{} x i32]", start_of_sum + words(of_sum, sum)));
        self.put_registers(&place, 0, Self::elements(left), of_a, a.1.max(32))?;
        self.put_registers(&place, start_of_b, Self::elements(right), of_b, b.1.max(32))?;
        self.put_registers(&place, start_of_sum, Self::elements(addend), of_sum, sum.1.max(32))?;
        let types = a.0 | b.0 << 8 | sum.0 << 16 | saturates << 24;
        self.line(format_args!(
            "call void @__mneme_cpu_multiply_matrices(i32 {rows}, i32 {depth}, i32 {types}, ptr {place})"
        ));
        self.take_registers(&place, start_of_sum, Self::elements(to), of_sum, sum.1.max(32))
    }

    /// Writes `count` registers of `bits` to the words from `start` on.
    pub fn put_registers(
        &mut self,
        place: &str,
        start: u32,
        from: &[Resolved<'a>],
        count: u32,
        bits: u32,
    ) -> Option<()> {
        if from.len() as u32 != count {
            return None;
        }
        for (index, element) in (0..).zip(from) {
            let value = self.bits(element, bits)?;
            let address = self.word_of(place, start + index * bits / 32);
            self.line(format_args!("store i{bits} {value}, ptr {address}, align 4"));
        }
        Some(())
    }

    /// Reads registers in the same way.
    pub fn take_registers(
        &mut self,
        place: &str,
        start: u32,
        to: &[Resolved<'a>],
        count: u32,
        bits: u32,
    ) -> Option<()> {
        if to.len() as u32 != count {
            return None;
        }
        for (index, element) in (0..).zip(to) {
            let address = self.word_of(place, start + index * bits / 32);
            let value = self.value(format!("load i{bits}, ptr {address}, align 4"));
            self.write_bits(element, bits, &value, false)?;
        }
        Some(())
    }

    /// An address operand, in shared memory if the instruction says so.
    pub fn shared_or_generic(&mut self, op: &Op<'a>, operand: &Resolved<'a>) -> Option<String> {
        Some(self.pointer(operand, self.space(op))?.0)
    }

    pub fn word_of(&mut self, place: &str, index: u32) -> String {
        self.value(format!("getelementptr i32, ptr {place}, i64 {index}"))
    }
}

/// The number of 16-bit matrices, and whether they are transposed.
fn matrices(modifiers: &[&str]) -> Option<(u32, u32)> {
    let (count, rest) = match modifiers {
        ["x1", rest @ ..] => (1, rest),
        ["x2", rest @ ..] => (2, rest),
        ["x4", rest @ ..] => (4, rest),
        _ => return None,
    };
    match rest {
        ["b16"] | ["shared" | "shared::cta", "b16"] => Some((count, 0)),
        ["trans", "b16"] | ["trans", "shared" | "shared::cta", "b16"] => Some((count, 1)),
        _ => None,
    }
}

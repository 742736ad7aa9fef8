//! Matrix instructions of warps: `mma`, `ldmatrix` and `stmatrix`.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{Op, Resolved};

/// Elements by number (docs/reference/cpu-code-objects.md).
pub const ELEMENTS: [&str; 12] = ["f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "e4m3", "e5m2", "f32", "s32"];

/// Lanes of a warp.
const LANES: u32 = 32;

/// Rows, columns and depth of a product: `m16n8k16`.
#[derive(Clone, Copy)]
pub struct ProductShape {
    pub rows: u32,
    pub columns: u32,
    pub depth: u32,
}

impl ProductShape {
    pub fn parse(word: &str) -> Option<Self> {
        let (rows, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (columns, depth) = rest.split_once('k')?;
        Some(Self { rows: rows.parse().ok()?, columns: columns.parse().ok()?, depth: depth.parse().ok()? })
    }

    /// Rows and columns of an instruction's matrix `a`, `b`, `c` or `d`.
    pub fn of(self, matrix: &str) -> Option<(u32, u32)> {
        match matrix {
            "a" => Some((self.rows, self.depth)),
            "b" => Some((self.depth, self.columns)),
            "c" | "d" => Some((self.rows, self.columns)),
            _ => None,
        }
    }

    /// The part of a matrix with these elements that a lane holds.
    pub fn fragment(self, matrix: &str, element: &str) -> Option<Fragment> {
        let (rows, columns) = self.of(matrix)?;
        let number = ELEMENTS.iter().position(|name| *name == element)?;
        let bits = match element {
            "s4" | "u4" => 4,
            "s8" | "u8" | "e4m3" | "e5m2" => 8,
            "f16" | "bf16" => 16,
            "f64" => 64,
            _ => 32,
        };
        let width = bits.max(32);
        Some(Fragment { number: number as u32, width, registers: rows * columns * bits / width / LANES })
    }
}

/// A fragment's element and its registers.
#[derive(Clone, Copy)]
pub struct Fragment {
    pub number: u32,
    /// Bits of a register.
    pub width: u32,
    /// Registers that hold the matrix.
    pub registers: u32,
}

impl Fragment {
    /// Registers with any elements.
    pub fn plain(width: u32, registers: u32) -> Self {
        Self { number: 0, width, registers }
    }

    pub fn bytes(self) -> u32 {
        self.registers * self.width / 8
    }
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
                self.multiply_matrices(ProductShape::parse(shape)?, types, saturates, [sum, left, right, addend])
            }
            ("ldmatrix", ["sync", "aligned", "m8n8", modifiers @ ..], [registers, at])
            | ("stmatrix", ["sync", "aligned", "m8n8", modifiers @ ..], [at, registers]) => {
                let (count, transposed) = matrices(modifiers)?;
                let (registers, fragment) = (Self::elements(registers), Fragment::plain(32, count));
                let place = self.place("[16 x i8]");
                let address = self.shared_or_generic(op, at)?;
                let arguments = format!("i32 {count}, i32 {transposed}, ptr {address}, ptr {place}");
                if op.name == "stmatrix" {
                    self.put_registers(&place, 0, registers, fragment)?;
                    return self.done(format_args!("call void @__mneme_cpu_store_matrices({arguments})"));
                }
                self.line(format_args!("call void @__mneme_cpu_load_matrices({arguments})"));
                self.take_registers(&place, 0, registers, fragment)
            }
            _ => None,
        }
    }

    fn multiply_matrices(
        &mut self,
        shape: ProductShape,
        types: &[&str],
        saturates: u32,
        [to, left, right, addend]: [&Resolved<'a>; 4],
    ) -> Option<()> {
        let [sum_element, a, b, before] = types else { return None };
        let fits = matches!(
            (*sum_element, *a, *b),
            ("f64", "f64", "f64")
                | ("f16" | "f32", "f16", "f16")
                | ("f32", "bf16", "bf16")
                | ("f32", "tf32", "tf32")
                | ("f32", "e4m3" | "e5m2", "e4m3" | "e5m2")
                | ("s32", "s8" | "u8", "s8" | "u8")
                | ("s32", "s4" | "u4", "s4" | "u4")
        );
        let ProductShape { rows, columns, depth } = shape;
        let is_known = matches!((rows, columns, depth), (8 | 16, 8, 4 | 8 | 16 | 32 | 64));
        (fits && is_known && sum_element == before).then_some(())?;
        let (a, b, sum) = (shape.fragment("a", a)?, shape.fragment("b", b)?, shape.fragment("d", sum_element)?);
        // The oldest shape, m8n8k4 of 16-bit floats, computes four products at once.
        if a.registers == 0 || b.registers == 0 {
            return None;
        }
        let operands = [(left, a), (right, b), (addend, sum)].map(|(operand, of)| (Self::elements(operand), of));
        let (place, end) = self.put_operands(&operands, 0)?;
        let types = a.number | b.number << 8 | sum.number << 16 | saturates << 24;
        self.line(format_args!(
            "call void @__mneme_cpu_multiply_matrices(i32 {rows}, i32 {depth}, i32 {types}, ptr {place})"
        ));
        // The sum replaces the addend.
        self.take_registers(&place, end - sum.bytes(), Self::elements(to), sum)
    }

    /// Writes a product's operands to a new place, one after another; returns it, and where `room` more bytes begin.
    pub fn put_operands(&mut self, operands: &[(&[Resolved<'a>], Fragment)], room: u32) -> Option<(String, u32)> {
        let bytes: u32 = operands.iter().map(|(_, fragment)| fragment.bytes()).sum();
        let (place, mut end) = (self.place(format_args!("[{} x i8]", bytes + room)), 0);
        for (registers, fragment) in operands {
            self.put_registers(&place, end, registers, *fragment)?;
            end += fragment.bytes();
        }
        Some((place, end))
    }

    /// Writes registers to a place, from the byte `start` on.
    pub fn put_registers(&mut self, place: &str, start: u32, from: &[Resolved<'a>], of: Fragment) -> Option<()> {
        (from.len() as u32 == of.registers).then_some(())?;
        let (bits, bytes) = (of.width, of.width / 8);
        for (index, element) in (0..).zip(from) {
            let value = self.bits(element, bits)?;
            let address = self.offset(place, Ty::Ptr(0), (start + index * bytes).into());
            self.line(format_args!("store i{bits} {value}, ptr {address}, align {bytes}"));
        }
        Some(())
    }

    /// Reads registers in the same way.
    pub fn take_registers(&mut self, place: &str, start: u32, to: &[Resolved<'a>], of: Fragment) -> Option<()> {
        (to.len() as u32 == of.registers).then_some(())?;
        let (bits, bytes) = (of.width, of.width / 8);
        for (index, element) in (0..).zip(to) {
            let address = self.offset(place, Ty::Ptr(0), (start + index * bytes).into());
            let value = self.value(format_args!("load i{bits}, ptr {address}, align {bytes}"));
            self.write_bits(element, bits, &value, false)?;
        }
        Some(())
    }

    /// An address operand, in shared memory if the instruction says so.
    pub fn shared_or_generic(&mut self, op: &Op<'a>, operand: &Resolved<'a>) -> Option<String> {
        Some(self.pointer(operand, self.space(op))?.0)
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

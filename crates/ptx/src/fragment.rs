//! Matrix instructions on fragments: `wmma`.
//!
//! The device determines which element each register of a fragment holds. It uses the fewest registers that hold the
//! matrix; if the instruction has more, the others repeat the first.

use super::emitter::Emitter;
use super::matrix::{ELEMENTS, Fragment, ProductShape};
use super::resolve::{Op, Resolved};
use super::syntax::Space;

impl ProductShape {
    /// Whether factors with these elements can have this shape.
    fn fits(self, element: &str) -> bool {
        let extents = (self.rows, self.columns, self.depth);
        match element {
            "f16" | "bf16" | "s8" | "u8" => matches!(extents, (16, 16, 16) | (8, 32, 16) | (32, 8, 16)),
            "tf32" => extents == (16, 16, 8),
            "f64" => extents == (8, 8, 4),
            "s4" | "u4" => extents == (8, 8, 32),
            _ => false,
        }
    }
}

impl Fragment {
    /// The registers of a vector that hold the matrix; `None` if it can't be this fragment.
    fn held<T>(self, registers: &[T]) -> Option<&[T]> {
        let (own, all) = (self.registers as usize, registers.len());
        let fits = all == own || (ELEMENTS[self.number as usize] == "f16" && own > 0 && all == 8);
        fits.then(|| &registers[..own])
    }
}

impl<'a> Emitter<'a, '_> {
    pub fn fragment(&mut self, op: &Op<'a>) -> Option<()> {
        self.context.collective = true;
        match (&op.modifiers[..], &op.operands[..]) {
            (["load", matrix, "sync", "aligned", layout, shape, modifiers @ ..], [registers, at, stride @ ..])
            | (
                ["store", matrix @ "d", "sync", "aligned", layout, shape, modifiers @ ..],
                [at, registers, stride @ ..],
            ) => {
                let Access { fragment, extents, packed_stride, space } = Access::new(matrix, layout, shape, modifiers)?;
                let (operation, registers) = (op.modifiers[0], Self::elements(registers));
                let own = fragment.held(registers)?;
                let place = self.place(format_args!("[{} x i8]", fragment.bytes()));
                if operation == "store" {
                    self.put_registers(&place, 0, own, fragment)?;
                }
                let address = self.pointer(at, space)?.0;
                let stride = match stride {
                    [] => packed_stride.to_string(),
                    [stride] => self.bits(stride, 32)?,
                    _ => return None,
                };
                let arguments = format!("i32 {}, ptr {address}, i32 {stride}, ptr {place}", fragment.number);
                self.line(format_args!("call void @__mneme_cpu_{operation}_fragment(i32 {extents}, {arguments})"));
                if operation == "load" {
                    let mut parts = registers.chunks(own.len());
                    parts.try_for_each(|part| self.take_registers(&place, 0, part, fragment))?;
                }
                Some(())
            }
            (
                ["mma", "sync", "aligned", "row" | "col", "row" | "col", shape, types @ ..],
                [sum, left, right, addend],
            ) => self.multiply_fragments(ProductShape::parse(shape)?, types, [sum, left, right, addend]),
            _ => None,
        }
    }

    fn multiply_fragments(
        &mut self,
        shape: ProductShape,
        types: &[&str],
        [to, left, right, before]: [&Resolved<'a>; 4],
    ) -> Option<()> {
        // For 16-bit floats, only the sum and the addend are named.
        let (sum, a, b, addend, saturates) = match types {
            [sum @ ("f16" | "f32"), addend @ ("f16" | "f32")] => (*sum, "f16", "f16", *addend, 0),
            ["f32", a @ ("bf16" | "tf32"), b, "f32"] if a == b => ("f32", *a, *b, "f32", 0),
            ["f64", "f64", "f64", "f64"] | ["f64", "f64", "f64", "f64", "rn"] => ("f64", "f64", "f64", "f64", 0),
            ["s32", a @ ("s8" | "u8" | "s4" | "u4"), b, "s32", rest @ ..] if a == b => match rest {
                [] => ("s32", *a, *b, "s32", 0),
                ["satfinite"] => ("s32", *a, *b, "s32", 1),
                _ => return None,
            },
            _ => return None,
        };
        shape.fits(a).then_some(())?;
        let (a, b) = (shape.fragment("a", a)?, shape.fragment("b", b)?);
        let (addend, sum) = (shape.fragment("c", addend)?, shape.fragment("d", sum)?);
        let own = |operand, fragment: Fragment| Some((fragment.held(Self::elements(operand))?, fragment));
        let operands = [own(left, a)?, own(right, b)?, own(before, addend)?];
        let (place, start_of_sum) = self.put_operands(&operands, sum.bytes())?;
        let extents = shape.rows | shape.columns << 8 | shape.depth << 16 | saturates << 24;
        let types = a.number | b.number << 8 | addend.number << 16 | sum.number << 24;
        self.line(format_args!("call void @__mneme_cpu_multiply_fragments(i32 {extents}, i32 {types}, ptr {place})"));
        self.take_registers(&place, start_of_sum, Self::elements(to), sum)
    }
}

/// The description of a matrix in memory by `wmma.load` and `wmma.store`.
struct Access {
    fragment: Fragment,
    /// The device's code for rows, columns, and whether memory is column-major.
    extents: u32,
    /// The stride of a matrix without gaps.
    packed_stride: u32,
    /// The space of its address.
    space: Space,
}

impl Access {
    fn new(matrix: &str, layout: &str, shape: &str, modifiers: &[&str]) -> Option<Self> {
        let (space, element_name) = match modifiers {
            ["shared" | "shared::cta", element] => (Space::Shared, *element),
            ["global", element] | [element] => (Space::Generic, *element),
            _ => return None,
        };
        let shape = ProductShape::parse(shape)?;
        let known = match (matrix, element_name) {
            ("a" | "b", element) => shape.fits(element),
            (_, "f16" | "f32" | "s32") => ["f16", "tf32", "s4"].iter().any(|element| shape.fits(element)),
            (_, "f64") => shape.fits("f64"),
            _ => false,
        };
        let (rows, columns) = shape.of(matrix).filter(|_| known)?;
        let by_columns = match layout {
            "row" => 0,
            "col" => 1,
            _ => return None,
        };
        Some(Self {
            fragment: shape.fragment(matrix, element_name)?,
            extents: rows | columns << 8 | by_columns << 16,
            packed_stride: if by_columns == 1 { rows } else { columns },
            space,
        })
    }
}

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
    /// Whether a vector of this many registers can be this fragment.
    fn has(self, registers: usize) -> bool {
        let own = self.registers as usize;
        registers == own || (ELEMENTS[self.number as usize].0 == "f16" && own > 0 && registers == 8)
    }
}

impl<'a> Emitter<'a, '_> {
    pub fn fragment(&mut self, op: &Op<'a>) -> Option<()> {
        self.context.collective = true;
        match (&op.modifiers[..], &op.operands[..]) {
            (["load", matrix, "sync", "aligned", layout, shape, modifiers @ ..], [to, from, stride @ ..]) => {
                let accessed = Access::new(matrix, layout, shape, modifiers)?;
                let Fragment { width, registers, .. } = accessed.fragment;
                let elements = Self::elements(to);
                let place = self.transfer("load", &accessed, from, stride, |_, _| Some(()))?;
                accessed.fragment.has(elements.len()).then_some(())?;
                for part in elements.chunks(registers as usize) {
                    self.take_registers(&place, 0, part, registers, width)?;
                }
                Some(())
            }
            (["store", "d", "sync", "aligned", layout, shape, modifiers @ ..], [to, from, stride @ ..]) => {
                let accessed = Access::new("d", layout, shape, modifiers)?;
                let fragment = accessed.fragment;
                let put = |this: &mut Self, place: &str| this.put_fragment(place, 0, from, fragment);
                self.transfer("store", &accessed, to, stride, put).map(drop)
            }
            (
                ["mma", "sync", "aligned", "row" | "col", "row" | "col", shape, types @ ..],
                [sum, left, right, addend],
            ) => self.multiply_fragments(ProductShape::parse(shape)?, types, [sum, left, right, addend]),
            _ => None,
        }
    }

    /// A transfer between memory and registers; `before` receives the registers' address, which is also returned.
    fn transfer(
        &mut self,
        operation: &str,
        accessed: &Access,
        address: &Resolved<'a>,
        stride: &[Resolved<'a>],
        before: impl FnOnce(&mut Self, &str) -> Option<()>,
    ) -> Option<String> {
        let &Access { fragment, extents, packed_stride, shared } = accessed;
        let place = self.place(format_args!("[{} x i32]", fragment.words()));
        before(self, &place)?;
        let address = self.pointer(address, shared)?.0;
        let stride = match stride {
            [] => packed_stride.to_string(),
            [stride] => self.bits(stride, 32)?,
            _ => return None,
        };
        self.line(format_args!(
            "call void @__mneme_cpu_{operation}_fragment(i32 {extents}, i32 {}, ptr {address}, i32 {stride}, ptr {place})",
            fragment.number
        ));
        Some(place)
    }

    fn put_fragment(&mut self, place: &str, start: u32, from: &Resolved<'a>, fragment: Fragment) -> Option<()> {
        let elements = Self::elements(from);
        fragment.has(elements.len()).then_some(())?;
        let elements = &elements[..fragment.registers as usize];
        self.put_registers(place, start, elements, fragment.registers, fragment.width)
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
        let start_of_b = a.words();
        let start_of_addend = start_of_b + b.words();
        let start_of_sum = start_of_addend + addend.words();
        let place = self.place(format_args!("[{} x i32]", start_of_sum + sum.words()));
        self.put_fragment(&place, 0, left, a)?;
        self.put_fragment(&place, start_of_b, right, b)?;
        self.put_fragment(&place, start_of_addend, before, addend)?;
        let extents = shape.rows | shape.columns << 8 | shape.depth << 16 | saturates << 24;
        let types = a.number | b.number << 8 | addend.number << 16 | sum.number << 24;
        self.line(format_args!("call void @__mneme_cpu_multiply_fragments(i32 {extents}, i32 {types}, ptr {place})"));
        self.take_registers(&place, start_of_sum, Self::elements(to), sum.registers, sum.width)
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
    shared: Space,
}

impl Access {
    fn new(matrix: &str, layout: &str, shape: &str, modifiers: &[&str]) -> Option<Self> {
        let (shared, element_name) = match modifiers {
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
            shared,
        })
    }
}

//! Matrix operations of warps on fragments: `wmma` of the PTX ISA.
//!
//! PTX leaves the layout of fragments to the device. Here a fragment has the matrix row by row, in the words of lane 0,
//! then those of lane 1, and so on.

use super::device_calls::{lane, warp_operation};
use super::matrix::{Element, LANES, shared};
use super::warp::{Class, Operation};
use crate::half;

/// A matrix that is spread evenly over the lanes of a warp.
#[derive(Clone, Copy, Debug)]
struct FragmentShape {
    rows: u32,
    columns: u32,
    element: Element,
}

impl FragmentShape {
    fn elements(self) -> u32 {
        self.rows * self.columns
    }

    /// The number of 32-bit words in each lane.
    fn words(self) -> u32 {
        self.elements() * self.element.bits() / 32 / LANES as u32
    }

    /// The number of consecutive elements in each lane.
    fn of_lane(self) -> u32 {
        self.elements() / LANES as u32
    }

    /// Reads the bits of an element. `of` returns the address of a lane's words.
    ///
    /// # Safety
    /// Every lane must have as many words as the shape needs.
    unsafe fn read(self, index: u32, of: impl Fn(usize) -> *const u32) -> u64 {
        let words = of((index / self.of_lane()) as usize);
        // SAFETY: by the caller's contract.
        unsafe { read(words, self.element, (index % self.of_lane()) as usize) }
    }
}

/// Reads an element of consecutive ones from an address on.
///
/// # Safety
/// The element must be readable.
unsafe fn read(from: *const u32, element: Element, index: usize) -> u64 {
    // SAFETY: by the caller's contract.
    unsafe {
        match element.bits() {
            4 => u64::from(from.cast::<u8>().add(index / 2).read() >> (index % 2 * 4) & 15),
            8 => u64::from(from.cast::<u8>().add(index).read()),
            16 => u64::from(from.cast::<u16>().add(index).read_unaligned()),
            32 => u64::from(from.add(index).read_unaligned()),
            _ => from.cast::<u64>().add(index).read_unaligned(),
        }
    }
}

/// Writes an element of consecutive ones from an address on.
///
/// # Safety
/// The element must be writable.
unsafe fn write(to: *mut u32, element: Element, index: usize, bits: u64) {
    // SAFETY: by the caller's contract.
    unsafe {
        match element.bits() {
            4 => {
                let byte = to.cast::<u8>().add(index / 2);
                let shift = index % 2 * 4;
                byte.write(byte.read() & !(15 << shift) | (bits as u8 & 15) << shift);
            }
            8 => to.cast::<u8>().add(index).write(bits as u8),
            16 => to.cast::<u16>().add(index).write_unaligned(bits as u16),
            32 => to.add(index).write_unaligned(bits as u32),
            _ => to.cast::<u64>().add(index).write_unaligned(bits),
        }
    }
}

/// The index of an element in memory, relative to the matrix's address.
fn place(shape: FragmentShape, by_columns: bool, stride: u32, index: u32) -> usize {
    let [row, column, stride] = [index / shape.columns, index % shape.columns, stride].map(|number| number as usize);
    if by_columns { column * stride + row } else { row * stride + column }
}

/// Decodes a shape: rows and columns in a byte each, then whether the matrix is stored by columns.
fn named(shape: u32, element: u32) -> Option<(FragmentShape, bool)> {
    let (rows, columns) = (shape & 0xff, shape >> 8 & 0xff);
    Some((FragmentShape { rows, columns, element: Element::of(element, 0)? }, shape >> 16 != 0))
}

fn synchronize() {
    warp_operation(Class::Matrix, u32::MAX, Operation::Sync);
}

/// `__mneme_cpu_load_fragment`: `wmma.load`.
pub extern "C" fn load_fragment(shape: u32, element: u32, address: *const u32, stride: u32, registers: *mut u32) {
    let Some((shape, by_columns)) = named(shape, element) else { return };
    synchronize();
    let first = lane() * shape.of_lane();
    for index in 0..shape.of_lane() {
        let place = place(shape, by_columns, stride, first + index);
        // SAFETY: the compiler passes as many registers as the shape needs. An unreadable matrix is a fault of the
        // kernel.
        unsafe { write(registers, shape.element, index as usize, read(address, shape.element, place)) };
    }
    synchronize();
}

/// `__mneme_cpu_store_fragment`: `wmma.store`.
pub extern "C" fn store_fragment(shape: u32, element: u32, address: *mut u32, stride: u32, registers: *const u32) {
    let Some((shape, by_columns)) = named(shape, element) else { return };
    synchronize();
    let first = lane() * shape.of_lane();
    for index in 0..shape.of_lane() {
        let place = place(shape, by_columns, stride, first + index);
        // SAFETY: as in `load_fragment`.
        unsafe { write(address, shape.element, place, read(registers, shape.element, index as usize)) };
    }
    synchronize();
}

/// `__mneme_cpu_multiply_fragments`: `wmma.mma`.
///
/// The bytes of `shape` are rows, columns, depth, and whether sums of integers saturate; those of `types` are the
/// elements of the left factor, the right factor, the addend and the sum. `registers` has the registers of these four
/// one after another, and the last ones are written.
pub extern "C" fn multiply_fragments(shape: u32, types: u32, registers: *mut u32) {
    let [rows, columns, depth, saturates] = shape.to_le_bytes().map(u32::from);
    let of = |byte: u32, rows: u32, columns: u32| {
        Element::of(types, byte).map(|element| FragmentShape { rows, columns, element })
    };
    let (Some(left), Some(right)) = (of(0, rows, depth), of(1, depth, columns)) else { return };
    let (Some(addend), Some(sum)) = (of(2, rows, columns), of(3, rows, columns)) else { return };
    let start_of_right = left.words() as usize;
    let start_of_addend = start_of_right + right.words() as usize;
    let start_of_sum = start_of_addend + addend.words() as usize;
    let first = lane() * sum.of_lane();
    shared(registers, |all| {
        for index in 0..sum.of_lane() {
            let (row, column) = ((first + index) / columns, (first + index) % columns);
            // SAFETY: compilers give each lane as many registers as the shape needs, and no lane reads a sum.
            unsafe {
                let number = |shape: FragmentShape, start: usize, index: u32| {
                    shape.element.number(shape.read(index, |lane| all[lane % LANES].add(start).cast_const()))
                };
                let before = number(addend, start_of_addend, first + index);
                let result = (0..depth).fold(before, |result, step| {
                    let a = number(left, 0, row * depth + step);
                    number(right, start_of_right, step * columns + column).mul_add(a, result)
                });
                let bits = match sum.element {
                    Element::F64 => result.to_bits(),
                    Element::F32 => u64::from((result as f32).to_bits()),
                    Element::F16 => u64::from(half::from_double(result).to_bits() as u16),
                    // Sums of products of bytes are exact in a double.
                    Element::S32 if saturates != 0 => u64::from((result as i32).cast_unsigned()),
                    _ => u64::from(result as i64 as u32),
                };
                write(registers.add(start_of_sum), sum.element, index as usize, bits);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fragment returns every element that was stored in memory, for each layout and shape.
    #[test]
    fn fragments_hold_every_element_of_a_matrix() {
        let shapes = [
            (16, 16, Element::F16),
            (8, 16, Element::Bf16),
            (16, 32, Element::S8),
            (32, 16, Element::U8),
            (16, 8, Element::Tf32),
            (8, 4, Element::F64),
            (8, 32, Element::S4),
            (32, 8, Element::F32),
            (8, 8, Element::S32),
        ];
        for (rows, columns, element) in shapes {
            let shape = FragmentShape { rows, columns, element };
            let value = |index: u32| u64::from(index.wrapping_mul(0x9e37_79b9)) & (u64::MAX >> (64 - element.bits()));
            for (by_columns, stride) in [(false, columns + 3), (true, rows + 5)] {
                let mut memory = vec![0u64; 64 * 64];
                let mut lanes = vec![0u32; (shape.words() as usize) * LANES];
                let words = shape.words() as usize;
                assert_eq!(words * LANES * 32, (shape.elements() * element.bits()) as usize, "{shape:?}");
                let address = memory.as_mut_ptr().cast::<u32>();
                for index in 0..shape.elements() {
                    // SAFETY: there is room for every shape.
                    unsafe {
                        write(address, element, place(shape, by_columns, stride, index), value(index));
                        let bits = read(address, element, place(shape, by_columns, stride, index));
                        let own = lanes.as_mut_ptr().add((index / shape.of_lane()) as usize * words);
                        write(own, element, (index % shape.of_lane()) as usize, bits);
                    }
                }
                for index in 0..shape.elements() {
                    // SAFETY: as above.
                    let bits = unsafe { shape.read(index, |lane| lanes.as_ptr().add(lane * words)) };
                    assert_eq!(bits, value(index), "{shape:?} {index}");
                }
            }
        }
    }
}

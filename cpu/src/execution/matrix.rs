//! Matrix operations of warps: `mma`, `ldmatrix` and `stmatrix` of the PTX ISA.
//!
//! Products and sums are computed in double precision and rounded to the type of the sum at the end. A GPU rounds some
//! sums on the way.

use super::device_calls::{lane, warp_operation};
use super::warp::{Class, Operation};
use crate::half;

/// Lanes of a warp.
pub(super) const LANES: usize = 32;
/// Columns of a product.
const COLUMNS: u32 = 8;

/// The type of a matrix's elements, numbered as in docs/reference/cpu-code-objects.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    Tf32,
    F64,
    S8,
    U8,
    S4,
    U4,
    E4m3,
    E5m2,
    F32,
    S32,
}

impl Element {
    const ALL: [Self; 12] = [
        Self::F16,
        Self::Bf16,
        Self::Tf32,
        Self::F64,
        Self::S8,
        Self::U8,
        Self::S4,
        Self::U4,
        Self::E4m3,
        Self::E5m2,
        Self::F32,
        Self::S32,
    ];

    /// The element in a byte of a number.
    pub(super) fn of(types: u32, byte: u32) -> Option<Self> {
        Self::ALL.get((types >> (8 * byte) & 0xff) as usize).copied()
    }

    pub(super) fn bits(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
            Self::S8 | Self::U8 | Self::E4m3 | Self::E5m2 => 8,
            Self::S4 | Self::U4 => 4,
        }
    }

    /// Bits of a register.
    fn register(self) -> u32 {
        self.bits().max(32)
    }

    /// Elements in a register.
    fn packed(self) -> u32 {
        self.register() / self.bits()
    }

    /// Converts the bits to a number, exactly.
    pub(super) fn number(self, bits: u64) -> f64 {
        match self {
            Self::F16 => f64::from(half::bits_to_float(bits as u16)),
            Self::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            // The lower bits are ignored.
            Self::Tf32 => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F64 => f64::from_bits(bits),
            Self::S8 => f64::from(bits as i8),
            Self::U8 => f64::from(bits as u8),
            Self::S4 => f64::from(((bits as i8) << 4) >> 4),
            Self::U4 => f64::from(bits as u8 & 15),
            Self::S32 => f64::from(bits as i32),
            Self::E5m2 => f64::from(half::bits_to_float((bits as u16) << 8)),
            Self::E4m3 => {
                let (exponent, fraction) = ((bits >> 3 & 15) as i32, (bits & 7) as f64 / 8.0);
                let magnitude = match exponent {
                    15 if bits & 7 == 7 => f64::NAN,
                    0 => fraction * 2f64.powi(-6),
                    _ => (1.0 + fraction) * 2f64.powi(exponent - 7),
                };
                if bits & 0x80 != 0 { -magnitude } else { magnitude }
            }
        }
    }
}

/// The location of an element: the lane, its register, and the position in the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fragment {
    lane: u32,
    register: u32,
    place: u32,
}

/// The location of an element of the left factor, which has 8 or 16 rows.
fn of_left(element: Element, rows: u32, row: u32, column: u32) -> Fragment {
    let packed = element.packed();
    Fragment {
        lane: row % 8 * 4 + column / packed % 4,
        register: row / 8 + rows / 8 * (column / (4 * packed)),
        place: column % packed,
    }
}

/// The location of an element of the right factor.
fn of_right(element: Element, row: u32, column: u32) -> Fragment {
    let packed = element.packed();
    Fragment { lane: column * 4 + row / packed % 4, register: row / (4 * packed), place: row % packed }
}

/// The location of an element of the sum.
fn of_sum(element: Element, row: u32, column: u32) -> Fragment {
    let (lane, index) = (row % 8 * 4 + column / 2, row / 8 * 2 + column % 2);
    Fragment { lane, register: index / element.packed(), place: index % element.packed() }
}

/// Reads an element from a lane's registers, which are 32-bit words from `start` on.
///
/// # Safety
/// There must be as many words as the fragment's register needs.
unsafe fn read(registers: *const u32, start: u32, element: Element, at: Fragment) -> u64 {
    // SAFETY: by the caller's contract.
    let word = |index: u32| u64::from(unsafe { registers.add((start + index) as usize).read() });
    if element.register() == 64 {
        return word(2 * at.register) | word(2 * at.register + 1) << 32;
    }
    let bits = word(at.register) >> (at.place * element.bits());
    bits & (u64::MAX >> (64 - element.bits()))
}

/// Calls `work` with an array of all lanes' pointers.
pub(super) fn shared<R>(own: *mut u32, work: impl FnOnce(&[*mut u32; LANES]) -> R) -> R {
    // The pointer of an absent lane is this lane's own.
    let mut pointers = [own; LANES];
    let first = Operation::First { value: pointers.as_mut_ptr() as u64 };
    let first = warp_operation(Class::Matrix, u32::MAX, first) as *mut *mut u32;
    let sync = || warp_operation(Class::Matrix, u32::MAX, Operation::Sync);
    // SAFETY: the list is on the first lane's stack. That lane leaves this function only after all lanes have come to
    // the last of these barriers. Lanes of a warp take turns, so no lane writes to the list while another one reads it.
    unsafe {
        first.add(lane() as usize % LANES).write(own);
        sync();
        let done = work(&*first.cast());
        sync();
        done
    }
}

/// `__mneme_cpu_multiply_matrices`: adds the product of two matrices to a third one.
///
/// The bytes of `types` are the elements of the factors and of the sum, and whether sums of integers saturate.
/// `registers` has those of the left factor, of the right factor, and of the sum, which is written.
pub extern "C" fn multiply_matrices(rows: u32, depth: u32, types: u32, registers: *mut u32) {
    let elements = (Element::of(types, 0), Element::of(types, 1), Element::of(types, 2));
    let (Some(left), Some(right), Some(sum)) = elements else { return };
    let words = |count: u32, element: Element| count * element.bits() / 32 / LANES as u32;
    let start_of_right = words(rows * depth, left);
    let start_of_sum = start_of_right + words(COLUMNS * depth, right);
    let own = lane();
    // Two numbers of up to 64 bits for each row. All lanes read before any of them writes.
    let mut results = [0u64; 4];
    shared(registers, |all| {
        for (index, result) in results.iter_mut().enumerate().take(rows as usize / 4) {
            let (row, column) = (own / 4 + index as u32 / 2 * 8, own % 4 * 2 + index as u32 % 2);
            // SAFETY: compilers give each lane as many registers as the shape needs.
            let (number, before) = unsafe {
                let value = |start: u32, element: Element, at: Fragment| {
                    element.number(read(all[at.lane as usize % LANES], start, element, at))
                };
                let before = read(registers, start_of_sum, sum, of_sum(sum, row, column));
                let factors = (0..depth).map(|index| {
                    (
                        value(0, left, of_left(left, rows, row, index)),
                        value(start_of_right, right, of_right(right, index, column)),
                    )
                });
                (factors.fold(sum.number(before), |number, (a, b)| a.mul_add(b, number)), before)
            };
            *result = match sum {
                Element::F64 => number.to_bits(),
                Element::F32 => u64::from((number as f32).to_bits()),
                Element::F16 => u64::from(half::from_double(number).to_bits() as u16),
                // Sums of products of bytes are exact in a double.
                Element::S32 if types >> 24 != 0 => u64::from((number as i32).cast_unsigned()),
                Element::S32 => u64::from(number as i64 as u32),
                _ => before,
            };
        }
    });
    // SAFETY: as above; the registers are the lane's own.
    unsafe {
        let registers = registers.add(start_of_sum as usize);
        for (index, result) in results.into_iter().enumerate().take(rows as usize / 4) {
            match sum {
                Element::F64 => {
                    registers.add(2 * index).cast::<[u32; 2]>().write([result as u32, (result >> 32) as u32])
                }
                Element::F16 => registers.cast::<u16>().add(index).write(result as u16),
                _ => registers.add(index).write(result as u32),
            }
        }
    }
}

/// `__mneme_cpu_load_matrices`: loads matrices of 8 × 8 halves. The addresses of eight lanes point to the rows of each.
pub extern "C" fn load_matrices(count: u32, transposed: u32, address: *mut u32, registers: *mut u32) {
    let own = lane() as usize;
    shared(address, |rows| {
        for matrix in 0..count.min(4) as usize {
            // SAFETY: the instruction's contract says that rows have eight halves. An unreadable row is a fault of the
            // kernel.
            unsafe {
                let half = |row: usize, column: usize| {
                    rows[(8 * matrix + row) % LANES].cast::<u16>().add(column).read_unaligned()
                };
                let (row, column) = (own / 4, own % 4 * 2);
                let pair = match transposed {
                    0 => [half(row, column), half(row, column + 1)],
                    _ => [half(column, row), half(column + 1, row)],
                };
                registers.add(matrix).write(u32::from(pair[0]) | u32::from(pair[1]) << 16);
            }
        }
    });
}

/// `__mneme_cpu_store_matrices`: stores such matrices.
pub extern "C" fn store_matrices(count: u32, transposed: u32, address: *mut u32, registers: *const u32) {
    let own = lane() as usize;
    shared(address, |rows| {
        for matrix in 0..count.min(4) as usize {
            // SAFETY: as above.
            unsafe {
                let pair = registers.add(matrix).read();
                let half = |row: usize, column: usize, value: u32| {
                    rows[(8 * matrix + row) % LANES].cast::<u16>().add(column).write_unaligned(value as u16);
                };
                let (row, column) = (own / 4, own % 4 * 2);
                for (index, value) in [pair, pair >> 16].into_iter().enumerate() {
                    match transposed {
                        0 => half(row, column + index, value),
                        _ => half(column + index, row, value),
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Every position in the lanes' registers has exactly one element.
    #[test]
    fn elements_are_spread_over_all_registers() {
        for element in Element::ALL {
            let packed = element.packed();
            for (rows, depth) in [(8, 4 * packed), (16, 4 * packed), (16, 8 * packed)] {
                let all = |count: u32, of: &dyn Fn(u32) -> Fragment| {
                    let places: HashSet<_> =
                        (0..count).map(|index| (of(index).lane, of(index).register, of(index).place)).collect();
                    let most = places.iter().map(|(_, register, _)| register + 1).max().unwrap();
                    assert_eq!(places.len() as u32, count, "{element:?}");
                    assert_eq!(most * 32 * packed, count, "{element:?}");
                    assert!(places.iter().all(|(lane, ..)| *lane < 32));
                };
                all(rows * depth, &|index| of_left(element, rows, index / depth, index % depth));
                all(depth * 8, &|index| of_right(element, index / 8, index % 8));
            }
        }
        // The PTX ISA's figure of m16n8k16: a2 of lane 5 has columns 10 and 11 of row 1, b1 has rows 10 and 11.
        assert_eq!(of_left(Element::F16, 16, 1, 11), Fragment { lane: 5, register: 2, place: 1 });
        assert_eq!(of_right(Element::F16, 10, 1), Fragment { lane: 5, register: 1, place: 0 });
        assert_eq!(of_sum(Element::F32, 9, 3), Fragment { lane: 5, register: 3, place: 0 });
        assert_eq!(of_sum(Element::F16, 9, 3), Fragment { lane: 5, register: 1, place: 1 });
    }

    #[test]
    fn narrow_floats_are_exact_numbers() {
        let number = |element: Element, bits: u64| element.number(bits);
        assert_eq!((number(Element::E4m3, 0x7e), number(Element::E4m3, 0x81)), (448.0, -(2f64.powi(-9))));
        assert!(number(Element::E4m3, 0xff).is_nan());
        assert_eq!((number(Element::E5m2, 0x7b), number(Element::E5m2, 0x01)), (57344.0, 2f64.powi(-16)));
        assert_eq!(
            (number(Element::S4, 0xf), number(Element::U4, 0xf), number(Element::S8, 0x80)),
            (-1.0, 15.0, -128.0)
        );
        assert_eq!(number(Element::Tf32, u64::from(1.5f32.to_bits() | 0x1fff)), 1.5);
    }
}

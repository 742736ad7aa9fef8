//! A set of bytes of a chunk.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::manifest::CHUNK;

/// The number of bytes covered by a byte of a mask.
const WORD: usize = 8;
/// The number of equal bytes to skip at a time.
const BLOCK: usize = 4096;

/// One bit for each byte of a chunk, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mask(Vec<u8>);

impl Default for Mask {
    fn default() -> Self {
        Self(vec![0; CHUNK as usize / 8])
    }
}

impl Mask {
    /// The bytes that differ between two contents of the same length.
    pub fn differing(one: &[u8], other: &[u8]) -> Self {
        let mut mask = Self::default();
        let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK));
        for (bits, (one, other)) in mask.0.chunks_mut(BLOCK / WORD).zip(blocks).filter(|(_, (one, other))| one != other)
        {
            let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<WORD>(), other.as_chunks::<WORD>());
            for (bits, (one, other)) in bits.iter_mut().zip(one.iter().zip(other)) {
                *bits = differing_bytes(u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other));
            }
            let rest = one_rest.iter().zip(other_rest).enumerate().filter(|(_, (one, other))| one != other);
            if let Some(bits) = bits.get_mut(one.len()) {
                *bits = rest.fold(0, |all, (place, _)| all | 1 << place);
            }
        }
        mask
    }

    pub fn has(&self, byte: usize) -> bool {
        self.0.get(byte / 8).is_some_and(|bits| bits & (1 << (byte % 8)) != 0)
    }

    pub fn set(&mut self, byte: usize, value: bool) {
        if let Some(bits) = self.0.get_mut(byte / 8) {
            *bits = if value { *bits | (1 << (byte % 8)) } else { *bits & !(1 << (byte % 8)) };
        }
    }

    /// Adds the word that contains a byte.
    pub fn add_word(&mut self, byte: usize) {
        if let Some(bits) = self.0.get_mut(byte / WORD) {
            *bits = u8::MAX;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    /// The number of its bytes in a range.
    pub fn count(&self, range: Range<usize>) -> u64 {
        let own = |place: usize| place * 8..place * 8 + 8;
        let first = range.start / 8;
        let cells = self.0.iter().enumerate().take(range.end.div_ceil(8)).skip(first).filter(|(_, bits)| **bits != 0);
        let of = |(place, bits): (usize, &u8)| {
            let cell = own(place);
            if range.start <= cell.start && cell.end <= range.end {
                return u64::from(bits.count_ones());
            }
            cell.filter(|byte| range.contains(byte) && self.has(*byte)).count() as u64
        };
        cells.map(of).sum()
    }

    /// The offsets of the 8-byte words that contain some of its bytes.
    pub fn words(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().filter(|(_, bits)| **bits != 0).map(|(place, _)| place * WORD)
    }

    /// The aligned elements of `size` bytes (1, 2, 4 or 8) that contain some of its bytes, among the first `length`
    /// bytes.
    #[must_use]
    pub fn widened(mut self, size: usize, length: usize) -> Self {
        let element = match size {
            1 => 0b1,
            2 => 0b11,
            4 => 0b1111,
            _ => u8::MAX,
        };
        let widen = |bits: u8| {
            let places = (0..8).step_by(size.clamp(1, 8)).map(|place| element << place);
            places.filter(|own| bits & own != 0).fold(0, |all, own| all | own)
        };
        self.0.iter_mut().filter(|bits| **bits != 0).for_each(|bits| *bits = widen(*bits));
        if let Some(bits) = self.0.get_mut(length / 8) {
            *bits &= !(u8::MAX << (length % 8));
        }
        self.0.iter_mut().skip(length / 8 + 1).for_each(|bits| *bits = 0);
        self
    }

    /// Removes the bytes that the other mask lacks.
    pub fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    /// Adds the bytes of another mask.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    /// Removes the bytes of another mask.
    pub fn remove(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
    }

    /// Fills its bytes with values that differ from the recorded result in the bits of `pattern`.
    pub fn fill(&self, bytes: &mut [u8], result: &[u8], pattern: u8) {
        self.replace(bytes, result, |result| result ^ pattern);
    }

    /// Copies its bytes from `with`.
    pub fn copy(&self, bytes: &mut [u8], with: &[u8]) {
        self.replace(bytes, with, |with| with);
    }

    fn replace(&self, bytes: &mut [u8], with: &[u8], of: impl Fn(u8) -> u8) {
        for (bits, (bytes, with)) in self.0.iter().zip(bytes.chunks_mut(WORD).zip(with.chunks(WORD))) {
            if *bits == 0 {
                continue;
            }
            for (place, (byte, with)) in bytes.iter_mut().zip(with).enumerate() {
                *byte = if bits >> place & 1 == 1 { of(*with) } else { *byte };
            }
        }
    }
}

/// A bit for each nonzero byte of a word, the lowest first.
fn differing_bytes(word: u64) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The highest bit of each nonzero byte.
    let high = (((word & LOW) + LOW) | word) & !LOW;
    // The product gathers these bits, which are 7 apart, in the highest byte.
    ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

impl Serialize for Mask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        let mut text = String::with_capacity(2 * self.0.len());
        for bits in &self.0 {
            write!(text, "{bits:02x}").expect("a string takes everything");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Mask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let bytes: Option<Vec<u8>> =
            text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
        match bytes {
            Some(bytes) if bytes.len() == CHUNK as usize / 8 => Ok(Self(bytes)),
            _ => Err(D::Error::custom("a mask has a hexadecimal digit for four bytes of a chunk")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn mask(bytes: &[usize]) -> Mask {
        let mut mask = Mask::default();
        bytes.iter().for_each(|byte| mask.set(*byte, true));
        mask
    }

    #[test]
    fn a_filled_byte_differs_from_the_result() {
        let (mut bytes, result) = ([1, 2, 3], [1, 9, 3]);
        mask(&[0, 2]).fill(&mut bytes, &result, 0xaa);
        assert_eq!(bytes, [1 ^ 0xaa, 2, 3 ^ 0xaa]);
        mask(&[1]).copy(&mut bytes, &result);
        assert_eq!(bytes[1], 9);
    }

    #[test]
    fn masks_are_sets() {
        let mut own = mask(&[1, 2, 3]);
        own.keep(&mask(&[2, 3, 4]));
        own.remove(&mask(&[3]));
        own.add(&mask(&[100]));
        assert_eq!(own, mask(&[2, 100]));
        assert_eq!((own.count(0..65536), own.count(0..100), own.count(3..101)), (2, 1, 1));
        assert!(!own.is_empty() && Mask::default().is_empty() && !own.has(1 << 20));
        own.add_word(9);
        assert_eq!(own.words().collect::<Vec<_>>(), [0, 8, 96]);
        assert_eq!(own.count(0..64), 9);
    }

    proptest! {
        #[test]
        fn what_differs_is_as_byte_by_byte(
            one in prop::collection::vec(0u8..3, 0..200),
            other in prop::collection::vec(0u8..3, 200),
            size in prop::sample::select(vec![1usize, 2, 4, 8]),
            from in 0usize..220,
            length in 0usize..220,
        ) {
            let other = &other[..one.len()];
            let differs: BTreeSet<usize> = (0..one.len()).filter(|at| one[*at] != other[*at]).collect();
            let found = Mask::differing(&one, other);
            prop_assert_eq!(&found, &mask(&differs.iter().copied().collect::<Vec<_>>()));
            let range = from..from + length;
            prop_assert_eq!(found.count(range.clone()), differs.iter().filter(|at| range.contains(at)).count() as u64);
            let elements = (0..one.len()).filter(|at| (at / size * size..at / size * size + size).any(|at| differs.contains(&at)));
            prop_assert_eq!(found.widened(size, one.len()), mask(&elements.collect::<Vec<_>>()));
        }
    }
}

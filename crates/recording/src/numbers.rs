//! Finds floating-point numbers in memory of unknown type, and replaces them with random ones.
//!
//! Signs and exponents stay, to keep orders of magnitude; so do zeros, integers, addresses and all other data.

use std::ops::Range;

/// The percentage of a region's candidate words that must be plausible numbers.
const MOST: usize = 90;
/// Numbers whose magnitude lies between 2^-64 and 2^64 are plausible.
const EXPONENT: i32 = 64;
/// Integers below this in magnitude are small, and taken for counts and indices.
const SMALL: i64 = 1 << 24;

/// A buffer needs this many halves at each of the four places of a word to be taken for an array of them.
const FEW: usize = 16;

/// The width of a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// A number of 16 bits: with 5 bits for the exponent (`half`) or 8 (`bfloat16`). Both are read as the latter, which
    /// has the shorter mantissa.
    Half = 2,
    Single = 4,
    Double = 8,
}

impl Width {
    fn mantissa(self) -> u32 {
        match self {
            Self::Half => 7,
            Self::Single => 23,
            Self::Double => 52,
        }
    }

    fn is_plausible(self, word: u64) -> bool {
        let (bits, bias) = match self {
            Self::Half | Self::Single => (0xff, 127),
            Self::Double => (0x7ff, 1023),
        };
        let exponent = (word >> self.mantissa() & bits) as i32 - bias;
        exponent.abs() <= EXPONENT
    }

    fn is_small(self, word: u64) -> bool {
        let number = match self {
            Self::Half => return word == 0,
            Self::Single => i64::from(word as u32 as i32),
            Self::Double => word.cast_signed(),
        };
        (-SMALL..SMALL).contains(&number)
    }

    /// The first word of a slice with this width.
    fn word(self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        word[..self as usize].copy_from_slice(&bytes[..self as usize]);
        u64::from_le_bytes(word)
    }

    /// Whether the word that begins a slice is a plausible number and no small integer.
    pub fn is_number(self, bytes: &[u8]) -> bool {
        let word = self.word(bytes);
        !self.is_small(word) && self.is_plausible(word)
    }

    /// Of the words that are neither addresses nor small integers, the share of plausible numbers; `None` where that is
    /// too small.
    fn share(self, bytes: &[u8], addresses: &[Range<u64>]) -> Option<f64> {
        let words = bytes.chunks(8).filter(|double| !is_address(double, addresses));
        let words = words.flat_map(|double| double.chunks_exact(self as usize)).map(|bytes| self.word(bytes));
        let (mut all, mut plausible) = (0, 0);
        for word in words.filter(|word| !self.is_small(*word)) {
            all += 1;
            plausible += usize::from(self.is_plausible(word));
        }
        (all > 0 && 100 * plausible >= MOST * all).then(|| plausible as f64 / all as f64)
    }
}

/// Whether 8 bytes are an address in one of these ranges (ascending, disjoint), or the end of one.
pub fn is_address(bytes: &[u8], addresses: &[Range<u64>]) -> bool {
    let Ok(word) = bytes.try_into().map(u64::from_le_bytes) else { return false };
    let next = addresses.partition_point(|range| range.end < word);
    addresses.get(next).is_some_and(|range| range.start <= word)
}

/// The width of the numbers in a region; `None` if it does not seem to hold any.
pub fn width(bytes: &[u8], addresses: &[Range<u64>]) -> Option<Width> {
    if holds_halves(bytes, addresses) {
        return Some(Width::Half);
    }
    let [single, double] = [Width::Single, Width::Double].map(|width| width.share(bytes, addresses));
    match (single, double) {
        (None, None) => None,
        (Some(_), None) => Some(Width::Single),
        (None, Some(_)) => Some(Width::Double),
        (Some(single), Some(double)) if double > single => Some(Width::Double),
        // Two 4-byte numbers often look like one 8-byte number.
        (Some(_), Some(_)) if are_halves(bytes) => Some(Width::Double),
        (Some(_), Some(_)) => Some(Width::Single),
    }
}

/// Whether numbers of 16 bits are plausible at each of the four places of an 8-byte word. Of a longer number, some of
/// these places hold the end of the mantissa.
fn holds_halves(bytes: &[u8], addresses: &[Range<u64>]) -> bool {
    let mut places = [(0, 0); 4];
    for word in bytes.chunks(8).filter(|word| !is_address(word, addresses)) {
        for (half, (all, plausible)) in word.chunks_exact(2).zip(&mut places) {
            let half = Width::Half.word(half);
            *all += usize::from(half != 0);
            *plausible += usize::from(half != 0 && Width::Half.is_plausible(half));
        }
    }
    let most = places.iter().map(|(all, _)| *all).max().unwrap_or(0);
    places.iter().all(|(all, plausible)| *all >= FEW && 2 * all >= most && 100 * plausible >= MOST * all)
}

/// Whether 4-byte words are halves of 8-byte numbers: the lower ones are empty, as in whole numbers, or have unrelated
/// orders of magnitude.
fn are_halves(bytes: &[u8]) -> bool {
    let halves =
        || bytes.chunks_exact(8).map(|double| [&double[..4], &double[4..]].map(|half| Width::Single.word(half)));
    let used = halves().filter(|[_, upper]| *upper != 0).count();
    let whole = halves().filter(|[lower, upper]| *upper != 0 && *lower == 0).count();
    // Mean distance of the exponents from their mean.
    let spread = |half: usize| {
        let exponents =
            || halves().map(|halves| halves[half]).filter(|word| *word != 0).map(|word| (word >> 23 & 0xff) as f64);
        let count = exponents().count().max(1) as f64;
        let mean = exponents().sum::<f64>() / count;
        exponents().map(|exponent| (exponent - mean).abs()).sum::<f64>() / count
    };
    let (lower, upper) = (spread(0), spread(1));
    10 * whole >= 9 * used || (lower > 16.0 && lower > 4.0 * upper)
}

/// Replaces the numbers of a region with others of the same magnitude; returns the number of bytes replaced.
pub fn replace(bytes: &mut [u8], width: Width, addresses: &[Range<u64>], seed: u64) -> u64 {
    replace_bits(bytes, width, addresses, seed, width.mantissa())
}

/// Replaces the numbers of a region with others that differ in the last third of the mantissa: by at most 2^-16 or
/// 2^-35 of their value.
pub fn nudge(bytes: &mut [u8], width: Width, addresses: &[Range<u64>], seed: u64) -> u64 {
    replace_bits(bytes, width, addresses, seed, width.mantissa() / 3)
}

fn replace_bits(bytes: &mut [u8], width: Width, addresses: &[Range<u64>], seed: u64, bits: u32) -> u64 {
    let mask = (1u64 << bits) - 1;
    let (mut state, mut replaced) = (seed, 0);
    for double in bytes.chunks_mut(8).filter(|double| !is_address(double, addresses)) {
        for part in double.chunks_exact_mut(width as usize) {
            let (word, random) = (width.word(part), next(&mut state));
            if !width.is_small(word) && width.is_plausible(word) {
                let word = word & !mask | random & mask;
                part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
                replaced += width as u64;
            }
        }
    }
    replaced
}

/// The next number of a generator (SplitMix64).
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [Range<u64>; 2] = [0x1000_0000_0000..0x1000_0000_1000, 0x1000_0010_0000..0x1000_0020_0000];

    fn bytes<const N: usize>(words: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
        words.into_iter().flatten().collect()
    }

    fn singles(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
        bytes(numbers.into_iter().map(f32::to_le_bytes))
    }

    fn doubles(numbers: impl IntoIterator<Item = f64>) -> Vec<u8> {
        bytes(numbers.into_iter().map(f64::to_le_bytes))
    }

    #[test]
    fn the_width_of_numbers_is_recognised() {
        let thirds = || (1..1000).map(|number| f64::from(number) / 3.0);
        assert_eq!(width(&doubles(thirds()), &[]), Some(Width::Double));
        assert_eq!(width(&doubles((1..1000).map(f64::from)), &[]), Some(Width::Double), "whole numbers");
        assert_eq!(width(&singles(thirds().map(|number| number as f32)), &[]), Some(Width::Single));
        assert_eq!(width(&singles((1..1000).map(|number| number as f32)), &[]), Some(Width::Single));
        assert_eq!(width(&bytes((0..1000u32).map(u32::to_le_bytes)), &[]), None, "indices");
        assert_eq!(width(&bytes((0..1000i32).map(|number| (-number).to_le_bytes())), &[]), None);
        let halves = |upper: fn(f64) -> u32| bytes(thirds().map(move |number| (upper(number) as u16).to_le_bytes()));
        assert_eq!(width(&halves(|number| (number as f32).to_bits() >> 16), &[]), Some(Width::Half), "bfloat16");
        let half = |number: f64| ((number as f32).to_bits() >> 13) - (112 << 10);
        assert_eq!(width(&halves(half), &[]), Some(Width::Half), "half");
        assert_eq!(width(&bytes((0..1000).map(|number: u16| number.to_le_bytes())), &[]), None, "short indices");
        let mixed: Vec<u8> =
            (0..1000u32).flat_map(|it| [it.to_le_bytes(), (it as f32).to_le_bytes()]).flatten().collect();
        assert_eq!(width(&mixed, &[]), Some(Width::Single), "structures");
        let mut state = 7;
        let random = bytes((0..1000).map(|_| next(&mut state).to_le_bytes()));
        assert_eq!(width(&random, &[]), None);
        let pointers = bytes((0..1000u64).map(|number| (ADDRESSES[0].start + number).to_le_bytes()));
        assert_eq!(width(&pointers, &ADDRESSES), None);
        assert_eq!(width(&[0; 64], &[]), None);
        assert_eq!(width(b"text that somebody wrote, and no number", &[]), None);
    }

    #[test]
    fn orders_of_magnitude_stay_and_so_does_what_is_no_number() {
        let numbers: Vec<f32> = (0..1000).map(|number| (number as f32 - 500.0) / 7.0).collect();
        let before = singles(numbers.iter().copied());
        let replaced = |seed| {
            let mut after = before.clone();
            // All except the zero.
            assert_eq!(replace(&mut after, Width::Single, &[], seed), 4 * 999);
            after
        };
        assert_eq!(replaced(1), replaced(1), "the same seed");
        assert_ne!(replaced(1), replaced(2));
        let after = replaced(1);
        let changed = after.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap()));
        let mut differ = 0;
        for (was, is) in numbers.iter().zip(changed) {
            assert!(*was == is || (was.signum() == is.signum() && (0.5..2.0).contains(&(is / was))), "{was} {is}");
            differ += usize::from(*was != is);
        }
        assert!(differ > 990);

        let kept = [ADDRESSES[1].start + 8, ADDRESSES[1].end, 3, u64::MAX, f64::NAN.to_bits(), f64::INFINITY.to_bits()];
        let mut words = bytes(kept.map(u64::to_le_bytes));
        assert_eq!(replace(&mut words, Width::Double, &ADDRESSES, 1), 0);
        assert_eq!(words, bytes(kept.map(u64::to_le_bytes)));
    }
}

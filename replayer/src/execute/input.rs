//! Fresh inputs: the recorded memory or arguments, changed as a seed says.
//!
//! Addresses stay. Of arguments, numbers get other mantissas, and counts become smaller.

use std::collections::BTreeMap;
use std::ops::Range;

use mneme_model::fresh::{GENTLE, PARTS, WAYS, is_of_arguments};
use mneme_recording::manifest::CHUNK;
use mneme_recording::numbers::{self, Width};

use super::left::Contents;
use super::resident::ResidentMemory;
use crate::recording::snapshot::SnapshotRegion;

/// Pieces to change: one in `PART`, at least `FEW` and at most `MOST`. All have to be made and read back.
const PART: u64 = 200;
const FEW: u64 = (1 << 20) / CHUNK;
const MOST: u64 = (256 << 20) / CHUNK;
/// The number of regions in which at least one piece changes.
const REGIONS: usize = 256;
/// Bytes of an address, and of an element of unknown type that changes places.
const WORD: usize = 8;
/// Bytes of an element of unknown type whose lowest bits change, and the mask of these bits.
const SMALL: usize = 4;
const LOW: u8 = 7;

/// The ways to change an input. [`WAYS`] consecutive seeds use different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Floating-point numbers change in their last bits.
    LastBits,
    /// Floating-point numbers get other mantissas.
    Mantissas,
    /// Floating-point numbers are permuted, and the lowest bits of other elements change.
    Numbers,
    /// All words are permuted.
    Words,
    /// The lowest bits of all elements change, for example of small counts and of codes.
    Bits,
}

impl Change {
    fn of(seed: u64, has_numbers: bool) -> Self {
        match (seed % WAYS, has_numbers) {
            (GENTLE, true) => Self::LastBits,
            (0, true) => Self::Mantissas,
            (1, true) => Self::Numbers,
            (0 | GENTLE, false) => Self::Bits,
            _ => Self::Words,
        }
    }
}

/// An input. The default one is as recorded.
#[derive(Default)]
pub struct FreshInput {
    /// The pieces that differ from the recording.
    pub pieces: Contents,
    /// The arguments, if they differ.
    pub arguments: Option<Vec<Vec<u8>>>,
}

impl FreshInput {
    pub fn is_as_recorded(&self) -> bool {
        self.pieces.is_empty() && self.arguments.is_none()
    }

    /// Whether a kernel with these arguments has inputs other than the recorded one.
    pub fn exists(memory: &ResidentMemory<'_>, arguments: &[Vec<u8>]) -> bool {
        memory.has_input() || changed_arguments(arguments, &live(memory), 0).is_some()
    }

    /// Makes the input of a seed. It is the recorded one if nothing can be changed in the seed's way.
    pub fn of(
        memory: &ResidentMemory<'_>,
        arguments: &[Vec<u8>],
        widths: &BTreeMap<usize, Option<Width>>,
        seed: u64,
    ) -> Self {
        let (live, regions) = (live(memory), memory.regions());
        if is_of_arguments(seed) {
            return Self { arguments: changed_arguments(arguments, &live, seed), ..Self::default() };
        }
        let change = Change::of(seed, widths.values().any(Option::is_some));
        let mut state = seed;
        let pieces = memory.region_pieces().filter(|(_, region)| widths.contains_key(region));
        let pieces: Vec<(usize, usize, u64)> =
            pieces.map(|(piece, region)| (piece, region, numbers::next(&mut state))).collect();
        let of_all = pieces.len() as u64;
        let wanted = (of_all / PART).clamp(FEW, MOST);
        let mut least: BTreeMap<usize, u64> = BTreeMap::new();
        for (_, region, own) in pieces.iter().filter(|_| widths.len() <= REGIONS) {
            least.entry(*region).and_modify(|least| *least = (*least).min(*own)).or_insert(*own);
        }
        let mut changed = Contents::new();
        for (piece, region, own) in pieces {
            if own % of_all.max(1) >= wanted && least.get(&region) != Some(&own) {
                continue;
            }
            let before = memory.before(piece);
            let mut bytes = before.to_vec();
            let part = part(seed, &regions[region], memory.chunk(piece).map_or(0, |(_, chunk)| chunk), bytes.len());
            apply(change, &mut bytes[part], widths[&region], &live, own);
            memory.fill(piece, &mut bytes, before);
            // Filled bytes keep the pattern, or hold the recorded result as after an earlier launch. Code that depends on
            // one of them is wrong.
            memory.fill(
                piece,
                &mut bytes,
                if matches!(change, Change::Mantissas | Change::LastBits) { before } else { memory.after(piece) },
            );
            if bytes != before {
                changed.insert(piece, bytes);
            }
        }
        Self { pieces: changed, arguments: None }
    }
}

/// The part of a piece to change: all of it, or the part in one half of its region. This detects code that checks only
/// the beginning or the end of its input to recognise it.
fn part(seed: u64, region: &SnapshotRegion, chunk: usize, length: usize) -> Range<usize> {
    let half = region.size as usize / 2 / WORD * WORD;
    let cut = half.saturating_sub(chunk * CHUNK as usize).min(length);
    match seed % PARTS {
        0 => 0..length,
        1 => cut..length,
        _ => 0..cut,
    }
}

/// The addresses of recorded memory, and the handles of its objects.
pub fn live(memory: &ResidentMemory<'_>) -> Vec<Range<u64>> {
    memory.meaningful().into_iter().map(|(start, end)| start..end).collect()
}

/// The arguments with all numbers changed; `None` if they contain none that can change.
fn changed_arguments(arguments: &[Vec<u8>], live: &[Range<u64>], seed: u64) -> Option<Vec<Vec<u8>>> {
    let (mut changed, mut state) = (arguments.to_vec(), seed);
    let words = changed.iter_mut().flat_map(|argument| argument.chunks_mut(WORD));
    for word in words.filter(|word| !numbers::is_address(word, live)) {
        let is_whole = word.len() == WORD && (integer(word) >> 32 == 0 || Width::Double.is_number(word));
        for element in word.chunks_mut(if is_whole { WORD } else { SMALL }) {
            change_number(element, numbers::next(&mut state), seed % WAYS == GENTLE);
        }
    }
    (changed != arguments).then_some(changed)
}

/// Gives a floating-point number another mantissa. Makes an integer above 1 smaller: it may be the size of a buffer.
fn change_number(element: &mut [u8], random: u64, is_gentle: bool) {
    let width = [Width::Single, Width::Double].into_iter().find(|width| *width as usize == element.len());
    if let Some(width) = width.filter(|width| width.is_number(element)) {
        if is_gentle {
            numbers::nudge(element, width, &[], random);
        } else {
            numbers::replace(element, width, &[], random);
        }
        return;
    }
    let (value, bits) = (integer(element), 8 * element.len());
    if value > 1 && value >> (bits - 1) == 0 {
        let less = if is_gentle { 1 } else { 1 + random % (value / 2) };
        element.copy_from_slice(&(value - less).to_le_bytes()[..bits / 8]);
    }
}

fn integer(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn apply(change: Change, bytes: &mut [u8], width: Option<Width>, live: &[Range<u64>], seed: u64) {
    match (change, width) {
        (Change::Mantissas, Some(width)) => {
            numbers::replace(bytes, width, live, seed);
        }
        (Change::Bits | Change::Numbers, None) => flip(bytes, live, seed),
        (Change::Numbers | Change::Words | Change::Bits, Some(width)) => permute(bytes, width as usize, live, seed),
        (Change::Words, None) => {
            let before = bytes.to_vec();
            permute(bytes, WORD, live, seed);
            if bytes == before {
                flip(bytes, live, seed);
            }
        }
        (Change::LastBits, Some(width)) => {
            numbers::nudge(bytes, width, live, seed);
        }
        (Change::Mantissas | Change::LastBits, None) => {}
    }
}

/// Changes the lowest bits of elements.
fn flip(bytes: &mut [u8], live: &[Range<u64>], seed: u64) {
    let mut state = seed;
    for word in bytes.chunks_mut(WORD).filter(|word| !numbers::is_address(word, live)) {
        for element in word.chunks_mut(SMALL) {
            element[0] ^= numbers::next(&mut state) as u8 & LOW;
        }
    }
}

/// Permutes elements of `size` bytes. Words that may be addresses stay.
fn permute(bytes: &mut [u8], size: usize, live: &[Range<u64>], seed: u64) {
    let words = bytes.chunks(WORD).enumerate().filter(|(_, word)| !numbers::is_address(word, live));
    let places = words.flat_map(|(word, bytes)| (0..bytes.len() / size).map(move |part| word * WORD + part * size));
    let places: Vec<usize> = places.collect();
    let mut state = seed;
    for last in (1..places.len()).rev() {
        let other = (numbers::next(&mut state) % (last as u64 + 1)) as usize;
        for byte in 0..size {
            bytes.swap(places[last] + byte, places[other] + byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_change_places_and_addresses_stay() {
        let recorded: Range<u64> = 0x1000_0000_0000..0x1000_0000_1000;
        let live = std::slice::from_ref(&recorded);
        let words: Vec<u64> = (0..100).map(|word| if word % 10 == 0 { recorded.start + word } else { word }).collect();
        let before: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = before.clone();
        permute(&mut bytes, 8, live, 7);
        let after: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert!((0..100).step_by(10).all(|place| after[place] == words[place]));
        let moved = after.iter().zip(&words).filter(|(after, before)| after != before).count();
        assert!(moved > 70, "{moved}");
        let (mut sorted, mut all) = (after, words);
        sorted.sort_unstable();
        all.sort_unstable();
        assert_eq!(sorted, all);
        let mut again = before;
        permute(&mut again, 8, live, 7);
        assert_eq!(again, bytes, "of a seed follows an input");
    }

    #[test]
    fn arguments_keep_addresses_and_become_smaller() {
        let live = std::slice::from_ref(&(0x1000_0000_0000..0x1000_0000_1000));
        let pointer = 0x1000_0000_0010_u64.to_le_bytes().to_vec();
        let two = [7_i32.to_le_bytes(), 1000_i32.to_le_bytes()].concat();
        let arguments = [
            pointer.clone(),
            2000_i32.to_le_bytes().into(),
            5_u64.to_le_bytes().into(),
            0.3_f32.to_le_bytes().into(),
            two,
        ];
        for seed in 0..200 {
            let changed = changed_arguments(&arguments, live, seed).unwrap();
            assert_eq!(changed[0], pointer);
            for (place, range) in [(1, 1000..2000), (2, 3..5)] {
                assert!(range.contains(&integer(&changed[place])), "{changed:?}");
            }
            let number = f32::from_le_bytes(changed[3][..].try_into().unwrap());
            assert!(number != 0.3 && (0.25..0.5).contains(&number), "{number}");
            assert!((4..7).contains(&integer(&changed[4][..4])) && (500..1000).contains(&integer(&changed[4][4..])));
        }
        let fixed = [pointer, 1_i32.to_le_bytes().into(), 0_u64.to_le_bytes().into(), (-3_i32).to_le_bytes().into()];
        assert_eq!(changed_arguments(&fixed, live, 3), None);
    }

    #[test]
    fn a_rest_that_is_no_element_stays() {
        let mut bytes = *b"abcdefghijk";
        permute(&mut bytes, 8, &[], 3);
        assert_eq!(&bytes, b"abcdefghijk", "there is one whole element");
        permute(&mut bytes, 4, &[], 3);
        assert_eq!(&bytes[8..], b"ijk");
    }
}

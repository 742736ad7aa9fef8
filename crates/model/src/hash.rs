//! Hashes in the recording formats.
//!
//! They are the identities of chunks (128 bit), and the static and dynamic hashes (64 bit).

use std::fmt;

/// Identity of a chunk of memory. All zero means "all bytes are zero".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ChunkId(pub [u8; 16]);

impl ChunkId {
    /// A chunk of zeros of any length; it is never stored.
    pub const ZERO: Self = Self([0; 16]);

    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const KEY: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_1: u64 = 0xbf58_476d_1ce4_e5b9;
const MIX_2: u64 = 0x94d0_49bb_1331_11eb;
const MIX_3: u64 = 0xd6e8_feb8_6659_fd93;

/// The bijection applied to every word (the finaliser of SplitMix64).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(MIX_1);
    word = (word ^ (word >> 27)).wrapping_mul(MIX_2);
    word ^ (word >> 31)
}

/// The chunk hash, format version 1.
///
/// Two 64-bit sums over the little-endian 8-byte words of the chunk (the last one padded with zeros). Each word is
/// first mixed with its index, and the length is mixed in at the end. Sums commute, so one GPU thread per word and a
/// tree of additions give the same value as this loop. The hash protects against accidents, not against adversaries.
pub fn chunk_id(bytes: &[u8]) -> ChunkId {
    let (mut low, mut high) = (0u64, 0u64);
    let mut absorb = |index: u64, word: u64| {
        let mixed = mix(word.wrapping_add(KEY.wrapping_mul(index + 1)));
        low = low.wrapping_add(mixed);
        high = high.wrapping_add((mixed ^ (mixed >> 29)).wrapping_mul(MIX_3).rotate_left(23) ^ mixed);
    };
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        absorb(index as u64, u64::from_le_bytes(*word));
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        absorb(words.len() as u64, u64::from_le_bytes(last));
    }
    let length = bytes.len() as u64;
    let low = mix(low ^ length);
    let high = mix(high.wrapping_add(length.wrapping_mul(KEY)) ^ low.rotate_left(32));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&low.to_le_bytes());
    id[8..].copy_from_slice(&high.to_le_bytes());
    if id == [0; 16] {
        id[0] = 1; // ZERO is taken.
    }
    ChunkId(id)
}

/// The identity of a chunk in recordings: [`ChunkId::ZERO`] for zeros, otherwise its hash.
pub fn recorded_id(bytes: &[u8]) -> ChunkId {
    if is_zero(bytes) { ChunkId::ZERO } else { chunk_id(bytes) }
}

/// Whether every byte is zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && tail.iter().all(|byte| *byte == 0)
}

/// A 64-bit hash over parts, each delimited by its length (XXH3).
///
/// Small inputs are buffered and hashed at once, which is far cheaper than a stream: recorders do this at every launch.
pub struct Hash64 {
    small: [u8; SMALL],
    length: usize,
    stream: Option<Box<xxhash_rust::xxh3::Xxh3Default>>,
}

/// The number of bytes to buffer before creating a stream.
const SMALL: usize = 256;

impl Default for Hash64 {
    fn default() -> Self {
        Self { small: [0; SMALL], length: 0, stream: None }
    }
}

impl Hash64 {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn part(mut self, bytes: &[u8]) -> Self {
        self.add(bytes);
        self
    }

    /// [`Hash64::part`] in place: moving a hash takes longer than adding to it.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.update(&(bytes.len() as u64).to_le_bytes());
        self.update(bytes);
    }

    #[inline]
    fn update(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream {
            return stream.update(bytes);
        }
        match self.small.get_mut(self.length..self.length + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            None => self.overflow(bytes),
        }
    }

    #[cold]
    fn overflow(&mut self, bytes: &[u8]) {
        let stream = self.stream.insert(Box::new(xxhash_rust::xxh3::Xxh3Default::new()));
        stream.update(&self.small[..self.length]);
        stream.update(bytes);
    }

    #[must_use]
    pub fn number(self, value: u64) -> Self {
        self.part(&value.to_le_bytes())
    }

    pub fn finish(&self) -> u64 {
        self.stream.as_ref().map_or_else(|| checksum(&self.small[..self.length]), |stream| stream.digest())
    }
}

/// XXH3-64 of `bytes`, the checksum of manifests, pack indexes and IR records.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_chunk_hash_is_pinned() {
        // Another program computed these values from the definition; changing them changes the recording format.
        let bytes: Vec<u8> = (0..1003u32).map(|i| (i * 7) as u8).collect();
        assert_eq!(chunk_id(&bytes).to_string(), PINNED_1003);
        assert_eq!(chunk_id(b"").to_string(), PINNED_EMPTY);
    }
    const PINNED_1003: &str = "e554bebe2bc710f01c7c2c6784070c1d";
    const PINNED_EMPTY: &str = "01000000000000000000000000000000";

    proptest! {
        #[test]
        fn any_change_of_a_byte_changes_the_hash(
            mut bytes in proptest::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            by in 1u8..,
        ) {
            let before = chunk_id(&bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert_ne!(before, chunk_id(&bytes));
        }

        #[test]
        fn swapped_words_and_longer_zeros_differ(a in any::<u64>(), b in any::<u64>()) {
            prop_assume!(a != b);
            let ab = [a.to_le_bytes(), b.to_le_bytes()].concat();
            let ba = [b.to_le_bytes(), a.to_le_bytes()].concat();
            prop_assert_ne!(chunk_id(&ab), chunk_id(&ba));
            prop_assert_ne!(chunk_id(&ab), chunk_id(&[&ab[..], &[0]].concat()));
        }
    }

    proptest! {
        #[test]
        fn gathered_and_streamed_parts_hash_alike(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 0..9),
        ) {
            let mut stream = xxhash_rust::xxh3::Xxh3Default::new();
            let mut hash = Hash64::new();
            for part in &parts {
                stream.update(&(part.len() as u64).to_le_bytes());
                stream.update(part);
                hash.add(part);
            }
            prop_assert_eq!(hash.finish(), stream.digest());
        }
    }

    #[test]
    fn zero_detection_sees_the_tail() {
        let mut bytes = vec![0u8; 131];
        assert!(is_zero(&bytes));
        bytes[130] = 1;
        assert!(!is_zero(&bytes));
    }
}

//! Encodings of a chunk's bytes.
//!
//! A chunk is stored raw, compressed (zstd), or split into [`planes`] and compressed, whichever has the best ratio of
//! size to cost.

use super::planes;

/// An encoded chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded<'a> {
    /// Raw if as long as the chunk, otherwise zstd's.
    pub bytes: &'a [u8],
    /// The compressed bytes are the chunk's planes.
    pub planes: bool,
}

/// The number of evenly spread pieces in a sample, and their size in bytes.
const PIECES: usize = 4;
const PIECE: usize = 256;
const SAMPLE: usize = PIECES * PIECE;
/// Shorter chunks are compressed without sampling, bytes.
const SMALL: usize = 8 * SAMPLE;
/// Compression must save at least this fraction of a sample: one in `LEAST_GAIN`.
const LEAST_GAIN: usize = 32;
/// The number of chunks to compress in the order chosen by the last trial; neighbours are similar.
const TRIAL_EVERY: u32 = 8;

/// Compresses consecutive chunks.
pub struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
    /// A compressor at the fastest level, for samples.
    sampler: zstd::bulk::Compressor<'static>,
    planes: Vec<u8>,
    compressed: Vec<u8>,
    other: Vec<u8>,
    /// The result of the last trial.
    prefers_planes: bool,
    encoded: u32,
}

impl Encoder {
    /// `level` is zstd's.
    pub fn new(level: i32) -> std::io::Result<Self> {
        Ok(Self {
            compressor: zstd::bulk::Compressor::new(level)?,
            sampler: zstd::bulk::Compressor::new(1)?,
            planes: Vec::new(),
            compressed: Vec::new(),
            other: Vec::new(),
            prefers_planes: true,
            encoded: 0,
        })
    }

    pub fn encode<'a>(&'a mut self, bytes: &'a [u8]) -> std::io::Result<Encoded<'a>> {
        const RAW: bool = false;
        if !self.is_compressible(bytes)? {
            return Ok(Encoded { bytes, planes: RAW });
        }
        let is_trial = self.encoded.is_multiple_of(TRIAL_EVERY);
        self.encoded = self.encoded.wrapping_add(1);
        let mut length = self.compress(bytes, self.prefers_planes)?;
        if is_trial {
            std::mem::swap(&mut self.compressed, &mut self.other);
            let other = self.compress(bytes, !self.prefers_planes)?;
            if other < length {
                self.prefers_planes = !self.prefers_planes;
                length = other;
            } else {
                std::mem::swap(&mut self.compressed, &mut self.other);
            }
        }
        if length < bytes.len() {
            Ok(Encoded { bytes: &self.compressed[..length], planes: self.prefers_planes })
        } else {
            Ok(Encoded { bytes, planes: RAW })
        }
    }

    /// Fills `self.compressed`, and returns the length.
    fn compress(&mut self, bytes: &[u8], in_planes: bool) -> std::io::Result<usize> {
        self.compressed.resize(zstd::zstd_safe::compress_bound(bytes.len()), 0);
        let source = if in_planes { split(&mut self.planes, bytes) } else { bytes };
        self.compressor.compress_to_buffer(source, &mut self.compressed)
    }

    /// Detects compressible bytes at a fraction of the cost of compressing them: random data should be stored at the
    /// speed of writing.
    fn is_compressible(&mut self, bytes: &[u8]) -> std::io::Result<bool> {
        if bytes.len() < SMALL {
            return Ok(true);
        }
        let mut sample = [0; SAMPLE];
        for (piece, bytes) in sample.chunks_exact_mut(PIECE).zip(bytes.chunks_exact(bytes.len() / PIECES)) {
            piece.copy_from_slice(&bytes[..PIECE]);
        }
        self.compressed.resize(zstd::zstd_safe::compress_bound(bytes.len()), 0);
        for in_planes in [false, true] {
            let source = if in_planes { split(&mut self.planes, &sample) } else { &sample[..] };
            if self.sampler.compress_to_buffer(source, &mut self.compressed)? + SAMPLE / LEAST_GAIN <= SAMPLE {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn split<'a>(planes: &'a mut Vec<u8>, bytes: &[u8]) -> &'a [u8] {
    planes.resize(bytes.len(), 0);
    planes::split(bytes, planes);
    planes
}

/// Decodes a compressed chunk from [`Encoder::encode`]; returns whether the bytes were a valid chunk of `out`'s length.
pub fn decode(encoded: Encoded<'_>, out: &mut [u8]) -> bool {
    if !encoded.planes {
        return zstd::bulk::decompress_to_buffer(encoded.bytes, out).is_ok_and(|length| length == out.len());
    }
    let mut planes = vec![0; out.len()];
    let whole =
        zstd::bulk::decompress_to_buffer(encoded.bytes, &mut planes[..]).is_ok_and(|length| length == out.len());
    if whole {
        planes::join(&planes, out);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::CHUNK;

    fn chunk(word: impl Fn(u64) -> u64) -> Vec<u8> {
        (0..CHUNK / 8).flat_map(|index| word(index).to_le_bytes()).collect()
    }

    fn scrambled(mut x: u64) -> u64 {
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x >> 7);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (x >> 31)
    }

    #[test]
    fn random_data_is_left_alone() {
        let bytes = chunk(scrambled);
        let mut encoder = Encoder::new(1).unwrap();
        let encoded = encoder.encode(&bytes).unwrap();
        assert!(encoded.bytes.as_ptr() == bytes.as_ptr() && !encoded.planes);
    }

    #[test]
    fn numbers_shrink_and_come_back() {
        let counting = chunk(|index| index % 1_000_003);
        let random_doubles = chunk(|index| (scrambled(index) as f64 / u64::MAX as f64).to_bits());
        let text = "all work and no play makes jack a dull boy; ".repeat(1500).into_bytes();
        for (bytes, least) in [(counting, 40), (random_doubles, 1), (text[..CHUNK as usize].to_vec(), 40)] {
            let mut encoder = Encoder::new(1).unwrap();
            for _ in 0..2 * TRIAL_EVERY {
                let encoded = encoder.encode(&bytes).unwrap();
                assert!(encoded.bytes.len() * least < bytes.len(), "{} of {} bytes", encoded.bytes.len(), bytes.len());
                let mut out = vec![1; bytes.len()];
                assert!(decode(encoded, &mut out) && out == bytes);
            }
        }
    }
}

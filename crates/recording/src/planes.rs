//! Reorders bytes into planes.
//!
//! The first plane has the first byte of every 8-byte word, the next the second byte of every word, and so on.
//! GPU memory mostly holds arrays of numbers with similar high bytes, which compress far better next to each other.
//! Floats, two to a word, gain in the same way.

/// Bytes of a word, and planes.
const WORD: usize = 8;

/// Transposes a square of 8 × 8 bytes: swaps byte `column` of `square[row]` with byte `row` of `square[column]`.
fn transpose(square: &mut [u64; WORD]) {
    // Swap blocks of 4 × 4, then of 2 × 2, then single bytes across the diagonal.
    for (distance, mask) in [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff_u64)] {
        for row in (0..WORD).filter(|row| row & distance == 0) {
            let shift = 8 * distance;
            let swap = ((square[row] >> shift) ^ square[row + distance]) & mask;
            square[row] ^= swap << shift;
            square[row + distance] ^= swap;
        }
    }
}

/// Writes `bytes` in planes to `out`, which has the same length; bytes after the last whole word keep their places.
pub fn split(bytes: &[u8], out: &mut [u8]) {
    assert_eq!(bytes.len(), out.len(), "the order changes, not the length");
    let words = bytes.len() / WORD;
    let (squares, _) = bytes.as_chunks::<{ WORD * WORD }>();
    for (index, bytes) in squares.iter().enumerate() {
        let (rows, _) = bytes.as_chunks::<WORD>();
        let mut square: [u64; WORD] = std::array::from_fn(|row| u64::from_le_bytes(rows[row]));
        transpose(&mut square);
        for (plane, row) in square.iter().enumerate() {
            let at = plane * words + index * WORD;
            out[at..at + WORD].copy_from_slice(&row.to_le_bytes());
        }
    }
    for word in squares.len() * WORD..words {
        for plane in 0..WORD {
            out[plane * words + word] = bytes[word * WORD + plane];
        }
    }
    out[words * WORD..].copy_from_slice(&bytes[words * WORD..]);
}

/// Undoes [`split`].
pub fn join(planes: &[u8], out: &mut [u8]) {
    assert_eq!(planes.len(), out.len(), "the order changes, not the length");
    let words = planes.len() / WORD;
    let (squares, _) = out.as_chunks_mut::<{ WORD * WORD }>();
    let whole = squares.len() * WORD;
    for (index, out) in squares.iter_mut().enumerate() {
        let mut square: [u64; WORD] = std::array::from_fn(|plane| {
            let at = plane * words + index * WORD;
            planes[at..at + WORD].try_into().map_or(0, u64::from_le_bytes)
        });
        transpose(&mut square);
        let (rows, _) = out.as_chunks_mut::<WORD>();
        for (out, row) in rows.iter_mut().zip(&square) {
            *out = row.to_le_bytes();
        }
    }
    for word in whole..words {
        for plane in 0..WORD {
            out[word * WORD + plane] = planes[plane * words + word];
        }
    }
    out[words * WORD..].copy_from_slice(&planes[words * WORD..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn planes_are_bytes_of_equal_rank() {
        let bytes: Vec<u8> = (0..19).collect();
        let mut out = vec![0; 19];
        split(&bytes, &mut out);
        assert_eq!(out, [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 16, 17, 18]);
    }

    proptest! {
        #[test]
        fn joining_undoes_splitting(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            let (mut planes, mut back) = (vec![0; bytes.len()], vec![0; bytes.len()]);
            split(&bytes, &mut planes);
            let words = bytes.len() / WORD;
            for (at, byte) in bytes[..words * WORD].iter().enumerate() {
                prop_assert_eq!(*byte, planes[at % WORD * words + at / WORD]);
            }
            join(&planes, &mut back);
            prop_assert_eq!(back, bytes);
        }
    }
}

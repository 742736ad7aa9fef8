//! Finds the address ranges that the words of memory point into.
//!
//! A kernel finds page-locked memory that is not among its arguments through an address in memory that it can read.
//! Only addresses in words at multiples of 8 bytes count.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use mneme_recording::manifest::CHUNK;

use super::{SnapshotError, in_parallel, read_here};
use crate::snapshot::chunk_hash::Stretch;

/// The size of a word, bytes.
pub const WORD: u64 = 8;

/// The range that a word leads into. The ranges are sorted and disjoint.
fn led_into(word: u64, ranges: &[Range<u64>]) -> Option<usize> {
    let index = ranges.partition_point(|range| range.start <= word).checked_sub(1)?;
    (word < ranges[index].end).then_some(index)
}

/// Marks the ranges that the words of these bytes lead into.
pub fn mark(bytes: &[u8], ranges: &[Range<u64>], mut found: impl FnMut(usize)) {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return };
    for word in bytes.as_chunks::<{ WORD as usize }>().0 {
        let word = u64::from_le_bytes(*word);
        if (first.start..last.end).contains(&word)
            && let Some(range) = led_into(word, ranges)
        {
            found(range);
        }
    }
}

/// Marks the ranges that words in memory of this process lead into, on all cores. A stretch is at most a chunk.
pub fn scan(stretches: &[Stretch], ranges: &[Range<u64>]) -> Result<Vec<bool>, SnapshotError> {
    let found: Vec<AtomicBool> = ranges.iter().map(|_| AtomicBool::new(false)).collect();
    let scan = |stretches: &[Stretch]| {
        let mut copy = vec![0; CHUNK as usize];
        for stretch in stretches {
            mark(read_here(*stretch, &mut copy)?, ranges, |range| found[range].store(true, Ordering::Relaxed));
        }
        Ok(())
    };
    in_parallel(stretches, scan).into_iter().collect::<Result<(), _>>()?;
    Ok(found.into_iter().map(AtomicBool::into_inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_into_the_ranges_that_they_lie_in() {
        let ranges = [
            0x7f00_0000_1000..0x7f00_0000_2000,
            0x7f00_0000_3000..0x7f00_0000_3008,
            0x7f10_0000_0000..0x7f10_0000_0001,
        ];
        let scan = |words: &[u64]| {
            let stretches: Vec<Stretch> = words
                .chunks(3)
                .map(|words| Stretch { address: words.as_ptr() as u64, length: size_of_val(words) as u64 })
                .collect();
            scan(&stretches, &ranges).unwrap()
        };
        let beside = [
            0x7f00_0000_0fff,
            0x7f00_0000_2000,
            0x7f00_0000_3008,
            0x7f10_0000_0001,
            0,
            u64::MAX,
            0x3ff0_0000_0000_0000,
        ];
        assert_eq!(scan(&beside), [false; 3]);
        let mut words = vec![1; 100_000];
        words[99_999] = 0x7f00_0000_1fff;
        words[0] = 0x7f10_0000_0000;
        assert_eq!(scan(&words), [true, false, true]);
        words[50_001] = 0x7f00_0000_3000;
        assert_eq!(scan(&words), [true; 3]);
    }
}

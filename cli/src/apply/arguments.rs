//! The arguments of a recorded launch as numbers.

use mneme_recording::manifest::{Allocation, RecordedArgument, is_recorded_address};

/// The 8-byte words of arguments that are not addresses of allocations, as argument index and offset.
pub fn numbers(arguments: &[RecordedArgument], allocations: &[Allocation]) -> Vec<(u32, u32)> {
    let words = (0..).zip(arguments).flat_map(|(index, argument)| {
        let words = (0..).step_by(8).zip(argument.bytes.chunks_exact(8));
        words.map(move |(offset, bytes)| (index, offset, u64::from_le_bytes(bytes.try_into().unwrap_or_default())))
    });
    let is_number = |(_, _, word): &(u32, u32, u64)| !is_recorded_address(allocations, *word);
    words.filter(is_number).map(|(index, offset, _)| (index, offset)).collect()
}

/// The little-endian value of an argument of at most 8 bytes.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

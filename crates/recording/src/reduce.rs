//! Reduces recorded memory to the part that a launch needs.

use std::collections::HashMap;
use std::ops::Range;

use mneme_model::hash::ChunkId;

use super::manifest::{Allocation, CHUNK, MemoryState, pair};

/// Keeps only the chunks of allocations that contain a byte of `needed` (addresses, ascending and disjoint), that the
/// launch has changed, or that are in an allocation which `stays_whole`. Adjacent chunks become one allocation.
/// Variables stay, because their code contains them anyway.
pub fn reduce(
    prologue: &mut MemoryState,
    epilogue: &mut MemoryState,
    needed: &[Range<u64>],
    stays_whole: impl Fn(&Allocation) -> bool,
) {
    let after: HashMap<(u64, u64), &[ChunkId]> =
        allocations(epilogue).map(|(allocation, chunks)| ((allocation.address, allocation.size), chunks)).collect();
    let mut kept = HashMap::new();
    for (allocation, before) in allocations(prologue) {
        let key = (allocation.address, allocation.size);
        let after = after.get(&key).copied().unwrap_or_default();
        let is_kept = |index: usize| {
            let start = allocation.address + index as u64 * CHUNK;
            let end = start + CHUNK.min(allocation.address + allocation.size - start);
            stays_whole(allocation) || before.get(index) != after.get(index) || overlaps(needed, start..end)
        };
        kept.insert(key, runs((0..before.len()).filter(|index| is_kept(*index))));
    }
    for state in [&mut *prologue, &mut *epilogue] {
        keep(state, &kept);
    }
    pair(prologue, epilogue);
}

fn allocations(state: &MemoryState) -> impl Iterator<Item = (&Allocation, &[ChunkId])> {
    let chunks = state.chunks.iter().skip(state.header.variables.len()).map(Vec::as_slice);
    state.header.allocations.iter().zip(chunks)
}

fn overlaps(needed: &[Range<u64>], range: Range<u64>) -> bool {
    let next = needed.partition_point(|it| it.end <= range.start);
    needed.get(next).is_some_and(|it| it.start < range.end)
}

/// Ascending numbers as ranges.
fn runs(numbers: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut runs = Vec::<Range<usize>>::new();
    for number in numbers {
        match runs.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

/// Replaces allocations, named by address and size, by runs of their chunks.
fn keep(state: &mut MemoryState, kept: &HashMap<(u64, u64), Vec<Range<usize>>>) {
    let variables = state.header.variables.len();
    let (mut pieces, mut chunks) = (Vec::new(), state.chunks[..variables].to_vec());
    for (allocation, own) in allocations(state) {
        for run in kept.get(&(allocation.address, allocation.size)).into_iter().flatten() {
            let offset = run.start as u64 * CHUNK;
            let size = (run.end as u64 * CHUNK).min(allocation.size) - offset;
            let parts = allocation.parts.iter().filter_map(|part| part.within(offset, size)).collect();
            pieces.push(Allocation { address: allocation.address + offset, size, parts, ..allocation.clone() });
            chunks.push(own[run.clone()].to_vec());
        }
    }
    (state.header.allocations, state.chunks) = (pieces, chunks);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::manifest::{Header, chunk_count, mismatch};
    use super::*;
    use mneme_model::launch::Moment;

    fn states(sizes: &[u64], changed: &[(usize, usize)]) -> (MemoryState, MemoryState) {
        let mut next = 0x1000_0000u64;
        let mut allocations = Vec::new();
        let mut chunks = Vec::new();
        for (number, size) in sizes.iter().enumerate() {
            allocations.push(Allocation {
                address: next,
                size: *size,
                tag: format!("{number}"),
                ..Allocation::default()
            });
            let id = |index: usize| {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
                id[8..].copy_from_slice(&(index as u64).to_le_bytes());
                ChunkId(id)
            };
            chunks.push((0..chunk_count(*size)).map(id).collect::<Vec<_>>());
            next += size.next_multiple_of(CHUNK) + CHUNK;
        }
        let header = Header { allocations, ..Header::default() };
        let before = MemoryState { header: header.clone(), chunks: chunks.clone() };
        for (allocation, chunk) in changed {
            if let Some(id) = chunks.get_mut(*allocation).and_then(|chunks| chunks.get_mut(*chunk)) {
                *id = ChunkId([0xff; 16]);
            }
        }
        let after = MemoryState { header: Header { moment: Moment::Epilogue, ..header }, chunks };
        (before, after)
    }

    #[test]
    fn what_is_needed_or_changed_stays() {
        let (mut before, mut after) = states(&[10 * CHUNK + 5, 3 * CHUNK, CHUNK], &[(0, 10)]);
        let start = before.header.allocations[0].address;
        let original = before.clone();
        let needed = [start..start, start + CHUNK + 7..start + 2 * CHUNK + 1];
        reduce(&mut before, &mut after, &needed, |it| it.tag == "1");
        let found: Vec<_> = before.header.allocations.iter().map(|it| (it.address - start, it.size)).collect();
        let whole = original.header.allocations[1].address - start;
        assert_eq!(found, [(CHUNK, 2 * CHUNK), (10 * CHUNK, 5), (whole, 3 * CHUNK)]);
        assert_eq!(before.chunks[0], original.chunks[0][1..3]);
        assert_eq!((after.chunks[1].len(), after.chunks[1][0]), (1, ChunkId([0xff; 16])));
        assert_eq!(mismatch(&before, &after), None);
        assert!(before.header.pair.is_some());
    }

    proptest! {
        /// Remaining chunks keep their places; all needed or changed chunks remain, and no others.
        #[test]
        fn nothing_else_stays(
            sizes in prop::collection::vec(1..9 * CHUNK, 1..5),
            changed in prop::collection::vec((0usize..5, 0usize..9), 0..4),
            starts in prop::collection::btree_set(0u64..40, 0..6),
        ) {
            let (mut before, mut after) = states(&sizes, &changed);
            let (whole, whole_after) = (before.clone(), after.clone());
            let needed: Vec<Range<u64>> =
                starts.iter().map(|at| 0x1000_0000 + at * CHUNK / 2..0x1000_0000 + at * CHUNK / 2 + 100).collect();
            reduce(&mut before, &mut after, &needed, |_| false);
            prop_assert_eq!(mismatch(&before, &after), None);
            let chunks = |state: &MemoryState| -> HashMap<u64, ChunkId> {
                allocations(state)
                    .flat_map(|(it, chunks)| {
                        let start = it.address;
                        chunks.iter().enumerate().map(move |(index, id)| (start + index as u64 * CHUNK, *id))
                    })
                    .collect()
            };
            let (all, all_after, left, left_after) =
                (chunks(&whole), chunks(&whole_after), chunks(&before), chunks(&after));
            for (address, id) in &all {
                let is_needed = needed.iter().any(|range| range.start < address + CHUNK && range.end > *address);
                let end = allocations(&whole)
                    .map(|(it, _)| it.address..it.address + it.size)
                    .find(|it| it.contains(address))
                    .unwrap()
                    .end;
                let is_needed = is_needed && needed.iter().any(|range| range.start < end && range.end > *address);
                if *id != all_after[address] {
                    prop_assert_eq!(left.get(address), Some(id));
                    prop_assert_eq!(left_after.get(address), all_after.get(address));
                } else if is_needed {
                    prop_assert_eq!(left.get(address), Some(id));
                } else {
                    prop_assert_eq!(left.get(address), None);
                }
            }
            prop_assert_eq!(left.len(), left_after.len());
        }
    }
}

//! The evidence of a comparison: the bytes that would be wrong if the kernel had not run.
//!
//! Runs start from [`Snapshot::start`]. It differs from the recorded result in the memory that the launch changed, and
//! in the filled bytes that the kernel only writes. [`of`] counts these bytes, and those of them that fail the rules in
//! force if they are not written. The counts depend on the recording and the rules, and not on a configuration's code.

use std::ops::Range;

use mneme_model::result::Evidence;
use mneme_model::tolerance::Norm;
use mneme_model::tolerance::measure::Errors;
use rayon::prelude::*;

use super::comparison::{Comparison, RegionComparison};
use crate::recording::snapshot::{Snapshot, SnapshotRegion};

/// The assumed size of an element of unknown type, bytes.
const UNKNOWN: usize = 8;
/// How many chunks one thread counts.
const FEW: usize = 256;
/// How many rules are listed.
const MOST_TOLD: usize = 32;

/// Byte counts of some chunks of a region.
#[derive(Clone, Copy, Default)]
struct Counts {
    written: u64,
    changed: u64,
    poisoned: u64,
    shown: u64,
}

impl Counts {
    fn and(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            changed: self.changed + other.changed,
            poisoned: self.poisoned + other.poisoned,
            shown: self.shown + other.shown,
        }
    }
}

/// The evidence of comparing each region under these rules. The snapshot must be decoded.
pub fn of(snapshot: &Snapshot, comparisons: &[RegionComparison]) -> Evidence {
    let mut evidence = Evidence::default();
    let mut rules = 0;
    for (region, comparison) in snapshot.layout.regions.iter().zip(comparisons) {
        let mut is_compared = false;
        for (part, bytes) in comparison.cuts(0, region.size) {
            let comparison = comparison.part(part);
            if !comparison.is_exact() {
                rules += 1;
                if rules <= MOST_TOLD {
                    evidence.rules.push(rule(region, &bytes, comparison));
                }
            }
            if comparison.tolerance.ignore {
                evidence.ignored += bytes.len() as u64;
                continue;
            }
            is_compared = true;
            evidence.compared += bytes.len() as u64;
            let found = part_counts(snapshot, region, comparison, &bytes);
            evidence.written += found.written;
            evidence.changed += found.changed;
            evidence.poisoned += found.poisoned;
            evidence.shown += found.shown;
        }
        if is_compared {
            evidence.written += region.unshown;
        }
    }
    if rules > MOST_TOLD {
        evidence.rules.push(format!("and {} more", rules - MOST_TOLD));
    }
    evidence
}

fn rule(region: &SnapshotRegion, bytes: &Range<usize>, comparison: &Comparison) -> String {
    let buffer = region.buffer_at(bytes.start as u64);
    let place = match (buffer.variable, buffer.tag) {
        (Some(name), _) => format!("variable {name}"),
        (None, "") => format!("allocation at 0x{:x}", buffer.address),
        (None, tag) => format!("{tag} at 0x{:x}", buffer.address),
    };
    let (offset, length) = (bytes.start as u64 - buffer.offset, bytes.len() as u64);
    let range = if length < buffer.size { format!("{length} bytes at offset {offset} of ") } else { String::new() };
    let slack = if comparison.slack > 0.0 { format!(" or {:e} absolute", comparison.slack) } else { String::new() };
    format!("{range}{place}: {}{slack}", comparison.tolerance)
}

/// Counts some bytes of a region, all of which have the same comparison.
fn part_counts(snapshot: &Snapshot, region: &SnapshotRegion, comparison: &Comparison, bytes: &Range<usize>) -> Counts {
    let mut chunks: Vec<usize> = region.changed.iter().map(|changed| changed.index).collect();
    chunks.extend(region.poisoned.iter().map(|poisoned| poisoned.index));
    chunks.sort_unstable();
    chunks.dedup();
    let mut cuts: Vec<(usize, Range<usize>)> =
        chunks.into_iter().map(|chunk| (chunk, within(region, chunk, bytes))).collect();
    cuts.retain(|(_, cut)| !cut.is_empty());
    let of = |cut: &(usize, Range<usize>)| chunk_counts(snapshot, region, cut.0, &cut.1, comparison);
    // Starting threads takes longer than counting a few chunks.
    let counts = if cuts.len() < FEW {
        cuts.iter().map(of).fold(Counts::default(), Counts::and)
    } else {
        cuts.par_iter().map(of).reduce(Counts::default, Counts::and)
    };
    match comparison.tolerance.norm {
        Norm::None => counts,
        // A norm judges all bytes together: they all count as shown if they fail when they are not written.
        _ if passes_unwritten(snapshot, region, &cuts, comparison, bytes) => Counts { shown: 0, ..counts },
        _ => Counts { shown: counts.written, ..counts },
    }
}

/// The part of a chunk that these bytes of its region cover.
fn within(region: &SnapshotRegion, chunk: usize, bytes: &Range<usize>) -> Range<usize> {
    let (offset, length) = region.extent(chunk);
    let (offset, length) = (offset as usize, length as usize);
    bytes.start.max(offset).min(offset + length) - offset..bytes.end.max(offset).min(offset + length) - offset
}

/// The size of an element, bytes: of the compared type, or a word if the type is unknown.
pub fn element(comparison: &Comparison) -> usize {
    match comparison.shown {
        None if comparison.is_exact() => UNKNOWN,
        _ => comparison.dtype().size(),
    }
}

fn chunk_counts(
    snapshot: &Snapshot,
    region: &SnapshotRegion,
    chunk: usize,
    cut: &Range<usize>,
    comparison: &Comparison,
) -> Counts {
    let (offset, length) = region.extent(chunk);
    let before = &snapshot.before(region, offset, length)[cut.clone()];
    let start = &snapshot.start(region, chunk)[cut.clone()];
    let after = &snapshot.after(region, chunk)[cut.clone()];
    let size = element(comparison);
    let written = differing(start, after, size);
    let shown = match comparison.tolerance.norm {
        Norm::None if !comparison.is_exact() => {
            let tally = comparison.tally(after, start, offset + cut.start as u64);
            (tally.differing * size as u64).min(written)
        }
        _ => written,
    };
    let poisoned = region.poison_of(chunk).map_or(0, |poisoned| poisoned.mask.count(cut.clone()));
    Counts { written, changed: differing(before, after, size), poisoned, shown }
}

/// The size of all elements that differ, bytes.
fn differing(one: &[u8], other: &[u8], size: usize) -> u64 {
    if one == other {
        return 0;
    }
    let elements = one.chunks(size).zip(other.chunks(size));
    elements.filter(|(one, other)| one != other).map(|(one, _)| one.len() as u64).sum()
}

/// Whether bytes pass that no run has written.
fn passes_unwritten(
    snapshot: &Snapshot,
    region: &SnapshotRegion,
    cuts: &[(usize, Range<usize>)],
    comparison: &Comparison,
    bytes: &Range<usize>,
) -> bool {
    let norm = comparison.tolerance.norm;
    let measured = cuts.iter().map(|(chunk, cut)| {
        let (start, after) = (snapshot.start(region, *chunk), snapshot.after(region, *chunk));
        comparison.measure(&after[cut.clone()], &start[cut.clone()])
    });
    let measured = measured.fold(Errors::default(), |one, other| one.and(other, norm));
    comparison.passes(&measured, || {
        let all = (0..region.chunks.len()).map(|chunk| {
            let after = &snapshot.after(region, chunk)[within(region, chunk, bytes)];
            Errors::of(&comparison.tolerance, after, after)
        });
        all.fold(Errors::default(), |one, other| one.and(other, norm))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_counts_as_a_whole() {
        let (before, mut after) = ([0; 20], [0; 20]);
        (after[1], after[17]) = (1, 1);
        assert_eq!(differing(&before, &after, 8), 8 + 4);
        assert_eq!(differing(&before, &after, 4), 4 + 4);
        assert_eq!(differing(&before, &after, 1), 2);
        assert_eq!(differing(&before, &before, 8), 0);
    }
}

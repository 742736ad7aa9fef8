//! A survey of differences between runs of the same code on the same memory.
//!
//! For example, floating-point atomics add up in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mneme_model::result::{Largest, Variation};
use mneme_model::tolerance::measure::Errors;

use super::report::MismatchLocation;
use super::resident::ResidentMemory;
use crate::recording::snapshot::Buffer;
use crate::verify::comparison::{Comparison, ElementTally, Part, RegionComparison};

/// Contents of pieces that differ from the recording.
type Contents = BTreeMap<usize, Vec<u8>>;

/// Collects runs.
#[derive(Default)]
pub struct Survey {
    first: Option<Contents>,
    /// Observations by region and part. `None` stands for memory outside of all regions.
    parts: BTreeMap<Option<Part>, Observed>,
    /// Runs that differed from the recording by more than the tolerances.
    failed: u64,
}

#[derive(Default)]
struct Observed {
    /// One of its pieces.
    piece: usize,
    runs: u64,
    elements: u64,
    from_recorded: u64,
    largest: Largest,
}

impl Survey {
    /// Adds a run: its contents where they differ from the recording.
    pub fn add(&mut self, memory: &ResidentMemory<'_>, comparisons: &[RegionComparison], contents: Contents) {
        let first = self.first.as_ref().unwrap_or(&contents);
        let numbers: BTreeSet<usize> = first.keys().chain(contents.keys()).copied().collect();
        // For each part, the tallies against the first run and against the recording, and the errors of the latter.
        let mut found: BTreeMap<Option<Part>, (usize, ElementTally, ElementTally, Errors)> = BTreeMap::new();
        for number in numbers {
            let (place, offset) = memory.place(number);
            let recorded = memory.after(number);
            let bytes = |run: &'_ Contents| run.get(&number).map_or_else(|| recorded.to_vec(), Clone::clone);
            let (one, other) = (bytes(first), bytes(&contents));
            for (part, within) in parts_of(place, offset, recorded.len(), comparisons) {
                let comparison = comparison(part, comparisons);
                let offset = offset + within.start as u64;
                let (recorded, one, other) = (&recorded[within.clone()], &one[within.clone()], &other[within.clone()]);
                let shown = Some(comparison.dtype()).filter(|_| !comparison.is_exact()).or(comparison.shown);
                let exact = Comparison::exact(shown);
                let entry = found
                    .entry(part)
                    .or_insert_with(|| (number, ElementTally::default(), ElementTally::default(), Errors::default()));
                entry.1 = std::mem::take(&mut entry.1).and(exact.tally(one, other, offset));
                entry.2 = std::mem::take(&mut entry.2).and(exact.tally(recorded, other, offset));
                let own = if comparison.is_exact() {
                    Errors::found(u64::from(recorded != other), 0.0, 0.0)
                } else {
                    comparison.measure(recorded, other)
                };
                entry.3 = entry.3.and(own, comparison.tolerance.norm);
            }
        }
        let mut passed = true;
        for (part, (piece, between, from_recorded, errors)) in found {
            let whole = || match part {
                Some((region, number)) => memory.reference(region, &comparisons[region], number),
                None => Errors::default(),
            };
            passed &= comparison(part, comparisons).passes(&errors, whole);
            let observed = self.parts.entry(part).or_insert_with(|| Observed { piece, ..Observed::default() });
            observed.runs += u64::from(between.differing > 0);
            observed.elements = observed.elements.max(between.differing);
            observed.from_recorded = observed.from_recorded.max(from_recorded.differing);
            observed.largest = observed.largest.and(between.largest).and(from_recorded.largest);
        }
        self.failed += u64::from(!passed);
        self.first.get_or_insert(contents);
    }

    /// Whether every run passed, and the buffers that varied or differed from the recording.
    pub fn end(self, memory: &ResidentMemory<'_>, comparisons: &[RegionComparison]) -> (bool, Vec<Variation>) {
        let variation = |(part, observed): (Option<Part>, Observed)| {
            let (place, _) = memory.place(observed.piece);
            let comparison = comparison(part, comparisons);
            let numbers = !comparison.is_exact() || comparison.shown.is_some();
            let (region, buffer) = match place {
                MismatchLocation::Region(number, region) => {
                    let start = part.map_or(0, |(_, part)| comparisons[number].range(part, region.size).start);
                    let buffer = region.buffer_at(start);
                    (buffer.variable.unwrap_or("allocation"), buffer)
                }
                MismatchLocation::Outside(address, size) => {
                    ("outside", Buffer { variable: None, tag: "", offset: 0, address, size })
                }
            };
            let largest = Some(observed.largest.finite()).filter(|_| numbers);
            Variation {
                region: region.into(),
                tag: buffer.tag.into(),
                address: format!("0x{:x}", buffer.address),
                size: buffer.size,
                dtype: comparison.dtype().name().into(),
                runs: observed.runs,
                elements: observed.elements,
                from_recorded: observed.from_recorded,
                largest,
            }
        };
        let varying =
            self.parts.into_iter().filter(|(_, observed)| observed.elements > 0 || observed.from_recorded > 0);
        (self.failed == 0, varying.map(variation).collect())
    }
}

/// The parts that a piece at this offset overlaps, and the bytes of each.
fn parts_of(
    place: MismatchLocation<'_>,
    offset: u64,
    length: usize,
    comparisons: &[RegionComparison],
) -> Vec<(Option<Part>, Range<usize>)> {
    match place {
        MismatchLocation::Region(region, _) => {
            let cuts = comparisons[region].cuts(offset, length as u64);
            cuts.map(|(part, bytes)| (Some((region, part)), bytes)).collect()
        }
        MismatchLocation::Outside(..) => vec![(None, 0..length)],
    }
}

fn comparison(part: Option<Part>, comparisons: &[RegionComparison]) -> Comparison {
    part.map_or_else(Comparison::default, |(region, number)| *comparisons[region].part(number))
}

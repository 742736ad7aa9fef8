//! The recorded memory that an address refers to, or lies next to.
//!
//! An address inside memory leads to that memory. So does an address next to it, as produced by code that counts
//! elements from one, counts rows and columns, or counts backwards from the end. Such an address is at most as far away
//! as the memory is large, and seldom inside other memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The distance from which an address still leads to memory, bytes: the memory's size, limited to this range.
const BESIDE: Range<u64> = 64 << 10..16 << 20;
/// The distance before memory from which an address leads to it even from inside other memory, bytes: the element
/// before the first. (The end does not count: other memory starts there, and its first element's address is far more
/// common.)
const BEFORE: u64 = 256;

/// Ranges of addresses, with the memory that they lead to.
#[derive(Clone, Debug, Default)]
pub struct Leads {
    /// Sorted by address, and disjoint.
    ranges: Vec<Range<u64>>,
    /// For each range, the numbers of its targets.
    targets: Vec<Vec<usize>>,
}

impl Leads {
    /// The leads to targets. `all` is all memory, including the targets.
    pub fn to(targets: &[Range<u64>], all: &[Range<u64>]) -> Self {
        let starts: BTreeSet<u64> = all.iter().map(|range| range.start).collect();
        let ends: BTreeSet<u64> = all.iter().map(|range| range.end).collect();
        // The ranges that begin and end at each address.
        let mut changes: BTreeMap<u64, Vec<(usize, bool)>> = BTreeMap::new();
        for (number, target) in targets.iter().enumerate().filter(|(_, target)| !target.is_empty()) {
            let reach = (target.end - target.start).clamp(BESIDE.start, BESIDE.end);
            let before = ends.range(..=target.start).next_back().copied().unwrap_or(0);
            let start = target.start.saturating_sub(reach).max(before).min(target.start.saturating_sub(BEFORE));
            let behind = starts.range(target.end..).next().copied().unwrap_or(u64::MAX);
            let end = target.end.saturating_add(reach).min(behind);
            changes.entry(start).or_default().push((number, true));
            changes.entry(end).or_default().push((number, false));
        }
        let mut leads = Self::default();
        let (mut since, mut inside) = (0, BTreeSet::new());
        for (address, changes) in changes {
            if !inside.is_empty() {
                leads.ranges.push(since..address);
                leads.targets.push(inside.iter().copied().collect());
            }
            for (number, begins) in changes {
                _ = if begins { inside.insert(number) } else { inside.remove(&number) };
            }
            since = address;
        }
        leads
    }

    /// The ranges of addresses that lead to a target, sorted by address and disjoint.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The numbers of the targets of a range.
    pub fn of_range(&self, index: usize) -> &[usize] {
        &self.targets[index]
    }

    /// The numbers of the targets of an address.
    pub fn of(&self, address: u64) -> &[usize] {
        let index = self.ranges.partition_point(|range| range.end <= address);
        let is_inside = self.ranges.get(index).is_some_and(|range| range.start <= address);
        if is_inside { self.of_range(index) } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_inside_and_beside_lead_to_memory() {
        let (large, small) = (0x10_0000..0x12_0000, 0x1_0000_0000..0x1_0000_0008);
        let leads = Leads::to(&[large.clone(), small.clone()], &[large, small]);
        for inside in [0x10_0000, 0x11_ffff, 0xf_fff8, 0x12_0000, 0x10_0000 - 0x2_0000, 0x13_ffff] {
            assert_eq!(leads.of(inside), [0], "{inside:#x}");
        }
        for outside in [0, 0x10_0000 - 0x2_0001, 0x14_0000, u64::MAX] {
            assert_eq!(leads.of(outside), [0usize; 0], "{outside:#x}");
        }
        assert_eq!((leads.of(0x1_0000_0008 + 0xffff), leads.of(0x1_0000_0008 + 0x1_0000)), (&[1][..], &[][..]));
    }

    #[test]
    fn what_is_inside_of_other_memory_leads_there() {
        // The first and the third are targets; the second lies between them, and touches the third.
        let all = [0x10_0000..0x10_1000, 0x10_2000..0x10_3000, 0x10_3000..0x10_4000];
        let leads = Leads::to(&[all[0].clone(), all[2].clone()], &all);
        assert_eq!([leads.of(0x10_1000), leads.of(0x10_1fff)], [&[0], &[0]]);
        assert_eq!([leads.of(0x10_2000), leads.of(0x10_2eff)], [&[0usize; 0]; 2]);
        assert_eq!(
            [leads.of(0x10_2ff8), leads.of(0x10_3000), leads.of(0x10_4000)],
            [&[1]; 3],
            "the element before the first, too"
        );
        // Two adjacent targets.
        let leads = Leads::to(&all[1..], &all);
        assert_eq!([leads.of(0x10_2000), leads.of(0x10_2ff8), leads.of(0x10_3000)], [&[0][..], &[0, 1], &[1]]);
        // Between two targets, an address may belong to either.
        let apart = [0x10_0000..0x10_1000, 0x10_3000..0x10_4000];
        assert_eq!(Leads::to(&apart, &apart).of(0x10_2000), [0, 1]);
        assert!(Leads::to(&[], &all).ranges().is_empty() && Leads::default().of(7).is_empty());
    }
}

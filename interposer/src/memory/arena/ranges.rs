//! A set of address ranges that returns the best fit and merges neighbours: the arena's free list.

use std::collections::{BTreeMap, BTreeSet};

/// Disjoint ranges. Adjacent ranges are merged.
#[derive(Debug, Default)]
pub struct Ranges {
    by_address: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Ranges {
    /// Sum of the sizes, bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds a range that does not overlap the set. Returns the address and size of the merged range.
    pub fn insert(&mut self, address: u64, size: u64) -> (u64, u64) {
        let (mut start, mut end) = (address, address + size);
        if let Some((&before, &length)) = self.by_address.range(..address).next_back()
            && before + length == address
        {
            self.drop_range(before, length);
            start = before;
        }
        if let Some(&length) = self.by_address.get(&end) {
            self.drop_range(end, length);
            end += length;
        }
        if end > start {
            self.put(start, end - start);
        }
        (start, end - start)
    }

    /// Takes `size` bytes from the start of the smallest range that is large enough.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let &(length, address) = self.by_size.range((size, 0)..).next()?;
        self.drop_range(address, length);
        if length > size {
            self.put(address + size, length - size);
        }
        Some(address)
    }

    /// Removes exactly this range. Returns false unless one range of the set contains it.
    pub fn remove(&mut self, address: u64, size: u64) -> bool {
        let Some((&start, &length)) = self.by_address.range(..=address).next_back() else { return false };
        let (end, wanted_end) = (start + length, address + size);
        if wanted_end > end {
            return false;
        }
        self.drop_range(start, length);
        if address > start {
            self.put(start, address - start);
        }
        if end > wanted_end {
            self.put(wanted_end, end - wanted_end);
        }
        true
    }

    /// Whether the whole range is in the set.
    pub fn contains(&self, address: u64, size: u64) -> bool {
        self.by_address.range(..=address).next_back().is_some_and(|(start, length)| address + size <= start + length)
    }

    fn put(&mut self, address: u64, size: u64) {
        self.by_address.insert(address, size);
        self.by_size.insert((size, address));
        self.total += size;
    }

    fn drop_range(&mut self, address: u64, size: u64) {
        self.by_address.remove(&address);
        self.by_size.remove(&(size, address));
        self.total -= size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A bitmap of 256 units is the model.
        #[test]
        fn behaves_like_a_bitmap(
            steps in proptest::collection::vec((any::<bool>(), 1u64..40, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut ranges = Ranges::default();
            ranges.insert(0, 256);
            let mut free = [true; 256];
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (take, size, which) in steps {
                if take || taken.is_empty() {
                    let runs = free.split(|unit| !unit).map(<[bool]>::len).filter(|run| *run as u64 >= size);
                    let best = runs.min();
                    match ranges.take(size) {
                        Some(address) => {
                            prop_assert!(best.is_some());
                            for unit in address..address + size {
                                prop_assert!(std::mem::replace(&mut free[unit as usize], false), "{unit} was given out twice");
                            }
                            taken.push((address, size));
                        }
                        None => prop_assert_eq!(best, None, "a fit was overlooked"),
                    }
                } else {
                    let (address, size) = taken.swap_remove(which.index(taken.len()));
                    free[address as usize..(address + size) as usize].fill(true);
                    let (start, length) = ranges.insert(address, size);
                    prop_assert!(start <= address && address + size <= start + length);
                    prop_assert!(start == 0 || !free[start as usize - 1], "the range in front was not joined");
                    prop_assert!(start + length == 256 || !free[(start + length) as usize], "the range behind was not joined");
                }
                prop_assert_eq!(ranges.total(), free.iter().filter(|unit| **unit).count() as u64);
            }
        }

        #[test]
        fn removing_a_part_leaves_the_rest(at in 0u64..100, size in 1u64..100) {
            let mut ranges = Ranges::default();
            ranges.insert(0, 128);
            let inside = at + size <= 128;
            prop_assert_eq!(ranges.contains(at, size), inside);
            prop_assert_eq!(ranges.remove(at, size), inside);
            prop_assert_eq!(ranges.total(), if inside { 128 - size } else { 128 });
            if inside {
                prop_assert!(!ranges.contains(at, 1));
                prop_assert_eq!(ranges.insert(at, size), (0, 128));
            }
        }
    }
}

//! Every live allocation that a kernel could touch.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_core::recording::manifest::AllocationKind;

use super::annotations::ANNOTATIONS;
use crate::vendor::CUdevice;

/// Which kernels can touch an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those on its device, and on devices that were given access.
    Device,
    /// All: managed memory, and page-locked memory that was mapped for kernels.
    Everywhere,
    /// Those that are given its address: page-locked memory for copies.
    Arguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub address: u64,
    /// Bytes, as the application asked for.
    pub size: u64,
    pub kind: AllocationKind,
    pub reach: Reach,
    pub device: CUdevice,
    /// Context in which it was allocated (`CUcontext`).
    pub context: usize,
}

#[derive(Default)]
pub struct Allocations(Mutex<BTreeMap<u64, Live>>);

/// Those of this process.
pub static ALLOCATIONS: Allocations = Allocations::new();

impl Allocations {
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn insert(&self, live: Live) {
        self.lock().insert(live.address, live);
    }

    /// Removes the allocation that starts at an address.
    pub fn remove(&self, address: u64) -> Option<Live> {
        let removed = self.lock().remove(&address);
        if let Some(live) = removed {
            ANNOTATIONS.forget(live.address, live.size);
        }
        removed
    }

    /// Removes and returns those that match.
    pub fn remove_where(&self, mut matches: impl FnMut(&Live) -> bool) -> Vec<Live> {
        let mut removed = Vec::new();
        self.lock().retain(|_, live| {
            let matching = matches(live);
            if matching {
                removed.push(*live);
            }
            !matching
        });
        removed.iter().for_each(|live| ANNOTATIONS.forget(live.address, live.size));
        removed
    }

    /// The allocation that an address lies in.
    pub fn containing(&self, address: u64) -> Option<Live> {
        self.lock().range(..=address).next_back().map(|(_, live)| *live).filter(|live| address - live.address < live.size)
    }

    /// By address.
    pub fn all(&self) -> Vec<Live> {
        self.lock().values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(address: u64, size: u64, context: usize) -> Live {
        Live { address, size, kind: AllocationKind::Arena, reach: Reach::Device, device: 0, context }
    }

    #[test]
    fn addresses_inside_are_found_and_behind_are_not() {
        let table = Allocations::new();
        table.insert(live(0x1000, 100, 1));
        table.insert(live(0x2000, 1, 2));
        assert_eq!(table.containing(0x1000 + 99), Some(live(0x1000, 100, 1)));
        assert_eq!(table.containing(0x1000 + 100), None);
        assert_eq!(table.containing(0xfff), None);
        assert_eq!(table.remove_where(|live| live.context == 1), [live(0x1000, 100, 1)]);
        assert_eq!(table.all(), [live(0x2000, 1, 2)]);
        assert_eq!(table.remove(0x2001), None);
    }
}

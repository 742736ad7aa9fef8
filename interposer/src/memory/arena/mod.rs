//! The arena: a reserved range of device addresses that serves `cuMemAlloc`.
//!
//! Because the range is fixed, a replay can reserve the same addresses in another process. Physical memory is mapped in
//! slabs, because each mapping call is expensive. Slabs are divided with 512-byte alignment, because applications
//! expect small allocations to be cheap.
//!
//! Invariants: every byte of the range is in exactly one of `holes` (no memory behind it), `free` (memory, unused), or
//! a live block; `slabs` covers exactly `free` and the blocks. The lock is not held while memory is mapped.

pub mod ranges;
pub mod vmm;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ranges::Ranges;

/// Alignment of every allocation, bytes: that of `cudaMalloc` in practice, and the pitch of pitched allocations.
pub const ALIGNMENT: u64 = 512;
/// The smallest slab, bytes. Mapping in pieces of 2 MiB is 20 times slower per byte.
pub const SLAB: u64 = 32 << 20;

/// Unused memory to keep, bytes. Allocating it again costs a hundredth of mapping it.
const KEPT: u64 = 4 * SLAB;

/// Maps physical memory at addresses.
pub trait Mapper {
    /// Maps readable and writable memory and returns its handle. `None` if the device is out of memory.
    fn map(&self, address: u64, size: u64) -> Option<u64>;
    /// Unmaps memory. `handle` is the result of `map`.
    fn unmap(&self, address: u64, size: u64, handle: u64);
}

pub struct Arena {
    base: u64,
    size: u64,
    /// Page size of the mapping, bytes, a power of two.
    granularity: u64,
    /// Alignment of every allocation, bytes, a power of two that divides `granularity`.
    alignment: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holes: Ranges,
    free: Ranges,
    slabs: BTreeMap<u64, Slab>,
}

struct Slab {
    size: u64,
    handle: u64,
}

impl Arena {
    /// An arena on a reserved range that starts at a multiple of `granularity`.
    pub fn new(base: u64, size: u64, granularity: u64) -> Self {
        let mut state = State::default();
        state.holes.insert(base, size / granularity * granularity);
        Self { base, size, granularity, alignment: ALIGNMENT, state: Mutex::new(state) }
    }

    /// Gives every allocation separate pages.
    pub fn with_whole_pages(mut self) -> Self {
        self.alignment = self.granularity;
        self
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.size).contains(&address)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mapped bytes that no allocation uses.
    pub fn cached(&self) -> u64 {
        self.lock().free.total()
    }

    /// Address and size of every slab.
    pub fn slabs(&self) -> Vec<(u64, u64)> {
        self.lock().slabs.iter().map(|(address, slab)| (*address, slab.size)).collect()
    }

    /// Address, size and handle of the slabs that hold an allocation, by address.
    pub fn slabs_of(&self, address: u64, bytes: u64) -> Vec<(u64, u64, u64)> {
        let state = self.lock();
        let first = state.slabs.range(..=address).next_back().map_or(address, |(start, _)| *start);
        state
            .slabs
            .range(first..address.saturating_add(bytes))
            .map(|(start, slab)| (*start, slab.size, slab.handle))
            .collect()
    }

    /// Allocates. Returns `None` if the device is out of memory even without the unused slabs, or the range is full.
    pub fn allocate(&self, mapper: &dyn Mapper, bytes: u64) -> Option<u64> {
        let size = self.span(bytes).filter(|size| *size <= self.size)?;
        let exact = size.next_multiple_of(self.granularity);
        let preferred = exact.max(SLAB.next_multiple_of(self.granularity));
        self.try_allocate(mapper, size, preferred).or_else(|| {
            self.trim(mapper);
            self.try_allocate(mapper, size, preferred).or_else(|| self.try_allocate(mapper, size, exact))
        })
    }

    /// How much of the range an allocation takes. At least one byte after it stays free: programs pass the end of an
    /// allocation to kernels, and it must not be the address of the next allocation, so a replay can attribute each
    /// address to one allocation.
    fn span(&self, bytes: u64) -> Option<u64> {
        bytes.checked_add(1)?.checked_next_multiple_of(self.alignment)
    }

    fn try_allocate(&self, mapper: &dyn Mapper, size: u64, slab: u64) -> Option<u64> {
        let address = {
            let mut state = self.lock();
            if let Some(address) = state.free.take(size) {
                return Some(address);
            }
            state.holes.take(slab)?
        };
        let handle = mapper.map(address, slab);
        let mut state = self.lock();
        match handle {
            Some(handle) => {
                state.slabs.insert(address, Slab { size: slab, handle });
                if slab > size {
                    state.free.insert(address + size, slab - size);
                }
                Some(address)
            }
            None => {
                state.holes.insert(address, slab);
                None
            }
        }
    }

    /// Frees memory that `allocate(bytes)` returned. Unused slabs go back to the device, except for `KEPT` bytes,
    /// which the next allocations are likely to need.
    pub fn free(&self, mapper: &dyn Mapper, address: u64, bytes: u64) {
        let idle = {
            let mut state = self.lock();
            let Some(span) = self.span(bytes) else { return };
            let (start, length) = state.free.insert(address, span);
            let first = state.slabs.range(..=start).next_back().map_or(start, |(address, _)| *address);
            let candidates: Vec<(u64, u64)> = state
                .slabs
                .range(first..start + length)
                .map(|(address, slab)| (*address, slab.size))
                .filter(|(address, size)| *address >= start && address + size <= start + length)
                .collect();
            let mut idle = Vec::new();
            for (address, _) in candidates {
                if state.free.total() > KEPT {
                    idle.extend(state.detach(address));
                }
            }
            idle
        };
        self.release(mapper, idle);
    }

    /// Returns every unused slab to the device.
    pub fn trim(&self, mapper: &dyn Mapper) {
        let idle = {
            let mut state = self.lock();
            let slabs: Vec<(u64, u64)> = state.slabs.iter().map(|(address, slab)| (*address, slab.size)).collect();
            slabs
                .into_iter()
                .filter_map(
                    |(address, size)| if state.free.contains(address, size) { state.detach(address) } else { None },
                )
                .collect()
        };
        self.release(mapper, idle);
    }

    fn release(&self, mapper: &dyn Mapper, slabs: Vec<(u64, Slab)>) {
        for (address, slab) in slabs {
            mapper.unmap(address, slab.size, slab.handle);
            self.lock().holes.insert(address, slab.size);
        }
    }
}

impl State {
    /// Takes an unused slab out of `free` and `slabs`. The caller must put its addresses into `holes` afterwards.
    fn detach(&mut self, address: u64) -> Option<(u64, Slab)> {
        let size = self.slabs.get(&address)?.size;
        if !self.free.remove(address, size) {
            return None;
        }
        self.slabs.remove(&address).map(|slab| (address, slab))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    const BASE: u64 = 0x1000_0000_0000;
    const PAGE: u64 = 2 << 20;

    /// A device with a memory limit, which checks that it is used as the driver requires.
    struct Device {
        limit: u64,
        mapped: RefCell<BTreeMap<u64, u64>>,
    }

    impl Device {
        fn new(limit: u64) -> Self {
            Self { limit, mapped: RefCell::default() }
        }
        fn used(&self) -> u64 {
            self.mapped.borrow().values().sum()
        }
        fn backs(&self, address: u64, size: u64) -> bool {
            let mapped = self.mapped.borrow();
            let mut at = address;
            while at < address + size {
                match mapped.range(..=at).next_back() {
                    Some((start, length)) if at < start + length => at = start + length,
                    _ => return false,
                }
            }
            true
        }
    }

    impl Mapper for Device {
        fn map(&self, address: u64, size: u64) -> Option<u64> {
            assert!(address.is_multiple_of(PAGE) && size.is_multiple_of(PAGE));
            if self.used() + size > self.limit {
                return None;
            }
            assert!(
                self.mapped
                    .borrow()
                    .iter()
                    .all(|(start, length)| address + size <= *start || start + length <= address),
                "mapped twice"
            );
            self.mapped.borrow_mut().insert(address, size);
            Some(address ^ 7)
        }
        fn unmap(&self, address: u64, size: u64, handle: u64) {
            assert_eq!(handle, address ^ 7);
            assert_eq!(self.mapped.borrow_mut().remove(&address), Some(size));
        }
    }

    proptest! {
        #[test]
        fn blocks_are_backed_disjoint_and_aligned(
            steps in proptest::collection::vec((0u8..4, 1u64..(80 << 20), any::<prop::sample::Index>()), 1..120),
        ) {
            let device = Device::new(400 << 20);
            let arena = Arena::new(BASE, 4 << 30, PAGE);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (kind, size, which) in steps {
                let size = if kind == 0 { (size >> 14).max(1) } else { size }; // many small ones
                if kind < 2 || live.is_empty() {
                    match arena.allocate(&device, size) {
                        Some(address) => {
                            prop_assert!(address.is_multiple_of(ALIGNMENT) && arena.contains(address));
                            prop_assert!(device.backs(address, size));
                            let is_apart =
                                |&(start, length): &(u64, u64)| address + size <= start || start + length <= address;
                            prop_assert!(live.iter().all(is_apart), "blocks overlap");
                            live.push((address, size));
                        }
                        None => {
                            let used: u64 = live.iter().map(|(_, size)| size.next_multiple_of(PAGE) + PAGE).sum();
                            prop_assert!(used + size + SLAB * 4 > device.limit / 4, "refused with the device nearly empty");
                        }
                    }
                } else {
                    let (address, size) = live.swap_remove(which.index(live.len()));
                    arena.free(&device, address, size);
                    prop_assert!(live.iter().all(|(start, length)| device.backs(*start, *length)), "a live block lost its memory");
                }
                let blocks: u64 = live.iter().map(|(_, size)| (size + 1).next_multiple_of(ALIGNMENT)).sum();
                prop_assert_eq!(device.used(), blocks + arena.cached(), "memory is accounted for");
            }
            for (address, size) in live {
                arena.free(&device, address, size);
            }
            prop_assert!(device.used() <= KEPT, "{} bytes are kept", device.used());
            arena.trim(&device);
            prop_assert_eq!(device.used(), 0);
        }
    }

    #[test]
    fn whole_pages_are_shared_by_nobody() {
        let device = Device::new(4 * SLAB);
        let arena = Arena::new(BASE, 4 << 30, PAGE).with_whole_pages();
        let blocks: Vec<u64> =
            [1, 1000, PAGE - 1, PAGE].iter().map(|size| arena.allocate(&device, *size).unwrap()).collect();
        assert!(blocks.iter().all(|address| address.is_multiple_of(PAGE)), "{blocks:x?}");
        assert_eq!(blocks.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>(), [PAGE; 3]);
        for (address, size) in blocks.into_iter().zip([1, 1000, PAGE - 1, PAGE]) {
            arena.free(&device, address, size);
        }
        arena.trim(&device);
        assert_eq!(device.used(), 0);
    }

    #[test]
    fn a_nearly_full_device_is_used_to_its_last_page() {
        let device = Device::new(SLAB + PAGE);
        let arena = Arena::new(BASE, 4 << 30, PAGE);
        let first = arena.allocate(&device, SLAB - ALIGNMENT).unwrap();
        assert!(arena.allocate(&device, PAGE - 1).is_some(), "no whole slab is left, a page is");
        assert!(arena.allocate(&device, 1).is_none());
        arena.free(&device, first, SLAB - ALIGNMENT);
        assert!(arena.allocate(&device, SLAB / 2 + 1).is_some());
    }

    #[test]
    fn cached_slabs_are_given_back_when_a_large_block_needs_them() {
        let device = Device::new(3 * SLAB);
        let arena = Arena::new(BASE, 4 << 30, PAGE);
        let small = arena.allocate(&device, 1000).unwrap();
        arena.free(&device, small, 1000);
        assert_eq!(device.used(), SLAB);
        assert!(arena.allocate(&device, 3 * SLAB - 1).is_some());
    }

    #[test]
    fn an_allocation_lies_in_the_slabs_that_it_touches() {
        let device = Device::new(8 * SLAB);
        let arena = Arena::new(BASE, 4 << 30, PAGE);
        let small = arena.allocate(&device, 1).unwrap();
        let next = arena.allocate(&device, SLAB - 1).unwrap();
        assert_eq!(arena.slabs_of(small, 1), [(BASE, SLAB, BASE ^ 7)]);
        assert_eq!(arena.slabs_of(next, SLAB - 1), [(BASE + SLAB, SLAB, (BASE + SLAB) ^ 7)]);
        arena.free(&device, small, 1);
        arena.free(&device, next, SLAB - 1);
        let wide = arena.allocate(&device, 2 * SLAB - 1).unwrap();
        assert_eq!(
            arena.slabs_of(wide, 2 * SLAB - 1).iter().map(|slab| slab.0).collect::<Vec<_>>(),
            [BASE, BASE + SLAB]
        );
    }

    #[test]
    fn the_end_of_an_allocation_is_nobodys_start() {
        let device = Device::new(4 * SLAB);
        let arena = Arena::new(BASE, 4 << 30, PAGE);
        let sizes = [ALIGNMENT, 1, 8 * ALIGNMENT, PAGE, SLAB];
        let blocks = sizes.map(|size| arena.allocate(&device, size).unwrap());
        let ends = blocks.iter().zip(sizes).map(|(start, size)| start + size);
        assert!(ends.into_iter().all(|end| !blocks.contains(&end)), "{blocks:x?}");
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let device = Device::new(SLAB);
        let arena = Arena::new(BASE, 4 << 30, PAGE);
        assert_eq!(arena.allocate(&device, u64::MAX), None);
        assert_eq!(arena.allocate(&device, 5 << 30), None);
        assert_eq!(device.used(), 0);
    }
}

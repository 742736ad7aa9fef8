//! Every live allocation that a kernel could touch, and which kernels can touch it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_recording::manifest::AllocationKind;

use super::annotations::ANNOTATIONS;
use crate::driver::{CUdevice, Status};

/// A device number that represents the host. Machines have fewer devices.
pub const HOST: CUdevice = 63;

/// A set of devices, which may include the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices(u64);

impl Devices {
    pub fn of(device: CUdevice) -> Self {
        let mut devices = Self::default();
        devices.set(device, true);
        devices
    }

    pub fn contains(self, device: CUdevice) -> bool {
        (0..64).contains(&device) && self.0 >> device & 1 != 0
    }

    pub fn set(&mut self, device: CUdevice, has_access: bool) {
        if (0..64).contains(&device) {
            self.0 = self.0 & !(1 << device) | u64::from(has_access) << device;
        }
    }
}

/// Which kernels can touch an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelAccess {
    /// Those on its device, and those of contexts with peer access to its context: memory of `cuMemAlloc`.
    Peers,
    /// As for [`KernelAccess::Peers`], and threads of the application use it in place: fine-grained memory of HIP.
    PeersAndThreads,
    /// Those on these devices: memory mapped by `cuMemMap`.
    Mapped(Devices),
    /// None by ordinary loads: mappings of multicast objects, and of memory whose properties the driver does not
    /// report.
    Multicast,
    /// Those on these devices: memory of a pool (`CUmemoryPool`, 0 if unknown).
    Pooled { pool: usize, devices: Devices },
    /// All: managed memory, and page-locked memory that was mapped for kernels.
    Everywhere,
    /// All, but only kernels that find its address in their arguments or in memory use it: page-locked memory for
    /// copies.
    Arguments,
    /// As for [`KernelAccess::Arguments`]: variables of loaded code. Only their own context has them at this address.
    Variable,
    /// As for [`KernelAccess::Arguments`]: memory that the kernel can also write at another address.
    Aliased,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveAllocation {
    pub address: u64,
    /// Bytes, as the application asked for.
    pub size: u64,
    pub kind: AllocationKind,
    pub access: KernelAccess,
    /// The device that holds it, or on which it was allocated.
    pub device: CUdevice,
    /// The context (`CUcontext`) in which it was allocated and with which it dies, or 0.
    pub context: usize,
    /// Other processes, or devices that a launch does not wait for, may write to it at any time.
    pub shared: bool,
}

impl LiveAllocation {
    /// Whether threads of the application can write to it without a call.
    pub fn is_host_visible(&self) -> bool {
        match self.access {
            KernelAccess::Everywhere | KernelAccess::Arguments | KernelAccess::PeersAndThreads => true,
            KernelAccess::Mapped(devices) => self.device == HOST || devices.contains(HOST),
            KernelAccess::Peers
            | KernelAccess::Pooled { .. }
            | KernelAccess::Multicast
            | KernelAccess::Variable
            | KernelAccess::Aliased => false,
        }
    }
}

#[derive(Default)]
pub struct Allocations(Mutex<BTreeMap<u64, LiveAllocation>>);

/// The allocations of this process.
pub static ALLOCATIONS: Allocations = Allocations::new();

impl Allocations {
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, LiveAllocation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn insert(&self, live: LiveAllocation) {
        self.lock().insert(live.address, live);
    }

    /// Changes the allocations that overlap a range. `change` must not change their addresses.
    pub fn change_in(&self, addresses: Range<u64>, mut change: impl FnMut(&mut LiveAllocation)) {
        let mut all = self.lock();
        let first = all.range(..=addresses.start).next_back().map_or(addresses.start, |(start, _)| *start);
        let touched = all.range_mut(first..addresses.end.max(first));
        touched
            .map(|(_, live)| live)
            .filter(|live| live.address.saturating_add(live.size) > addresses.start)
            .for_each(&mut change);
    }

    /// Changes all allocations, which takes time in proportion to their number. `change` must not change their
    /// addresses.
    pub fn change(&self, change: impl FnMut(&mut LiveAllocation)) {
        self.lock().values_mut().for_each(change);
    }

    /// Marks the allocation that contains an address as shared.
    pub fn share(&self, address: u64) {
        if let Some((_, live)) =
            self.lock().range_mut(..=address).next_back().filter(|(start, live)| address - **start < live.size)
        {
            live.shared = true;
        }
    }

    /// Removes the allocation that starts at an address.
    pub fn remove(&self, address: u64) -> Option<LiveAllocation> {
        let removed = self.lock().remove(&address);
        if let Some(live) = removed {
            ANNOTATIONS.forget(live.address, live.size);
        }
        removed
    }

    /// Removes the allocations that start in this range, then runs the call that frees them. The order matters: as soon
    /// as the vendor has freed an address, another thread may get and insert it. If the call fails, the allocations are
    /// put back.
    pub fn without(&self, addresses: Range<u64>, call: &dyn Fn() -> Status) -> Status {
        let freed: Vec<LiveAllocation> = {
            let mut live = self.lock();
            let freed: Vec<LiveAllocation> = live.range(addresses).map(|(_, live)| *live).collect();
            freed.iter().for_each(|freed| _ = live.remove(&freed.address));
            freed
        };
        let annotations: Vec<_> = freed.iter().map(|live| ANNOTATIONS.take(live.address, live.size)).collect();
        let status = call();
        if status != Status::SUCCESS {
            self.lock().extend(freed.into_iter().map(|live| (live.address, live)));
            annotations.into_iter().for_each(|taken| ANNOTATIONS.put_back(taken));
        }
        status
    }

    /// Removes and returns matching allocations.
    pub fn remove_where(&self, mut matches: impl FnMut(&LiveAllocation) -> bool) -> Vec<LiveAllocation> {
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

    /// The allocation that contains an address.
    pub fn containing(&self, address: u64) -> Option<LiveAllocation> {
        self.lock()
            .range(..=address)
            .next_back()
            .map(|(_, live)| *live)
            .filter(|live| address - live.address < live.size)
    }

    /// All allocations, by address.
    pub fn all(&self) -> Vec<LiveAllocation> {
        self.lock().values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(address: u64, size: u64, context: usize) -> LiveAllocation {
        LiveAllocation {
            address,
            size,
            kind: AllocationKind::Arena,
            access: KernelAccess::Peers,
            device: 0,
            context,
            shared: false,
        }
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

    #[test]
    fn a_range_changes_what_it_touches() {
        let table = Allocations::new();
        for address in [0x1000, 0x2000, 0x3000] {
            table.insert(live(address, 0x800, 1));
        }
        let touched = |addresses: Range<u64>| {
            let mut found = Vec::new();
            table.change_in(addresses, |live| found.push(live.address));
            found
        };
        assert_eq!(touched(0x1000..0x3800), [0x1000, 0x2000, 0x3000]);
        assert_eq!(touched(0x17ff..0x2001), [0x1000, 0x2000]);
        assert_eq!(touched(0x1800..0x2000), [0u64; 0]);
        assert_eq!(touched(0..u64::MAX), [0x1000, 0x2000, 0x3000]);
        assert_eq!(touched(std::ops::Range { start: 0x2100, end: 0x2000 }), [0u64; 0]);
    }

    /// As soon as the vendor has freed an address, another thread may get it.
    #[test]
    fn what_is_freed_is_gone_before_its_address_is_anothers() {
        let table = Allocations::new();
        table.insert(live(0x1000, 100, 1));
        table.insert(live(0x2000, 100, 1));
        let freed = table.without(0x1000..0x1001, &|| {
            std::thread::scope(|scope| _ = scope.spawn(|| table.insert(live(0x1000, 5, 2))).join());
            Status::SUCCESS
        });
        assert_eq!(
            (freed, table.all()),
            (Status::SUCCESS, vec![live(0x1000, 5, 2), live(0x2000, 100, 1)]),
            "the other thread's stays"
        );
        assert_eq!(table.without(0x1000..0x3000, &|| Status(1)), Status(1));
        assert_eq!(table.all(), [live(0x1000, 5, 2), live(0x2000, 100, 1)], "the vendor has freed nothing");
    }
}

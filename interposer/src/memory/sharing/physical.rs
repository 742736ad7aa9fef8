//! Physical memory (`CUmemGenericAllocationHandle`): its handles, its mappings, and who shares it.
//!
//! Memory is shared if it is exported, imported, or bound to a multicast object. Its mappings are then marked, whether
//! they came before or after.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::structures::AllocationProperties;
use mneme_abi::cuda::sys::{CUmemAllocationHandleType, CUmemGenericAllocationHandle as Handle};
use mneme_abi::hip::properties::MemoryPropertiesR0500;

use super::descriptors::Descriptors;
use super::imports;
use crate::driver::{self, CUdevice, CUdeviceptr, CUmemLocation, Status, gate};
use crate::memory::allocations::{ALLOCATIONS, HOST};
use crate::memory::arena::vmm;
use crate::process::recorded_family;

const DESCRIPTOR: c_uint = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;

#[derive(Default)]
struct Physical {
    /// The memory of each handle.
    named: BTreeMap<Handle, Named>,
    /// How many handles each memory has.
    handles: BTreeMap<u64, usize>,
    descriptors: Descriptors,
    /// The last number given to memory.
    last: u64,
    shared: BTreeSet<u64>,
    multicast: BTreeSet<u64>,
    /// The mapping at each address.
    mapped: BTreeMap<u64, Mapping>,
    /// Pairs of memory and an address where it is mapped.
    places: BTreeSet<(u64, u64)>,
}

/// The memory that a handle names. The number is the recorder's, because several handles can name the same memory.
#[derive(Clone, Copy)]
struct Named {
    memory: u64,
    /// How often the handle was returned minus how often it was released.
    count: usize,
}

#[derive(Clone)]
struct Mapping {
    memory: u64,
    /// The mapped byte range of the memory.
    part: Range<u64>,
}

static PHYSICAL: Mutex<Physical> = Mutex::new(Physical {
    named: BTreeMap::new(),
    handles: BTreeMap::new(),
    descriptors: Descriptors::new(),
    last: 0,
    shared: BTreeSet::new(),
    multicast: BTreeSet::new(),
    mapped: BTreeMap::new(),
    places: BTreeSet::new(),
});

fn physical() -> MutexGuard<'static, Physical> {
    PHYSICAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Physical {
    /// The memory that a handle names, or a new number for an unknown handle.
    fn of(&mut self, handle: Handle) -> u64 {
        match self.named.get(&handle) {
            Some(named) => named.memory,
            None => self.name_new(handle),
        }
    }

    /// Notes a handle to new memory.
    fn name_new(&mut self, handle: Handle) -> u64 {
        self.last += 1;
        self.name(handle, self.last);
        self.last
    }

    /// Notes a handle that the vendor has returned. Counts it again if it already names this memory.
    fn name(&mut self, handle: Handle, memory: u64) {
        if let Some(known) = self.named.get_mut(&handle).filter(|known| known.memory == memory) {
            known.count += 1;
            return;
        }
        *self.handles.entry(memory).or_default() += 1;
        let known = self.named.insert(handle, Named { memory, count: 1 });
        if let Some(known) = known {
            self.drop_handle(known.memory);
        }
    }

    /// Notes that a handle is released.
    fn release(&mut self, handle: Handle) {
        let Some(named) = self.named.get_mut(&handle) else { return };
        named.count -= 1;
        if let Named { memory, count: 0 } = *named {
            self.named.remove(&handle);
            self.drop_handle(memory);
        }
    }

    fn drop_handle(&mut self, memory: u64) {
        if let Some(handles) = self.handles.get_mut(&memory) {
            *handles -= 1;
            if *handles == 0 {
                self.handles.remove(&memory);
                self.forget_if_gone(memory);
            }
        }
    }

    /// Forgets memory that has neither a handle nor a mapping. If a descriptor brings it back later, it counts as
    /// shared.
    fn forget_if_gone(&mut self, memory: u64) {
        let is_mapped = self.places.range((memory, 0)..=(memory, u64::MAX)).next().is_some();
        if !is_mapped && !self.handles.contains_key(&memory) {
            self.shared.remove(&memory);
            self.multicast.remove(&memory);
        }
    }

    /// The mapping that contains an address, and its start.
    fn mapping(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (start, mapping) = self.mapped.range(..=address).next_back()?;
        (address - start < mapping.part.end - mapping.part.start).then_some((*start, mapping))
    }

    fn map(&mut self, address: u64, mapping: Mapping) {
        self.unmap(address);
        self.places.insert((mapping.memory, address));
        self.mapped.insert(address, mapping);
    }

    fn unmap(&mut self, address: u64) {
        if let Some(mapping) = self.mapped.remove(&address) {
            self.places.remove(&(mapping.memory, address));
            self.forget_if_gone(mapping.memory);
        }
    }

    /// Marks memory as shared. Returns the addresses where it is mapped.
    fn share(&mut self, memory: u64) -> Vec<u64> {
        self.shared.insert(memory);
        self.places.range((memory, 0)..=(memory, u64::MAX)).map(|(_, address)| *address).collect()
    }
}

/// The device that owns the memory of a handle: `None` if the vendor does not report it, [`HOST`] if no device does.
pub fn device_of(handle: Handle) -> Option<CUdevice> {
    let mut later = AllocationProperties::pinned(HOST);
    // SAFETY: a valid place; the driver refuses an invalid handle.
    let status = unsafe { driver::cuMemGetAllocationPropertiesFromHandle(&mut later, handle) };
    if status != Status::SUCCESS {
        return None;
    }
    // SAFETY: integers and a pointer, for which all bytes are valid; both layouts have the same size.
    let early = unsafe { (&raw const later).cast::<MemoryPropertiesR0500>().read() };
    let is_early = recorded_family::is_hip() && early.are_in_this_layout();
    let [kind, id] = early.location;
    let location = if is_early { CUmemLocation { kind: kind as u32, id } } else { later.location };
    Some(location.device_number().unwrap_or(HOST))
}

const _: () = assert!(size_of::<AllocationProperties>() == size_of::<MemoryPropertiesR0500>());

/// Whether a handle is a multicast object, which ordinary loads cannot read.
pub fn is_multicast(handle: Handle) -> bool {
    let mut physical = physical();
    let memory = physical.of(handle);
    physical.multicast.contains(&memory)
}

/// Notes a mapping of `bytes` from an offset on. Returns whether its memory is shared.
pub fn map(address: u64, bytes: u64, offset: u64, handle: Handle) -> bool {
    let mut physical = physical();
    let memory = physical.of(handle);
    physical.map(address, Mapping { memory, part: offset..offset.saturating_add(bytes) });
    physical.shared.contains(&memory)
}

/// Forgets mappings.
pub fn unmap(addresses: Range<u64>) {
    let mut physical = physical();
    let gone: Vec<u64> = physical.mapped.range(addresses).map(|(address, _)| *address).collect();
    gone.into_iter().for_each(|address| physical.unmap(address));
}

/// Those of these mappings, by address, that overlap another of them in the same memory.
pub fn aliases(of: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
    let physical = physical();
    let mut mapped: Vec<(&Mapping, u64)> =
        of.into_iter().filter_map(|address| Some((physical.mapped.get(&address)?, address))).collect();
    mapped.sort_unstable_by_key(|(mapping, _)| (mapping.memory, mapping.part.start));
    let mut aliases = BTreeSet::new();
    // The mapping of the current memory that reaches furthest so far.
    let mut furthest: Option<(&Mapping, u64)> = None;
    for (mapping, address) in mapped {
        match furthest {
            Some((other, at)) if other.memory == mapping.memory && mapping.part.start < other.part.end => {
                aliases.extend([at, address]);
                if mapping.part.end > other.part.end {
                    furthest = Some((mapping, address));
                }
            }
            _ => furthest = Some((mapping, address)),
        }
    }
    aliases
}

/// Marks the memory of a handle, and all mappings of it, as shared.
fn share(handle: Handle) {
    let mapped = {
        let mut physical = physical();
        let memory = physical.of(handle);
        physical.share(memory)
    };
    mapped.into_iter().for_each(|address| ALLOCATIONS.share(address));
}

/// Runs `note` on a handle that the vendor has written, under the gate.
///
/// # Safety
/// After a success `handle` must be readable.
unsafe fn with_new(call: &dyn Fn() -> Status, handle: *const Handle, note: impl Fn(Handle)) -> Status {
    // SAFETY: the caller's promise.
    gate::passing(&|| call().on_success(|| note(unsafe { *handle })))
}

/// Notes new memory, which is not shared. Its handle may have named released memory before.
///
/// # Safety
/// The argument is that of `cuMemCreate`.
pub unsafe fn create(call: &dyn Fn() -> Status, handle: *mut Handle) -> Status {
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, |new| _ = physical().name_new(new)) }
}

/// # Safety
/// The arguments are those of `cuMemImportFromShareableHandle`.
pub unsafe fn import(call: &dyn Fn() -> Status, handle: *mut Handle, shareable: *mut c_void, kind: c_uint) -> Status {
    let note = |new| {
        {
            let mut physical = physical();
            // The API passes a descriptor in place of the pointer.
            let descriptor = if kind == DESCRIPTOR { shareable as usize as c_int } else { -1 };
            match physical.descriptors.memory(descriptor) {
                Some(memory) => physical.name(new, memory),
                None => {
                    let memory = physical.name_new(new);
                    physical.descriptors.note(descriptor, memory);
                }
            }
        }
        share(new);
    };
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, note) }
}

/// # Safety
/// The arguments are those of `cuMemExportToShareableHandle`.
pub unsafe fn export(call: &dyn Fn() -> Status, shareable: *mut c_void, handle: Handle, kind: c_uint) -> Status {
    let exported = || {
        share(handle);
        if kind == DESCRIPTOR && !shareable.is_null() {
            // SAFETY: the driver has just written a descriptor there.
            let descriptor = unsafe { shareable.cast::<c_int>().read_unaligned() };
            let mut physical = physical();
            let memory = physical.of(handle);
            physical.descriptors.note(descriptor, memory);
        }
    };
    gate::passing(&|| call().on_success(exported))
}

/// Returns a further handle to mapped memory. Fails for arena memory, as the vendor does for memory of `cuMemAlloc`.
///
/// # Safety
/// The arguments are those of `cuMemRetainAllocationHandle`.
pub unsafe fn retain(call: &dyn Fn() -> Status, handle: *mut Handle, address: *mut c_void) -> Status {
    let address = address as u64;
    if vmm::of_address(address).is_some() || imports::contains(address) {
        return Status::INVALID_VALUE;
    }
    let note = |new| {
        let mut physical = physical();
        match physical.mapping(address).map(|(_, mapping)| mapping.memory) {
            Some(memory) => physical.name(new, memory),
            // It was mapped in a way that is not hooked.
            None => _ = physical.name_new(new),
        }
    };
    // SAFETY: the vendor writes it.
    unsafe { with_new(call, handle, note) }
}

/// Releases a handle. The memory lives until it is unmapped.
///
/// # Safety
/// The arguments are those of `cuMemRelease`.
pub unsafe fn release(call: &dyn Fn() -> Status, handle: Handle) -> Status {
    gate::passing(&|| {
        // Noted before the call: as soon as the vendor has released the handle, another thread may get the same one.
        let before = physical().named.get(&handle).copied();
        physical().release(handle);
        let status = call();
        if let (Some(before), true) = (before, status != Status::SUCCESS) {
            physical().name(handle, before.memory);
        }
        status
    })
}

/// # Safety
/// The arguments are those of `cuMulticastCreate`.
pub unsafe fn create_multicast(call: &dyn Fn() -> Status, handle: *mut Handle) -> Status {
    // SAFETY: the vendor writes it.
    unsafe {
        with_new(call, handle, |new| {
            let mut physical = physical();
            let object = physical.name_new(new);
            physical.multicast.insert(object);
        })
    }
}

/// Marks memory as shared that is bound to a multicast object: every writer to the object writes to it.
pub fn bind(call: &dyn Fn() -> Status, memory: Handle) -> Status {
    gate::passing(&|| call().on_success(|| share(memory)))
}

/// Handles `cuMulticastBindAddr`.
pub fn bind_address(call: &dyn Fn() -> Status, address: CUdeviceptr, bytes: usize) -> Status {
    let bound = || {
        let end = address.saturating_add(bytes as u64);
        ALLOCATIONS.change_in(address..end, |live| live.shared = true);
        // Other mappings of it, present or future, are the same memory.
        let mapped: Vec<u64> = {
            let mut physical = physical();
            let first = physical.mapping(address).map_or(address, |(start, _)| start);
            let bound: BTreeSet<u64> = physical.mapped.range(first..end).map(|(_, mapping)| mapping.memory).collect();
            bound.into_iter().flat_map(|memory| physical.share(memory)).collect()
        };
        mapped.into_iter().for_each(|address| ALLOCATIONS.share(address));
    };
    gate::passing(&|| call().on_success(bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::allocations::{KernelAccess, LiveAllocation};
    use mneme_recording::manifest::AllocationKind;

    fn mapping(address: u64, handle: Handle) {
        let shared = map(address, 4096, 0, handle);
        let (kind, access) = (AllocationKind::Vendor, KernelAccess::Mapped(Default::default()));
        ALLOCATIONS.insert(LiveAllocation { address, size: 4096, kind, access, device: 0, context: 0, shared });
    }

    fn is_shared(address: u64) -> bool {
        ALLOCATIONS.containing(address).unwrap().shared
    }

    #[test]
    fn memory_is_shared_whether_it_is_mapped_before_or_after() {
        let base = 0x7300_0000_0000u64;
        mapping(base, 70);
        mapping(base + 4096, 71);
        // SAFETY: valid places, and no other memory is accessed.
        unsafe {
            export(&|| Status::SUCCESS, std::ptr::null_mut(), 70, 1);
            assert_eq!([is_shared(base), is_shared(base + 4096)], [true, false]);
            import(&|| Status::SUCCESS, &mut { 72 }, std::ptr::null_mut(), 1);
            mapping(base + 8192, 72);
            assert!(is_shared(base + 8192));
            retain(&|| Status::SUCCESS, &mut { 73 }, (base + 4096) as *mut c_void);
            bind(&|| Status::SUCCESS, 73);
            assert!(is_shared(base + 4096), "by a further handle");
            create_multicast(&|| Status::SUCCESS, &mut { 90 });
            assert!(is_multicast(90));
            create(&|| Status::SUCCESS, &mut { 90 });
            assert!(!is_multicast(90), "another of the same number");
            create(&|| Status::SUCCESS, &mut { 72 });
            mapping(base + 12288, 72);
            assert!(!is_shared(base + 12288));
            bind_address(&|| Status::SUCCESS, base + 12288, 4096);
            assert!(is_shared(base + 12288));
        }
        for address in [base, base + 4096, base + 8192, base + 12288] {
            ALLOCATIONS.remove(address);
        }
        unmap(base..base + 16384);
    }

    #[test]
    fn what_is_released_and_unmapped_is_forgotten() {
        let base = 0x7500_0000_0000u64;
        let is_known = |handle: Handle| physical().named.contains_key(&handle);
        let memory;
        // SAFETY: valid places, and no other memory is accessed.
        unsafe {
            create(&|| Status::SUCCESS, &mut { 270 });
            memory = physical().of(270);
            mapping(base, 270);
            retain(&|| Status::SUCCESS, &mut { 270 }, base as *mut c_void);
            export(&|| Status::SUCCESS, std::ptr::null_mut(), 270, 1);
            release(&|| Status::SUCCESS, 270);
            assert!(is_known(270), "retained");
            release(&|| Status(1), 270);
            assert!(is_known(270), "refused");
            release(&|| Status::SUCCESS, 270);
            assert!(!is_known(270));
            // The memory still exists, and other processes may write to it.
            retain(&|| Status::SUCCESS, &mut { 271 }, base as *mut c_void);
            mapping(base + 4096, 271);
            assert!(is_shared(base + 4096));
            release(&|| Status::SUCCESS, 271);
            release(&|| Status::SUCCESS, 279);
        }
        unmap(base..base + 8192);
        [base, base + 4096].into_iter().for_each(|address| _ = ALLOCATIONS.remove(address));
        let physical = physical();
        assert!(!physical.handles.contains_key(&memory) && !physical.shared.contains(&memory));
    }

    /// All handles of a memory have the same effect.
    #[test]
    fn a_further_handle_takes_nothing_from_the_first() {
        let base = 0x7400_0000_0000u64;
        mapping(base, 170);
        // SAFETY: valid places, and no other memory is accessed.
        unsafe {
            retain(&|| Status::SUCCESS, &mut { 171 }, (base + 4095) as *mut c_void);
            export(&|| Status::SUCCESS, std::ptr::null_mut(), 170, 1);
            assert!(is_shared(base), "by the first");
            mapping(base + 4096, 171);
            assert!(is_shared(base + 4096), "by the second");
            create(&|| Status::SUCCESS, &mut { 172 });
            mapping(base + 8192, 172);
            mapping(base + 12288, 172);
            bind_address(&|| Status::SUCCESS, base + 8192 + 100, 100);
            assert!(is_shared(base + 8192) && is_shared(base + 12288), "the same at another address");
        }
        for address in [base, base + 4096, base + 8192, base + 12288] {
            ALLOCATIONS.remove(address);
        }
        unmap(base..base + 16384);
    }

    #[test]
    fn memory_at_two_addresses_is_known_by_its_parts() {
        let (base, page) = (0x7500_0000_0000u64, 4096);
        let at = |index: u64| base + index * page;
        // SAFETY: a valid place.
        unsafe { create(&|| Status::SUCCESS, &mut { 180 }) };
        map(at(0), 2 * page, 0, 180);
        map(at(2), page, page, 180);
        map(at(3), page, 2 * page, 180);
        map(at(4), page, 0, 181);
        assert_eq!(aliases((0..5).map(at)), BTreeSet::from([at(0), at(2)]));
        assert_eq!(aliases([at(0), at(3), at(4)]), BTreeSet::new(), "the other is nothing to who asks");
        // SAFETY: a valid place.
        unsafe { retain(&|| Status::SUCCESS, &mut { 182 }, at(3) as *mut c_void) };
        map(at(5), page, 2 * page, 182);
        map(at(6), 3 * page, 0, 182);
        assert_eq!(aliases((0..7).map(at)), BTreeSet::from([0, 2, 3, 5, 6].map(at)));
        // The same file is imported twice.
        let file = tempfile::tempfile().unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file) as usize as *mut c_void;
        for (handle, index) in [(183, 7), (184, 8)] {
            // SAFETY: a valid place, and a descriptor that is open.
            unsafe { import(&|| Status::SUCCESS, &mut { handle }, descriptor, DESCRIPTOR) };
            map(at(index), page, 0, handle);
        }
        assert_eq!(aliases([at(7), at(8)]), BTreeSet::from([at(7), at(8)]));
        unmap(base..at(9));
    }
}

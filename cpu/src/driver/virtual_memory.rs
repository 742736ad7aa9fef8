//! Virtual memory management (`cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`).
//!
//! A reservation is an unreadable mapping at the wanted addresses, physical memory is an anonymous file, and `cuMemMap`
//! maps pages of the file into the reservation.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::structures::{AccessDescription, AllocationProperties};
use mneme_abi::cuda::types::CUmemLocation;
use mneme_system::files::{OwnedFile, size_limit};

use super::allocations::{self, MemoryKind};
use super::{context, device};
use crate::abi::{In, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// In bytes, as on current GPUs.
pub const GRANULARITY: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: u32 = 1;
/// The beginning of the files' names. The device's number follows.
const NAME: &str = "mneme-cpu-memory-";
/// `CU_MEM_ACCESS_FLAGS_PROT_READ` and `_READWRITE`.
const READ: u32 = 1;
const READ_WRITE: u32 = 3;

struct Physical {
    device: i32,
    /// An application that closes all descriptors may reuse the number for its own file. [`OwnedFile`] leaves such a
    /// file alone.
    file: OwnedFile,
    size: u64,
    /// The kinds of handles for which it may be exported, as requested on creation.
    handle_types: u32,
}

struct Mapped {
    size: u64,
    physical: Arc<Physical>,
    /// Flags by device. A device without access has no entry.
    access: BTreeMap<i32, u32>,
}

#[derive(Default)]
struct Space {
    /// Size of each reservation, by start.
    reserved: BTreeMap<u64, u64>,
    mapped: BTreeMap<u64, Mapped>,
}

static PHYSICAL: Registry<Physical> = Registry::new("an allocation of physical memory");
static SPACE: Mutex<Space> = Mutex::new(Space { reserved: BTreeMap::new(), mapped: BTreeMap::new() });

fn space() -> MutexGuard<'static, Space> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn whole(value: u64) -> bool {
    value.is_multiple_of(GRANULARITY)
}

const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// Maps unreadable pages, at `start` exactly or anywhere (0).
fn hold(start: u64, size: u64, flags: i32) -> Option<u64> {
    // SAFETY: replaces no mapping or, with MAP_FIXED, only pages of the device's reservation.
    let address = unsafe { libc::mmap(start as *mut _, size as usize, libc::PROT_NONE, FLAGS | flags, -1, 0) };
    (address != libc::MAP_FAILED).then_some(address as u64)
}

fn let_go(start: u64, size: u64) {
    if size > 0 {
        // SAFETY: the range is the device's.
        unsafe { libc::munmap(start as *mut _, size as usize) };
    }
}

pub fn reserve(out: Out<u64>, size: usize, alignment: usize, hint: u64, _flags: u64) -> StatusResult {
    context::initialised()?;
    let size = size as u64;
    let alignment = (alignment as u64).max(GRANULARITY);
    if size == 0 || !whole(size) || !alignment.is_power_of_two() || out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let start = wanted(hint, size, alignment).or_else(|| anywhere(size, alignment)).ok_or(Status::OUT_OF_MEMORY)?;
    space().reserved.insert(start, size);
    out.put(start)
}

fn wanted(hint: u64, size: u64, alignment: u64) -> Option<u64> {
    if hint == 0 || !hint.is_multiple_of(alignment) {
        return None;
    }
    let start = hold(hint, size, libc::MAP_FIXED_NOREPLACE)?;
    if start != hint {
        let_go(start, size);
        return None;
    }
    Some(start)
}

fn anywhere(size: u64, alignment: u64) -> Option<u64> {
    let length = size.checked_add(alignment)?;
    let address = hold(0, length, 0)?;
    let start = address.next_multiple_of(alignment);
    let_go(address, start - address);
    let_go(start + size, address + length - start - size);
    Some(start)
}

pub fn free_reservation(address: u64, size: usize) -> StatusResult {
    let mut space = space();
    if space.reserved.get(&address) != Some(&(size as u64))
        || space.mapped.range(address..address + size as u64).next().is_some()
    {
        return Err(Status::INVALID_VALUE);
    }
    space.reserved.remove(&address);
    let_go(address, size as u64);
    Ok(())
}

pub fn create(out: Out<u64>, size: usize, properties: In<AllocationProperties>, _flags: u64) -> StatusResult {
    context::initialised()?;
    let properties = properties.get()?;
    let size = size as u64;
    if size == 0 || !whole(size) || out.is_null() || properties.kind != 1 {
        return Err(Status::INVALID_VALUE);
    }
    context::device(properties.location.id)?;
    if size > device::memory().0 as u64 {
        return Err(Status::OUT_OF_MEMORY);
    }
    let device = properties.location.id;
    let name = CString::new(format!("{NAME}{device}")).map_err(|_| Status::INVALID_VALUE)?;
    // SAFETY: a NUL-terminated name.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Status::OUT_OF_MEMORY);
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    let file = unsafe { File::from_raw_fd(descriptor) };
    size_limit::as_errors(|| file.set_len(size)).map_err(|_| Status::OUT_OF_MEMORY)?;
    let file = OwnedFile::new(file).map_err(|_| Status::OPERATING_SYSTEM)?;
    out.put(PHYSICAL.insert(Arc::new(Physical { device, file, size, handle_types: properties.handle_types })) as u64)
}

pub fn export(out: Out<i32>, handle: u64, kind: u32, flags: u64) -> StatusResult {
    let physical = PHYSICAL.get(handle as usize).map_err(|_| Status::INVALID_VALUE)?;
    if out.is_null() || kind != DESCRIPTOR || physical.handle_types & kind == 0 || flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    out.put(physical.file.get().and_then(File::try_clone).map_err(|_| Status::OPERATING_SYSTEM)?.into_raw_fd())
}

/// Imports a descriptor, which the caller keeps.
pub fn import(out: Out<u64>, descriptor: usize, kind: u32) -> StatusResult {
    context::initialised()?;
    if out.is_null() || kind != DESCRIPTOR {
        return Err(Status::INVALID_VALUE);
    }
    let path = format!("/proc/self/fd/{descriptor}");
    let name = std::fs::read_link(&path).map_err(|_| Status::INVALID_VALUE)?;
    let number = name
        .to_str()
        .and_then(|name| name.strip_prefix("/memfd:")?.strip_prefix(NAME)?.split(' ').next()?.parse().ok());
    let device = number.ok_or(Status::INVALID_VALUE)?;
    context::device(device)?;
    let file = File::options().read(true).write(true).open(path).map_err(|_| Status::OPERATING_SYSTEM)?;
    let size = file.metadata().map_err(|_| Status::OPERATING_SYSTEM)?.len();
    let file = OwnedFile::new(file).map_err(|_| Status::OPERATING_SYSTEM)?;
    out.put(PHYSICAL.insert(Arc::new(Physical { device, file, size, handle_types: kind })) as u64)
}

/// Releases a handle. Mapped memory stays until it is unmapped.
pub fn release(handle: u64) -> StatusResult {
    PHYSICAL.remove(handle as usize).map(|_| ()).map_err(|_| Status::INVALID_VALUE)
}

pub fn map(address: u64, size: usize, offset: usize, handle: u64, flags: u64) -> StatusResult {
    let physical = PHYSICAL.get(handle as usize).map_err(|_| Status::INVALID_VALUE)?;
    let (size, offset) = (size as u64, offset as u64);
    if flags != 0
        || size == 0
        || !whole(address)
        || !whole(size)
        || !whole(offset)
        || offset.checked_add(size).is_none_or(|end| end > physical.size)
    {
        return Err(Status::INVALID_VALUE);
    }
    let mut space = space();
    let end = address.checked_add(size).ok_or(Status::INVALID_VALUE)?;
    let inside = space.reserved.range(..=address).next_back().is_some_and(|(start, reserved)| end <= start + reserved);
    let overlaps = space.mapped.range(..end).next_back().is_some_and(|(start, mapped)| start + mapped.size > address);
    if !inside || overlaps {
        return Err(Status::INVALID_VALUE);
    }
    let file = physical.file.get().map_err(|_| Status::OPERATING_SYSTEM)?;
    // SAFETY: replaces unreadable pages of a reservation.
    let mapped = unsafe {
        libc::mmap(
            address as *mut _,
            size as usize,
            libc::PROT_NONE,
            libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(Status::OUT_OF_MEMORY);
    }
    // SAFETY: advice on the mapping just made. Systems without large pages for files ignore it.
    unsafe { libc::madvise(mapped, size as usize, libc::MADV_HUGEPAGE) };
    allocations::keep_from_children(address, size);
    allocations::add_on(physical.device, address, size, MemoryKind::Virtual);
    space.mapped.insert(address, Mapped { size, physical, access: BTreeMap::new() });
    Ok(())
}

/// The mappings that together are exactly a range.
fn within(space: &Space, address: u64, size: u64) -> Result<Vec<u64>, Status> {
    let end = address.checked_add(size).ok_or(Status::INVALID_VALUE)?;
    let (mut at, mut starts) = (address, Vec::new());
    while at < end {
        let mapped = space.mapped.get(&at).ok_or(Status::INVALID_VALUE)?;
        starts.push(at);
        at += mapped.size;
    }
    if at == end && !starts.is_empty() { Ok(starts) } else { Err(Status::INVALID_VALUE) }
}

pub fn unmap(address: u64, size: usize) -> StatusResult {
    let mut space = space();
    for start in within(&space, address, size as u64)? {
        space.mapped.remove(&start);
        let _ = allocations::forget(start, MemoryKind::Virtual);
    }
    hold(address, size as u64, libc::MAP_FIXED).map(|_| ()).ok_or(Status::OUT_OF_MEMORY)
}

/// How a copy or a fill accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAccess {
    Read,
    Write,
}

/// Sets the access of devices. The host and all devices share the pages, so their protection allows the most that any
/// device may do.
pub fn set_access(address: u64, size: usize, accesses: In<AccessDescription>, count: usize) -> StatusResult {
    let mut space = space();
    let starts = within(&space, address, size as u64)?;
    let mut wanted = Vec::new();
    for index in 0..count {
        let AccessDescription { location, flags } = accesses.at(index)?;
        if !matches!(flags, 0 | READ | READ_WRITE) {
            return Err(Status::INVALID_VALUE);
        }
        // CU_MEM_LOCATION_TYPE_DEVICE. The host's access is that of the devices.
        if location.kind == 1 {
            context::device(location.id)?;
            wanted.push((location.id, flags));
        }
    }
    for start in starts {
        let Some(mapped) = space.mapped.get_mut(&start) else { continue };
        mapped.access.extend(wanted.iter().copied());
        mapped.access.retain(|_, flags| *flags != 0);
        let protection = match mapped.access.values().max() {
            None => libc::PROT_NONE,
            Some(&READ) => libc::PROT_READ,
            Some(_) => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: memory that the device has mapped.
        if unsafe { libc::mprotect(start as *mut _, mapped.size as usize, protection) } != 0 {
            return Err(Status::OUT_OF_MEMORY);
        }
    }
    Ok(())
}

/// A device's access flags for the mapping at an address, 0 for none. Other memory is read-write.
pub fn access(address: u64, device: i32) -> u32 {
    let space = space();
    let found = space.mapped.range(..=address).next_back().filter(|(start, mapped)| address < *start + mapped.size);
    found.map_or(READ_WRITE, |(_, mapped)| mapped.access.get(&device).copied().unwrap_or(0))
}

/// Whether the host may access an address. Mapped memory is inaccessible until a device gets access.
pub fn is_accessible(address: u64, access: HostAccess) -> bool {
    let space = space();
    let found = space.mapped.range(..=address).next_back().filter(|(start, mapped)| address < *start + mapped.size);
    let allows = |flags: &u32| access == HostAccess::Read || *flags == READ_WRITE;
    found.is_none_or(|(_, mapped)| mapped.access.values().any(allows))
}

pub fn get_access(out: Out<u64>, location: In<CUmemLocation>, address: u64) -> StatusResult {
    let location = location.get()?;
    allocations::find(address).filter(|found| found.kind == MemoryKind::Virtual).ok_or(Status::INVALID_VALUE)?;
    out.put(u64::from(access(address, location.id)))
}

pub fn granularity(out: Out<usize>, _properties: In<AllocationProperties>, option: u32) -> StatusResult {
    if option > 1 {
        return Err(Status::INVALID_VALUE);
    }
    out.put(GRANULARITY as usize)
}

pub fn properties_of(out: Out<AllocationProperties>, handle: u64) -> StatusResult {
    let physical = PHYSICAL.get(handle as usize).map_err(|_| Status::INVALID_VALUE)?;
    out.put(AllocationProperties::pinned(physical.device).shared_by(physical.handle_types))
}

/// Returns another handle to the memory mapped at an address. It has to be released like the first.
pub fn retain(out: Out<u64>, address: u64) -> StatusResult {
    let space = space();
    let found = space.mapped.range(..=address).next_back().filter(|(start, mapped)| address < *start + mapped.size);
    let (_, mapped) = found.ok_or(Status::INVALID_VALUE)?;
    out.put(PHYSICAL.insert(mapped.physical.clone()) as u64)
}

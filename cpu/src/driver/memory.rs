//! Allocations. Host and device share one address space, so "device memory" is memory whose bounds are known.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::attributes::ALIGNMENT;
use super::{context, device, stream, virtual_memory};
use crate::abi::{In, Out};
use crate::status::{Done, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Device,
    /// Pinned host memory that was allocated here.
    Host,
    /// Host memory of the application, registered.
    Registered,
    Managed,
    /// Mapped by the virtual-memory functions.
    Virtual,
    /// A loaded module.
    Module,
}

#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    pub start: u64,
    pub size: u64,
    pub kind: Kind,
    /// `CU_POINTER_ATTRIBUTE_BUFFER_ID`: unique in the process.
    pub id: u64,
}

#[derive(Default)]
struct Allocations {
    by_start: BTreeMap<u64, Allocation>,
    next_id: u64,
}

static ALLOCATIONS: Mutex<Allocations> = Mutex::new(Allocations { by_start: BTreeMap::new(), next_id: 1 });

fn lock() -> MutexGuard<'static, Allocations> {
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a range known.
pub fn add(start: u64, size: u64, kind: Kind) {
    let mut all = lock();
    let id = all.next_id;
    all.next_id += 1;
    all.by_start.insert(start, Allocation { start, size, kind, id });
}

/// Forgets the range that starts here, if it is of that kind.
pub fn forget(start: u64, kind: Kind) -> Result<Allocation, Status> {
    let mut all = lock();
    match all.by_start.get(&start) {
        Some(found) if found.kind == kind => all.by_start.remove(&start).ok_or(Status::INVALID_VALUE),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// The allocation that an address lies in.
pub fn find(address: u64) -> Option<Allocation> {
    let all = lock();
    all.by_start.range(..=address).next_back().map(|(_, found)| *found).filter(|found| address < found.start + found.size)
}

/// Checks that a range is known memory, be it in several adjacent allocations (slabs of an arena).
pub fn check(address: u64, bytes: u64) -> Done {
    let end = address.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
    let mut at = address;
    while at < end {
        let found = find(at).ok_or(Status::INVALID_VALUE)?;
        at = found.start + found.size;
    }
    Ok(())
}

/// Takes memory from the system. Small ranges come from the heap; large ones are mapped, with large pages where possible.
fn obtain(bytes: usize) -> Result<u64, Status> {
    const MAPPED: usize = 1 << 20;
    const LARGE_PAGE: usize = 2 << 20;
    let size = bytes.next_multiple_of(ALIGNMENT);
    if size < MAPPED {
        let layout = std::alloc::Layout::from_size_align(size, ALIGNMENT).map_err(|_| Status::OUT_OF_MEMORY)?;
        // SAFETY: the size is not zero.
        let memory = unsafe { std::alloc::alloc(layout) };
        return if memory.is_null() { Err(Status::OUT_OF_MEMORY) } else { Ok(memory as u64) };
    }
    let (total, _) = device::memory();
    if bytes > total {
        return Err(Status::OUT_OF_MEMORY);
    }
    // Over-reserved so that the start can be at a large page.
    let length = size.next_multiple_of(4096) + LARGE_PAGE;
    // SAFETY: a new anonymous mapping.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(Status::OUT_OF_MEMORY);
    }
    let start = (address as usize).next_multiple_of(LARGE_PAGE);
    let end = start + size.next_multiple_of(4096);
    // SAFETY: trims the mapping just made to the part that is kept, and advises on that part.
    unsafe {
        libc::munmap(address, start - address as usize);
        libc::munmap(end as *mut _, address as usize + length - end);
        libc::madvise(start as *mut _, end - start, libc::MADV_HUGEPAGE);
    }
    Ok(start as u64)
}

fn release(found: &Allocation) {
    const MAPPED: u64 = 1 << 20;
    let size = found.size.next_multiple_of(ALIGNMENT as u64);
    if size < MAPPED {
        if let Ok(layout) = std::alloc::Layout::from_size_align(size as usize, ALIGNMENT) {
            // SAFETY: `obtain` allocated it with this layout.
            unsafe { std::alloc::dealloc(found.start as *mut u8, layout) };
        }
    } else {
        // SAFETY: `obtain` mapped it with this size.
        unsafe { libc::munmap(found.start as *mut _, size.next_multiple_of(4096) as usize) };
    }
}

fn allocate_as(kind: Kind, out: Out<u64>, bytes: usize) -> Done {
    context::usable()?;
    if bytes == 0 || out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let start = obtain(bytes)?;
    add(start, bytes as u64, kind);
    out.put(start)
}

pub fn allocate(out: Out<u64>, bytes: usize) -> Done {
    allocate_as(Kind::Device, out, bytes)
}

pub fn free(address: u64) -> Done {
    context::usable()?;
    if address == 0 {
        return Ok(());
    }
    let found = forget(address, Kind::Device).or_else(|_| forget(address, Kind::Managed))?;
    release(&found);
    Ok(())
}

pub fn allocate_pitched(out: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) -> Done {
    if width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
        return Err(Status::INVALID_VALUE);
    }
    let row = width.next_multiple_of(ALIGNMENT);
    allocate(out, row.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)?)?;
    pitch.put(row)
}

pub fn allocate_managed(out: Out<u64>, bytes: usize, _flags: u32) -> Done {
    allocate_as(Kind::Managed, out, bytes)
}

pub fn allocate_on_stream(out: Out<u64>, bytes: usize, stream: usize) -> Done {
    stream::check(stream)?;
    allocate(out, bytes)
}

pub fn free_on_stream(address: u64, stream: usize) -> Done {
    stream::check(stream)?;
    free(address)
}

pub fn information(free: Out<usize>, total: Out<usize>) -> Done {
    context::usable()?;
    let (all, available) = device::memory();
    free.put(available)?;
    total.put(all)
}

pub fn address_range(base: Out<u64>, size: Out<usize>, address: u64) -> Done {
    context::current()?;
    let found = find(address).filter(|found| !matches!(found.kind, Kind::Registered)).ok_or(Status::NOT_FOUND)?;
    base.put_if_wanted(found.start);
    size.put_if_wanted(found.size as usize);
    Ok(())
}

pub fn allocate_host(out: Out<u64>, bytes: usize) -> Done {
    allocate_as(Kind::Host, out, bytes)
}

pub fn free_host(address: u64) -> Done {
    context::current()?;
    if address == 0 {
        return Ok(());
    }
    release(&forget(address, Kind::Host)?);
    Ok(())
}

pub fn register_host(address: u64, bytes: usize, _flags: u32) -> Done {
    context::usable()?;
    if address == 0 || bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    if find(address).is_some() {
        return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
    }
    add(address, bytes as u64, Kind::Registered);
    Ok(())
}

pub fn unregister_host(address: u64) -> Done {
    context::current()?;
    forget(address, Kind::Registered).map(|_| ()).map_err(|_| Status::HOST_MEMORY_NOT_REGISTERED)
}

pub fn host_device_pointer(out: Out<u64>, address: u64, _flags: u32) -> Done {
    context::current()?;
    match find(address).map(|found| found.kind) {
        Some(Kind::Host | Kind::Registered | Kind::Managed) => out.put(address),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn host_flags(out: Out<u32>, address: u64) -> Done {
    context::current()?;
    // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
    find(address).filter(|found| matches!(found.kind, Kind::Host | Kind::Registered)).ok_or(Status::INVALID_VALUE).and_then(|_| out.put(3))
}

/// The one memory pool; a handle like any other, to be passed back.
pub const POOL: usize = 0x40;

pub fn pool(out: Out<usize>, ordinal: i32) -> Done {
    context::device(ordinal)?;
    out.put(POOL)
}

pub fn check_pool(pool: usize) -> Done {
    if pool == POOL { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

/// Reuse flags are on and the release threshold is 0, as after creation; figures of use are 0, since nothing is cached.
pub fn pool_attribute(pool: usize, attribute: u32, out: Out<u64>) -> Done {
    check_pool(pool)?;
    match attribute {
        1..=3 => Out::to_place(out.address()).put(1i32),
        4..=8 => out.put(0),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn allocate_from_pool(out: Out<u64>, bytes: usize, pool: usize, stream: usize) -> Done {
    check_pool(pool)?;
    allocate_on_stream(out, bytes, stream)
}

/// `cuPointerGetAttribute`.
pub fn pointer_attribute(out: Out<u8>, attribute: u32, address: u64) -> Done {
    context::initialised()?;
    if out.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let place = out.address();
    let found = find(address);
    // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR and _MAPPED also answer for reservations.
    let known = found.ok_or(Status::INVALID_VALUE);
    let on_device = known.map(|found| matches!(found.kind, Kind::Device | Kind::Virtual | Kind::Managed | Kind::Module));
    match attribute {
        1 => known.and_then(|_| Out::to_place(place).put(context::current().unwrap_or(0))),
        // CU_MEMORYTYPE_HOST 1, DEVICE 2
        2 => on_device.and_then(|device| Out::to_place(place).put(if device { 2u32 } else { 1 })),
        3 => known.and_then(|_| Out::to_place(place).put(address)),
        4 => match known?.kind {
            Kind::Device | Kind::Virtual | Kind::Module => Err(Status::INVALID_VALUE),
            _ => Out::to_place(place).put(address),
        },
        7 => known.and_then(|found| Out::to_place(place).put(found.id)),
        8 => known.and_then(|found| Out::to_place(place).put(u8::from(found.kind == Kind::Managed))),
        9 => known.and_then(|_| Out::to_place(place).put(0i32)),
        11 => known.and_then(|found| Out::to_place(place).put(found.start)),
        12 => known.and_then(|found| Out::to_place(place).put(found.size)),
        13 => Out::to_place(place).put(u8::from(found.is_some())),
        // Synchronous operations, legacy-IPC and GPUDirect capability: none.
        6 | 10 | 15 => known.and_then(|_| Out::to_place(place).put(0u8)),
        14 => Out::to_place(place).put(0u32),
        // Read-write access; no pool.
        16 => known.and_then(|found| Out::to_place(place).put(virtual_memory::access(found.start))),
        17 => Out::to_place(place).put(0u64),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// `cuPointerGetAttributes`: an attribute that does not apply reads as zero.
pub fn pointer_attributes(count: u32, attributes: In<u32>, data: In<usize>, address: u64) -> Done {
    context::initialised()?;
    for index in 0..count as usize {
        let (attribute, place) = (attributes.at(index)?, data.at(index)?);
        if place == 0 {
            return Err(Status::INVALID_VALUE);
        }
        if pointer_attribute(Out::to_place(place), attribute, address).is_err() {
            match attribute {
                1 | 3 | 4 | 7 | 11 | 12 | 17 => Out::to_place(place).put(0u64)?,
                2 | 14 | 16 => Out::to_place(place).put(0u32)?,
                9 => Out::to_place(place).put(-2i32)?,
                _ => Out::to_place(place).put(0u8)?,
            }
        }
    }
    Ok(())
}

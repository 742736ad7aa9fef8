//! The table of all known memory, and the placement of new allocations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{context, device};
use crate::architecture::PAGE;
use crate::status::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    Device,
    /// Page-locked host memory that the device allocated.
    Host,
    /// The application's host memory, registered with the driver.
    Registered,
    Managed,
    /// Mapped by the virtual-memory functions.
    Virtual,
    /// Another process's memory, opened through an IPC handle.
    Opened,
    /// A loaded module.
    Module,
    /// Allocated by a node of a graph.
    Graph,
}

#[derive(Clone, Copy, Debug)]
pub struct MemoryAllocation {
    pub start: u64,
    pub size: u64,
    pub kind: MemoryKind,
    pub device: i32,
    /// The context that was current when the memory was added, or 0.
    pub context: usize,
    /// `CU_POINTER_ATTRIBUTE_BUFFER_ID`: unique in the process.
    pub id: u64,
    /// The pool that it was allocated from, 0 if none.
    pub pool: usize,
    /// The flags that HIP allocated this host memory with.
    pub flags: u32,
}

#[derive(Default)]
struct Allocations {
    by_start: BTreeMap<u64, MemoryAllocation>,
    next_id: u64,
}

static ALLOCATIONS: Mutex<Allocations> = Mutex::new(Allocations { by_start: BTreeMap::new(), next_id: 1 });

fn lock() -> MutexGuard<'static, Allocations> {
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a range of the current device.
pub fn add(start: u64, size: u64, kind: MemoryKind) {
    add_on(context::current_device().unwrap_or(0), start, size, kind);
}

pub fn add_on(device: i32, start: u64, size: u64, kind: MemoryKind) {
    add_of_pool(0, device, start, size, kind);
}

pub fn add_of_pool(pool: usize, device: i32, start: u64, size: u64, kind: MemoryKind) {
    let context = context::current().unwrap_or(0);
    let mut all = lock();
    let id = all.next_id;
    all.next_id += 1;
    all.by_start.insert(start, MemoryAllocation { start, size, kind, device, context, id, pool, flags: 0 });
}

/// Stores the flags that the range starting here was allocated with.
pub fn note_flags(start: u64, flags: u32) {
    if let Some(found) = lock().by_start.get_mut(&start) {
        found.flags = flags;
    }
}

/// Removes the range that starts here, if it is of that kind.
pub fn forget(start: u64, kind: MemoryKind) -> Result<MemoryAllocation, Status> {
    let mut all = lock();
    match all.by_start.get(&start) {
        Some(found) if found.kind == kind => all.by_start.remove(&start).ok_or(Status::INVALID_VALUE),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Removes and returns a context's allocations of that kind.
pub fn forget_of(context: usize, kind: MemoryKind) -> Vec<MemoryAllocation> {
    let mut forgotten = Vec::new();
    lock().by_start.retain(|_, found| {
        let is_meant = found.context == context && found.kind == kind;
        forgotten.extend(is_meant.then_some(*found));
        !is_meant
    });
    forgotten
}

/// Whether a range overlaps any allocation.
pub fn overlaps(start: u64, end: u64) -> bool {
    lock().by_start.range(..end).next_back().is_some_and(|(_, last)| last.start.saturating_add(last.size) > start)
}

/// Returns the allocation that contains an address.
pub fn find(address: u64) -> Option<MemoryAllocation> {
    let all = lock();
    all.by_start
        .range(..=address)
        .next_back()
        .map(|(_, found)| *found)
        .filter(|found| address < found.start + found.size)
}

/// The address of the next allocation. The range lies away from the addresses that the system gives to heaps and
/// libraries, so a replay can have a recording's addresses again.
static NEXT: AtomicU64 = AtomicU64::new(BEGIN);
const BEGIN: u64 = 0x3000_0000_0000;
const END: u64 = 0x5000_0000_0000;
const LARGE_PAGE: u64 = 2 << 20;
/// The step after an address that is taken. A replayer reserves memory in pieces of this size.
const STRIDE: u64 = 32 << 20;

/// Bytes of address space that an allocation takes.
pub fn mapped_size(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

/// Allocates memory from the system, with large pages for large allocations.
pub fn obtain(bytes: usize) -> Result<u64, Status> {
    let (total, _) = device::memory();
    if bytes > total {
        return Err(Status::OUT_OF_MEMORY);
    }
    let size = mapped_size(bytes as u64);
    let alignment = if size >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
    let mut again = false;
    loop {
        let slot = size.next_multiple_of(alignment);
        let claimed = NEXT.fetch_update(Relaxed, Relaxed, |next| Some(next.next_multiple_of(alignment) + slot));
        let start = claimed.unwrap_or_else(|next| next).next_multiple_of(alignment);
        if start + slot > END {
            // Reuse freed addresses only after all others were used.
            if std::mem::replace(&mut again, true) {
                return Err(Status::OUT_OF_MEMORY);
            }
            NEXT.store(BEGIN, Relaxed);
            continue;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new anonymous mapping that replaces no other.
        let address =
            unsafe { libc::mmap(start as *mut _, size as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if address as u64 == start {
            if alignment == LARGE_PAGE {
                // SAFETY: advice on the mapping just made.
                unsafe { libc::madvise(address, size as usize, libc::MADV_HUGEPAGE) };
            }
            return Ok(start);
        }
        if address != libc::MAP_FAILED {
            // Kernels before 4.17 treat the address as a hint.
            // SAFETY: the mapping was just made, and no pointer to it exists.
            unsafe { libc::munmap(address, size as usize) };
        } else if std::io::Error::last_os_error().raw_os_error() != Some(libc::EEXIST) {
            return Err(Status::OUT_OF_MEMORY);
        }
        NEXT.fetch_max(start.next_multiple_of(STRIDE), Relaxed);
    }
}

/// Unmaps memory from `obtain`.
pub fn unmap(start: u64, bytes: u64) {
    // SAFETY: `obtain` mapped it with this size.
    unsafe { libc::munmap(start as *mut _, mapped_size(bytes) as usize) };
}

/// Keeps shared pages out of forked children, which would otherwise write to their parent's memory.
pub fn keep_from_children(start: u64, size: u64) {
    // SAFETY: advice on a mapping that the device made.
    unsafe { libc::madvise(start as *mut _, size as usize, libc::MADV_DONTFORK) };
}

//! The heap of kernels, from which `malloc` of device code allocates.
//!
//! A context has one, like on a GPU: allocations outlast launches and modules, and freed memory keeps its contents. The
//! table of allocations lies outside of the heap, so a kernel that writes past an allocation does not damage it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a heap, unless the program sets a limit.
pub const DEFAULT_BYTES: usize = 8 << 20;
/// The alignment of allocations.
const LINE: u64 = 16;
/// Where the system should place heaps: away from allocations and code, whose addresses a replay needs again.
const PLACE: usize = 0x5400_0000_0000;

#[derive(Debug, Default)]
pub struct Heap(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// The limit that the program set.
    limit: Option<usize>,
    /// Begin and end; `None` before the first allocation.
    memory: Option<(u64, u64)>,
    /// Free and allocated ranges: sizes by address.
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl Heap {
    /// Sets the heap's size. Returns false if kernels use the heap already.
    pub fn limit(&self, bytes: usize) -> bool {
        let mut table = self.table();
        let is_unused = table.memory.is_none();
        if is_unused {
            table.limit = Some(bytes);
        }
        is_unused
    }

    /// Allocates memory at the lowest address that has room. Returns 0 if the heap is full.
    pub fn allocate(&self, bytes: u64) -> u64 {
        let mut table = self.table();
        table.open();
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(LINE) else { return 0 };
        let Some((start, size)) = table.free.iter().map(|(start, size)| (*start, *size)).find(|it| it.1 >= bytes)
        else {
            return 0;
        };
        table.free.remove(&start);
        if size > bytes {
            table.free.insert(start + bytes, size - bytes);
        }
        table.used.insert(start, bytes);
        start
    }

    /// Frees memory, and ignores null. Returns false if no allocation begins at the address.
    pub fn release(&self, address: u64) -> bool {
        let mut table = self.table();
        let Some(mut size) = table.used.remove(&address) else { return address == 0 };
        let mut start = address;
        if let Some(after) = table.free.remove(&(start + size)) {
            size += after;
        }
        let before = table.free.range(..start).next_back().map(|(before, bytes)| (*before, *bytes));
        if let Some((before, bytes)) = before.filter(|(before, bytes)| before + bytes == start) {
            (start, size) = (before, size + bytes);
        }
        table.free.insert(start, size);
        true
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Maps the heap's memory at the first allocation. Without memory, the heap has no room.
    fn open(&mut self) {
        if self.memory.is_some() {
            return;
        }
        let bytes = self.limit.unwrap_or(DEFAULT_BYTES);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping, which replaces no other.
        let memory = unsafe { libc::mmap(PLACE as *mut _, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let (start, bytes) = if memory == libc::MAP_FAILED { (0, 0) } else { (memory as u64, bytes as u64) };
        self.memory = Some((start, start + bytes));
        if bytes > 0 {
            self.free.insert(start, bytes / LINE * LINE);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some((start, end)) = self.memory.filter(|(start, end)| start < end) {
            // SAFETY: mapped by `open`. The context that owned the heap has ended, and so have its launches.
            unsafe { libc::munmap(start as *mut _, (end - start) as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_allocated_again_and_neighbours_join() {
        let heap = Heap::default();
        assert!(heap.limit(1 << 20));
        let all: Vec<u64> = (0..4).map(|_| heap.allocate(1 << 18)).collect();
        assert!(all.iter().all(|address| *address != 0 && address % LINE == 0));
        assert_eq!((heap.allocate(1), heap.allocate(u64::MAX)), (0, 0), "it is full");
        assert!(!heap.limit(2 << 20), "it is in use");
        // SAFETY: the allocation has this byte.
        unsafe { (all[0] as *mut u8).write(7) };
        assert!([all[1], all[3], all[2], all[0]].into_iter().all(|address| heap.release(address)));
        assert!(!heap.release(all[0]) && !heap.release(all[1] + LINE), "nobody allocated that");
        assert!(heap.release(0));
        assert_eq!(heap.allocate(1 << 20), all[0]);
        // SAFETY: as above.
        assert_eq!(unsafe { (all[0] as *const u8).read() }, 7, "it keeps its contents");
    }
}

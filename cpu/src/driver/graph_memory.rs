//! Memory that graphs allocate.
//!
//! An allocation gets its addresses when its node is made and keeps them as long as any graph has the node. The memory
//! is usable after the node has been executed, until another node or the application frees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::allocations::{self, MemoryKind};
use crate::status::{Status, StatusResult};

/// The addresses of one allocation.
pub struct GraphAddresses {
    device: i32,
    start: u64,
    /// Bytes.
    size: u64,
}

impl GraphAddresses {
    pub fn new(device: i32, bytes: usize) -> Result<Arc<Self>, Status> {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Arc::new(Self { device, start: allocations::obtain(bytes)?, size: bytes as u64 }))
    }

    pub fn start(&self) -> u64 {
        self.start
    }
}

impl Drop for GraphAddresses {
    fn drop(&mut self) {
        allocations::unmap(self.start, self.size);
    }
}

/// Allocations in use, by address.
static LIVE: Mutex<BTreeMap<u64, Arc<GraphAddresses>>> = Mutex::new(BTreeMap::new());

fn live() -> MutexGuard<'static, BTreeMap<u64, Arc<GraphAddresses>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Executes an allocation node. The memory of an earlier execution must be free again.
pub fn allocate(place: &Arc<GraphAddresses>) -> StatusResult {
    let mut live = live();
    if live.contains_key(&place.start) {
        return Err(Status::INVALID_VALUE);
    }
    live.insert(place.start, place.clone());
    allocations::add_on(place.device, place.start, place.size, MemoryKind::Graph);
    Ok(())
}

/// Freed memory that earlier work may still use.
pub struct FreedMemory(Arc<GraphAddresses>);

/// Executes a free node as far as later calls can see.
pub fn forget(address: u64) -> Result<FreedMemory, Status> {
    let mut live = live();
    allocations::forget(address, MemoryKind::Graph)?;
    live.remove(&address).map(FreedMemory).ok_or(Status::INVALID_VALUE)
}

impl FreedMemory {
    /// Returns the memory to the system. The addresses stay reserved for the graph.
    pub fn discard(self) {
        let GraphAddresses { start, size, .. } = *self.0;
        // SAFETY: a mapping of the device, and no work uses it any more.
        unsafe { libc::madvise(start as *mut _, allocations::mapped_size(size) as usize, libc::MADV_DONTNEED) };
    }
}

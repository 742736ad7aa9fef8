//! Memory that graphs allocate.
//!
//! Its addresses are known when the node is made, and stay its own as long as any graph has it; it can be used from
//! when the node has been executed until it is freed, by another node or by the application.

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

/// What has been allocated and not freed yet, by address.
static LIVE: Mutex<BTreeMap<u64, Arc<GraphAddresses>>> = Mutex::new(BTreeMap::new());

fn live() -> MutexGuard<'static, BTreeMap<u64, Arc<GraphAddresses>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Executes a node that allocates. What an earlier execution has allocated has to be free again.
pub fn allocate(place: &Arc<GraphAddresses>) -> StatusResult {
    let mut live = live();
    if live.contains_key(&place.start) {
        return Err(Status::INVALID_VALUE);
    }
    live.insert(place.start, place.clone());
    allocations::add_on(place.device, place.start, place.size, MemoryKind::Graph);
    Ok(())
}

/// Memory that is free, and that earlier work may still use.
pub struct FreedMemory(Arc<GraphAddresses>);

/// Executes a node that frees, as far as later calls are concerned.
pub fn forget(address: u64) -> Result<FreedMemory, Status> {
    let mut live = live();
    allocations::forget(address, MemoryKind::Graph)?;
    live.remove(&address).map(FreedMemory).ok_or(Status::INVALID_VALUE)
}

impl FreedMemory {
    /// Gives the memory back; the addresses stay those of the graph.
    pub fn discard(self) {
        let GraphAddresses { start, size, .. } = *self.0;
        // SAFETY: a mapping of our own, which nobody may use any more.
        unsafe { libc::madvise(start as *mut _, allocations::mapped_size(size) as usize, libc::MADV_DONTNEED) };
    }
}

//! Clusters of blocks: their contiguous shared memory and their barrier.
//!
//! One worker runs all blocks of a cluster. A block yields while its threads wait for those of another.

use std::cell::Cell;

use super::context::ThreadContext;
use super::shared::SharedMemory;

/// The largest clusters that every GPU with clusters supports, and that some support, in blocks.
pub const PORTABLE_BLOCKS: u32 = 8;
pub const MAX_BLOCKS: u32 = 16;

/// A running cluster. A block without a cluster is a cluster of one.
pub struct Cluster {
    memory: SharedMemory,
    /// Threads that have not exited.
    alive: Cell<u32>,
    /// The number of those that have arrived at the barrier since it was last completed.
    arrived: Cell<u32>,
    /// How often the barrier was completed.
    completed: Cell<u64>,
}

impl Cluster {
    /// A cluster with this number of threads in all blocks, before any has begun.
    pub fn new(memory: SharedMemory, threads: u32) -> Self {
        Self { memory, alive: Cell::new(threads), arrived: Cell::new(0), completed: Cell::new(0) }
    }

    /// Bytes from the shared memory of one block to that of the next.
    pub fn stride(shared_bytes: u32) -> usize {
        (shared_bytes as usize).next_multiple_of(128)
    }

    /// The shared memory of a block.
    pub fn shared(&self, context: &ThreadContext, rank: u32) -> *mut u8 {
        self.memory.address().wrapping_add(rank as usize * Self::stride(context.total_shared_bytes))
    }

    pub fn into_memory(self) -> SharedMemory {
        self.memory
    }

    /// Arrives at the barrier. Pass the result to [`is_complete`](Self::is_complete).
    pub fn arrive(&self) -> u64 {
        let turn = self.completed.get();
        self.arrived.set(self.arrived.get() + 1);
        self.settle();
        turn
    }

    /// Whether the barrier was completed since the arrival that returned `turn`.
    pub fn is_complete(&self, turn: u64) -> bool {
        self.completed.get() > turn
    }

    /// Removes a thread that has exited, given the turn of its last arrival.
    pub fn exit(&self, turn: Option<u64>) {
        self.alive.set(self.alive.get() - 1);
        if turn == Some(self.completed.get()) {
            self.arrived.set(self.arrived.get() - 1);
        }
        self.settle();
    }

    fn settle(&self) {
        if self.arrived.get() > 0 && self.arrived.get() == self.alive.get() {
            self.arrived.set(0);
            self.completed.set(self.completed.get() + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::shared::SharedMemoryPool;

    #[test]
    fn the_barrier_waits_for_those_that_are_left() {
        let cluster = Cluster::new(SharedMemoryPool::default().take(256), 3);
        let (first, second) = (cluster.arrive(), cluster.arrive());
        assert!(!cluster.is_complete(first) && first == second);
        cluster.exit(Some(first));
        assert!(!cluster.is_complete(second));
        let third = cluster.arrive();
        assert!(cluster.is_complete(second) && cluster.is_complete(third));
        let again = cluster.arrive();
        assert!(!cluster.is_complete(again));
        cluster.exit(Some(third));
        assert!(cluster.is_complete(again));
        cluster.exit(Some(again));
    }
}

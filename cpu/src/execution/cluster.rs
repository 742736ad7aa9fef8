//! Clusters of blocks: their shared memory, which lies together, and their barrier.
//!
//! One worker runs all blocks of a cluster, each of which gives way while its threads wait for those of another.

use std::cell::Cell;

use super::context::ThreadContext;
use super::shared::SharedMemory;

/// Blocks of a cluster that every GPU with clusters takes, and that some take.
pub const PORTABLE_BLOCKS: u32 = 8;
pub const MAX_BLOCKS: u32 = 16;

/// A cluster under way; a block that is in none is one by itself.
pub struct Cluster {
    memory: SharedMemory,
    /// Threads that have not exited.
    alive: Cell<u32>,
    /// Those of them that have arrived at the barrier since it was complete the last time.
    arrived: Cell<u32>,
    /// How often it was complete.
    completed: Cell<u64>,
}

impl Cluster {
    /// Of so many threads in all blocks, which have not begun.
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

    /// A thread arrives at the barrier; what [`is_complete`](Self::is_complete) wants to know.
    pub fn arrive(&self) -> u64 {
        let turn = self.completed.get();
        self.arrived.set(self.arrived.get() + 1);
        self.settle();
        turn
    }

    /// Whether all have arrived that a thread with this turn waits for.
    pub fn is_complete(&self, turn: u64) -> bool {
        self.completed.get() > turn
    }

    /// A thread has exited, with the turn of its last arrival: nobody waits for it any more.
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

//! Shared memory of blocks.
//!
//! Earlier blocks of a launch may leave something there for later ones, as on a GPU. When a launch begins, all of it
//! holds [`FILL`]: kernels cannot count on zeros, nor on what an earlier launch has left.

use std::cell::UnsafeCell;

/// A block's shared memory, aligned as the contract says. Only kernels read and write it.
pub struct SharedMemory(Box<[UnsafeCell<Line>]>);

#[repr(C, align(128))]
struct Line([u8; 128]);

/// A large number as any type.
const FILL: u8 = 0x5b;

impl SharedMemory {
    fn new(bytes: usize) -> Self {
        Self((0..bytes.div_ceil(128).max(1)).map(|_| UnsafeCell::new(Line([FILL; 128]))).collect())
    }

    fn refill(&mut self) {
        self.0.iter_mut().for_each(|line| *line.get_mut() = Line([FILL; 128]));
    }

    pub fn address(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.0.as_ptr()).cast()
    }
}

/// Shared memory that no block has, for the next one.
#[derive(Default)]
pub struct SharedMemoryPool(Vec<SharedMemory>);

/// Blocks' memories that a worker keeps from launch to launch.
const KEPT: usize = 4;

impl SharedMemoryPool {
    /// At least `bytes` of it.
    pub fn take(&mut self, bytes: usize) -> SharedMemory {
        match self.0.pop() {
            Some(memory) if memory.0.len() * 128 >= bytes => memory,
            _ => SharedMemory::new(bytes),
        }
    }

    pub fn give_back(&mut self, memory: SharedMemory) {
        self.0.push(memory);
    }

    /// After a launch.
    pub fn trim(&mut self) {
        self.0.truncate(KEPT);
        self.0.iter_mut().for_each(SharedMemory::refill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_finds_nothing_of_an_earlier_one() {
        let mut pool = SharedMemoryPool::default();
        let first = |memory: &SharedMemory| {
            // SAFETY: the memory has 200 bytes, and nothing else uses them.
            unsafe { *memory.address() }
        };
        let memory = pool.take(200);
        assert_eq!(first(&memory), FILL);
        // SAFETY: likewise.
        unsafe { *memory.address() = 7 };
        pool.give_back(memory);
        let memory = pool.take(200);
        assert_eq!(first(&memory), 7, "the next block of the launch");
        pool.give_back(memory);
        pool.trim();
        assert_eq!(first(&pool.take(200)), FILL);
    }
}

//! Shared memory of blocks.

use std::cell::UnsafeCell;

/// A block's shared memory, aligned as the contract demands. Only kernels read and write it.
pub struct SharedMemory(Box<[UnsafeCell<Line>]>);

#[repr(C, align(128))]
struct Line([u8; 128]);

impl SharedMemory {
    fn new(bytes: usize) -> Self {
        Self((0..bytes.div_ceil(128).max(1)).map(|_| UnsafeCell::new(Line([0; 128]))).collect())
    }

    pub fn address(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.0.as_ptr()).cast()
    }
}

/// Shared memory for the next blocks. As on a GPU, it has whatever earlier blocks left there.
#[derive(Default)]
pub struct SharedMemoryPool(Vec<SharedMemory>);

/// The number of blocks' memories that a worker keeps from launch to launch.
const KEPT: usize = 4;

impl SharedMemoryPool {
    /// Takes memory of at least `bytes`.
    pub fn take(&mut self, bytes: usize) -> SharedMemory {
        match self.0.pop() {
            Some(memory) if memory.0.len() * 128 >= bytes => memory,
            _ => SharedMemory::new(bytes),
        }
    }

    pub fn give_back(&mut self, memory: SharedMemory) {
        self.0.push(memory);
    }

    /// Frees memory beyond the worker's share. Called after a launch.
    pub fn trim(&mut self) {
        self.0.truncate(KEPT);
    }
}

//! A worker: the stacks and the memory that it keeps from launch to launch.

use super::processors;
use super::shared::SharedMemoryPool;
use super::stack::{FIBER, LOOP, Stacks};

pub struct Worker {
    pub loops: Stacks,
    pub fibers: Stacks,
    pub shared: SharedMemoryPool,
}

impl Worker {
    pub fn new() -> Self {
        Self { loops: Stacks::new(LOOP), fibers: Stacks::new(FIBER), shared: SharedMemoryPool::default() }
    }

    /// Keeps the worker's share of stacks and memory. Called after a launch.
    pub fn trim(&mut self) {
        self.fibers.trim(processors::count());
        self.loops.trim(processors::count());
        self.shared.trim();
    }
}

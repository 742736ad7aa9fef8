//! The stacks that kernels run on, and the words that fibers and workers exchange.

use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::Coroutine;
use corosensei::stack::DefaultStack;

use super::fault::KernelFault;

/// Why a fiber gives the worker back.
#[derive(Debug)]
pub enum Pause {
    /// It waits for other threads; it is on nobody's queue until they come.
    Blocked,
    /// It waits for what others write to memory, so it is to be asked again.
    GivesWay,
    /// It cannot go on; its stack is to be left behind.
    Fault(KernelFault),
}

pub type Ended = Result<(), KernelFault>;
pub type Fiber = Coroutine<(), Pause, Ended, DefaultStack>;
pub type Yielder = corosensei::Yielder<(), Pause>;

/// Bytes for each thread of a block whose threads wait for one another. GPU threads have 512 KiB of local memory at
/// most and use a few hundred bytes; untouched pages cost nothing.
pub const FIBER: usize = 576 << 10;
/// Bytes for the stack that a worker runs a block without waiting on.
pub const LOOP: usize = 2 << 20;

/// A process may have 65530 mappings by default, and a stack with its guard page is two: so many stacks may be in use
/// by the workers of a launch, and so many more of each size are kept by as many workers as there are processors.
pub const IN_USE: u64 = 16 << 10;
const KEPT: usize = 6 << 10;
/// With so many stacks, in use or kept, no block begins beside others that can go on.
const MOST: usize = 24 << 10;

/// Stacks that there are.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether there may be so many more stacks.
pub fn have_room(count: usize) -> bool {
    LIVE.load(Ordering::Relaxed) + count <= MOST
}

/// Finished stacks of one size, for the next block.
pub struct Stacks {
    size: usize,
    free: Vec<DefaultStack>,
}

impl Stacks {
    pub fn new(size: usize) -> Self {
        Self { size, free: Vec::new() }
    }

    /// # Errors
    /// When the system has no memory for another stack.
    pub fn take(&mut self) -> std::io::Result<DefaultStack> {
        match self.free.pop() {
            Some(stack) => Ok(stack),
            None => DefaultStack::new(self.size).inspect(|_| {
                LIVE.fetch_add(1, Ordering::Relaxed);
            }),
        }
    }

    /// Keeps no more than so many.
    fn keep(&mut self, count: usize) {
        let dropped = self.free.len().saturating_sub(count);
        self.free.truncate(count);
        LIVE.fetch_sub(dropped, Ordering::Relaxed);
    }

    /// After a launch: keeps one worker's share.
    pub fn trim(&mut self, workers: u64) {
        self.keep(KEPT / workers.max(1) as usize);
    }

    pub fn give_back(&mut self, mut fiber: Fiber) {
        if !fiber.done() {
            // SAFETY: what is on the stack are frames of a kernel, of the device calls (which hold nothing that needs
            // dropping while they pause) and of the fiber's first function, which owns only raw pointers.
            unsafe { fiber.force_reset() };
        }
        self.free.push(fiber.into_stack());
        if !have_room(0) {
            self.keep(0);
        }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        self.keep(0);
    }
}

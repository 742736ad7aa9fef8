//! The stacks on which kernels run, and the values that fibers pass to their workers.

use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::Coroutine;
use corosensei::stack::{DefaultStack, Stack};

use super::fault::KernelFault;

/// Why a fiber returns to its worker.
#[derive(Debug)]
pub enum Pause {
    /// It waits for other threads, which make it runnable again.
    Blocked,
    /// It waits for a write to memory, so it has to run again to check.
    GivesWay,
    /// It cannot continue; its stack is to be abandoned.
    Fault(KernelFault),
}

pub type Ended = Result<(), KernelFault>;
pub type Fiber = Coroutine<(), Pause, Ended, DefaultStack>;
pub type Yielder = corosensei::Yielder<(), Pause>;

/// Bytes of the stack of each thread in blocks whose threads wait for each other. GPU threads have at most 512 KiB of
/// local memory and use a few hundred bytes; untouched pages cost nothing.
pub const FIBER: usize = 576 << 10;
/// Bytes of the stack on which a worker runs threads one after another.
pub const LOOP: usize = 2 << 20;

/// Bytes at the top of such a stack that are cleared after a launch, so kernels find no data of an earlier one.
const WIPED: usize = 64 << 10;

/// The most stacks that the workers of a launch may use at once. A process may have 65530 mappings by default, and a
/// stack with its guard page takes two.
pub const IN_USE: u64 = 16 << 10;
/// With this many stacks in use, a worker begins no block while it has others to continue.
const MOST: usize = 24 << 10;
/// How many finished stacks are kept for later.
const KEPT: usize = 6 << 10;

/// The number of stacks on which blocks run, and of finished ones that are kept.
static USED: AtomicUsize = AtomicUsize::new(0);
static IDLE: AtomicUsize = AtomicUsize::new(0);

/// Whether this many more stacks may be in use.
pub fn have_room(count: usize) -> bool {
    USED.load(Ordering::Relaxed) + count <= MOST
}

/// Clears what kernels have left on a stack.
fn wipe(stack: &mut DefaultStack) {
    // SAFETY: no fiber uses the stack, which is larger than that and grows down from its base.
    unsafe { std::ptr::write_bytes((stack.base().get() - WIPED) as *mut u8, 0, WIPED) };
}

/// The limits of a stack.
pub fn bounds(stack: &DefaultStack) -> [usize; 2] {
    [stack.limit().get(), stack.base().get()]
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
    /// If the system has no memory for another stack.
    pub fn take(&mut self) -> std::io::Result<DefaultStack> {
        let stack = match self.free.pop() {
            Some(stack) => {
                IDLE.fetch_sub(1, Ordering::Relaxed);
                stack
            }
            None => DefaultStack::new(self.size)?,
        };
        USED.fetch_add(1, Ordering::Relaxed);
        Ok(stack)
    }

    /// Keeps at most `count` stacks.
    fn keep(&mut self, count: usize) {
        let dropped = self.free.len().saturating_sub(count);
        self.free.truncate(count);
        IDLE.fetch_sub(dropped, Ordering::Relaxed);
    }

    /// Keeps one worker's share of the stacks. Called after a launch.
    pub fn trim(&mut self, workers: u64) {
        self.keep(KEPT / workers.max(1) as usize);
        if self.size == LOOP {
            self.free.iter_mut().for_each(wipe);
        }
    }

    pub fn give_back(&mut self, mut fiber: Fiber) {
        if !fiber.done() {
            // SAFETY: the stack has frames of a kernel, of the device calls (which hold nothing that needs dropping
            // while they pause) and of the fiber's first function, which owns only raw pointers.
            unsafe { fiber.force_reset() };
        }
        let stack = fiber.into_stack();
        USED.fetch_sub(1, Ordering::Relaxed);
        if IDLE.load(Ordering::Relaxed) < KEPT {
            IDLE.fetch_add(1, Ordering::Relaxed);
            self.free.push(stack);
        }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        self.keep(0);
    }
}

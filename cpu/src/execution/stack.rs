//! The stacks that kernels run on, and the words that fibers and workers exchange.

use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::Coroutine;
use corosensei::stack::{DefaultStack, Stack};

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

/// Bytes at the top of such a stack that do not outlast a launch: kernels find nothing there of an earlier one.
const WIPED: usize = 64 << 10;

/// Stacks that the workers of a launch may use at once. A process may have 65530 mappings by default, and a stack with
/// its guard page is two.
pub const IN_USE: u64 = 16 << 10;
/// With this many stacks in use, a worker begins no block while it has others to continue.
const MOST: usize = 24 << 10;
/// So many finished stacks are kept for later.
const KEPT: usize = 6 << 10;

/// Stacks that blocks run on, and finished ones that are kept.
static USED: AtomicUsize = AtomicUsize::new(0);
static IDLE: AtomicUsize = AtomicUsize::new(0);

/// Whether so many more stacks may be in use.
pub fn have_room(count: usize) -> bool {
    USED.load(Ordering::Relaxed) + count <= MOST
}

/// Overwrites what kernels have left on a stack.
fn wipe(stack: &mut DefaultStack) {
    // SAFETY: no fiber has the stack, which is larger and grows down from its base.
    unsafe { std::ptr::write_bytes((stack.base().get() - WIPED) as *mut u8, 0, WIPED) };
}

/// Where a stack begins and ends.
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
    /// When the system has no memory for another stack.
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

    /// Keeps no more than so many.
    fn keep(&mut self, count: usize) {
        let dropped = self.free.len().saturating_sub(count);
        self.free.truncate(count);
        IDLE.fetch_sub(dropped, Ordering::Relaxed);
    }

    /// After a launch: keeps one worker's share.
    pub fn trim(&mut self, workers: u64) {
        self.keep(KEPT / workers.max(1) as usize);
        if self.size == LOOP {
            self.free.iter_mut().for_each(wipe);
        }
    }

    pub fn give_back(&mut self, mut fiber: Fiber) {
        if !fiber.done() {
            // SAFETY: what is on the stack are frames of a kernel, of the device calls (which hold nothing that needs
            // dropping while they pause) and of the fiber's first function, which owns only raw pointers.
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

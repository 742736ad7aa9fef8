//! Runs blocks whose threads wait for each other, with one fiber for each thread.
//!
//! When no thread can run, and the rules of the [block](super::block) release none, other blocks get a turn, and then
//! the threads that wait for a write to memory run again. If there are no such threads, the block hangs, and the launch
//! fails instead of waiting forever.

use std::collections::VecDeque;
use std::rc::Rc;

use corosensei::CoroutineResult;

use super::block::{self, Block, RunningThread};
use super::cluster::Cluster;
use super::context::ThreadContext;
use super::fault::KernelFault;
use super::grid::{Grid, Waits};
use super::shared::SharedMemoryPool;
use super::stack::{self, Ended, Fiber, Pause, Stacks};
use super::worker::Worker;

/// A block that has begun, with all that belongs to it.
struct Flight {
    block: Box<Block>,
    fibers: Vec<Option<Fiber>>,
    /// The cluster in which it runs; `None` before it begins and after it is done.
    cluster: Option<Rc<Cluster>>,
}

/// How a turn of a block ends without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Every thread waits, and at least one of them waits for a write to memory.
    GivesWay,
}

impl Flight {
    fn new(grid: &Grid, context: ThreadContext) -> Self {
        Self {
            block: Box::new(Block::new(grid.threads(), grid.launch.warp_size, context, &raw const grid.dispatch)),
            fibers: (0..grid.threads()).map(|_| None).collect(),
            cluster: None,
        }
    }

    fn begin(&mut self, ctaid: [u32; 3], cluster: &Rc<Cluster>) {
        self.block.reset(ctaid, cluster);
        self.cluster = Some(cluster.clone());
    }

    /// Ends the block. The last block of a cluster returns its shared memory.
    fn leave(&mut self, shared: &mut SharedMemoryPool) {
        if let Some(Ok(cluster)) = self.cluster.take().map(Rc::try_unwrap) {
            shared.give_back(cluster.into_memory());
        }
    }

    fn end(mut self, stacks: &mut Stacks, shared: &mut SharedMemoryPool) {
        self.fibers.drain(..).flatten().for_each(|fiber| stacks.give_back(fiber));
        self.leave(shared);
    }
}

/// Runs blocks of the grid until none is left. A block that yields is put aside, and then a new block begins or a block
/// that was put aside gets a turn.
pub fn run(worker: &mut Worker, grid: &Grid, context: ThreadContext) {
    let Worker { fibers: stacks, shared, .. } = worker;
    let mut blocks = grid.blocks();
    let mut aside: VecDeque<Flight> = VecDeque::new();
    let mut idle: Vec<Flight> = Vec::new();
    let mut others_first = false;
    let mut fruitless = 0;
    let mut waits = Waits::default();
    while !grid.stopped() {
        let has_room = || {
            aside.len() < grid.in_flight && stack::have_room((grid.threads() * grid.launch.cluster_blocks()) as usize)
        };
        let begins = aside.is_empty() || (!others_first && has_room());
        others_first = begins;
        let mut flight = match begins.then(|| blocks.next()).flatten() {
            Some(ctaid) => {
                let count = grid.launch.cluster_blocks();
                let memory = shared.take(Cluster::stride(context.total_shared_bytes) * count as usize);
                let cluster = Rc::new(Cluster::new(memory, grid.threads() * count));
                let mut begin = |ctaid| {
                    let mut flight = idle.pop().unwrap_or_else(|| Flight::new(grid, context));
                    flight.begin(ctaid, &cluster);
                    flight
                };
                let first = begin(ctaid);
                // Blocks of a cluster are taken together. Fewer come only if the launch has failed.
                aside.extend(blocks.by_ref().take(count as usize - 1).map(begin));
                first
            }
            None => match aside.pop_front() {
                Some(flight) => flight,
                None => break,
            },
        };
        let ended = run_block(&raw mut *flight.block, &mut flight.fibers, stacks, grid);
        block::set_running(std::ptr::null());
        fruitless += 1;
        match ended {
            Ok(Outcome::Done) => {
                flight.leave(shared);
                idle.push(flight);
                fruitless = 0;
            }
            Ok(Outcome::GivesWay) => aside.push_back(flight),
            Err(fault) => {
                let current = flight.block.current();
                let place = match fault {
                    KernelFault::Deadlock(_) => format!(" (block {:?})", current.ctaid),
                    _ => current.description(),
                };
                grid.fail(fault, place);
                idle.push(flight);
            }
        }
        if fruitless > aside.len() {
            // No block of this worker can continue by itself.
            waits.pause(grid);
            fruitless = 0;
        }
    }
    aside.into_iter().chain(idle).for_each(|flight| flight.end(stacks, shared));
}

/// Gives the block a turn, which ends when the block is done or every thread waits.
///
/// The device calls of the block's fibers use the block too, so this function reaches it through a pointer and never
/// borrows it while a fiber runs.
fn run_block(
    block: *mut Block,
    fibers: &mut [Option<Fiber>],
    stacks: &mut Stacks,
    grid: &Grid,
) -> Result<Outcome, KernelFault> {
    loop {
        // SAFETY: no fiber runs here, so this is the only reference.
        let state = unsafe { &mut *block };
        let Some((linear, running)) = state.next() else {
            if state.is_done() {
                return Ok(Outcome::Done);
            }
            if state.release_active() {
                continue;
            }
            return if state.ask_again() { Ok(Outcome::GivesWay) } else { Err(state.hang()) };
        };
        let slot = &mut fibers[linear as usize];
        let fiber = match slot {
            Some(fiber) => fiber,
            None => slot.insert(start(running, stacks, grid)?),
        };
        block::set_running(running);
        let outcome = fiber.resume(());
        match outcome {
            CoroutineResult::Yield(Pause::Blocked) => continue,
            CoroutineResult::Yield(Pause::GivesWay) => {
                // SAFETY: the fiber is paused.
                unsafe { (*block).give_way(linear) };
                continue;
            }
            _ => {}
        }
        if let Some(fiber) = slot.take() {
            stacks.give_back(fiber);
        }
        match outcome {
            // SAFETY: the fiber has ended.
            CoroutineResult::Return(Ok(())) => unsafe { (*block).exit(linear) },
            CoroutineResult::Yield(Pause::Fault(fault)) | CoroutineResult::Return(Err(fault)) => return Err(fault),
            CoroutineResult::Yield(Pause::Blocked | Pause::GivesWay) => {}
        }
    }
}

fn start(running: *mut RunningThread, stacks: &mut Stacks, grid: &Grid) -> Result<Fiber, KernelFault> {
    let stack = stacks.take().map_err(|error| KernelFault::NoStack(error.to_string()))?;
    let (entry, parameters) = (grid.launch.entry, grid.launch.parameters.address());
    // SAFETY: no fiber runs here.
    unsafe { (*running).context.stack = stack::bounds(&stack) };
    let fiber = Fiber::with_stack(stack, move |yielder, ()| -> Ended {
        // SAFETY: the entry is a function of a loaded object, and the grid keeps the buffer, whose size is that in the
        // object's table. The block outlives its fibers.
        unsafe {
            (*running).yielder.set(yielder);
            entry(parameters);
        }
        Ok(())
    });
    // SAFETY: no fiber runs here.
    unsafe { (*running).escape = Some(fiber.trap_handler()) };
    Ok(fiber)
}

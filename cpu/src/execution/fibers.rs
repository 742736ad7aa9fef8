//! A block whose threads wait for one another: one fiber for each thread, and the rules by which they go on.
//!
//! A thread that arrives at a barrier or warp operation last completes it for all and runs on; the others pause until
//! then. Threads that have exited count as arrived. When nobody can run, the lanes at `activemask` are released, those at
//! the earliest call site first; if there are none, the block hangs, which is an error and not an endless wait.

use std::collections::VecDeque;

use corosensei::CoroutineResult;

use super::context::{self, ThreadContext};
use super::faults::{self, Fault};
use super::grid::Grid;
use super::stack::{Ended, Fiber, Pause, Stacks};
use super::warp::{Operation, Request};

/// What a thread of the block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runnable,
    AtBarrier,
    AtWarpOperation,
    /// At `activemask`, called from this address.
    AtActiveMask(usize),
    Exited,
}

struct Thread {
    context: ThreadContext,
    state: State,
    /// What it brought to the operation that it waits at.
    operation: Operation,
    predicate: u32,
    /// The operation's result for it.
    result: u64,
    fiber: Option<Fiber>,
}

/// Lanes of one warp at one operation.
struct Gathering {
    request: Request,
    arrived: u32,
}

#[derive(Default)]
struct Warp {
    /// Lanes that have not exited.
    alive: u32,
    gatherings: Vec<Gathering>,
}

struct Barrier {
    id: u32,
    /// Threads it waits for, 0 = all.
    count: u32,
    arrived: Vec<u32>,
}

/// A block while a worker runs it.
pub struct Block {
    threads: Vec<Thread>,
    warps: Vec<Warp>,
    barriers: Vec<Barrier>,
    ready: VecDeque<u32>,
    alive: u32,
    current: u32,
}

/// Whether the calling thread may go on at once.
enum Turn {
    GoesOn,
    Waits,
}

impl Block {
    fn new(threads: u32, context: ThreadContext) -> Self {
        let mut block = Self {
            threads: Vec::with_capacity(threads as usize),
            warps: (0..threads.div_ceil(32)).map(|_| Warp::default()).collect(),
            barriers: Vec::new(),
            ready: VecDeque::with_capacity(threads as usize),
            alive: 0,
            current: 0,
        };
        for linear in 0..threads {
            let mut context = context;
            context.place(linear);
            block.threads.push(Thread {
                context,
                state: State::Runnable,
                operation: Operation::Sync,
                predicate: 0,
                result: 0,
                fiber: None,
            });
        }
        block
    }

    /// Makes the block ready to run from the start as block `ctaid`.
    fn reset(&mut self, ctaid: [u32; 3]) {
        self.ready.clear();
        self.barriers.clear();
        self.alive = self.threads.len() as u32;
        for warp in &mut self.warps {
            warp.alive = 0;
            warp.gatherings.clear();
        }
        for (linear, thread) in self.threads.iter_mut().enumerate() {
            thread.context.ctaid = ctaid;
            thread.state = State::Runnable;
            self.warps[linear / 32].alive |= 1 << (linear % 32);
            self.ready.push_back(linear as u32);
        }
    }

    fn wake(&mut self, linear: u32) {
        if linear != self.current || self.threads[linear as usize].state != State::Runnable {
            self.ready.push_back(linear);
        }
        self.threads[linear as usize].state = State::Runnable;
    }

    fn arrive_at_barrier(&mut self, id: u32, count: u32, predicate: u32) -> Turn {
        let current = self.current;
        self.threads[current as usize].predicate = predicate;
        let index = self.barriers.iter().position(|barrier| barrier.id == id).unwrap_or_else(|| {
            self.barriers.push(Barrier { id, count, arrived: Vec::new() });
            self.barriers.len() - 1
        });
        self.barriers[index].arrived.push(current);
        if self.complete_barrier(index) {
            return Turn::GoesOn;
        }
        self.threads[current as usize].state = State::AtBarrier;
        Turn::Waits
    }

    /// Releases a barrier that all have reached. The result of each is the number of true predicates (low half) and of
    /// threads (high half).
    fn complete_barrier(&mut self, index: usize) -> bool {
        let barrier = &self.barriers[index];
        let needed = if barrier.count == 0 { self.alive } else { barrier.count.min(self.alive) };
        if (barrier.arrived.len() as u32) < needed || barrier.arrived.is_empty() {
            return false;
        }
        let arrived = self.barriers.swap_remove(index).arrived;
        let holding = arrived.iter().filter(|linear| self.threads[**linear as usize].predicate != 0).count() as u64;
        for linear in &arrived {
            self.threads[*linear as usize].result = holding | (arrived.len() as u64) << 32;
            self.wake(*linear);
        }
        true
    }

    fn arrive_at_warp_operation(&mut self, request: Request, operation: Operation) -> Turn {
        let (current, lane) = (self.current, self.current % 32);
        let request = Request { mask: request.mask | 1 << lane, ..request };
        self.threads[current as usize].operation = operation;
        let warp = (current / 32) as usize;
        let gatherings = &mut self.warps[warp].gatherings;
        let index = gatherings.iter().position(|gathering| gathering.request == request).unwrap_or_else(|| {
            gatherings.push(Gathering { request, arrived: 0 });
            gatherings.len() - 1
        });
        gatherings[index].arrived |= 1 << lane;
        if self.complete_gathering(warp, index) {
            return Turn::GoesOn;
        }
        self.threads[current as usize].state = State::AtWarpOperation;
        Turn::Waits
    }

    fn complete_gathering(&mut self, warp: usize, index: usize) -> bool {
        let Warp { alive, gatherings } = &self.warps[warp];
        let Gathering { request, arrived } = gatherings[index];
        if request.mask & alive & !arrived != 0 || arrived == 0 {
            return false;
        }
        self.warps[warp].gatherings.swap_remove(index);
        let base = warp * 32;
        let mut operations = [Operation::Sync; 32];
        for (lane, operation) in operations.iter_mut().enumerate().filter(|(lane, _)| arrived >> lane & 1 != 0) {
            *operation = self.threads[base + lane].operation;
        }
        for lane in (0..32).filter(|lane| arrived >> lane & 1 != 0) {
            self.threads[base + lane].result = super::warp::result(lane as u32, arrived, &operations);
            self.wake((base + lane) as u32);
        }
        true
    }

    /// Whoever waited for this thread need not any more.
    fn exit(&mut self, linear: u32) {
        self.threads[linear as usize].state = State::Exited;
        self.alive -= 1;
        let warp = (linear / 32) as usize;
        self.warps[warp].alive &= !(1 << (linear % 32));
        while (0..self.warps[warp].gatherings.len()).any(|index| self.complete_gathering(warp, index)) {}
        while (0..self.barriers.len()).any(|index| self.complete_barrier(index)) {}
    }

    /// When every lane waits: in each warp, the lanes at the earliest call site of `activemask` go on together.
    fn release_active(&mut self) -> bool {
        let mut released = false;
        for warp in 0..self.warps.len() {
            let base = warp * 32;
            let site = |block: &Self, lane: usize| match block.threads.get(base + lane)?.state {
                State::AtActiveMask(site) => Some(site),
                _ => None,
            };
            let Some(first) = (0..32).filter_map(|lane| site(self, lane)).min() else { continue };
            let mask = (0..32).filter(|lane| site(self, *lane) == Some(first)).fold(0u32, |mask, lane| mask | 1 << lane);
            for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
                self.threads[base + lane].result = u64::from(mask);
                self.wake((base + lane) as u32);
                released = true;
            }
        }
        released
    }

    fn hang(&self) -> Fault {
        let count = |wanted: State| self.threads.iter().filter(|thread| thread.state == wanted).count();
        let mut parts = Vec::new();
        for barrier in &self.barriers {
            parts.push(format!("{} threads wait at barrier {}", barrier.arrived.len(), barrier.id));
        }
        for (number, warp) in self.warps.iter().enumerate() {
            for Gathering { request, arrived } in &warp.gatherings {
                parts.push(format!(
                    "lanes {arrived:#010x} of warp {number} wait at a {} for lanes {:#010x}",
                    request.class.name(),
                    request.mask & warp.alive
                ));
            }
        }
        parts.truncate(4);
        parts.push(format!("{} threads have exited", count(State::Exited)));
        Fault::Deadlock(parts.join(", "))
    }
}

/// Runs blocks of the grid until there are no more.
pub fn run(stacks: &mut Stacks, grid: &Grid<'_>, context: ThreadContext) {
    let mut block = Block::new(grid.threads(), context);
    while let Some(ctaid) = grid.take() {
        block.reset(ctaid);
        context::set_block(&raw mut block);
        let ended = run_block(&raw mut block, stacks, grid);
        context::set_block(std::ptr::null_mut());
        for thread in &mut block.threads {
            if let Some(fiber) = thread.fiber.take() {
                stacks.give_back(fiber);
            }
        }
        if let Err(fault) = ended {
            let current = &block.threads[block.current as usize].context;
            let place = match fault {
                Fault::Deadlock(_) => format!(" (block {ctaid:?})"),
                _ => super::block::place(current),
            };
            return grid.fail(fault, place);
        }
    }
}

/// The block is shared with the device calls of its fibers, so it is reached through a pointer, never borrowed while a
/// fiber runs.
fn run_block(block: *mut Block, stacks: &mut Stacks, grid: &Grid<'_>) -> Ended {
    loop {
        // SAFETY: no fiber runs here, so this is the only reference.
        let state = unsafe { &mut *block };
        if state.alive == 0 {
            return Ok(());
        }
        let Some(linear) = state.ready.pop_front() else {
            if state.release_active() {
                continue;
            }
            return Err(state.hang());
        };
        state.current = linear;
        let thread = &mut state.threads[linear as usize];
        let mut fiber = match thread.fiber.take() {
            Some(fiber) => fiber,
            None => start(stacks, grid)?,
        };
        context::set_running(&raw const thread.context);
        faults::arm(&fiber);
        let outcome = fiber.resume(());
        faults::disarm();
        // SAFETY: the fiber has paused or ended.
        let state = unsafe { &mut *block };
        match outcome {
            CoroutineResult::Yield(Pause::Blocked) => state.threads[linear as usize].fiber = Some(fiber),
            CoroutineResult::Return(Ok(())) => {
                stacks.give_back(fiber);
                state.exit(linear);
            }
            CoroutineResult::Yield(Pause::Fault(fault)) | CoroutineResult::Return(Err(fault)) => {
                stacks.give_back(fiber);
                return Err(fault);
            }
        }
    }
}

fn start(stacks: &mut Stacks, grid: &Grid<'_>) -> Result<Fiber, Fault> {
    let stack = stacks.take().map_err(|error| Fault::NoStack(error.to_string()))?;
    let (entry, parameters) = (grid.launch.entry, grid.parameters.as_ptr().cast::<u8>());
    Ok(Fiber::with_stack(stack, move |yielder, ()| -> Ended {
        context::set_yielder(yielder);
        // SAFETY: the entry is a function of a loaded object, and the grid keeps the buffer, which has the size that
        // the object's table states.
        unsafe { entry(parameters) };
        Ok(())
    }))
}

/// Lets the calling fiber wait, unless its arrival completed the operation, and gives its result.
fn settle(block: *mut Block, arrive: impl FnOnce(&mut Block) -> Turn) -> u64 {
    // Others run, and set their own yielder, while this fiber waits.
    let yielder = context::yielder();
    // SAFETY: called on a fiber of this block, while the worker is inside `resume` and holds no reference to it.
    let (linear, turn) = unsafe { ((*block).current, arrive(&mut *block)) };
    if let Turn::Waits = turn {
        // SAFETY: the yielder of the running fiber, set when it started or below.
        unsafe { (*yielder).suspend(Pause::Blocked) };
        context::set_yielder(yielder);
    }
    // SAFETY: as above; the reference ends with the expression.
    unsafe { (&*block).threads[linear as usize].result }
}

/// `bar.sync` with a predicate: how many of the threads at the barrier have a true one, and how many there are.
pub fn barrier(block: *mut Block, id: u32, count: u32, predicate: u32) -> (u32, u32) {
    let result = settle(block, |block| block.arrive_at_barrier(id, count, predicate));
    (result as u32, (result >> 32) as u32)
}

pub fn warp_operation(block: *mut Block, request: Request, operation: Operation) -> u64 {
    settle(block, |block| block.arrive_at_warp_operation(request, operation))
}

pub fn active_mask(block: *mut Block, site: usize) -> u32 {
    let result = settle(block, |block| {
        block.threads[block.current as usize].state = State::AtActiveMask(site);
        Turn::Waits
    });
    result as u32
}

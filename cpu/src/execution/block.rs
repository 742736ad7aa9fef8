//! A block whose threads wait for each other, and the rules by which they continue.
//!
//! The thread that arrives last at a barrier or warp operation completes it for all and continues; the others pause
//! until then. Threads that have exited count as arrived. When no thread can run, the lanes at `activemask` and at
//! lockstep sites are released, beginning with the lanes at the earliest site.
//!
//! [`RunningThread`] and [`Block`] are in one module because they refer to each other.

use std::cell::Cell;
use std::collections::VecDeque;

use corosensei::trap::CoroutineTrapHandler;

use super::cluster::Cluster;
use super::context::ThreadContext;
use super::dispatch::Dispatch;
use super::fault::KernelFault;
use super::stack::{Ended, Pause, Yielder};
use super::warp::{LANES, Operation, WarpRequest, lanes, result};
use crate::architecture;

/// The thread, or loop over threads, that runs on a worker: its context and the state that device calls need.
#[repr(C)]
pub struct RunningThread {
    /// First, so one thread-local pointer serves kernels and device calls.
    pub context: ThreadContext,
    /// The way from the fiber back to its worker.
    pub yielder: Cell<*const Yielder>,
    /// The way for the signal handler to leave the fiber, `None` until the fiber exists.
    pub escape: Option<CoroutineTrapHandler<Ended>>,
    /// The block, null if its threads do not wait for each other.
    pub block: *mut Block,
    /// In a loop over threads: whether the following threads continue on another stack, so this stack ends with the
    /// thread that it is running.
    pub aside: Cell<bool>,
    /// The block's cluster, null if threads do not wait for each other, and the thread's last arrival at the cluster's
    /// barrier.
    pub cluster: *const Cluster,
    pub arrival: Cell<Option<u64>>,
    /// The properties of the launch that kernels can query.
    pub dispatch: *const Dispatch,
    /// The number of the wave's next operation, in the order of the code.
    pub number: Cell<u32>,
}

impl RunningThread {
    pub fn new(context: ThreadContext, block: *mut Block, dispatch: *const Dispatch) -> Self {
        let (yielder, aside) = (Cell::new(std::ptr::null()), Cell::new(false));
        let (cluster, arrival, number) = (std::ptr::null(), Cell::new(None), Cell::new(u32::MAX));
        Self { context, yielder, escape: None, block, aside, cluster, arrival, dispatch, number }
    }
}

/// The thread or loop that is running on this worker, null outside kernels. Safe to call in a signal handler.
#[inline]
pub fn running() -> *const RunningThread {
    architecture::context().cast()
}

/// Sets what runs next on this worker.
#[inline]
pub fn set_running(running: *const RunningThread) {
    architecture::set_context(running.cast());
}

/// Barriers per block (PTX ISA: `bar`).
const BARRIERS: usize = 16;
/// How often lanes that wait for memory are retried before the other lanes of their wave continue without them. Such
/// lanes may only have many iterations of a loop left, after which all lanes of a wave are together again.
const PATIENCE: u32 = 16;

/// The state of a thread of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runnable,
    AtBarrier(u8),
    AtWarpOperation,
    /// At a site from which the lanes that are there together continue together.
    AtSite(CodeLocation),
    Exited,
}

/// A place in the code. The compiler's number gives its order in the code, if there is one. The return address of the
/// device call tells places without a number apart and, since code tends to be laid out in order, sorts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLocation {
    number: u32,
    address: usize,
}

impl CodeLocation {
    pub fn numbered(number: u32) -> Self {
        Self { number, address: 0 }
    }

    /// A place with a number. Places without one have the highest number, so they come last.
    pub fn at(number: u32, address: usize) -> Self {
        Self { number, address }
    }
}

struct Thread {
    running: RunningThread,
    /// The thread's input to the warp operation at which it waits.
    operation: Operation,
    /// The operation's result for the thread.
    result: u64,
    /// The numbers of the calls that the thread is inside. Equal sites in different calls are different places.
    calls: Vec<u32>,
}

/// The lanes of one warp that have arrived at one operation.
struct Gathering {
    request: WarpRequest,
    arrived: u64,
}

#[derive(Default)]
struct Warp {
    /// Lanes that have not exited.
    alive: u64,
    gatherings: Vec<Gathering>,
}

#[derive(Clone, Copy, Default)]
struct Barrier {
    /// The number of threads it waits for, 0 for all.
    count: u32,
    arrived: u32,
    /// The number of arrived threads with a true predicate.
    holding: u32,
}

/// A block that a worker is running. Its fibers are stored outside, because they run while device calls change the
/// block.
pub struct Block {
    threads: Vec<Thread>,
    states: Vec<State>,
    warps: Vec<Warp>,
    barriers: [Barrier; BARRIERS],
    ready: VecDeque<u32>,
    /// Runnable threads that wait for a write to memory. They run after all others.
    asking: Vec<u32>,
    alive: u32,
    current: u32,
    /// Lanes per warp.
    width: u32,
    /// How often waves have retried waiting lanes since lanes were last released.
    asked: u32,
}

/// Whether the calling thread may continue at once.
enum Turn {
    GoesOn,
    Waits,
}

impl Block {
    pub fn new(threads: u32, width: u32, context: ThreadContext, dispatch: *const Dispatch) -> Self {
        let mut block = Self {
            threads: Vec::with_capacity(threads as usize),
            states: vec![State::Runnable; threads as usize],
            warps: (0..threads.div_ceil(width)).map(|_| Warp::default()).collect(),
            barriers: [Barrier::default(); BARRIERS],
            ready: VecDeque::with_capacity(threads as usize),
            asking: Vec::new(),
            alive: 0,
            current: 0,
            width,
            asked: 0,
        };
        for linear in 0..threads {
            let mut context = context;
            context.place(linear, width);
            block.threads.push(Thread {
                running: RunningThread::new(context, std::ptr::null_mut(), dispatch),
                operation: Operation::Sync,
                result: 0,
                calls: Vec::new(),
            });
        }
        block
    }

    /// Prepares the block to run from the start as block `ctaid` of a cluster. The cluster outlives the run.
    pub fn reset(&mut self, ctaid: [u32; 3], cluster: &Cluster) {
        let own = &raw mut *self;
        self.ready.clear();
        self.asking.clear();
        self.asked = 0;
        self.barriers = [Barrier::default(); BARRIERS];
        self.alive = self.threads.len() as u32;
        self.states.fill(State::Runnable);
        for warp in &mut self.warps {
            warp.alive = 0;
            warp.gatherings.clear();
        }
        for (linear, thread) in self.threads.iter_mut().enumerate() {
            let context = &mut thread.running.context;
            context.ctaid = ctaid;
            context.shared = cluster.shared(context, context.cluster_rank());
            thread.running.cluster = cluster;
            thread.running.arrival.set(None);
            thread.running.block = own;
            thread.calls.clear();
            let (warp, lane) = (linear / self.width as usize, linear % self.width as usize);
            self.warps[warp].alive |= 1 << lane;
            self.ready.push_back(linear as u32);
        }
    }

    /// Takes the next thread that can run, if any.
    pub fn next(&mut self) -> Option<(u32, *mut RunningThread)> {
        let linear = self.ready.pop_front()?;
        self.current = linear;
        Some((linear, &raw mut self.threads[linear as usize].running))
    }

    /// The context of the thread that ran last.
    pub fn current(&self) -> &ThreadContext {
        &self.threads[self.current as usize].running.context
    }

    /// Whether every thread has exited.
    pub fn is_done(&self) -> bool {
        self.alive == 0
    }

    /// Marks a thread as waiting for a write to memory.
    pub fn give_way(&mut self, linear: u32) {
        self.asking.push(linear);
    }

    /// Retries the threads that wait for a write to memory. Returns whether there are any.
    pub fn ask_again(&mut self) -> bool {
        let any = !self.asking.is_empty();
        self.ready.extend(self.asking.drain(..));
        any
    }

    /// Makes a thread runnable with a result. The current thread is running already, so it is not queued.
    fn wake(&mut self, linear: u32, result: u64) {
        self.threads[linear as usize].result = result;
        if self.states[linear as usize] != State::Runnable {
            self.states[linear as usize] = State::Runnable;
            self.ready.push_back(linear);
        }
    }

    fn arrive_at_barrier(&mut self, id: u32, count: u32, predicate: u32) -> Turn {
        let id = id as usize % BARRIERS;
        if self.count_at_barrier(id, count, predicate) {
            return Turn::GoesOn;
        }
        self.states[self.current as usize] = State::AtBarrier(id as u8);
        Turn::Waits
    }

    /// Counts the running thread at a barrier. Returns whether the barrier is complete.
    fn count_at_barrier(&mut self, id: usize, count: u32, predicate: u32) -> bool {
        let barrier = &mut self.barriers[id];
        barrier.count = count;
        barrier.arrived += 1;
        barrier.holding += u32::from(predicate != 0);
        let is_complete = self.barrier_is_complete(id);
        if is_complete {
            self.complete_barrier(id);
        }
        is_complete
    }

    fn barrier_is_complete(&self, id: usize) -> bool {
        let Barrier { count, arrived, .. } = self.barriers[id];
        arrived > 0 && arrived >= if count == 0 { self.alive } else { count.min(self.alive) }
    }

    /// Releases a barrier. The result is the number of true predicates (low half) and of threads (high half).
    fn complete_barrier(&mut self, id: usize) {
        let Barrier { arrived, holding, .. } = std::mem::take(&mut self.barriers[id]);
        let result = u64::from(holding) | u64::from(arrived) << 32;
        for linear in 0..self.states.len() {
            if self.states[linear] == State::AtBarrier(id as u8) {
                self.wake(linear as u32, result);
            }
        }
        if self.states[self.current as usize] != State::Exited {
            self.threads[self.current as usize].result = result;
        }
    }

    /// The numbers of the calls that the running thread is inside.
    fn calls(&mut self) -> &mut Vec<u32> {
        &mut self.threads[self.current as usize].calls
    }

    /// The warp and lane of a thread.
    fn place(&self, linear: u32) -> (usize, u32) {
        ((linear / self.width) as usize, linear % self.width)
    }

    fn arrive_at_warp_operation(&mut self, request: WarpRequest, operation: Operation) -> Turn {
        let current = self.current;
        let (warp, lane) = self.place(current);
        let request = WarpRequest { mask: request.mask | 1 << lane, ..request };
        self.threads[current as usize].operation = operation;
        let gatherings = &mut self.warps[warp].gatherings;
        let index = gatherings.iter().position(|gathering| gathering.request == request).unwrap_or_else(|| {
            gatherings.push(Gathering { request, arrived: 0 });
            gatherings.len() - 1
        });
        gatherings[index].arrived |= 1 << lane;
        if self.complete_gathering(warp, index) {
            return Turn::GoesOn;
        }
        self.states[current as usize] = State::AtWarpOperation;
        Turn::Waits
    }

    fn complete_gathering(&mut self, warp: usize, index: usize) -> bool {
        let Warp { alive, gatherings } = &self.warps[warp];
        let Gathering { request, arrived } = gatherings[index];
        if request.mask & alive & !arrived != 0 || arrived == 0 {
            return false;
        }
        self.warps[warp].gatherings.swap_remove(index);
        self.release(warp, arrived);
        true
    }

    /// Releases lanes of a warp together, each with the result of its operation.
    fn release(&mut self, warp: usize, mask: u64) {
        let base = warp * self.width as usize;
        let mut operations = [Operation::Sync; LANES];
        for lane in lanes(mask) {
            operations[lane] = self.threads[base + lane].operation;
        }
        for lane in lanes(mask) {
            self.wake((base + lane) as u32, result(lane as u32, mask, &operations));
        }
    }

    /// Removes a thread that has exited from everything that waits for it.
    pub fn exit(&mut self, linear: u32) {
        self.states[linear as usize] = State::Exited;
        self.alive -= 1;
        let RunningThread { cluster, arrival, .. } = &self.threads[linear as usize].running;
        // SAFETY: the cluster outlives the blocks that run in it.
        unsafe { (**cluster).exit(arrival.get()) };
        let (warp, lane) = self.place(linear);
        self.warps[warp].alive &= !(1 << lane);
        while (0..self.warps[warp].gatherings.len()).any(|index| self.complete_gathering(warp, index)) {}
        for id in 0..BARRIERS {
            if self.barrier_is_complete(id) {
                self.complete_barrier(id);
            }
        }
    }

    fn arrive_at_site(&mut self, site: CodeLocation, operation: Operation) -> Turn {
        let current = self.current as usize;
        let (warp, _) = self.place(self.current);
        self.threads[current].operation = operation;
        self.states[current] = State::AtSite(site);
        let alive = self.warps[warp].alive;
        if self.lanes_with(current) != alive {
            return Turn::Waits;
        }
        self.states[current] = State::Runnable;
        self.release(warp, alive);
        Turn::GoesOn
    }

    /// The lanes of its warp that wait at the same site as a thread, inside the same calls.
    fn lanes_with(&self, linear: usize) -> u64 {
        let (warp, _) = self.place(linear as u32);
        let base = warp * self.width as usize;
        let is_there = |other: &usize| {
            self.states[base + other] == self.states[linear]
                && self.threads[base + other].calls == self.threads[linear].calls
        };
        lanes(self.warps[warp].alive).filter(is_there).fold(0, |mask, lane| mask | 1 << lane)
    }

    /// The order of two threads' sites in the code.
    fn order(&self, (a, at): (CodeLocation, usize), (b, bt): (CodeLocation, usize)) -> std::cmp::Ordering {
        let path = |linear: usize, site: CodeLocation| self.threads[linear].calls.iter().copied().chain([site.number]);
        path(at, a).cmp(path(bt, b)).then(a.address.cmp(&b.address)).then(at.cmp(&bt))
    }

    /// Releases, in each warp, the lanes at the earliest site. Called when every lane waits.
    pub fn release_active(&mut self) -> bool {
        let mut released = false;
        let mut patient = false;
        for warp in 0..self.warps.len() {
            let base = warp * self.width as usize;
            let site = |lane: usize| match self.states[base + lane] {
                State::AtSite(site) => Some((site, base + lane)),
                _ => None,
            };
            let waiting = lanes(self.warps[warp].alive).filter_map(site);
            let Some((_, first)) = waiting.min_by(|a, b| self.order(*a, *b)) else { continue };
            let asks = |warp: usize| self.asking.iter().any(|linear| self.place(*linear).0 == warp);
            if self.threads[first].operation.is_of_wave() && self.asked < PATIENCE && asks(warp) {
                patient = true;
                continue;
            }
            self.release(warp, self.lanes_with(first));
            released = true;
        }
        self.asked = if patient && !released { self.asked + 1 } else { 0 };
        released
    }

    pub fn hang(&self) -> KernelFault {
        let mut parts = Vec::new();
        for (id, barrier) in self.barriers.iter().enumerate().filter(|(_, barrier)| barrier.arrived > 0) {
            parts.push(format!("{} threads wait at barrier {id}", barrier.arrived));
        }
        for (number, warp) in self.warps.iter().enumerate() {
            for Gathering { request, arrived } in &warp.gatherings {
                let wanted = request.mask & warp.alive;
                parts.push(format!(
                    "lanes {arrived:#0width$x} of warp {number} wait at a {} for lanes {wanted:#0width$x}",
                    request.class.name(),
                    width = 2 + self.width as usize / 4
                ));
            }
        }
        parts.truncate(4);
        parts.push(format!(
            "{} threads have exited",
            self.states.iter().filter(|state| **state == State::Exited).count()
        ));
        KernelFault::Deadlock(parts.join(", "))
    }
}

/// Pauses the calling fiber, unless its arrival completed the operation, and returns the operation's result.
fn settle(block: *mut Block, arrive: impl FnOnce(&mut Block) -> Turn) -> u64 {
    // SAFETY: called on a fiber of this block, while the worker is inside `resume` and holds no reference to the block;
    // no reference is held across the pause. The yielder is that of the running fiber.
    unsafe {
        let linear = (*block).current;
        if let Turn::Waits = arrive(&mut *block) {
            let yielder = (&*block).threads[linear as usize].running.yielder.get();
            (*yielder).suspend(Pause::Blocked);
        }
        (&*block).threads[linear as usize].result
    }
}

/// `bar.sync` with a predicate. Returns how many threads at the barrier have a true predicate, and how many threads
/// there are.
pub fn barrier(block: *mut Block, id: u32, count: u32, predicate: u32) -> (u32, u32) {
    let result = settle(block, |block| block.arrive_at_barrier(id, count, predicate));
    (result as u32, (result >> 32) as u32)
}

/// `bar.arrive`: counts the thread at the barrier without waiting.
pub fn arrive(block: *mut Block, id: u32, count: u32) {
    // SAFETY: as in `settle`; this call never pauses.
    unsafe { (*block).count_at_barrier(id as usize % BARRIERS, count, 0) };
}

pub fn warp_operation(block: *mut Block, request: WarpRequest, operation: Operation) -> u64 {
    settle(block, |block| block.arrive_at_warp_operation(request, operation))
}

/// Waits until the lanes of a warp at a site continue together, each with the result of its operation.
pub fn site_operation(block: *mut Block, site: CodeLocation, operation: Operation) -> u64 {
    settle(block, |block| block.arrive_at_site(site, operation))
}

/// Marks that the running thread enters a call in which lanes may converge.
pub fn enter(block: *mut Block, call: u32) {
    // SAFETY: as in `settle`; this call never pauses.
    unsafe { (&mut *block).calls().push(call) };
}

/// Marks that the running thread leaves the innermost of such calls.
pub fn leave(block: *mut Block) {
    // SAFETY: as in `settle`; this call never pauses.
    unsafe { (&mut *block).calls().pop() };
}

//! Runs blocks without barriers and warp operations: one thread after another on one stack.
//!
//! A thread that waits for a write to memory yields (`__mneme_cpu_yield`). Its stack is put aside, and the threads
//! after it, of this block and of others, continue on another stack. Stacks that were put aside get turns in between.

use std::collections::VecDeque;
use std::rc::Rc;

use corosensei::CoroutineResult;

use super::block::{self, RunningThread};
use super::context::ThreadContext;
use super::fault::KernelFault;
use super::grid::{Blocks, Grid, Waits};
use super::shared::{SharedMemory, SharedMemoryPool};
use super::stack::{self, Ended, Fiber, Pause, Stacks};
use super::worker::Worker;

/// The threads that a line is to run.
struct Work {
    /// The threads of a block from a linear index on; `None` for new blocks until none is left.
    rest: Option<([u32; 3], u32)>,
    memory: Rc<SharedMemory>,
}

/// A stack that runs threads.
struct Line {
    fiber: Fiber,
    running: Box<RunningThread>,
    /// The memory of the block, shared with its other threads that were put aside.
    memory: Rc<SharedMemory>,
    /// Whether it takes further blocks, unless it is put aside.
    goes_on: bool,
}

/// Raw pointers for the fiber's closure, which cannot borrow.
struct Task {
    grid: *const Grid,
    running: *mut RunningThread,
    blocks: *mut Blocks<'static>,
    rest: Option<([u32; 3], u32)>,
}

pub fn run(worker: &mut Worker, grid: &Grid, context: ThreadContext) {
    let Worker { loops: stacks, shared, .. } = worker;
    let mut blocks = grid.blocks();
    let bytes = context.total_shared_bytes as usize;
    let mut next = Some(Work { rest: None, memory: Rc::new(shared.take(bytes)) });
    let mut aside: VecDeque<Line> = VecDeque::new();
    // Lines that were put aside and lines that have not begun take turns.
    let mut others_first = false;
    let mut fruitless = 0;
    let mut waits = Waits::default();
    while !grid.stopped() {
        let has_room = || aside.len() < grid.in_flight && stack::have_room(1);
        let begins = aside.is_empty() || (!others_first && has_room());
        others_first = begins;
        let started = if begins { next.take() } else { None };
        let mut line = match started.map(|work| Line::start(stacks, grid, context, work, &raw mut blocks)) {
            Some(Ok(line)) => line,
            Some(Err(error)) => {
                grid.fail(KernelFault::NoStack(error.to_string()), String::new());
                break;
            }
            None => match aside.pop_front() {
                Some(line) => line,
                None => break,
            },
        };
        block::set_running(&raw const *line.running);
        let outcome = line.fiber.resume(());
        block::set_running(std::ptr::null());
        match outcome {
            CoroutineResult::Yield(Pause::GivesWay) => {
                if !line.running.aside.replace(true) {
                    next = Some(line.rest(grid, shared));
                }
                aside.push_back(line);
                fruitless += 1;
                if fruitless > aside.len() {
                    // No line of this worker can continue by itself.
                    waits.pause(grid);
                    fruitless = 0;
                }
                continue;
            }
            CoroutineResult::Return(Ok(())) => {
                if !line.running.aside.get() && !line.goes_on {
                    next = Some(Work { rest: None, memory: Rc::new(shared.take(bytes)) });
                }
            }
            CoroutineResult::Return(Err(fault)) | CoroutineResult::Yield(Pause::Fault(fault)) => {
                grid.fail(fault, line.running.context.description());
            }
            // A lone thread would wait forever. The object's table promised that this does not happen.
            CoroutineResult::Yield(Pause::Blocked) => {
                grid.fail(KernelFault::Internal, line.running.context.description())
            }
        }
        fruitless = 0;
        line.end(stacks, shared);
    }
    aside.into_iter().for_each(|line| line.end(stacks, shared));
}

impl Line {
    fn start(
        stacks: &mut Stacks,
        grid: &Grid,
        context: ThreadContext,
        work: Work,
        blocks: *mut Blocks<'_>,
    ) -> std::io::Result<Self> {
        let stack = stacks.take()?;
        let mut running = Box::new(RunningThread::new(context, std::ptr::null_mut(), &raw const grid.dispatch));
        running.context.shared = work.memory.address();
        running.context.stack = stack::bounds(&stack);
        let goes_on = work.rest.is_none();
        let task =
            Task { grid: std::ptr::from_ref(grid), running: &raw mut *running, blocks: blocks.cast(), rest: work.rest };
        let fiber = Fiber::with_stack(stack, move |yielder, ()| -> Ended {
            let task = task;
            // SAFETY: the code that resumes the fiber keeps the grid, the blocks and `running` alive until the fiber
            // has ended or been abandoned, and does not use the blocks meanwhile.
            unsafe { (*task.running).yielder.set(yielder) };
            task.run();
            Ok(())
        });
        running.escape = Some(fiber.trap_handler());
        Ok(Self { fiber, running, memory: work.memory, goes_on })
    }

    /// The work after the thread that was put aside.
    fn rest(&self, grid: &Grid, shared: &mut SharedMemoryPool) -> Work {
        let ThreadContext { tid: [x, y, z], ntid: [width, height, _], ctaid, total_shared_bytes, .. } =
            self.running.context;
        let next = (z * height + y) * width + x + 1;
        if next < grid.threads() {
            Work { rest: Some((ctaid, next)), memory: self.memory.clone() }
        } else {
            Work { rest: None, memory: Rc::new(shared.take(total_shared_bytes as usize)) }
        }
    }

    fn end(self, stacks: &mut Stacks, shared: &mut SharedMemoryPool) {
        stacks.give_back(self.fiber);
        if let Ok(memory) = Rc::try_unwrap(self.memory) {
            shared.give_back(memory);
        }
    }
}

impl Task {
    fn run(&self) {
        // SAFETY: see the creation of the fiber.
        let grid = unsafe { &*self.grid };
        if let Some((ctaid, first)) = self.rest {
            self.threads(grid, ctaid, first);
            return;
        }
        // SAFETY: as above; no other line takes blocks until this one has ended or been put aside, and then this one
        // takes none.
        while let Some(ctaid) = unsafe { (*self.blocks).next() } {
            if self.threads(grid, ctaid, 0) {
                return;
            }
        }
    }

    /// Runs the threads of a block from a linear index on. Returns whether the line was put aside.
    fn threads(&self, grid: &Grid, ctaid: [u32; 3], first: u32) -> bool {
        let (entry, parameters) = (grid.launch.entry, grid.launch.parameters.address());
        let [width, height, depth] = grid.launch.block;
        let warp_size = grid.launch.warp_size;
        let (mut x_first, mut y_first, z_first) = (first % width, first / width % height, first / width / height);
        let mut linear = first;
        // SAFETY: apart from the kernel, which only reads the context, this line alone uses it. The entry is a function
        // of a loaded object, and the buffer has the size in the object's table.
        unsafe {
            let context = &raw mut (*self.running).context;
            (*context).ctaid = ctaid;
            for z in z_first..depth {
                for y in y_first..height {
                    for x in x_first..width {
                        (*context).tid = [x, y, z];
                        (*context).lane = linear % warp_size;
                        (*context).warp = linear / warp_size;
                        entry(parameters);
                        if (*self.running).aside.get() {
                            return true;
                        }
                        linear += 1;
                    }
                    x_first = 0;
                }
                y_first = 0;
            }
        }
        false
    }
}

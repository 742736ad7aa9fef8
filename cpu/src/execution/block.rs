//! A worker's part of a launch: block after block, as a loop over threads or as fibers.

use corosensei::CoroutineResult;

use super::context::{self, Running, ThreadContext};
use super::faults::Fault;
use super::fibers;
use super::grid::Grid;
use super::pool::Worker;
use super::stack::{Ended, Fiber, Pause, Stacks};

/// A block's shared memory, aligned as the contract says.
#[derive(Default)]
pub struct SharedMemory(Vec<Line>);

#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Line([u8; 128]);

impl SharedMemory {
    /// At least `bytes` of it. What earlier blocks left there stays, as on a GPU.
    fn of(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(128).max(1);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; 128]));
        }
        self.0.as_mut_ptr().cast()
    }
}

/// Runs blocks until there are no more.
pub fn work(worker: &mut Worker, grid: &Grid<'_>) {
    let launch = grid.launch;
    let total = launch.dynamic_shared_offset + launch.dynamic_shared;
    let context = ThreadContext {
        tid: [0; 3],
        ntid: launch.block,
        ctaid: [0; 3],
        nctaid: launch.grid,
        lane: 0,
        warp: 0,
        dynamic_shared_bytes: launch.dynamic_shared,
        total_shared_bytes: total,
        shared: worker.shared.of(total as usize),
    };
    if launch.collective {
        fibers::run(&mut worker.fibers, grid, context);
    } else {
        run_loops(&mut worker.loops, grid, context);
    }
}

/// Raw pointers for the fiber's closure, which may not borrow.
struct Loop {
    grid: *const Grid<'static>,
    running: *mut Running,
}

fn run_loops(stacks: &mut Stacks, grid: &Grid<'_>, context: ThreadContext) {
    let mut running = Running::new(context, std::ptr::null_mut());
    let stack = match stacks.take() {
        Ok(stack) => stack,
        Err(error) => return grid.fail(Fault::NoStack(error.to_string()), String::new()),
    };
    let task = Loop { grid: std::ptr::from_ref(grid).cast(), running: &raw mut running };
    let mut fiber = Fiber::with_stack(stack, move |yielder, ()| -> Ended {
        let Loop { grid, running } = task;
        // SAFETY: `run_loops` keeps both alive until the fiber has ended or been left.
        let (grid, context) = unsafe {
            (*running).yielder.set(yielder);
            (&*grid, &raw mut (*running).context)
        };
        let (entry, parameters) = (grid.launch.entry, grid.parameters.as_ptr().cast::<u8>());
        let [width, height, depth] = grid.launch.block;
        for ctaid in grid.blocks() {
            let mut linear = 0;
            // SAFETY: the context is ours alone but for the kernel, which only reads it; the entry is a function of a
            // loaded object and the buffer has the size that its table states.
            unsafe {
                (*context).ctaid = ctaid;
                for z in 0..depth {
                    for y in 0..height {
                        for x in 0..width {
                            (*context).tid = [x, y, z];
                            (*context).lane = linear % 32;
                            (*context).warp = linear / 32;
                            entry(parameters);
                            linear += 1;
                        }
                    }
                }
            }
        }
        Ok(())
    });
    running.escape = Some(fiber.trap_handler());
    context::set_running(&raw const running);
    let outcome = fiber.resume(());
    context::set_running(std::ptr::null());
    match outcome {
        CoroutineResult::Return(Ok(())) => {}
        CoroutineResult::Return(Err(fault)) | CoroutineResult::Yield(Pause::Fault(fault)) => grid.fail(fault, place(&running.context)),
        // Waiting alone is waiting for ever: the table promised that it does not happen.
        CoroutineResult::Yield(Pause::Blocked) => grid.fail(Fault::Internal, place(&running.context)),
    }
    stacks.give_back(fiber);
}

/// " in thread (…) of block (…)"
pub fn place(context: &ThreadContext) -> String {
    let [x, y, z] = context.tid;
    let [block_x, block_y, block_z] = context.ctaid;
    format!(" in thread ({x}, {y}, {z}) of block ({block_x}, {block_y}, {block_z})")
}

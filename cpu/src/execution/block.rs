//! A worker's part of a launch: block after block, as a loop over threads or as fibers.

use super::context::ThreadContext;
use super::grid::Grid;
use super::pool::Worker;
use super::{fibers, loops};

/// Runs blocks until there are no more.
pub fn work(worker: &mut Worker, grid: &Grid<'_>) {
    let launch = grid.launch;
    let context = ThreadContext {
        tid: [0; 3],
        ntid: launch.block,
        ctaid: [0; 3],
        nctaid: launch.grid,
        lane: 0,
        warp: 0,
        dynamic_shared_bytes: launch.dynamic_shared,
        total_shared_bytes: launch.shared_bytes(),
        shared: std::ptr::null_mut(),
    };
    if launch.collective {
        fibers::run(worker, grid, context);
    } else {
        loops::run(worker, grid, context);
    }
}

/// " in thread (…) of block (…)"
pub fn place(context: &ThreadContext) -> String {
    let [x, y, z] = context.tid;
    let [block_x, block_y, block_z] = context.ctaid;
    format!(" in thread ({x}, {y}, {z}) of block ({block_x}, {block_y}, {block_z})")
}

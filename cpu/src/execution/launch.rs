//! Runs a launch: its blocks on the workers, each as a loop over its threads or as fibers.

use super::context::ThreadContext;
use super::fault::KernelFault;
use super::grid::{CheckedLaunch, Grid};
use super::limit::LaunchTimeLimit;
use super::pool::{self, Worker};
use super::{fibers, loops, messages, signals};
use crate::status::Status;

/// Runs a launch to its end.
///
/// # Errors
/// The status that the device is in from then on: a kernel's fault is not undone.
pub fn run(launch: &CheckedLaunch<'_>) -> Result<(), Status> {
    signals::install();
    let (grid, workers) = Grid::new(launch);
    {
        let over = |seconds| grid.fail(KernelFault::TimeLimit(seconds), String::new());
        let mut limit = LaunchTimeLimit::new(launch.time_limit, &launch.code, &over);
        pool::share(workers, &|worker| work(worker, &grid), &mut limit).map_err(|error| {
            crate::say!("no worker threads could be started: {error}");
            Status::OPERATING_SYSTEM
        })?;
    }
    match grid.into_fault() {
        None => Ok(()),
        Some((fault, place)) => {
            messages::forget();
            if let Some(sentence) = fault.sentence() {
                crate::say!("kernel {} {sentence}{place}", crate::report::readable(launch.name));
            }
            Err(fault.status())
        }
    }
}

/// A worker's part: runs blocks until there are no more.
fn work(worker: &mut Worker, grid: &Grid<'_>) {
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
        cluster: launch.cluster.unwrap_or([1; 3]),
        explicit_cluster: u32::from(launch.cluster.is_some()),
    };
    if launch.collective {
        fibers::run(worker, grid, context);
    } else {
        loops::run(worker, grid, context);
    }
}

//! Executes grids: worker threads take blocks off a counter and run the threads of each.
//!
//! A block runs as a loop over its threads or, if threads wait for each other, with one fiber for each thread. Threads
//! that wait for a write to memory yield to threads of their block and of others, so a worker may have many blocks in
//! flight.
//!
//! Kernel code runs on the device's own stacks. A trap, a failed assertion or an invalid memory access therefore ends
//! the launch by abandoning that stack, and the process survives.

pub mod block;
pub mod cluster;
pub mod context;
pub mod device_calls;
pub mod dispatch;
pub mod fault;
pub mod fibers;
pub mod fragments;
pub mod grid;
pub mod heap;
pub mod images;
pub mod launch;
pub mod limit;
pub mod loops;
pub mod matrix;
pub mod messages;
pub mod pool;
pub mod printf;
pub mod processors;
pub mod round;
pub mod sampling;
pub mod shared;
pub mod signals;
pub mod stack;
pub mod texturing;
pub mod warp;
pub mod worker;

pub use grid::CheckedLaunch;
pub use launch::{BegunLaunch, begin};
pub use pool::{end, start_thread};

#[cfg(test)]
mod tests;

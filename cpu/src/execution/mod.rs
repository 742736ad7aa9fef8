//! The execution of grids: workers take blocks, and run the threads of each.
//!
//! Worker threads take blocks off a counter; a block runs as a loop over its threads or, where
//! threads wait for one another, as one fiber for each thread. Threads that wait for what others write to memory give
//! way, to threads of their block and of others, so that a worker has as many blocks under way as need be.
//!
//! Everything of a kernel runs on stacks of our own, so that a trap, a failed assertion or an invalid memory access
//! ends the launch by leaving that stack behind, and not the process.

pub mod block;
pub mod cluster;
pub mod context;
pub mod device_calls;
pub mod dispatch;
pub mod fault;
pub mod fibers;
pub mod fragments;
pub mod grid;
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
pub use pool::{end, without_signals};

#[cfg(test)]
mod tests;

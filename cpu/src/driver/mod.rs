//! The driver half: the `cu*` functions, exported from one table.
//!
//! Work whose turn it is runs inside the call that submits it, so a call that would wait on a GPU mostly finds it done;
//! what takes longer goes on in [`lanes`]. Errors of kernels are reported as a GPU does: the launch succeeds, and every
//! later call that synchronises fails, for good.

pub mod allocations;
mod arrays;
pub mod attributes;
pub mod context;
pub mod copy;
pub mod device;
pub mod ends;
pub mod event;
pub mod executable;
pub mod exports;
pub mod function;
pub mod graph;
pub mod graph_memory;
pub mod graph_nodes;
mod image;
pub mod lanes;
pub mod launch;
pub mod lookup;
pub mod memory;
pub mod module;
pub mod sharing;
pub mod stream;
mod textures;
pub mod virtual_memory;
pub mod waiting;
pub mod work;

pub use image::processor;

#[cfg(test)]
mod tests;

/// The CUDA version that the driver speaks: 12.9.
pub const VERSION: i32 = 12090;

//! The driver half: the `cu*` functions, exported from one table.
//!
//! Work that can begin at once runs inside the call that submits it, so calls that would wait on a GPU usually find it
//! done. Work that takes longer continues in [`lanes`]. As on a GPU, a launch succeeds even if its kernel fails, and
//! every later call that synchronises fails from then on.

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

/// The CUDA version of the driver: 12.9.
pub const VERSION: i32 = 12090;

//! Handlers of the functions that launch kernels, graphs and Proteus's kernels.
//!
//! Each launch goes to [`recorder::launch`](crate::recorder::launch), or to
//! [`counted::pass`](crate::recorder::counted::pass) if it is only counted.

pub mod by_address;
pub mod forms;
pub mod graphs;
pub mod proteus;
pub mod refused;
pub mod work_items;

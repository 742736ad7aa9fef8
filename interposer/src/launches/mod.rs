//! Handlers of everything that starts kernels; each ends in [`recorder::launch`](crate::recorder::launch).

pub mod forms;
pub mod graphs;
pub mod legacy;
pub mod proteus;

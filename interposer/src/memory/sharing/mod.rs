//! Memory that processes or devices share: what is given out, what is opened, and physical memory by its handles.

pub mod exports;
pub mod handle;
pub mod imports;
pub mod physical;

//! Memory that processes or devices share: given out, opened, and by its physical handles.

mod descriptors;
pub mod exports;
pub mod handle;
pub mod imports;
pub mod physical;

//! Memory that processes or devices share: exports, imports, and physical handles.

mod descriptors;
pub mod exports;
pub mod handle;
pub mod imports;
pub mod physical;

//! Standard output and lines read from descriptors.

pub mod lines;
pub mod stdout;

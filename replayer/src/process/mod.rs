//! Where processes print, and the lines that they read.

pub mod lines;
pub mod stdout;

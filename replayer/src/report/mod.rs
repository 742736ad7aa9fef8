//! Reports of replays: results, files of a build, faults, differences between runs.

pub mod artifacts;
pub mod observed;
pub mod result;
pub mod summary;
pub mod variations;

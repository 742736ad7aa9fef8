//! Beginnings and ends: of the process, of its forks, of contexts.

pub mod contexts;
pub mod departures;
pub mod exits;
pub mod forks;
pub mod green;
pub mod jumps;

//! Verification: compares replayed memory with the recorded memory.
//!
//! Contains the types of memory, and the accepted differences.

pub mod comparison;
pub mod elements;
pub mod evidence;
pub mod tolerances;

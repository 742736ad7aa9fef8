//! Verification: the comparison of replayed memory with the recorded memory.
//!
//! It has what memory holds, and what it may differ by.

pub mod comparison;
pub mod elements;
pub mod evidence;
pub mod tolerances;

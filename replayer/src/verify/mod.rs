//! Comparing replayed memory with the recorded memory: what it holds, and what it may differ by.

pub mod comparison;
pub mod elements;
pub mod tolerances;

//! Processes of ours: how they start, what they may do, and how they talk to each other.

// They panic if nobody reads; `mneme_system::console` has functions that do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod allowance;
pub mod child;
pub mod confinement;
pub mod descriptors;
pub mod frame;
pub mod interruption;
pub mod readiness;
mod relay;
pub mod tools;

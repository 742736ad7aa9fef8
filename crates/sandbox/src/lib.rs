//! Mneme's own processes: starting them, confining them, and communicating with them.

// These macros panic if the reader is gone; use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod allowance;
pub mod child;
pub mod confinement;
pub mod descriptors;
pub mod frame;
pub mod interruption;
pub mod program;
pub mod readiness;
mod relay;
pub mod tools;

//! Processes of ours: how they start, what they may do, and how they talk to each other.

pub mod allowance;
pub mod child;
pub mod confinement;
pub mod descriptors;
pub mod frame;
pub mod interruption;
pub mod readiness;
mod relay;

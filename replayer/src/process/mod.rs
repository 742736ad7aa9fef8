//! Processes of ours: how they start, are confined, talk to each other, and where they print.

pub mod child;
pub mod confinement;
pub mod frame;
pub mod lines;
pub mod readiness;
pub mod stdout;

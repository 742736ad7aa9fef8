//! Builds of configurations, each in a process of its own.
//!
//! A crash in LLVM is then that configuration's result.
//!
//! Builders are forked by a fork server, which has LLVM and the assembler loaded and warm. The supervisor cannot be
//! that parent: an assembler may load the device's driver, and a driver that was loaded before a fork refuses to work
//! in the child.

mod assemblies;
mod builder;
mod compile;
pub mod fork_server;
mod inputs;
mod original;
mod outcome;
mod preload;
mod probe;
pub mod replacement;
mod spec;

pub use compile::compile;
pub use inputs::{Build, Inputs};
pub use outcome::{BuildOutcome, Built, NotBuilt};
pub use probe::{Probe, ProbeResult};
pub use spec::{BuildKey, BuildSpec};

//! The compiler of recorded kernels, based on LLVM.
//!
//! It links recorded IR, specialises it, runs a pass pipeline and generates code.
//!
//! [`build()`] is the one entry point. Call it in a forked child: LLVM may abort on IR or pipelines that it cannot
//! handle, and that must be the result of one configuration, not the end of a tuning session. The parent calls
//! [`warm_up`] before it forks, so children do not pay for initialisation.

// `print!` panics when the stream is closed. Use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod architecture;
pub mod assembler;
pub mod build;
mod code_version;
pub mod cpu;
pub mod error;
mod host;
pub mod instrument;
pub mod interface;
pub mod ir;
pub mod lifting;
mod linker;
mod llvm;
#[cfg(feature = "planted-faults")]
mod own_ir;
pub mod pipeline;
mod preloaded;
pub mod prepare;
pub mod program;
pub mod request;
pub mod server;
pub mod signature;
pub mod unit;
mod version;
mod warm;

// One name for every version.
#[cfg(feature = "llvm19")]
extern crate llvm_sys_191 as llvm_sys;
#[cfg(feature = "llvm20")]
extern crate llvm_sys_201 as llvm_sys;
#[cfg(feature = "llvm21")]
extern crate llvm_sys_211 as llvm_sys;
#[cfg(feature = "llvm22")]
extern crate llvm_sys_221 as llvm_sys;
#[cfg(feature = "llvm23")]
extern crate llvm_sys_231 as llvm_sys;

pub use build::{Hooks, build, build_with};
pub use error::BuildError;
pub use preloaded::Preloaded;
pub use request::{Artifact, BuildRequest, BuildTimes, InputCode, RecordedLaunch};
pub use version::{LLVM_MAJOR, llvm_version};
pub use warm::{preload, up as warm_up};

//! The replayer of recorded kernels.
//!
//! It compiles a kernel under any configuration, runs it on the recorded memory, and verifies every byte.
//!
//! ```text
//! supervisor            one thread, no LLVM, no device
//!  ├─ decoder           decodes the snapshot into shared memory, once
//!  ├─ fork server       the program mneme-build-NN: has LLVM and the assembler loaded
//!  │   └─ builder       compiles one configuration
//!  └─ executor          one device context with the snapshot resident; replaced when a kernel breaks it
//! ```
//!
//! A configuration passes through the modules in this order: [`cli`] or [`serve`] → [`job`] → [`supervise`] → [`build`]
//! → [`execute`] → [`verify`] → [`report`]. A module uses only modules that are declared before it below.

// These macros panic when the stream is closed. Use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod error;
pub mod process;

pub mod recording;

pub mod verify;

pub mod build;
pub mod execute;

pub mod context;

pub mod job;

pub mod report;

pub mod supervise;

mod fresh_inputs;

pub mod calibration;

pub mod cli;
mod compilers;

pub mod bisect;
pub mod one_shot;
mod rounding;
pub mod serve;
pub mod sweep;

pub mod program;

//! The library that all programs of Mneme share.
//!
//! It has recordings on disk, code images, devices, launches and configurations.
//!
//! There is no LLVM in this crate: it is loaded into other people's processes by the recorder and the CPU device.

// They panic where nobody reads; `console` has what does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod address_space;
pub mod arguments;
pub mod cancellation;
pub mod checked_text;
pub mod chunk_hash;
pub mod compile_options;
pub mod configuration;
pub mod console;
pub mod device;
pub mod environment;
pub mod exit;
pub mod files;
pub mod hash;
pub mod image;
pub mod install;
pub mod launch;
pub mod observation;
pub mod own_threads;
pub mod protocol;
pub mod random;
pub mod recording;
pub mod result;
pub mod run;
pub mod summary;
pub mod symbol;
pub mod text;
pub mod thread_stack;
pub mod tolerance;
pub mod tuned;
pub mod units;

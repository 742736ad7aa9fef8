//! A program's process and its machine.
//!
//! This crate provides files and their trust, the environment, standard output and error, exit statuses, threads and
//! signals, and the locations of Mneme and of the vendors' tools. The recorder and the CPU device load it into other
//! people's processes, so it starts nothing by itself.

// These macros panic if the reader is gone; use `console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod address_space;
pub mod arguments;
pub mod cancellation;
pub mod console;
pub mod environment;
mod error;
pub mod exit;
pub mod files;
pub mod install;
pub mod own_threads;
pub mod random;
pub mod run;
pub mod thread_stack;
pub mod toolkits;

pub use error::FolderError;

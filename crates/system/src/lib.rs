//! A program's process and the machine that it runs on.
//!
//! It has files and whom to trust with them, the environment, standard output and error, exit statuses, threads and
//! signals, and the places where Mneme and the vendors' tools are installed. The recorder and the CPU device are loaded
//! into other people's processes with it, so it starts nothing by itself.

// They panic if nobody reads; `console` has functions that do not.
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

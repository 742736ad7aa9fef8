//! Recordings on disk.
//!
//! The format is docs/reference/recording-format.md.
//!
//! A recording is a folder: one `<static-hash>.json` for each kernel ([`database`]), the kernel's IR, and for each
//! instance two manifests ([`manifest`]) that name chunks of memory in the pack files of the chunk store ([`store`]).
//! Recordings of the existing Mneme ([`upstream`]) have the same database and files of their own in place of manifests
//! and packs; [`moments`] opens either, and [`mod@export`] writes them.

// They panic if nobody reads; `mneme_system::console` has functions that do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod choice;
pub mod code;
pub mod database;
pub mod draft;
mod encoding;
pub mod error;
pub mod export;
#[cfg(test)]
pub(crate) mod fixture;
pub mod housekeeping;
pub mod integrity;
pub mod leads;
pub mod manifest;
pub mod mask;
pub mod moments;
pub mod numbers;
pub mod pack;
mod planes;
pub mod poison;
pub mod publication;
pub mod reduce;
pub mod rules;
pub mod store;
pub mod sums;
mod trusted;
pub mod upstream;

pub use code::CodeKind;
pub use error::{NoPlace, RecordingError};
pub use moments::Moments;
pub use sums::RecordingSums;

/// The folder that `mneme record` writes and other commands read unless another one is named.
pub const USUAL: &str = "recording";

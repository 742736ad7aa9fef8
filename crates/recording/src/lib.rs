//! Recordings on disk.
//!
//! The format is docs/reference/recording-format.md.
//!
//! A recording is a folder with one `<static-hash>.json` for each kernel ([`database`]), the kernel's IR, and two
//! manifests for each instance ([`manifest`]) that name chunks of memory in the pack files of the chunk store
//! ([`store`]). Recordings of the existing Mneme ([`upstream`]) have the same database, but other files instead of
//! manifests and packs; [`moments`] opens either, and [`mod@export`] writes them.

// These macros panic if the reader is gone; use `mneme_system::console` instead.
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

/// The default folder of `mneme record` and of commands that read recordings.
pub const USUAL: &str = "recording";

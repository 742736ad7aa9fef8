//! Recordings on disk. The format is docs/recording-format.md.
//!
//! A recording is a folder: one `<static-hash>.json` for each kernel ([`database`]), the kernel's IR, and for each
//! instance two manifests ([`manifest`]) that name chunks of memory in the pack files of the chunk store ([`store`]).

pub mod check;
pub mod code;
pub mod database;
mod encoding;
pub mod error;
pub mod housekeeping;
pub mod manifest;
pub mod pack;
mod planes;
mod size_limit;
pub mod store;

pub use code::CodeKind;
pub use error::RecordingError;

//! Recordings of the existing Mneme: its snapshot files.
//!
//! Where ours keep chunks in packs, an upstream snapshot holds the bytes themselves. [`layout`] finds out what is where
//! in a file, and [`chunks`] names the bytes as chunks, so that whoever reads a recording of ours reads one of these,
//! too. [`export`](super::export) writes such files.

pub mod chunks;
pub mod layout;
pub mod span;

pub use chunks::Chunks;

/// How every snapshot with a header begins; then u32 kind, u32 layout version. Older files begin otherwise.
const MAGIC: &[u8; 8] = b"MNEMESNP";
/// How a diff began before there was that header (kind diff, layout version 1).
pub(super) const DIFF_MAGIC: &[u8; 13] = b"MNEME_DIFF_V1";

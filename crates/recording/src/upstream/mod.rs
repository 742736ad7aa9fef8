//! Recordings of the existing Mneme: its snapshot files.
//!
//! A snapshot holds the bytes of memory directly, instead of chunks in packs. [`layout`] parses a file, and [`chunks`]
//! presents the bytes as chunks, so readers treat both kinds of recordings alike. [`export`](super::export) writes such
//! files.

pub mod chunks;
pub mod layout;
pub mod span;

pub use chunks::Chunks;

/// The first bytes of a snapshot with a header; then u32 kind, u32 layout version. Older files lack the header.
const MAGIC: &[u8; 8] = b"MNEMESNP";
/// The first bytes of a diff without that header (kind diff, layout version 1).
pub(super) const DIFF_MAGIC: &[u8; 13] = b"MNEME_DIFF_V1";

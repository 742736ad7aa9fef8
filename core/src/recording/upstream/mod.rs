//! Recordings of the existing Mneme: its snapshot files, read and written.
//!
//! Where ours keep chunks in packs, an upstream snapshot holds the bytes themselves. [`layout`] finds out what is where in a file,
//! [`memory`] names the bytes as chunks, so that whoever reads a recording of ours reads one of these, too, and [`mod@export`] writes
//! such files.

pub mod export;
pub mod layout;
pub mod memory;
pub mod span;
mod write;

pub use export::export;
pub use memory::Chunks;

/// What an epilogue is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// All of memory.
    Bytes,
    /// What differs from the prologue.
    Diff,
    /// The smaller one.
    Best,
}

impl Format {
    /// As in `--epilogue-format` and `MNEME_EPILOGUE_TYPE`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "bytes" => Some(Self::Bytes),
            "diff" => Some(Self::Diff),
            "best" => Some(Self::Best),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Diff => "diff",
            Self::Best => "best",
        }
    }
}

/// How every snapshot with a header begins; then u32 kind, u32 layout version. Older files begin otherwise.
const MAGIC: &[u8; 8] = b"MNEMESNP";
/// How a diff began before there was that header (kind diff, layout version 1).
const DIFF_MAGIC: &[u8; 13] = b"MNEME_DIFF_V1";

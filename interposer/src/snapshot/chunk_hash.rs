//! A PTX kernel that hashes many stretches of device memory in one launch.
//!
//! This module has the kernel's code and describes its parameters; [`Hasher`](super::hasher::Hasher) launches it. The
//! hash of a stretch is the identity that a recording gives it ([`ChunkId`]), which is [`ChunkId::ZERO`] for zeros.
//! Memory of AMD GPUs and of the CPU device is hashed on the host instead ([`mneme_model::hash::recorded_id`]).

use std::ffi::CStr;

use mneme_model::hash::ChunkId;

const TEXT: &str = concat!(include_str!("chunk_hash.ptx"), "\0");
/// PTX, which every driver since CUDA 9 translates for its GPU.
pub const CODE: &CStr = match CStr::from_bytes_with_nul(TEXT.as_bytes()) {
    Ok(code) => code,
    Err(_) => panic!("PTX has no NUL but the one appended"),
};
/// Name of the kernel. Its parameters are two addresses: of a table of [`Stretch`]es and of as many identities, to be
/// written.
pub const ENTRY: &CStr = c"mneme_chunk_hash";
/// Threads of a block; there is one block for each stretch.
pub const THREADS: u32 = 256;
/// Alignment that a stretch must have, bytes.
pub const ALIGNMENT: u64 = 8;

/// A stretch of device memory as the kernel reads it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// A multiple of [`ALIGNMENT`].
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

/// The identities that the kernel has written.
pub fn ids(bytes: &[u8]) -> impl Iterator<Item = ChunkId> {
    bytes.as_chunks::<16>().0.iter().map(|id| ChunkId(*id))
}

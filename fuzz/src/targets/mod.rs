//! The parsers under test.
//!
//! Each has seeds that are well-formed, and repairs the checksums that would shield it.

mod code_object;
mod container;
mod image;
mod inline_ptx;
mod lifting;
mod message;
mod recording;
mod snapshot;
mod winners;

/// A parser of untrusted bytes.
pub struct FuzzTarget {
    pub name: &'static str,
    /// Well-formed inputs, from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Puts checksums right, so that what lies behind them is reached.
    pub seal: fn(&mut [u8]),
    /// Must return, whatever the input.
    pub run: fn(&[u8]),
}

pub const TARGETS: &[FuzzTarget] = &[
    image::ELF,
    image::IR_SECTION,
    image::BITCODE,
    container::FATBIN,
    container::CUBIN,
    container::BUNDLE,
    code_object::CODE_OBJECT,
    container::PTX,
    lifting::LIFTING,
    inline_ptx::INLINE_PTX,
    recording::DATABASE,
    recording::MANIFEST,
    recording::PACK,
    snapshot::UPSTREAM,
    winners::WINNERS,
    winners::EXPRESSION,
    winners::RULES,
    message::MESSAGE,
    code_object::CPU_OBJECT,
];

pub fn target(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}

/// For formats without checksums.
fn nothing(_: &mut [u8]) {}

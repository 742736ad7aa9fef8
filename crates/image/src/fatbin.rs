//! CUDA fat binaries: PTX and machine code for several architectures in one image.
//!
//! A container is a header of 16 bytes (magic, u16 version, u16 size of the header, u64 bytes that follow) and entries,
//! each with a header and a payload. The layout is that of NVIDIA's `fatbinary` (tested with releases 12 and 13), with
//! the offsets below in an entry's header; numbers are little endian.

use std::borrow::Cow;

use mneme_model::architecture::Architecture;

/// First word of a container.
pub const MAGIC: u32 = 0xba55_ed50;
/// First word of the structure that holds a container's address (`__fatBinC_Wrapper_t` of `fatbinary_section.h`).
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Size of a container's header, bytes.
pub const HEADER: usize = 16;

/// Offsets in an entry's header, bytes.
mod field {
    pub const KIND: usize = 0;
    pub const HEADER_SIZE: usize = 4;
    pub const SIZE: usize = 8;
    pub const COMPRESSED: usize = 16;
    pub const ARCHITECTURE: usize = 28;
    pub const FLAGS: usize = 40;
    pub const RAW_SIZE: usize = 56;
    pub const END: usize = 64;
}

/// Bits of an entry's flags.
mod flag {
    pub const LZ4: u64 = 0x2000;
    pub const ZSTD: u64 = 0x8000;
    pub const ARCHITECTURE_SPECIFIC: u64 = 0x10_0000;
}

/// Maximum depth of nested containers.
const DEPTH: usize = 4;
/// An upper bound on an entry's decompressed size, bytes: LZ4 gains at most 255-fold, and larger sizes are damage.
const MAX_RAW: u64 = 1 << 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatbinKind {
    Ptx,
    /// Machine code, an ELF object.
    Cubin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Lz4,
    Zstd,
}

/// One image of a container.
#[derive(Clone, Debug)]
pub struct FatbinEntry<'a> {
    pub kind: FatbinKind,
    pub architecture: Architecture,
    stored: &'a [u8],
    compression: Compression,
    /// Decompressed size of a compressed payload, bytes.
    raw_size: u64,
}

impl FatbinEntry<'_> {
    /// The bytes in the fat binary from which [`FatbinEntry::contents`] is made, compressed or not.
    pub fn stored(&self) -> &[u8] {
        self.stored
    }

    pub fn is_compressed(&self) -> bool {
        !matches!(self.compression, Compression::None)
    }

    /// The PTX text (without terminator) or the ELF object; `None` if damaged.
    pub fn contents(&self) -> Option<Cow<'_, [u8]>> {
        let bytes: Cow<'_, [u8]> = match self.compression {
            Compression::None => Cow::Borrowed(self.stored),
            _ if self.raw_size > MAX_RAW => return None,
            Compression::Lz4 if self.raw_size > (self.stored.len() as u64 + 1) * 255 => return None,
            Compression::Lz4 => lz4_flex::block::decompress(self.stored, self.raw_size as usize).ok()?.into(),
            Compression::Zstd => zstd_bounded(self.stored, self.raw_size as usize)?.into(),
        };
        Some(match (self.kind, bytes) {
            (FatbinKind::Cubin, bytes) => bytes,
            (FatbinKind::Ptx, Cow::Borrowed(text)) => Cow::Borrowed(trim(text)),
            (FatbinKind::Ptx, Cow::Owned(text)) => trim(&text).to_vec().into(),
        })
    }
}

fn trim(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())]
}

/// Decompresses a zstd frame of at most `size` bytes, and grows with the actual output.
pub(super) fn zstd_bounded(stored: &[u8], size: usize) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut out = Vec::new();
    zstd::stream::read::Decoder::with_buffer(stored)
        .ok()?
        .single_frame()
        .take(size as u64)
        .read_to_end(&mut out)
        .ok()?;
    (out.len() == size).then_some(out)
}

/// Size of a container with its header, from its first [`HEADER`] bytes; `None` for anything else.
pub fn size(header: &[u8]) -> Option<u64> {
    if header.get(..4)? != MAGIC.to_le_bytes() {
        return None;
    }
    let own = u16::from_le_bytes(header.get(6..8)?.try_into().ok()?);
    u64::from_le_bytes(header.get(8..16)?.try_into().ok()?).checked_add(own.into())
}

/// The entries of a container, or of several consecutive containers. Damaged parts are omitted.
pub fn entries(image: &[u8]) -> Vec<FatbinEntry<'_>> {
    let mut found = Vec::new();
    containers(image, 0, &mut found);
    found
}

fn containers<'a>(mut image: &'a [u8], depth: usize, found: &mut Vec<FatbinEntry<'a>>) {
    while let Some(size) = size(image) {
        let end = usize::try_from(size).unwrap_or(usize::MAX).min(image.len());
        let header = usize::from(u16::from_le_bytes([image[6], image[7]])).max(HEADER);
        if header > end {
            return;
        }
        container(&image[header..end], depth, found);
        image = &image[end..];
        // Linkers pad between containers.
        let padding = image.iter().take(64).take_while(|byte| **byte == 0).count();
        image = &image[padding..];
    }
}

fn container<'a>(mut rest: &'a [u8], depth: usize, found: &mut Vec<FatbinEntry<'a>>) {
    while rest.len() >= field::END {
        let word = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let header = word(field::HEADER_SIZE) as usize;
        let Some(end) = usize::try_from(long(field::SIZE)).ok().and_then(|size| size.checked_add(header)) else {
            return;
        };
        if header < field::END || end > rest.len() {
            return;
        }
        let flags = long(field::FLAGS);
        let compression = match () {
            () if flags & flag::LZ4 != 0 => Compression::Lz4,
            () if flags & flag::ZSTD != 0 => Compression::Zstd,
            () => Compression::None,
        };
        let payload = &rest[header..end];
        let stored = match compression {
            Compression::None => payload,
            _ => &payload[..payload.len().min(word(field::COMPRESSED) as usize)],
        };
        let suffix = (flags & flag::ARCHITECTURE_SPECIFIC != 0).then_some('a');
        let architecture = Architecture { number: word(field::ARCHITECTURE), suffix };
        let entry = |kind| FatbinEntry { kind, architecture, stored, compression, raw_size: long(field::RAW_SIZE) };
        let kind = word(field::KIND) & 0xffff;
        if stored.starts_with(&MAGIC.to_le_bytes()) && depth < DEPTH {
            containers(stored, depth + 1, found);
        } else if kind == 1 {
            found.push(entry(FatbinKind::Ptx));
        } else if kind == 2 || stored.starts_with(b"\x7fELF") {
            found.push(entry(FatbinKind::Cubin));
        }
        rest = &rest[end..];
    }
}

/// The entry that the driver loads on a device (90): the newest machine code that runs there, otherwise the newest PTX.
pub fn loaded<'e, 'a>(entries: &'e [FatbinEntry<'a>], device: u32) -> Option<&'e FatbinEntry<'a>> {
    let newest = |kind: FatbinKind, fits: fn(Architecture, u32) -> bool| {
        entries
            .iter()
            .filter(|entry| entry.kind == kind && fits(entry.architecture, device))
            .max_by_key(|entry| entry.architecture)
    };
    newest(FatbinKind::Cubin, Architecture::machine_code_runs_on)
        .or_else(|| newest(FatbinKind::Ptx, Architecture::ptx_compiles_for))
}

/// The PTX from which an entry of machine code was assembled, as far as the container shows: that for the same
/// architecture.
pub fn source_of<'e, 'a>(entries: &'e [FatbinEntry<'a>], cubin: &FatbinEntry<'_>) -> Option<&'e FatbinEntry<'a>> {
    entries.iter().find(|entry| entry.kind == FatbinKind::Ptx && entry.architecture == cubin.architecture)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes a container of (kind, architecture, flags, stored payload, raw size).
    pub(crate) fn encode(entries: &[(u16, u32, u64, &[u8], u64)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, arch, flags, stored, raw) in entries {
            let padded = stored.len().next_multiple_of(8);
            let mut header = [0u8; 64];
            header[0..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64u32.to_le_bytes());
            header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
            header[16..20].copy_from_slice(&(stored.len() as u32).to_le_bytes());
            header[28..32].copy_from_slice(&arch.to_le_bytes());
            header[40..48].copy_from_slice(&flags.to_le_bytes());
            header[56..64].copy_from_slice(&raw.to_le_bytes());
            body.extend(header);
            body.extend(*stored);
            body.resize(body.len() + padded - stored.len(), 0);
        }
        let mut image = MAGIC.to_le_bytes().to_vec();
        image.extend([1, 0, 16, 0]);
        image.extend((body.len() as u64).to_le_bytes());
        image.extend(body);
        image
    }

    const TEXT: &[u8] =
        b".version 7.8\n.target sm_90\n.visible .entry k() { ret; ret; ret; ret; ret; ret; ret; ret; }\n";

    #[test]
    fn entries_come_out_however_they_are_stored() {
        let lz4 = lz4_flex::block::compress(TEXT);
        let zstd = zstd::bulk::compress(TEXT, 3).unwrap();
        let size = TEXT.len() as u64;
        let inner = encode(&[(1, 70, 0x11, TEXT, 0)]);
        let image = encode(&[
            (1, 80, 0x11, TEXT, 0),
            (1, 90, 0x2011, &lz4, size),
            (1, 90, 0x10_8011, &zstd, size),
            (2, 90, 0x11, b"\x7fELF", 0),
            (4, 0, 0x11, &inner, 0),
        ]);
        let twice = [image.clone(), vec![0; 8], image].concat();
        let found = entries(&twice);
        assert_eq!(found.len(), 10);
        let archs: Vec<_> = found[..5].iter().map(|entry| entry.architecture.to_string()).collect();
        assert_eq!(archs, ["sm_80", "sm_90", "sm_90a", "sm_90", "sm_70"]);
        for index in [0, 1, 2, 4] {
            assert_eq!(found[index].contents().unwrap(), TEXT, "{index}");
        }
        assert_eq!(loaded(&found, 90).map(|entry| entry.kind), Some(FatbinKind::Cubin));
        assert_eq!(source_of(&found, loaded(&found, 90).unwrap()).unwrap().architecture, Architecture::new(90));
        assert_eq!(loaded(&found, 89).unwrap().architecture.number, 80);
        assert!(loaded(&found, 61).is_none());
    }

    #[test]
    fn a_claim_that_compression_cannot_keep_costs_nothing() {
        let lz4 = lz4_flex::block::compress(TEXT);
        for claimed in [1 << 29, u64::MAX, 3] {
            let image = encode(&[(1, 90, 0x2011, &lz4, claimed), (1, 90, 0x8011, TEXT, claimed)]);
            assert!(entries(&image).iter().all(|entry| entry.contents().is_none()));
        }
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            at in 0usize..300,
            byte in any::<u8>(),
            length in 0usize..400,
            noise in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let lz4 = lz4_flex::block::compress(TEXT);
            let mut image = encode(&[(1, 90, 0x2011, &lz4, TEXT.len() as u64), (2, 90, 0x11, &noise, 0)]);
            let at = at.min(image.len() - 1);
            image[at] = byte;
            image.truncate(length);
            for entry in entries(&image) { let _ = entry.contents(); }
        }
    }
}

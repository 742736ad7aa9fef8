//! Clang's offload bundles, plain and compressed: the container of device code in HIP programs.
//!
//! Plain: `__CLANG_OFFLOAD_BUNDLE__`, u64 number of entries, and for each u64 offset, u64 size, u64 length of its name
//! and the name (`hipv4-amdgcn-amd-amdhsa--gfx90a`). Compressed: `CCOB`, u16 version, u16 method (0 zlib, 1 zstd), then
//! sizes (version 2: u32 of the whole file and u32 of the decompressed data; version 3: both u64; version 1 only has
//! the latter) and a u64 hash. Described in clang's documentation, "Clang Offload Bundler".

use std::borrow::Cow;

/// Magic of the structure around a bundle in a HIP program: "HIPF", read as a little endian number.
pub const WRAPPER_MAGIC: u32 = 0x4849_5046;
pub const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
pub const COMPRESSED_MAGIC: &[u8] = b"CCOB";
/// An upper bound on the decompressed size of a bundle, bytes.
const MAX_RAW: u64 = 1 << 28;
const MAX_ENTRIES: u64 = 4096;

/// A code object of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleEntry<'a> {
    /// Kind, triple and architecture, e.g. "hipv4-amdgcn-amd-amdhsa--gfx90a".
    pub id: &'a str,
    pub bytes: &'a [u8],
}

impl<'a> BundleEntry<'a> {
    /// The processor, with its features ("gfx90a:xnack+"); "" for the host's entry.
    pub fn processor(&self) -> &'a str {
        // Features end with a sign, and names of families contain hyphens.
        self.id.rfind("-gfx").map_or("", |at| &self.id[at + 1..])
    }
}

/// The plain bundle of an image, decompressed if necessary; `None` if the image is something else or damaged.
pub fn plain(image: &[u8]) -> Option<Cow<'_, [u8]>> {
    if image.starts_with(MAGIC) {
        return Some(Cow::Borrowed(image));
    }
    let rest = image.strip_prefix(COMPRESSED_MAGIC)?;
    let word = |at: usize| Some(u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
    let (version, method) = (word(0)? & 0xffff, word(0)? >> 16);
    // The end of the header, the length of the file, and the decompressed size.
    let (header, file, raw) = match version {
        1 => (4 + 4 + 8, image.len() as u64, u64::from(word(4)?)),
        2 => (4 + 4 + 4 + 8, u64::from(word(4)?), u64::from(word(8)?)),
        3 => (4 + 8 + 8 + 8, long(4)?, long(12)?),
        _ => return None,
    };
    let stored = rest.get(header..usize::try_from(file).ok()?.min(image.len()).checked_sub(COMPRESSED_MAGIC.len())?)?;
    if raw > MAX_RAW {
        return None;
    }
    let bytes = match method {
        0 => {
            use std::io::Read;
            let mut out = Vec::new();
            flate2::read::ZlibDecoder::new(stored).take(raw).read_to_end(&mut out).ok()?;
            out
        }
        1 => super::fatbin::zstd_bounded(stored, raw as usize)?,
        _ => return None,
    };
    (bytes.len() as u64 == raw && bytes.starts_with(MAGIC)).then_some(Cow::Owned(bytes))
}

/// The length of a bundle, plain or compressed, bytes; `long` returns the eight bytes at an offset. `None` for other
/// images, and for version 1 of compressed bundles, which lacks the length.
pub fn size(long: impl Fn(u64) -> u64) -> Option<u64> {
    let first = long(0);
    if first.to_le_bytes().starts_with(COMPRESSED_MAGIC) {
        return match first >> 32 & 0xffff {
            2 => Some(long(8) & 0xffff_ffff),
            3 => Some(long(8)),
            _ => None,
        };
    }
    if [first, long(8), long(16)].map(u64::to_le_bytes).concat() != MAGIC {
        return None;
    }
    let (mut at, mut end) = (MAGIC.len() as u64 + 8, 0);
    for _ in 0..Some(long(MAGIC.len() as u64)).filter(|count| *count <= MAX_ENTRIES)? {
        end = end.max(long(at).checked_add(long(at + 8))?);
        at = at.checked_add(24)?.checked_add(long(at + 16)).filter(|at| *at < MAX_RAW)?;
    }
    Some(end.max(at))
}

/// The entries of a plain bundle; entries outside the image are skipped.
pub fn entries(bundle: &[u8]) -> Vec<BundleEntry<'_>> {
    let mut found = Vec::new();
    let Some(rest) = bundle.strip_prefix(MAGIC) else { return found };
    let mut at = 8;
    let long =
        |at: usize| -> Option<u64> { Some(u64::from_le_bytes(rest.get(at..at.checked_add(8)?)?.try_into().ok()?)) };
    for _ in 0..long(0).unwrap_or(0).min(MAX_ENTRIES) {
        let read = || {
            let (offset, size, length) = (long(at)?, long(at + 8)?, long(at + 16)?);
            let name_end = (at + 24).checked_add(usize::try_from(length).ok()?)?;
            let id = std::str::from_utf8(rest.get(at + 24..name_end)?).ok()?;
            Some((name_end, id, offset, offset.checked_add(size)?))
        };
        let Some((next, id, start, end)) = read() else { break };
        at = next;
        if let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end))
            && let Some(bytes) = bundle.get(start..end)
        {
            found.push(BundleEntry { id, bytes });
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    pub(crate) fn encode(parts: &[(&str, &[u8])]) -> Vec<u8> {
        let mut offset = MAGIC.len() + 8 + parts.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
        let mut bundle = [MAGIC, &(parts.len() as u64).to_le_bytes()].concat();
        for (id, bytes) in parts {
            for number in [offset, bytes.len(), id.len()] {
                bundle.extend((number as u64).to_le_bytes());
            }
            bundle.extend(id.as_bytes());
            offset += bytes.len();
        }
        parts.iter().for_each(|(_, bytes)| bundle.extend(*bytes));
        bundle
    }

    fn compress(bundle: &[u8], version: u16, method: u16) -> Vec<u8> {
        let stored = if method == 0 {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bundle).unwrap();
            encoder.finish().unwrap()
        } else {
            zstd::bulk::compress(bundle, 3).unwrap()
        };
        let mut image = COMPRESSED_MAGIC.to_vec();
        image.extend(version.to_le_bytes());
        image.extend(method.to_le_bytes());
        match version {
            2 => {
                image.extend((24 + stored.len() as u32).to_le_bytes());
                image.extend((bundle.len() as u32).to_le_bytes());
            }
            3 => {
                image.extend((32 + stored.len() as u64).to_le_bytes());
                image.extend((bundle.len() as u64).to_le_bytes());
            }
            _ => image.extend((bundle.len() as u32).to_le_bytes()),
        }
        image.extend(7u64.to_le_bytes());
        image.extend(stored);
        image
    }

    #[test]
    fn entries_come_out_of_every_form() {
        let bundle =
            encode(&[("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", b"code object")]);
        for image in [
            bundle.clone(),
            compress(&bundle, 1, 0),
            compress(&bundle, 2, 0),
            compress(&bundle, 2, 1),
            compress(&bundle, 3, 1),
        ] {
            let plain = plain(&image).unwrap();
            let found = entries(&plain);
            assert_eq!((found.len(), found[0].processor(), found[1].processor()), (2, "", "gfx90a:xnack+"));
            assert_eq!(found[1].bytes, b"code object");
        }
        assert!(plain(b"CCOB\x09\0\0\0").is_none());
    }

    #[test]
    fn an_entry_says_its_processor() {
        for (id, processor) in [
            ("hipv4-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
            ("hip-amdgcn-amd-amdhsa-gfx9-4-generic", "gfx9-4-generic"),
            ("host-x86_64-unknown-linux-gnu-", ""),
            ("host-x86_64-unknown-linux", ""),
        ] {
            assert_eq!(BundleEntry { id, bytes: b"" }.processor(), processor);
        }
    }

    #[test]
    fn a_bundle_says_how_long_it_is() {
        let bundle =
            encode(&[("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx90a", b"code object")]);
        for (image, says) in [
            (bundle.clone(), true),
            (compress(&bundle, 1, 0), false),
            (compress(&bundle, 2, 1), true),
            (compress(&bundle, 3, 1), true),
            (b"something else, of twenty-four bytes and more".to_vec(), false),
        ] {
            let padded = [&image[..], &[0; 8]].concat();
            let long = |at: u64| u64::from_le_bytes(padded[at as usize..][..8].try_into().unwrap());
            assert_eq!(size(long), says.then_some(image.len() as u64));
        }
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 0usize..200, byte in any::<u8>(), length in 0usize..300, form in 0usize..4) {
            let bundle = encode(&[("hipv4-amdgcn-amd-amdhsa--gfx90a", &[7; 64]), ("host-x86_64", b"x")]);
            let mut image = match form {
                0 => bundle.clone(),
                1 => compress(&bundle, 2, 0),
                2 => compress(&bundle, 2, 1),
                _ => compress(&bundle, 3, 1),
            };
            let at = at % image.len();
            image[at] = byte;
            image.truncate(length);
            if let Some(plain) = plain(&image) { entries(&plain); }
        }
    }
}

//! Images in memory that come without a length.

use goblin::elf::section_header::SHT_NOBITS;
use mneme_abi::hip::types::WRAPPER_MAGIC as HIP_WRAPPER;
use mneme_core::image::{bundle, elf};

/// `__fatBinC_Wrapper_t`, the fat binary and the magic numbers of both (CUDA's `fatbinary_section.h` and
/// `fatBinary.h`).
const WRAPPER: u32 = 0x466243b1;
const FAT_BINARY: u32 = 0xba55ed50;
/// Text without an end within this many bytes is no PTX.
const MAX_TEXT: usize = 256 << 20;

/// The bytes of an image that the caller keeps.
pub struct Container<'a> {
    bytes: &'a [u8],
}

impl<'a> Container<'a> {
    /// # Safety
    /// There is a wrapper, a fat binary, an offload bundle, an ELF image or NUL-terminated text at the address, and it
    /// stays for `'a`.
    pub unsafe fn at(address: *const u8) -> Option<Self> {
        // SAFETY: the smallest image, a text, may be a single NUL; the magic numbers are compared only as far as bytes
        // match.
        let starts = |magic: &[u8]| (0..magic.len()).all(|index| unsafe { address.add(index).read() } == magic[index]);
        // SAFETY: (of the reads below) the magic number says which headers follow.
        unsafe {
            if starts(&WRAPPER.to_le_bytes()) || starts(&HIP_WRAPPER.to_le_bytes()) {
                let inner = address.add(8).cast::<*const u8>().read_unaligned();
                return if inner.is_null() { None } else { Self::at(inner) };
            }
            let size = if starts(&FAT_BINARY.to_le_bytes()) {
                // u32 magic, u16 version, u16 header size, u64 size of what follows the header.
                let header = address.add(6).cast::<u16>().read_unaligned();
                let rest = address.add(8).cast::<u64>().read_unaligned();
                usize::from(header).checked_add(usize::try_from(rest).ok()?)?
            } else if starts(b"\x7fELF") {
                elf_size(address)?
            } else if starts(bundle::MAGIC) {
                bundle_size(address)?
            } else if starts(bundle::COMPRESSED_MAGIC) {
                compressed_size(address)?
            } else {
                libc::strnlen(address.cast(), MAX_TEXT)
            };
            Some(Self { bytes: std::slice::from_raw_parts(address, size) })
        }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The end of an ELF64 image: that of its section table, program headers or last section, whichever comes last.
///
/// # Safety
/// There is a whole ELF image at the address.
unsafe fn elf_size(address: *const u8) -> Option<usize> {
    // SAFETY: promised by the caller; all offsets are those of the ELF64 header.
    unsafe {
        let word = |offset: u64| address.add(offset as usize).cast::<u64>().read_unaligned();
        let half = |offset: u64| u64::from(address.add(offset as usize).cast::<u16>().read_unaligned());
        let (programs, sections) = (word(32), word(40));
        let (program_size, program_count, section_size, section_count) = (half(54), half(56), half(58), half(60));
        let mut end = (programs + program_size * program_count).max(sections + section_size * section_count).max(64);
        for index in 0..section_count {
            let header = sections + index * section_size;
            let kind = address.add(header as usize + 4).cast::<u32>().read_unaligned();
            if kind != SHT_NOBITS {
                end = end.max(word(header + 24).checked_add(word(header + 32))?);
            }
        }
        usize::try_from(end).ok()
    }
}

/// The end of the last code object of a bundle.
///
/// # Safety
/// There is a whole bundle at the address.
unsafe fn bundle_size(address: *const u8) -> Option<usize> {
    // SAFETY: promised by the caller; every entry says where the next one begins.
    unsafe {
        let word = |offset: usize| address.add(offset).cast::<u64>().read_unaligned();
        let count = word(bundle::MAGIC.len());
        let mut at = bundle::MAGIC.len() + 8;
        let mut end = 0;
        for _ in 0..count {
            end = end.max(word(at).checked_add(word(at + 8))?);
            at = at.checked_add(24)?.checked_add(usize::try_from(word(at + 16)).ok()?)?;
        }
        Some(usize::try_from(end).ok()?.max(at))
    }
}

/// The size of a compressed bundle, which version 1 does not tell: then all that is mapped of the object it lies in.
///
/// # Safety
/// There is a whole compressed bundle at the address.
unsafe fn compressed_size(address: *const u8) -> Option<usize> {
    // SAFETY: promised by the caller.
    unsafe {
        match address.add(4).cast::<u16>().read_unaligned() {
            2 => usize::try_from(address.add(8).cast::<u32>().read_unaligned()).ok(),
            3 => usize::try_from(address.add(8).cast::<u64>().read_unaligned()).ok(),
            _ => {
                let start = address as usize;
                let segments = elf::object_at(start)?.segments;
                segments.into_iter().find(|segment| segment.contains(&start)).map(|segment| segment.end - start)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of(image: &[u8]) -> usize {
        // SAFETY: the tests pass whole images.
        unsafe { Container::at(image.as_ptr()) }.unwrap().bytes().len()
    }

    fn size_of_header(image: &[u8]) -> usize {
        // SAFETY: what tells the size is there.
        unsafe { compressed_size(image.as_ptr()) }.unwrap()
    }

    #[test]
    fn lengths_come_from_the_headers() {
        assert_eq!(size_of(b".version 8.0\n\0rest"), 13);
        let mut fat = FAT_BINARY.to_le_bytes().to_vec();
        fat.extend([1, 0, 16, 0]);
        fat.extend(40u64.to_le_bytes());
        fat.extend([0; 80]);
        assert_eq!(size_of(&fat), 56);
        let inner = fat.as_ptr() as u64;
        let mut wrapper = WRAPPER.to_le_bytes().to_vec();
        wrapper.extend(1u32.to_le_bytes());
        wrapper.extend(inner.to_le_bytes());
        wrapper.extend([0; 8]);
        assert_eq!(size_of(&wrapper), 56);
        wrapper[..4].copy_from_slice(&HIP_WRAPPER.to_le_bytes());
        assert_eq!(size_of(&wrapper), 56);
        let mut plain = [bundle::MAGIC, &1u64.to_le_bytes()[..]].concat();
        for number in [100u64, 28, 3] {
            plain.extend(number.to_le_bytes());
        }
        plain.extend(b"gfx");
        assert_eq!(size_of(&plain), 128);
        let mut compressed = [bundle::COMPRESSED_MAGIC, &[2, 0, 1, 0, 77, 0, 0, 0]].concat();
        assert_eq!(size_of_header(&compressed), 77);
        compressed[4] = 3;
        compressed.extend([0; 4]);
        assert_eq!(size_of_header(&compressed), 77);
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(size_of(&own) <= own.len() && size_of(&own) > own.len() / 2);
    }
}

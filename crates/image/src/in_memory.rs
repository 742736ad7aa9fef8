//! Images in memory without a known length: programs pass only an image's address to the driver.

use super::{bundle, elf, fatbin};

/// Longer texts without an end are not PTX.
const MAX_TEXT: usize = 256 << 20;

/// Skips the structure around a fat binary's address, if present; `None` if that structure lacks an address.
///
/// # Safety
/// There is a wrapper or an image at the address.
pub unsafe fn contents(image: *const u8) -> Option<*const u8> {
    // SAFETY: promised by the caller; a wrapper has an address 8 bytes behind its magic number.
    unsafe {
        if !starts_with(image, &fatbin::WRAPPER_MAGIC.to_le_bytes())
            && !starts_with(image, &bundle::WRAPPER_MAGIC.to_le_bytes())
        {
            return Some(image);
        }
        let inner = image.add(8).cast::<*const u8>().read_unaligned();
        (!inner.is_null()).then_some(inner)
    }
}

/// Size of an image, bytes: a fat binary, an offload bundle, an ELF image, or text up to its NUL. `None` for text
/// without an end, for an image with contradictory tables, and for version 1 of compressed bundles, which lacks the
/// size.
///
/// # Safety
/// There is a whole image at the address.
pub unsafe fn size(image: *const u8) -> Option<u64> {
    // SAFETY: promised by the caller. The magic number says that there are headers, which say where others are.
    let long = |at: u64| unsafe { image.add(at as usize).cast::<u64>().read_unaligned() };
    // SAFETY: promised by the caller.
    let is = |magic: &[u8]| unsafe { starts_with(image, magic) };
    if is(&fatbin::MAGIC.to_le_bytes()) {
        return fatbin::size(&[long(0), long(8)].map(u64::to_le_bytes).concat());
    }
    if is(elf::MAGIC) {
        return elf::size(long);
    }
    if is(bundle::MAGIC) || is(bundle::COMPRESSED_MAGIC) {
        return bundle::size(long);
    }
    // SAFETY: all other images are NUL-terminated text.
    let length = unsafe { libc::strnlen(image.cast(), MAX_TEXT) };
    (length < MAX_TEXT).then_some(length as u64)
}

/// Whether an image begins with a magic number; all others are text.
pub fn has_headers(image: &[u8]) -> bool {
    [&fatbin::MAGIC.to_le_bytes()[..], elf::MAGIC, bundle::MAGIC, bundle::COMPRESSED_MAGIC]
        .iter()
        .any(|magic| image.starts_with(magic))
}

/// Whether an image has a magic number. Stops reading at the first difference, because the smallest text is a single
/// NUL.
///
/// # Safety
/// There is an image at the address.
unsafe fn starts_with(image: *const u8, magic: &[u8]) -> bool {
    // SAFETY: as `all` stops at the first byte that differs, all bytes up to there are those of a longer image.
    magic.iter().enumerate().all(|(index, byte)| unsafe { image.add(index).read() } == *byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of(image: &[u8]) -> Option<u64> {
        // SAFETY: the tests pass whole images, or what tells their size.
        unsafe { size(contents(image.as_ptr())?) }
    }

    #[test]
    fn lengths_come_from_the_headers() {
        assert_eq!(size_of(b".version 8.0\n\0rest"), Some(13));
        assert_eq!(size_of(b"\0"), Some(0));
        let mut fat = fatbin::MAGIC.to_le_bytes().to_vec();
        fat.extend([1, 0, 16, 0]);
        fat.extend(40u64.to_le_bytes());
        fat.extend([0; 80]);
        assert_eq!(size_of(&fat), Some(56));
        let mut wrapper = fatbin::WRAPPER_MAGIC.to_le_bytes().to_vec();
        wrapper.extend(1u32.to_le_bytes());
        wrapper.extend((fat.as_ptr() as u64).to_le_bytes());
        wrapper.extend([0; 8]);
        assert_eq!(size_of(&wrapper), Some(56));
        wrapper[..4].copy_from_slice(&bundle::WRAPPER_MAGIC.to_le_bytes());
        assert_eq!(size_of(&wrapper), Some(56));
        wrapper[8..16].fill(0);
        assert_eq!(size_of(&wrapper), None);
        let mut plain = [bundle::MAGIC, &1u64.to_le_bytes()[..]].concat();
        for number in [100u64, 28, 3] {
            plain.extend(number.to_le_bytes());
        }
        plain.extend(b"gfx");
        assert_eq!(size_of(&plain), Some(128));
        let mut compressed = [bundle::COMPRESSED_MAGIC, &[2, 0, 1, 0, 77, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(size_of(&compressed), Some(77));
        compressed[4] = 3;
        assert_eq!(size_of(&compressed), Some(77));
        compressed[4] = 1;
        assert_eq!(size_of(&compressed), None);
    }

    /// The linker puts the table of sections last; a file cut before it still states its full size.
    #[test]
    fn an_executable_is_as_long_as_its_file() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(size_of(&own), Some(own.len() as u64));
    }
}

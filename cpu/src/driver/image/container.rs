//! Images in memory that come without a length.

use mneme_core::image::{bundle, elf, in_memory};

/// The bytes of an image that the caller keeps.
///
/// # Safety
/// There is a wrapper, a fat binary, an offload bundle, an ELF image or NUL-terminated text at the address, and it
/// stays for `'a`.
pub unsafe fn bytes<'a>(address: *const u8) -> Option<&'a [u8]> {
    // SAFETY: promised by the caller.
    unsafe {
        let image = in_memory::contents(address)?;
        let size = match in_memory::size(image) {
            Some(size) => usize::try_from(size).ok()?,
            None => mapped(image)?,
        };
        Some(std::slice::from_raw_parts(image, size))
    }
}

/// How much of the object that an image lies in is mapped from there on, bytes, where the image does not tell its size:
/// a compressed bundle of version 1.
///
/// # Safety
/// There is an image at the address.
unsafe fn mapped(image: *const u8) -> Option<usize> {
    // SAFETY: promised by the caller; no image is shorter than its magic number but a text, which told its size.
    if unsafe { std::slice::from_raw_parts(image, bundle::COMPRESSED_MAGIC.len()) } != bundle::COMPRESSED_MAGIC {
        return None;
    }
    let start = image as usize;
    let segments = elf::object_at(start)?.segments;
    segments.into_iter().find(|segment| segment.contains(&start)).map(|segment| segment.end - start)
}

//! Finds the length of images in memory.

use mneme_image::{bundle, elf, in_memory};

/// Returns the bytes of an image in the caller's memory.
/// # Safety
/// A wrapper, a fat binary, an offload bundle, an ELF image or NUL-terminated text must be at the address, and stay for
/// `'a`.
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

/// Bytes from an image to the end of its object's mapping, for the only image that does not contain its size: a
/// compressed bundle of version 1.
///
/// # Safety
/// There must be an image at the address.
unsafe fn mapped(image: *const u8) -> Option<usize> {
    // SAFETY: promised by the caller. Only a text can be shorter than a magic number, and its size was found before.
    if unsafe { std::slice::from_raw_parts(image, bundle::COMPRESSED_MAGIC.len()) } != bundle::COMPRESSED_MAGIC {
        return None;
    }
    let start = image as usize;
    let segments = elf::object_at(start)?.segments;
    segments.into_iter().find(|segment| segment.contains(&start)).map(|segment| segment.end - start)
}

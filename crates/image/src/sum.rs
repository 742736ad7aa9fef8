//! Sums that identify a loaded image as the one made from a translation unit.

use std::borrow::Cow;

use mneme_model::hash::checksum;

use super::elf::long;
use super::{bundle, elf, fatbin};

/// The sum of an image: a fat binary, an offload bundle, machine code or PTX. Bytes after the image are ignored.
pub fn of_image(bytes: &[u8]) -> u64 {
    let size = fatbin::size(bytes).or_else(|| bundle::size(long(bytes))).or_else(|| elf::size(long(bytes)));
    let size = size.and_then(|size| usize::try_from(size).ok()).map_or(bytes.len(), |size| size.min(bytes.len()));
    checksum(&bytes[..size])
}

/// The sums of an image and of all images in it, which a program may load separately.
pub fn of_image_and_parts(bytes: &[u8]) -> Vec<u64> {
    let mut sums = vec![of_image(bytes)];
    let entries = fatbin::entries(bytes);
    sums.extend(entries.iter().filter_map(|entry| entry.contents()).map(|contents| of_image(&contents)));
    let plain = bundle::plain(bytes).unwrap_or(Cow::Borrowed(&[]));
    let objects = bundle::entries(&plain);
    sums.extend(objects.iter().filter(|entry| !entry.processor().is_empty()).map(|entry| of_image(entry.bytes)));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_image_and_its_parts_are_recognised_wherever_they_end() {
        let code = b"code of a gpu".to_vec();
        let image =
            bundle::tests::encode(&[("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx90a", &code)]);
        let sums = of_image_and_parts(&image);
        assert_eq!(sums, [of_image(&image), of_image(&code)]);
        let padded = [&image[..], &[0; 100]].concat();
        assert_eq!(of_image(&padded), sums[0]);
        assert_ne!(of_image(&bundle::tests::encode(&[("hipv4-amdgcn-amd-amdhsa--gfx90a", b"code of a cpu")])), sums[0]);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_sum(bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in 0usize..5) {
            let magics = [bundle::MAGIC, bundle::COMPRESSED_MAGIC, &fatbin::MAGIC.to_le_bytes(), b"\x7fELF", b""];
            let bytes = [magics[magic], &bytes].concat();
            prop_assert_eq!(of_image_and_parts(&bytes)[0], of_image(&bytes));
        }
    }
}

//! A cache of the images that were last searched for code.
//!
//! Kernels of a program come one after the other, and most are in one image, which is then unpacked and parsed once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use mneme_image::cubin::{self, Cubin};
use mneme_image::fatbin::FatbinEntry;
use mneme_image::ptx::{self, PtxModule};
use mneme_model::hash;
use self_cell::self_cell;

/// How many images are kept: machine code and PTX of a few.
const KEPT: usize = 8;
/// The size limit of all kept images, bytes. One image with thousands of kernels has more than 8 MiB and takes 10 ms to
/// parse.
const MOST: usize = 64 << 20;
/// The size limit of the whole image that contains them, bytes.
const MOST_WHOLE: usize = 64 << 20;

self_cell!(
    /// PTX, split into its parts.
    struct SplitText {
        owner: Arc<Vec<u8>>,
        #[covariant]
        dependent: PtxModule,
    }
);

/// Parsed code for one architecture.
pub struct CodeImage {
    /// The stored form, if it is compressed.
    stored: Option<Box<[u8]>>,
    /// Without the zeros after PTX.
    pub bytes: Arc<Vec<u8>>,
    form: Form,
    /// The whole image that it was read from, if that is one of [`whole`], and its address there.
    origin: (Weak<Vec<u8>>, usize),
}

enum Form {
    Ptx(SplitText),
    MachineCode(Box<Cubin>),
    Unknown,
}

impl CodeImage {
    fn read(mut bytes: Vec<u8>, from: &[u8], stored: Option<&[u8]>) -> Self {
        let is_ptx = ptx::is_ptx(&bytes);
        bytes.truncate(without_zeros(&bytes).len());
        let bytes = Arc::new(bytes);
        let form = if is_ptx {
            let split = SplitText::try_new(bytes.clone(), |bytes| std::str::from_utf8(bytes).map(PtxModule::parse));
            split.map_or(Form::Unknown, Form::Ptx)
        } else {
            cubin::parse(&bytes).map_or(Form::Unknown, |cubin| Form::MachineCode(Box::new(cubin)))
        };
        Self { stored: stored.map(Into::into), bytes, form, origin: (whole_around(from), from.as_ptr().addr()) }
    }

    /// Whether it was read from this address, which is quicker to check than equality.
    fn is_from(&self, bytes: &[u8]) -> bool {
        self.origin.1 == bytes.as_ptr().addr() && self.origin.0.strong_count() > 0
    }

    /// The parts of PTX.
    pub fn ptx(&self) -> Option<&PtxModule<'_>> {
        if let Form::Ptx(split) = &self.form { Some(split.borrow_dependent()) } else { None }
    }

    /// The contents of NVIDIA's machine code.
    pub fn cubin(&self) -> Option<&Cubin> {
        if let Form::MachineCode(cubin) = &self.form { Some(cubin) } else { None }
    }
}

/// Removes the zeros after PTX. Other code is unchanged.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = if ptx::is_ptx(bytes) { bytes.iter().rev().take_while(|byte| **byte == 0).count() } else { 0 };
    &bytes[..bytes.len() - zeros]
}

/// The image of PTX or machine code.
pub fn image(bytes: &[u8]) -> Arc<CodeImage> {
    let bytes = without_zeros(bytes);
    let is_it = |known: &CodeImage| {
        known.stored.is_none() && known.bytes.len() == bytes.len() && (known.is_from(bytes) || *known.bytes == *bytes)
    };
    known_or_read(is_it, || Some(CodeImage::read(bytes.to_vec(), bytes, None))).expect("all bytes can be read")
}

/// The image in an entry of a fat binary, or `None` if the entry is damaged.
pub fn entry(entry: &FatbinEntry<'_>) -> Option<Arc<CodeImage>> {
    if !entry.is_compressed() {
        return Some(image(&entry.contents()?));
    }
    let stored = entry.stored();
    let is_it = |known: &CodeImage| {
        let is_same = |bytes: &[u8]| bytes.len() == stored.len() && (known.is_from(stored) || bytes == stored);
        known.stored.as_deref().is_some_and(is_same)
    };
    known_or_read(is_it, || Some(CodeImage::read(entry.contents()?.into_owned(), stored, Some(stored))))
}

/// The cached image that `is_it` accepts, else the result of `read`. Does not wait for another thread, because after a
/// fork that thread may not exist.
fn known_or_read(
    is_it: impl Fn(&CodeImage) -> bool,
    read: impl FnOnce() -> Option<CodeImage>,
) -> Option<Arc<CodeImage>> {
    /// The newest comes first.
    static LAST: Mutex<VecDeque<Arc<CodeImage>>> = Mutex::new(VecDeque::new());
    let mut last = match LAST.try_lock() {
        Ok(last) => Some(last),
        Err(TryLockError::Poisoned(last)) => Some(last.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(known) = last.as_ref().and_then(|last| last.iter().find(|known| is_it(known))) {
        return Some(known.clone());
    }
    let found = Arc::new(read()?);
    if let Some(last) = last.as_mut() {
        keep(last, &found, MOST);
    }
    Some(found)
}

/// Adds an image at the front, and drops the last ones beyond [`KEPT`] images or `most` bytes.
fn keep(last: &mut VecDeque<Arc<CodeImage>>, image: &Arc<CodeImage>, most: usize) {
    if image.bytes.len() > most {
        return;
    }
    last.push_front(image.clone());
    let mut bytes = 0;
    let fit = last.iter().take(KEPT).take_while(|kept| {
        bytes += kept.bytes.len();
        bytes <= most
    });
    let count = fit.count();
    last.truncate(count);
}

/// An image with its checksum.
type WholeImage = (u64, Arc<Vec<u8>>);

fn last_whole() -> Option<MutexGuard<'static, Option<WholeImage>>> {
    static LAST: Mutex<Option<WholeImage>> = Mutex::new(None);
    match LAST.try_lock() {
        Ok(last) => Some(last),
        Err(TryLockError::Poisoned(last)) => Some(last.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Remembers a whole image with its checksum.
pub fn remember_whole(checksum: u64, bytes: &Arc<Vec<u8>>) {
    if let Some(mut last) = last_whole().filter(|_| bytes.len() <= MOST_WHOLE)
        && last.as_ref().is_none_or(|(_, known)| !Arc::ptr_eq(known, bytes))
    {
        *last = Some((checksum, bytes.clone()));
    }
}

/// The whole image that contains these bytes.
fn whole_around(bytes: &[u8]) -> Weak<Vec<u8>> {
    let last = last_whole();
    let whole = last.as_deref().and_then(Option::as_ref).map(|(_, whole)| whole);
    let holds = |whole: &&Arc<Vec<u8>>| whole.as_ptr_range().contains(&bytes.as_ptr());
    whole.filter(holds).map(Arc::downgrade).unwrap_or_default()
}

/// The whole image that was read last if it has this checksum, else the result of `read` if that has it. Does not wait
/// for another thread.
pub fn whole(checksum: u64, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<Arc<Vec<u8>>> {
    let mut last = last_whole();
    if let Some((_, bytes)) = last.as_deref().and_then(Option::as_ref).filter(|(known, _)| *known == checksum) {
        return Some(bytes.clone());
    }
    let bytes = Arc::new(read().filter(|bytes| hash::checksum(bytes) == checksum)?);
    if let Some(last) = last.as_mut().filter(|_| bytes.len() <= MOST_WHOLE) {
        **last = Some((checksum, bytes.clone()));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Vec<u8> {
        format!(".version 8.0\n.target sm_90\n.visible .entry {name}()\n{{\n\tret;\n}}\n\0\0").into_bytes()
    }

    #[test]
    fn an_image_is_read_once() {
        // Other tests read images at the same time, which may evict it.
        let is_kept = || {
            let first = image(&text("first"));
            assert_eq!(first.ptx().unwrap().kernels().collect::<Vec<_>>(), ["first"]);
            assert!(first.bytes.ends_with(b"}\n") && first.cubin().is_none());
            Arc::ptr_eq(&first, &image(&text("first")))
        };
        assert!((0..100).any(|_| is_kept()));
        let first = image(&text("first"));
        (0..2 * KEPT).for_each(|number| drop(image(&text(&format!("other{number}")))));
        assert!(!Arc::ptr_eq(&first, &image(&text("first"))), "others came after it");
    }

    #[test]
    fn a_part_of_a_whole_image_is_known_by_its_place_as_long_as_that_is_there() {
        let of = |first: &str, second: &str| Arc::new([text(first), text(second)].concat());
        // Other tests read whole images at the same time.
        let is_known = || {
            let image = of("one", "other");
            let sum = hash::checksum(&image);
            let image = whole(sum, || Some(image.to_vec())).unwrap();
            let part = CodeImage::read(text("one"), &image[..10], None);
            let is_known = part.is_from(&image[..10]);
            assert!(!part.is_from(&image[1..]));
            drop(image);
            let other = of("third", "other");
            whole(hash::checksum(&other), || Some(other.to_vec()));
            assert!(part.origin.0.strong_count() == 0 || !is_known);
            is_known
        };
        assert!((0..100).any(|_| is_known()));
    }

    #[test]
    fn a_few_images_are_kept_that_are_not_too_large_together() {
        let image = |name: &str| Arc::new(CodeImage::read(text(name), b"", None));
        let most = 3 * image("a").bytes.len();
        let mut last = VecDeque::new();
        for name in ["a", "b", "c", "d"] {
            keep(&mut last, &image(name), most);
        }
        let kernels = |last: &VecDeque<Arc<CodeImage>>| -> Vec<String> {
            last.iter().flat_map(|image| image.ptx().unwrap().kernels()).map(str::to_owned).collect()
        };
        assert_eq!(kernels(&last), ["d", "c", "b"]);
        keep(&mut last, &image("larger"), most);
        assert_eq!(kernels(&last), ["larger", "d"]);
        keep(&mut last, &image(&"l".repeat(most)), most);
        assert_eq!(last.len(), 2, "one that is too large leaves the others");
        (0..2 * KEPT).for_each(|_| keep(&mut last, &image("e"), usize::MAX));
        assert_eq!(last.len(), KEPT);
    }

    #[test]
    fn what_is_damaged_has_no_code() {
        let damaged = image(b".version 8.0\n\xff");
        assert!(damaged.ptx().is_none() && damaged.cubin().is_none());
        assert!(image(b"").ptx().is_none() && image(b"\x7fELF").cubin().is_none());
    }
}

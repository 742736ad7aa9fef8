//! Images that the application loads, and how to get their bytes later.
//!
//! An image in constant memory of an ELF object stays in place, and is read when one of its kernels is recorded. Other
//! images (a static buffer, the buffer of a JIT compiler, a file) may change, so they are copied when they are loaded.

use std::borrow::Cow;
use std::ffi::c_void;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mneme_abi::cuda::sys::CUjitInputType;
use mneme_image::elf::MappedFile;
use mneme_image::{fatbin, in_memory, ir_inside, ptx, sum};
use mneme_model::hash::{Hash64, checksum};
use mneme_system::files::regular;

use super::ir_unit::IrUnit;
use super::last_read;
use crate::driver::streams::CaptureMode;
use crate::driver::{self, Status};
use crate::process::log::debug;
use crate::process::own_memory;

/// Larger images are not copied, bytes.
const MAX_COPY: u64 = 1 << 30;

pub struct LoadedImage {
    bytes: Bytes,
    checksum: OnceLock<Option<u64>>,
    sum: OnceLock<Option<u64>>,
    units: OnceLock<Vec<IrUnit>>,
    identity: OnceLock<u64>,
    is_in_file: OnceLock<bool>,
}

enum Bytes {
    Whole(Piece),
    /// The parts that the driver links at loading, and the resulting machine code.
    Linked(Vec<Piece>, OnceLock<Option<Arc<Vec<u8>>>>),
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// In constant memory of an object, which may be unloaded at any time.
    Constant {
        start: usize,
        size: usize,
        /// The position in the object's file, bytes.
        offset: u64,
    },
    Copied(Arc<Vec<u8>>),
}

impl Piece {
    /// # Safety
    /// The driver has just read the piece there.
    unsafe fn at(start: usize, size: usize, file_offset: impl Fn(Range<usize>) -> Option<u64>) -> Option<Self> {
        if let Some(offset) = file_offset(start..start.checked_add(size)?) {
            return Some(Self::Constant { start, size, offset });
        }
        // SAFETY: by the caller's contract.
        let bytes = || unsafe { std::slice::from_raw_parts(start as *const u8, size) }.to_vec();
        (size as u64 <= MAX_COPY).then(|| Self::Copied(Arc::new(bytes())))
    }

    /// `None` if its object is gone.
    fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Constant { start, size, .. } => read_own_memory(*start, *size).map(Cow::Owned),
            Self::Copied(bytes) => Some(Cow::Borrowed(bytes)),
        }
    }

    /// Whether a file contains the piece where the object's file had it. Always true for a copy, which the file cannot
    /// confirm.
    fn is_in(&self, file: &MappedFile) -> bool {
        let Self::Constant { size, offset, .. } = self else { return true };
        let there = usize::try_from(*offset).ok().and_then(|offset| file.bytes().get(offset..)?.get(..*size));
        there.is_some() && there == self.bytes().as_deref()
    }
}

impl LoadedImage {
    /// The image that a load function received. `None` unless it is a fat binary, an offload bundle, machine code or
    /// PTX.
    ///
    /// # Safety
    /// The driver has just loaded it from there. `file_offset` returns the position of constant memory in its ELF
    /// object's file, and `None` for other memory.
    pub unsafe fn at(image: *const c_void, file_offset: impl Fn(Range<usize>) -> Option<u64>) -> Option<Self> {
        // SAFETY: the caller's contract.
        let parts = unsafe { prelinked(image) };
        // SAFETY: the driver has just loaded it.
        let (image, size) = unsafe {
            let contents = in_memory::contents(image.cast())?;
            let size = in_memory::size(contents)?;
            let bytes = std::slice::from_raw_parts(contents, usize::try_from(size).ok()?);
            if !in_memory::has_headers(bytes) && !ptx::is_ptx(bytes) {
                return None;
            }
            (contents, size)
        };
        // An empty image: relocatable code with nothing to link when the program was built.
        let is_empty = size <= fatbin::HEADER as u64;
        if is_empty && !parts.is_empty() {
            // SAFETY: the driver has just read these too.
            let part = |(start, size): (usize, usize)| unsafe { Piece::at(start, size, &file_offset) };
            return Some(Self::new(Bytes::Linked(parts.into_iter().filter_map(part).collect(), OnceLock::new())));
        }
        // SAFETY: the driver has just read an image of this size from there.
        unsafe { Piece::at(image as usize, usize::try_from(size).ok()?, file_offset) }.map(Bytes::Whole).map(Self::new)
    }

    /// An image that was loaded from a file.
    pub fn of_file(path: &Path) -> Option<Self> {
        (path.metadata().ok()?.len() <= MAX_COPY)
            .then(|| regular::read(path).ok())?
            .map(|bytes| Self::new(Bytes::Whole(Piece::Copied(Arc::new(bytes)))))
    }

    fn new(bytes: Bytes) -> Self {
        Self {
            bytes,
            checksum: OnceLock::new(),
            sum: OnceLock::new(),
            units: OnceLock::new(),
            identity: OnceLock::new(),
            is_in_file: OnceLock::new(),
        }
    }

    /// Equal exactly for equal images, independent of the address, which a new version of a library may reuse.
    pub fn identity(&self) -> u64 {
        /// The next identity for unreadable images, which are all different.
        static UNREADABLE: AtomicU64 = AtomicU64::new(1);
        let known = || match &self.bytes {
            Bytes::Whole(_) => self.checksum(),
            Bytes::Linked(parts, _) => sum_of_parts(parts),
        };
        *self.identity.get_or_init(|| known().unwrap_or_else(|| UNREADABLE.fetch_add(1, Ordering::Relaxed)))
    }

    /// Whether the file of its object still contains the image, as far as the image shows.
    pub fn is_in_file(&self, path: &Path) -> bool {
        let is_in = |file: MappedFile| match &self.bytes {
            Bytes::Whole(piece) => piece.is_in(&file),
            Bytes::Linked(parts, _) => parts.iter().all(|part| part.is_in(&file)),
        };
        *self.is_in_file.get_or_init(|| MappedFile::open(path).is_ok_and(is_in))
    }

    /// The checksum of all its bytes, including those after the first of several images. `None` if the driver links it
    /// or the bytes are gone.
    pub fn checksum(&self) -> Option<u64> {
        let Bytes::Whole(piece) = &self.bytes else { return None };
        *self.checksum.get_or_init(|| piece.bytes().map(|bytes| checksum(&bytes)))
    }

    /// The sum that identifies the units it was made from. `None` if the driver links it or the bytes are gone.
    pub fn sum(&self) -> Option<u64> {
        let Bytes::Whole(piece) = &self.bytes else { return None };
        *self.sum.get_or_init(|| piece.bytes().map(|bytes| sum::of_image(&bytes)))
    }

    /// The IR that `mneme-cc` stored in the image itself, read at the first use.
    pub fn units(&self) -> &[IrUnit] {
        let read =
            |bytes: Arc<Vec<u8>>| -> Vec<IrUnit> { ir_inside::units(&bytes).into_iter().map(IrUnit::new).collect() };
        self.units.get_or_init(|| self.bytes().map(read).unwrap_or_default())
    }

    /// The bytes. `None` if the object that contained them is gone or has been replaced.
    pub fn bytes(&self) -> Option<Arc<Vec<u8>>> {
        match &self.bytes {
            Bytes::Whole(Piece::Copied(bytes)) => {
                last_read::remember_whole(self.checksum()?, bytes);
                Some(bytes.clone())
            }
            // Kernels come one after the other, and most are in one image.
            Bytes::Whole(piece) => last_read::whole(self.checksum()?, || piece.bytes().map(Cow::into_owned)),
            Bytes::Linked(parts, linked) => {
                let is_same = || sum_of_parts(parts) == Some(self.identity());
                linked.get_or_init(|| is_same().then(|| link(parts)).flatten().map(Arc::new)).clone()
            }
        }
    }
}

fn sum_of_parts(parts: &[Piece]) -> Option<u64> {
    let mut hash = Hash64::new();
    for part in parts {
        hash.add(&checksum(&part.bytes()?).to_le_bytes());
    }
    Some(hash.finish())
}

/// Reads memory of this process that may be unmapped. The system call fails instead of raising a signal.
fn read_own_memory(start: usize, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; size];
    own_memory::read(start as u64, &mut bytes).then_some(bytes)
}

/// The fat binaries of relocatable code that a wrapper lists beside its own, which contains the part that was linked
/// when the program was built. Returns address and size of each. `fatbinary_section.h` calls such a wrapper version 2;
/// its last word points to an array of prelinked fat binaries that ends with a null.
///
/// # Safety
/// The driver has just loaded the image.
unsafe fn prelinked(image: *const c_void) -> Vec<(usize, usize)> {
    const LINK_VERSION: u32 = 2;
    let mut found = Vec::new();
    // SAFETY: a wrapper has two words of four bytes and two of eight; the array and the fat binaries are part of the
    // program.
    unsafe {
        let [magic, version] = image.cast::<[u32; 2]>().read_unaligned();
        if magic != fatbin::WRAPPER_MAGIC || version != LINK_VERSION {
            return found;
        }
        let mut next = image.cast::<*const *const c_void>().add(2).read_unaligned();
        while !next.is_null() && !next.read_unaligned().is_null() {
            let part = next.read_unaligned();
            let size = fatbin::size(&part.cast::<[u8; fatbin::HEADER]>().read_unaligned());
            found.extend(size.and_then(|size| Some((part as usize, usize::try_from(size).ok()?))));
            next = next.add(1);
        }
    }
    found
}

/// Links fat binaries for the current context's device, as the driver does when it loads them. Leaves out parts without
/// code for the device; if they are needed, linking fails.
fn link(parts: &[Piece]) -> Option<Vec<u8>> {
    let _mode = CaptureMode::relaxed();
    let mut linker = std::ptr::null_mut();
    // SAFETY: no options, and a valid place.
    if unsafe { driver::cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut linker) } != Status::SUCCESS
    {
        return None;
    }
    for part in parts {
        let Some(mut part) = part.bytes().map(Cow::into_owned) else { continue };
        let kind = CUjitInputType::CU_JIT_INPUT_FATBINARY as u32;
        let name = c"relocatable code".as_ptr();
        // SAFETY: the driver reads the part, of this size, during the call.
        let status = unsafe {
            let data = part.as_mut_ptr().cast();
            driver::cuLinkAddData_v2(
                linker,
                kind,
                data,
                part.len(),
                name,
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        if status != Status::SUCCESS {
            debug!("cannot link a part of relocatable code (CUDA error {status})");
        }
    }
    let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: valid places; the result lives as long as the linker, and is copied.
    let linked = unsafe {
        match driver::cuLinkComplete(linker, &mut cubin, &mut size) {
            Status::SUCCESS => Some(std::slice::from_raw_parts(cubin.cast::<u8>(), size).to_vec()),
            status => {
                debug!("cannot link relocatable code (CUDA error {status})");
                None
            }
        }
    };
    // SAFETY: made above, and destroyed once.
    unsafe { driver::cuLinkDestroy(linker) };
    linked
}

#[cfg(test)]
mod tests {
    use mneme_image::bundle::{self, WRAPPER_MAGIC as HIP_WRAPPER};

    use super::*;

    #[test]
    fn an_image_outlives_its_buffer_and_an_unmapped_one_is_missed() {
        let mut text = b"// made by a test\n.version 8.0\n.target sm_90\n\0".to_vec();
        // SAFETY: a terminated string.
        let image = unsafe { LoadedImage::at(text.as_ptr().cast(), |_| None) }.unwrap();
        let copy = text.clone();
        text.fill(0);
        assert_eq!(image.bytes().unwrap()[..], copy[..copy.len() - 1]);
        // SAFETY: as above.
        assert!(unsafe { LoadedImage::at(c"not an image".as_ptr().cast(), |_| Some(0)) }.is_none());
        assert_eq!(in_constant_memory(copy.as_ptr(), 4).bytes().unwrap()[..], copy[..4]);
        let nowhere = in_constant_memory(std::ptr::without_provenance(64), 4);
        assert!(nowhere.bytes().is_none() && nowhere.sum().is_none());
        assert_ne!(nowhere.identity(), in_constant_memory(std::ptr::without_provenance(64), 4).identity());
    }

    fn in_constant_memory(start: *const u8, size: usize) -> LoadedImage {
        LoadedImage::new(Bytes::Whole(Piece::Constant { start: start as usize, size, offset: 2 }))
    }

    #[test]
    fn images_are_told_apart_by_their_bytes_not_by_their_places() {
        let text = |number: u8| format!(".version 8.0\n.target sm_9{number}\n\0").into_bytes();
        let mut buffer = text(0);
        // SAFETY: a terminated string.
        let load = |buffer: &[u8]| unsafe { LoadedImage::at(buffer.as_ptr().cast(), |_| None) }.unwrap();
        let first = load(&buffer);
        buffer.copy_from_slice(&text(1));
        let second = load(&buffer);
        assert_ne!(first.identity(), second.identity());
        assert_eq!(first.identity(), load(&text(0)).identity());
        assert_eq!((first.bytes().unwrap().len(), first.checksum()), (buffer.len() - 1, Some(first.identity())));

        // Another object's image at the address of the first.
        let mut place = text(0);
        let image = in_constant_memory(place.as_ptr(), place.len());
        let identity = image.identity();
        assert!(image.bytes().is_some());
        place.copy_from_slice(&text(1));
        // The image that was read last is kept.
        let other = text(2);
        assert!(in_constant_memory(other.as_ptr(), other.len()).bytes().is_some());
        assert!(image.bytes().is_none() && image.identity() == identity);
    }

    #[test]
    fn a_file_is_an_object_s_while_it_has_its_image() {
        let folder = tempfile::tempdir().unwrap();
        let image = b"an image".to_vec();
        let is_in = |contents: &str| {
            let path = folder.path().join("object");
            std::fs::write(&path, contents).unwrap();
            in_constant_memory(image.as_ptr(), image.len()).is_in_file(&path)
        };
        assert!(is_in("..an image...") && is_in("--an image"));
        assert!(!is_in("..an imagf...") && !is_in("..an imag") && !is_in(".an image..") && !is_in("."));
        assert!(!in_constant_memory(image.as_ptr(), 8).is_in_file(Path::new("/nowhere")));
    }

    /// The output of clang for a HIP program.
    #[test]
    fn a_bundle_is_found_by_the_wrapper_of_its_program() {
        let id = b"hipv4-amdgcn-amd-amdhsa--gfx90a";
        let mut image = bundle::MAGIC.to_vec();
        for number in [1u64, 4096, 7, id.len() as u64] {
            image.extend(number.to_le_bytes());
        }
        image.extend(id);
        image.resize(4096 + 7, 1);
        let wrapper = [u64::from(HIP_WRAPPER) | 1 << 32, image.as_ptr() as u64, 0];
        // SAFETY: a wrapper and its bundle.
        let loaded = unsafe { LoadedImage::at(wrapper.as_ptr().cast(), |_| None) }.unwrap();
        assert_eq!(*loaded.bytes().unwrap(), image);
    }

    /// The output of nvcc for relocatable code that is PTX only: an empty fat binary, and a list of those to be linked.
    #[test]
    fn relocatable_code_is_found_by_the_wrapper_of_its_program() {
        let container = |bytes: u64| {
            let mut image = fatbin::MAGIC.to_le_bytes().to_vec();
            image.extend([1, 0, 16, 0]);
            image.extend(bytes.to_le_bytes());
            image.resize(image.len() + bytes as usize, 0);
            image
        };
        let (whole, first, second) = (container(0), container(8), container(24));
        let list = [first.as_ptr(), second.as_ptr(), std::ptr::null()];
        let wrapper = |version: u64| {
            [u64::from(fatbin::WRAPPER_MAGIC) | version << 32, whole.as_ptr() as u64, list.as_ptr() as u64]
        };
        // SAFETY: a wrapper, its list, and its fat binaries.
        let parts = |version| unsafe { prelinked(wrapper(version).as_ptr().cast()) };
        assert_eq!(parts(2), [(first.as_ptr() as usize, 24), (second.as_ptr() as usize, 40)]);
        assert!(parts(1).is_empty());
        // SAFETY: as above.
        let image = unsafe { LoadedImage::at(wrapper(2).as_ptr().cast(), |_| Some(0)) }.unwrap();
        let constant = |(start, size)| Piece::Constant { start, size, offset: 0 };
        let pieces: Vec<Piece> = parts(2).into_iter().map(constant).collect();
        assert!(matches!(&image.bytes, Bytes::Linked(found, _) if *found == pieces));
        // SAFETY: as above.
        let copied = unsafe { LoadedImage::at(wrapper(2).as_ptr().cast(), |_| None) }.unwrap();
        assert_eq!(copied.identity(), image.identity());
        // SAFETY: as above.
        let image = unsafe { LoadedImage::at(wrapper(1).as_ptr().cast(), |_| Some(0)) }.unwrap();
        assert!(matches!(&image.bytes, Bytes::Whole(Piece::Constant { size: 16, .. })));
    }
}

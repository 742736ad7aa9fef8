//! Images that the application loads: what they are and how to get at their bytes later.
//!
//! An image in an ELF object stays where it is and is read when a kernel of it is recorded; any other (a buffer of a
//! JIT compiler, a file) may be gone by then and is copied when it is loaded.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::sync::OnceLock;

use cudarc::driver::sys::CUjitInputType;

use mneme_abi::hip::types::WRAPPER_MAGIC as HIP_WRAPPER;
use mneme_core::hash::checksum;
use mneme_core::image::ir_section::Unit;
use mneme_core::image::{bundle, cubin, fatbin, ir_inside, ptx, sum};

use crate::driver::streams::CaptureMode;
use crate::driver::{self, Status};
use crate::process::log::debug;

/// Larger images than this are not copied, bytes.
const MAX_COPY: u64 = 1 << 30;

pub struct LoadedImage {
    bytes: Bytes,
    sum: OnceLock<Option<u64>>,
    units: OnceLock<Vec<Unit<'static>>>,
    /// Equal for equal images (or one in one place of its object), to tell kernels of the same name apart.
    pub identity: u64,
}

enum Bytes {
    /// In an object that may be unloaded at any time: address and size.
    Mapped(usize, usize),
    Owned(Vec<u8>),
    /// What the driver links when it loads them: where each is, and the machine code that comes of it.
    Linked(Vec<(usize, usize)>, OnceLock<Option<Vec<u8>>>),
}

impl LoadedImage {
    /// The image that a load function was given; `None` for what is neither fat binary, offload bundle, machine code nor
    /// PTX.
    ///
    /// # Safety
    /// The driver has just loaded it from there. `start_of` gives the start of the ELF object that an address is in.
    pub unsafe fn at(image: *const c_void, start_of: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        // SAFETY: the caller's contract.
        let parts = unsafe { prelinked(image) };
        // SAFETY: the image is one, or a wrapper, of 24 bytes.
        let image = unsafe { data(image) };
        // SAFETY: as above.
        let size = unsafe { size(image) }?;
        // Relocatable code for which nothing could be linked when the program was built.
        let is_empty = size <= fatbin::HEADER as u64;
        if let Some(start) = start_of(image as usize) {
            // The place in its object: a library that is loaded again is the same, wherever it comes to lie.
            let identity = (image as usize).wrapping_sub(start) as u64;
            if is_empty && !parts.is_empty() {
                return Some(Self::new(Bytes::Linked(parts, OnceLock::new()), identity));
            }
            return Some(Self::new(Bytes::Mapped(image as usize, usize::try_from(size).ok()?), identity));
        }
        if size > MAX_COPY {
            return None;
        }
        // SAFETY: the driver has just read an image of this size from there.
        let bytes = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size as usize) }.to_vec();
        Some(Self::owned(bytes))
    }

    /// An image that was loaded from a file.
    pub fn of_file(path: &Path) -> Option<Self> {
        (path.metadata().ok()?.len() <= MAX_COPY).then(|| std::fs::read(path).ok())?.map(Self::owned)
    }

    fn owned(bytes: Vec<u8>) -> Self {
        let identity = checksum(&bytes);
        Self::new(Bytes::Owned(bytes), identity)
    }

    fn new(bytes: Bytes, identity: u64) -> Self {
        Self { bytes, sum: OnceLock::new(), units: OnceLock::new(), identity }
    }

    /// Its sum, by which the units that it was made from are known; `None` for what the driver links itself, and where
    /// the bytes are gone.
    pub fn sum(&self) -> Option<u64> {
        let is_linked = matches!(self.bytes, Bytes::Linked(..));
        *self.sum.get_or_init(|| self.bytes().filter(|_| !is_linked).map(|bytes| sum::of_image(&bytes)))
    }

    /// The IR of `mneme-cc` in the image itself. Read at the first use.
    pub fn units(&self) -> &[Unit<'static>] {
        self.units.get_or_init(|| self.bytes().map(|bytes| ir_inside::units(&bytes)).unwrap_or_default())
    }

    /// The bytes; `None` where the object that they were in is gone.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match &self.bytes {
            Bytes::Linked(parts, linked) => linked.get_or_init(|| link(parts)).as_deref().map(Cow::Borrowed),
            Bytes::Owned(bytes) => Some(Cow::Borrowed(bytes)),
            Bytes::Mapped(start, size) => read_own_memory(*start, *size).map(Cow::Owned),
        }
    }
}

/// Reads memory of this process that may be unmapped, by way of the kernel, which says so instead of raising a signal.
fn read_own_memory(start: usize, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; size];
    let mut done = 0;
    while done < size {
        let local = libc::iovec { iov_base: bytes[done..].as_mut_ptr().cast(), iov_len: size - done };
        let remote = libc::iovec { iov_base: (start + done) as *mut c_void, iov_len: size - done };
        // SAFETY: writes to the vector within its length; what cannot be read is an error.
        let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        done += usize::try_from(count).ok().filter(|count| *count > 0)?;
    }
    Some(bytes)
}

/// The fat binaries of relocatable code that a wrapper names beside its own, which is what of them was linked when the
/// program was built: address and size of each. `fatbinary_section.h` calls such a wrapper version 2, and the last word
/// of it an array of prelinked fat binaries, which ends with a null.
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

/// Links fat binaries for the current context's device, as the driver does when it loads them. Parts without code for
/// the device are left out: what needs them does not link.
fn link(parts: &[(usize, usize)]) -> Option<Vec<u8>> {
    let _mode = CaptureMode::relaxed();
    let mut linker = std::ptr::null_mut();
    // SAFETY: no options, and a valid place.
    if unsafe { driver::cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut linker) } != Status::SUCCESS
    {
        return None;
    }
    for (start, size) in parts {
        let Some(mut part) = read_own_memory(*start, *size) else { continue };
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
            debug!("a part of relocatable code is not linked (CUDA error {status})");
        }
    }
    let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: valid places; what the driver gives lives as long as the linker, and is copied.
    let linked = unsafe {
        match driver::cuLinkComplete(linker, &mut cubin, &mut size) {
            Status::SUCCESS => Some(std::slice::from_raw_parts(cubin.cast::<u8>(), size).to_vec()),
            status => {
                debug!("relocatable code is not linked (CUDA error {status})");
                None
            }
        }
    };
    // SAFETY: made above, and destroyed once.
    unsafe { driver::cuLinkDestroy(linker) };
    linked
}

/// Past the structure around a fat binary's address, if there is one.
///
/// # Safety
/// The image has the 16 bytes of a wrapper or of an image's header.
pub unsafe fn data(image: *const c_void) -> *const c_void {
    // SAFETY: by the caller's contract.
    unsafe {
        if [fatbin::WRAPPER_MAGIC, HIP_WRAPPER].contains(&image.cast::<u32>().read_unaligned()) {
            return image.cast::<*const c_void>().add(1).read_unaligned();
        }
    }
    image
}

/// Size of a loaded image, bytes.
///
/// # Safety
/// The driver has just loaded it.
unsafe fn size(image: *const c_void) -> Option<u64> {
    // SAFETY: each kind of image has the header that its first bytes announce; PTX is a terminated string.
    unsafe {
        let first = image.cast::<[u8; 4]>().read_unaligned();
        if first == fatbin::MAGIC.to_le_bytes() {
            return fatbin::size(&image.cast::<[u8; fatbin::HEADER]>().read_unaligned());
        }
        if &first == b"\x7fELF" {
            return cubin::size(&image.cast::<[u8; 64]>().read_unaligned());
        }
        if [bundle::MAGIC, bundle::COMPRESSED_MAGIC].iter().any(|magic| magic.starts_with(&first)) {
            return bundle::size(|at| image.cast::<u8>().add(at as usize).cast::<u64>().read_unaligned());
        }
        let text = CStr::from_ptr(image.cast::<c_char>()).to_bytes();
        ptx::is_ptx(text).then_some(text.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_outlives_its_buffer_and_an_unmapped_one_is_missed() {
        let mut text = b"// made by a test\n.version 8.0\n.target sm_90\n\0".to_vec();
        // SAFETY: a terminated string.
        let image = unsafe { LoadedImage::at(text.as_ptr().cast(), |_| None) }.unwrap();
        let copy = text.clone();
        text.fill(0);
        assert_eq!(*image.bytes().unwrap(), copy[..copy.len() - 1]);
        // SAFETY: as above.
        assert!(unsafe { LoadedImage::at(c"not an image".as_ptr().cast(), |_| Some(0)) }.is_none());
        let here = LoadedImage::new(Bytes::Mapped(copy.as_ptr() as usize, 4), 0);
        assert_eq!(*here.bytes().unwrap(), copy[..4]);
        let nowhere = LoadedImage::new(Bytes::Mapped(64, 4), 0);
        assert!(nowhere.bytes().is_none());
    }

    /// What clang makes of a HIP program.
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

    /// What nvcc makes of relocatable code that is PTX only: an empty fat binary, and a list of those to be linked.
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
        assert!(matches!(&image.bytes, Bytes::Linked(found, _) if *found == parts(2)));
        // SAFETY: as above.
        let image = unsafe { LoadedImage::at(wrapper(1).as_ptr().cast(), |_| Some(0)) }.unwrap();
        assert!(matches!(&image.bytes, Bytes::Mapped(_, 16)));
    }
}

//! Handlers of the functions that load code and find kernels in it.

use std::ffi::{c_char, c_uint, c_void};
use std::path::Path;
use std::sync::Arc;

use mneme_abi::hip::types::FatBinaryWrapper;
use mneme_image::elf::loaded_objects;
use mneme_image::in_memory;

use super::handles::{self, text};
use super::images::LoadedImage;
use super::kernel::CodeOwner;
use super::origin::CodeOrigin;
use super::registered::{self, RegisteredVariable};
use crate::driver::{CUfunction, CUkernel, CUlibrary, CUmodule, Status, hip};

/// The origin of an image: the ELF object that contains it (or the structure that points to it), and the image.
fn origin_of(image: *const c_void) -> CodeOrigin {
    let objects = loaded_objects();
    let holding =
        |address: usize| objects.iter().find(|object| object.segments.iter().any(|segment| segment.contains(&address)));
    // SAFETY: the driver has just loaded the image.
    let data = unsafe { in_memory::contents(image.cast()) };
    let object = holding(image as usize).or_else(|| holding(data? as usize)).map(|object| {
        // Made absolute now, because the application may change its folder before the file is read.
        let path = std::path::absolute(&object.path).unwrap_or_else(|_| object.path.clone());
        handles::object(path)
    });
    // SAFETY: as above.
    let image = unsafe { LoadedImage::at(image, |bytes| holding(bytes.start)?.file_offset(bytes)) };
    CodeOrigin { object, image: image.map(Arc::new) }
}

fn loaded(home: CodeOwner, image: *const c_void) {
    let origin = if image.is_null() { CodeOrigin::default() } else { origin_of(image) };
    if let (CodeOwner::Module(_), Some(image)) = (home, &origin.image) {
        // For a module the driver has just read the whole image. For a library it has not, so the identity is computed
        // later.
        image.identity();
    }
    handles::note(home, origin);
}

fn loaded_file(home: CodeOwner, file: *const c_char) {
    let image = text(file).and_then(|file| LoadedImage::of_file(Path::new(&file)));
    handles::note(home, CodeOrigin { object: None, image: image.map(Arc::new) });
}

/// # Safety
/// The last arguments are those of `cuModuleLoadData` or a similar function; `owner` makes an owner of the handle.
pub unsafe fn load(
    call: &dyn Fn() -> Status,
    owner: fn(usize) -> CodeOwner,
    handle: *const usize,
    image: *const c_void,
) -> Status {
    // SAFETY: the vendor has just written it.
    call().on_success(|| loaded(owner(unsafe { *handle }), image))
}

/// # Safety
/// As above, of `cuModuleLoad` or `cuLibraryLoadFromFile`.
pub unsafe fn load_file(
    call: &dyn Fn() -> Status,
    owner: fn(usize) -> CodeOwner,
    handle: *const usize,
    file: *const c_char,
) -> Status {
    // SAFETY: the vendor has just written it.
    call().on_success(|| loaded_file(owner(unsafe { *handle }), file))
}

/// Handles `cuModuleUnload` and `cuLibraryUnload`.
pub fn unload(call: &dyn Fn() -> Status, owner: CodeOwner) -> Status {
    handles::forget(owner);
    call()
}

/// # Safety
/// `function` is the place for the result of `cuModuleGetFunction` or `cuLibraryGetKernel`.
pub unsafe fn function(
    call: &dyn Fn() -> Status,
    function: *const usize,
    owner: CodeOwner,
    name: *const c_char,
) -> Status {
    let status = call();
    if let (Status::SUCCESS, Some(name)) = (status, text(name)) {
        // SAFETY: the vendor has just written it.
        let handle = unsafe { *function };
        handles::add_function(handle, name, owner, matches!(owner, CodeOwner::Library(_)));
    }
    status
}

/// Notes the names of a library's kernels now, because HIP's function handles do not reveal them later.
///
/// # Safety
/// The arguments are those of `hipLibraryEnumerateKernels`.
pub unsafe fn kernels_of_library(
    call: &dyn Fn() -> Status,
    kernels: *mut CUkernel,
    count: c_uint,
    library: CUlibrary,
) -> Status {
    let status = call();
    if status == Status::SUCCESS && !kernels.is_null() {
        // SAFETY: the vendor has just looked into this library.
        let count = count.min(unsafe { hip::kernels_in(library) }) as usize;
        // SAFETY: the vendor has just written the smaller of the library's count and the application's.
        for kernel in unsafe { std::slice::from_raw_parts(kernels, count) } {
            // SAFETY: the vendor has just returned it.
            if let Some(name) = text(unsafe { hip::name_of(*kernel) }) {
                handles::add_function(*kernel as usize, name, CodeOwner::Library(library as usize), true);
            }
        }
    }
    status
}

/// # Safety
/// The arguments are those of `cuLibraryGetModule`.
pub unsafe fn library_module(call: &dyn Fn() -> Status, module: *mut CUmodule, library: CUlibrary) -> Status {
    call().on_success(|| {
        // SAFETY: the vendor has just written it.
        let module = CodeOwner::Module(unsafe { *module } as usize);
        handles::note_module_of(CodeOwner::Library(library as usize), module);
    })
}

/// # Safety
/// The arguments are those of `cuKernelGetFunction`.
pub unsafe fn kernel_function(call: &dyn Fn() -> Status, function: *mut CUfunction, kernel: CUkernel) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && let Some(known) = handles::function(kernel as CUfunction)
    {
        // SAFETY: the vendor has just written it.
        let handle = unsafe { *function } as usize;
        handles::add_function_of(known, handle);
    }
    status
}

/// Notes code that a HIP program has registered, by the handle that the library returned.
///
/// # Safety
/// The library has just accepted this wrapper.
pub unsafe fn register_binary(handle: *mut *mut c_void, wrapper: *const FatBinaryWrapper) {
    if !handle.is_null() {
        registered::forget(handle as usize);
        loaded(CodeOwner::Binary(handle as usize), wrapper.cast());
    }
}

/// Forgets code that is about to be unregistered.
pub fn forget_binary(handle: *mut *mut c_void) {
    handles::forget(CodeOwner::Binary(handle as usize));
    registered::forget(handle as usize);
}

/// Notes a kernel of registered code, which is launched by an address on the host.
pub fn register_function(handle: *mut *mut c_void, host: *const c_void, name: *const c_char) {
    if let Some(name) = text(name) {
        handles::add_function(host as usize, name, CodeOwner::Binary(handle as usize), false);
    }
}

/// Notes a variable of registered code, and its size in bytes if it is managed.
pub fn register_variable(handle: *mut *mut c_void, host: *mut c_void, name: *const c_char, managed: Option<u64>) {
    if let Some(name) = text(name) {
        registered::note(handle as usize, name, RegisteredVariable { host: host as usize, managed });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn an_image_is_traced_to_its_object() {
        static IMAGE: [u64; 4] = [1, 2, 3, 4];
        let object_of = |image: *const c_void| origin_of(image).object;
        let inside = object_of(IMAGE.as_ptr().cast()).expect("a static is in the executable");
        assert_eq!(inside.path(), PathBuf::from("/proc/self/exe"));
        let wrapper = [u64::from(mneme_image::fatbin::WRAPPER_MAGIC), IMAGE.as_ptr() as u64, 0];
        assert_eq!(
            object_of(wrapper.as_ptr().cast()).map(|object| object.path().to_owned()),
            Some(inside.path().to_owned())
        );
        assert!(object_of(IMAGE.to_vec().as_ptr().cast()).is_none(), "the heap belongs to no object");
    }
}

//! `dlsym`: ours, the real one, and where the vendor's library is.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use mneme_core::image::elf::loaded_objects;
use mneme_core::install;

use super::family::Family;

/// NVIDIA's library.
const CUDA: &str = "libcuda.so.1";
/// How the name of AMD's library begins, in whatever version.
pub const HIP: &str = "libamdhip64.so";

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The `dlsym` behind our own: the C library's, or that of another tool which is preloaded after us.
pub fn real_dlsym() -> Dlsym {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        // glibc 2.34 moved dlsym from libdl into libc and gave it a version of its own.
        for version in [c"GLIBC_2.34", c"GLIBC_2.2.5"] {
            // SAFETY: dlvsym is called with valid strings.
            real = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            if !real.is_null() {
                break;
            }
        }
        if real.is_null() {
            crate::process::log::raw(
                "mneme: this C library has no dlsym that the recorder knows (glibc is needed); run without the recorder\n",
            );
            std::process::abort();
        }
        // Looked for by version, another tool's would be passed over.
        // SAFETY: the pointer is that of the C library's dlsym, which has this type; the call is from this library,
        // which is what is looked behind.
        let next = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real)(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
        if !next.is_null() {
            real = next;
        }
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: whoever stands in for the C library's dlsym has its type.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real) }
}

/// The next function of a name behind ours, null where there is none.
///
/// Signal handlers may want it, so there is no lock; and it has to be known by then, because the linker uses the heap,
/// whose lock the signal may have come in.
pub fn behind(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut function = known.load(Ordering::Relaxed);
    if function.is_null() {
        // SAFETY: a valid name; the call is from this library, which is what is looked behind.
        function = unsafe { real_dlsym()(libc::RTLD_NEXT, name.as_ptr()) };
        known.store(function, Ordering::Relaxed);
    }
    function
}

/// The path of the CPU device in this process, if it is loaded. It is looked for until the vendor's library is open:
/// from then on the answer stays.
pub fn cpu_device() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<&'static Path>> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return *found;
    }
    let is_settled = LIBRARIES.iter().any(|library| !library.load(Ordering::Acquire).is_null());
    // Looked for by file name: a Rust library has no soname that dlopen could match.
    let path = loaded_objects()
        .into_iter()
        .map(|object| object.path)
        .find(|path| path.file_name().is_some_and(|name| name == install::CPU_DEVICE));
    let path: Option<&'static Path> = path.map(|path| &*Box::leak(path.into_boxed_path()));
    if path.is_some() || is_settled { *FOUND.get_or_init(|| path) } else { None }
}

/// A symbol of the library of the vendor whose interface it is of: the CPU device where it is loaded, else libcuda or
/// libamdhip64. Null where there is none.
pub fn vendor_symbol(name: &CStr) -> *mut c_void {
    let Some(library) = vendor_library(Family::of_symbol(name)) else { return std::ptr::null_mut() };
    // SAFETY: the handle stays open for the life of the process.
    unsafe { real_dlsym()(library, name.as_ptr()) }
}

/// Whether the library of an interface is in this process; it is not loaded for the question.
pub fn is_vendor_loaded(family: Family) -> bool {
    !LIBRARIES[family as usize - 1].load(Ordering::Acquire).is_null()
        || cpu_device().is_some()
        || match family {
            // SAFETY: nothing is loaded, so that nothing runs.
            Family::Cuda => unsafe { Library::open(Some(CUDA), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok(),
            Family::Hip => loaded_hip().is_some(),
        }
}

/// Whether an address lies in the library of an interface, as far as the dynamic linker can tell.
pub fn is_vendors(family: Family, address: *mut c_void) -> bool {
    let object = |address: *mut c_void| {
        // SAFETY: zeros are a value of the structure, which is written to.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: any address may be asked about.
        (unsafe { libc::dladdr(address, &mut found) } != 0).then_some(found.dli_fbase)
    };
    let known = match family {
        Family::Cuda => c"cuInit",
        Family::Hip => c"hipInit",
    };
    object(address).is_none_or(|of| object(vendor_symbol(known)).is_none_or(|vendors| of == vendors))
}

/// Whether an address lies in AMD's library: one that is linked or loaded by its path, in spite of the CPU device.
pub fn is_of_hip(address: usize) -> bool {
    // SAFETY: zeros are a value of the structure, which is written to.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about.
    if unsafe { libc::dladdr(address as *const c_void, &mut found) } == 0 || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the name of a loaded object, which ends with a NUL.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes()));
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(HIP.as_bytes()))
}

/// The vendors' libraries once they are open, by interface.
static LIBRARIES: [AtomicPtr<c_void>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];

fn vendor_library(family: Family) -> Option<*mut c_void> {
    let place = &LIBRARIES[family as usize - 1];
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let name = match (cpu_device(), family) {
        (Some(device), _) => device.as_os_str().to_owned(),
        (None, Family::Cuda) => CUDA.into(),
        // That which the program has loaded: there are several versions, which are not the same, and what has been
        // loaded by `dlopen` is not behind us.
        (None, Family::Hip) => loaded_hip()?.into_os_string(),
    };
    // SAFETY: the library is the one that the application itself uses.
    let library = unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
    let handle = library.into_raw();
    place.store(handle, Ordering::Release);
    Some(handle)
}

/// AMD's library in this process.
fn loaded_hip() -> Option<PathBuf> {
    let is_meant = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(HIP.as_bytes()));
    loaded_objects().into_iter().map(|object| object.path).find(is_meant)
}

//! Finds the real `dlsym`, the next function of a name, and the vendor's library.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use mneme_image::elf::loaded_objects;
use mneme_system::install;

use super::family::Family;

/// NVIDIA's library.
const CUDA: &str = "libcuda.so.1";
/// The beginning of the file name of AMD's library, in every version.
pub const HIP: &str = "libamdhip64.so";

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The next `dlsym` after this library's: the C library's, or that of another tool that is preloaded later.
pub fn real_dlsym() -> Dlsym {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        // glibc 2.34 moved dlsym from libdl into libc, under a new version.
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
        // A lookup by version skips other tools' dlsym, so the lookup is repeated without one.
        // SAFETY: the pointer is the C library's dlsym, which has this type. The call comes from this library, which is
        // the object that RTLD_NEXT searches behind.
        let next = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real)(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
        if !next.is_null() {
            real = next;
        }
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: every replacement of the C library's dlsym has its type.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real) }
}

/// The next function of a name after this library's, or null.
///
/// Signal handlers may call it, so it takes no lock. Look the function up before a signal can need it: the linker uses
/// the heap, and the signal may interrupt a holder of the heap's lock.
pub fn behind(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut function = known.load(Ordering::Relaxed);
    if function.is_null() {
        // SAFETY: a valid name; the call comes from this library, which is the object that RTLD_NEXT searches behind.
        function = unsafe { real_dlsym()(libc::RTLD_NEXT, name.as_ptr()) };
        known.store(function, Ordering::Relaxed);
    }
    function
}

/// The path of the CPU device, if it is loaded in this process. The search is repeated until the vendor's library is
/// open; from then on the answer is kept.
pub fn cpu_device() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<&'static Path>> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return *found;
    }
    let is_settled = LIBRARIES.iter().any(|library| !library.load(Ordering::Acquire).is_null());
    // Compared by file name: a Rust library has no soname that dlopen could match.
    let path = loaded_objects()
        .into_iter()
        .map(|object| object.path)
        .find(|path| path.file_name().is_some_and(|name| name == install::CPU_DEVICE));
    let path: Option<&'static Path> = path.map(|path| &*Box::leak(path.into_boxed_path()));
    if path.is_some() || is_settled { *FOUND.get_or_init(|| path) } else { None }
}

/// A symbol of the vendor's library for its interface: the CPU device if it is loaded, otherwise libcuda or
/// libamdhip64. Null if the library lacks it.
pub fn vendor_symbol(name: &CStr) -> *mut c_void {
    let Some(library) = vendor_library(Family::of_symbol(name)) else { return std::ptr::null_mut() };
    // SAFETY: the handle stays open for the life of the process.
    unsafe { real_dlsym()(library, name.as_ptr()) }
}

/// Whether the library of an interface is in this process. Does not load it.
pub fn is_vendor_loaded(family: Family) -> bool {
    !LIBRARIES[family as usize - 1].load(Ordering::Acquire).is_null()
        || cpu_device().is_some()
        || match family {
            // SAFETY: loads nothing, so no initialiser runs.
            Family::Cuda => unsafe { Library::open(Some(CUDA), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok(),
            Family::Hip => loaded_hip().is_some(),
        }
}

/// Whether an address is in the library of an interface. True if the dynamic linker cannot tell.
pub fn is_vendors(family: Family, address: *mut c_void) -> bool {
    let object = |address: *mut c_void| {
        // SAFETY: zeros are a value of the structure, which is written to.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr accepts any address.
        (unsafe { libc::dladdr(address, &mut found) } != 0).then_some(found.dli_fbase)
    };
    let known = match family {
        Family::Cuda => c"cuInit",
        Family::Hip => c"hipInit",
    };
    object(address).is_none_or(|of| object(vendor_symbol(known)).is_none_or(|vendors| of == vendors))
}

/// Whether an address is in AMD's library, which may be linked or loaded by path even with the CPU device.
pub fn is_of_hip(address: usize) -> bool {
    // SAFETY: zeros are a value of the structure, which is written to.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr accepts any address.
    if unsafe { libc::dladdr(address as *const c_void, &mut found) } == 0 || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the name of a loaded object, which ends with a NUL.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes()));
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(HIP.as_bytes()))
}

/// The vendors' open libraries, by interface.
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
        // Only the version that the program has loaded will do. It may have come by `dlopen`, so RTLD_NEXT does not
        // find it.
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

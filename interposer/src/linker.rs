//! `dlsym`: ours, the real one, and where the vendor's library is.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use mneme_core::image::elf::loaded_objects;
use mneme_core::install;

use crate::hooks;

/// The vendor's library where there is a GPU.
const CUDA: &str = "libcuda.so.1";

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// What [`dlsym`] does next: return `hook`, or, where that is null, jump to `real`.
#[repr(C)]
pub struct Decision {
    hook: *mut c_void,
    real: *mut c_void,
}

/// The preloaded `dlsym`.
///
/// With `RTLD_NEXT` and `RTLD_DEFAULT` glibc starts from the object of the *return address*, so that the real function
/// has to be jumped to with the caller's frame as it was; a call from here would search behind this library instead.
///
/// # Safety
/// As for the C library's `dlsym`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {decide}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jnz 2f",
        "jmp rdx",
        "2:",
        "ret",
        ".cfi_endproc",
        decide = sym decide,
    )
}

/// Must not allocate for names that are not CUDA's: allocators call `dlsym` while they initialise.
unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Decision {
    let mut decision = Decision { hook: std::ptr::null_mut(), real: real_dlsym() as *mut c_void };
    let relative = handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT;
    if relative || name.is_null() {
        return decision;
    }
    // SAFETY: a name given to dlsym is NUL-terminated.
    let name = unsafe { CStr::from_ptr(name) };
    if !name.to_bytes().starts_with(b"cu") {
        return decision;
    }
    let hook = std::panic::catch_unwind(|| {
        let hook = hooks::by_name(name)?;
        // SAFETY: handle and name are the caller's, for the function that it wanted to call.
        let found = unsafe { real_dlsym()(handle, name.as_ptr()) };
        // A library of somebody else's that has a function of this name is not the vendor's; it is left as it is.
        (!found.is_null() && found == vendor_symbol(name)).then_some(hook)
    });
    decision.hook = hook.ok().flatten().unwrap_or(std::ptr::null_mut());
    decision
}

/// The C library's `dlsym`, past our own.
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
            crate::log::raw("mneme: this C library has no dlsym that the recorder knows (glibc is needed); run without the recorder\n");
            std::process::abort();
        }
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the pointer is that of the C library's dlsym, which has this type.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real) }
}

/// The path of the CPU device in this process, if it is loaded.
pub fn cpu_device() -> Option<&'static Path> {
    static FOUND: RwLock<Option<&'static Path>> = RwLock::new(None);
    if let Ok(found) = FOUND.read()
        && found.is_some()
    {
        return *found;
    }
    // Looked for by file name: a Rust library has no soname that dlopen could match.
    let path = loaded_objects()
        .into_iter()
        .map(|object| object.path)
        .find(|path| path.file_name().is_some_and(|name| name == install::CPU_DEVICE))?;
    let path: &'static Path = Box::leak(path.into_boxed_path());
    if let Ok(mut found) = FOUND.write() {
        *found = Some(path);
    }
    Some(path)
}

/// A symbol of the vendor's driver library: the CPU device's where it is loaded, else libcuda's. Null where there is none.
pub fn vendor_symbol(name: &CStr) -> *mut c_void {
    let Some(library) = vendor_library() else { return std::ptr::null_mut() };
    // SAFETY: the handle stays open for the life of the process.
    unsafe { real_dlsym()(library, name.as_ptr()) }
}

fn vendor_library() -> Option<*mut c_void> {
    static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let known = LIBRARY.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let name = cpu_device().map_or(OsStr::new(CUDA), Path::as_os_str);
    // SAFETY: the library is the one that the application itself uses.
    let library = unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
    let handle = library.into_raw();
    LIBRARY.store(handle, Ordering::Release);
    Some(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_dlsym_is_in_front_and_finds_what_the_real_one_finds() {
        for (handle, name) in
            [(libc::RTLD_DEFAULT, c"getpid"), (libc::RTLD_NEXT, c"dlsym"), (libc::RTLD_DEFAULT, c"no_such_symbol_anywhere")]
        {
            // SAFETY: valid handles and names.
            let (ours, real) = unsafe { (dlsym(handle, name.as_ptr()), real_dlsym()(handle, name.as_ptr())) };
            assert_eq!(ours, real, "{name:?}");
        }
        assert_ne!(real_dlsym() as usize, dlsym as *const () as usize);
    }

    #[test]
    fn a_foreign_function_with_a_driver_name_is_left_alone() {
        // No handle of a C library has it, and the real answer (null) is passed on.
        // SAFETY: valid handle and name.
        let found = unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY);
            dlsym(library, c"cuMemAlloc_v2".as_ptr())
        };
        assert!(found.is_null());
    }
}

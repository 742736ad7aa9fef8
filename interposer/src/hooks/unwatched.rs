//! Libraries whose calls bypass the recorder.
//!
//! Their own dependencies come before preloaded libraries.
//!
//! `dlopen` with `RTLD_DEEPBIND` and `dlmopen` load such libraries. The summary names them if the recorder saw no
//! launch of the process.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::AtomicPtr;

use mneme_model::summary::UnwatchedLibrary;

use crate::process::linker::behind;
use crate::process::trampoline::passed_on;
use crate::recorder::unwatched;

passed_on!(dlopen, before_dlopen);
passed_on!(dlmopen, before_dlmopen);

/// # Safety
/// The name is null or that of a library.
unsafe extern "C" fn before_dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if flags & libc::RTLD_DEEPBIND != 0 {
        // SAFETY: the caller's promise.
        unsafe { note(name, "RTLD_DEEPBIND") };
    }
    behind(&KNOWN, c"dlopen")
}

/// # Safety
/// As above.
unsafe extern "C" fn before_dlmopen(space: c_long, name: *const c_char, _flags: c_int) -> *mut c_void {
    static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if space != libc::LM_ID_BASE {
        // SAFETY: the caller's promise.
        unsafe { note(name, "dlmopen") };
    }
    behind(&KNOWN, c"dlmopen")
}

/// # Safety
/// As above.
unsafe fn note(name: *const c_char, by: &str) {
    if !name.is_null() {
        // SAFETY: the caller's promise.
        let library = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let _ = std::panic::catch_unwind(|| unwatched::note(UnwatchedLibrary { library, by: by.to_owned() }));
    }
}

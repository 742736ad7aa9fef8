//! The preloaded `dlsym`, through which cudart finds the driver, and other languages HIP.

use std::ffi::{CStr, c_char, c_void};

use mneme_system::cancellation::PutOff;

use super::by_name;
use crate::process::family::Family;
use crate::process::linker::{cpu_device, is_of_hip, is_vendor_loaded, real_dlsym, vendor_symbol};

/// The next step of [`dlsym`]: jump to `real`, or return `hook` if `real` is null.
#[repr(C)]
pub struct Decision {
    hook: *mut c_void,
    real: *mut c_void,
}

/// The preloaded `dlsym`.
///
/// With `RTLD_NEXT` and `RTLD_DEFAULT` glibc starts from the object of the *return address*. So this function must jump
/// to the real one with the caller's frame unchanged; a call from here would search behind this library instead.
///
/// # Safety
/// As for the C library's `dlsym`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_adjust_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x0, x1, [sp, #16]",
        "bl {decide}",
        "mov x16, x1",
        "mov x17, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_adjust_cfa_offset -32",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "mov x0, x17",
        "ret",
        ".cfi_endproc",
        decide = sym decide,
    );
    #[cfg(target_arch = "x86_64")]
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
        "test rdx, rdx",
        "jz 2f",
        "jmp rdx",
        "2:",
        "ret",
        ".cfi_endproc",
        decide = sym decide,
    )
}

/// The prefixes of hooked functions' names.
const PREFIXES: [&[u8]; 4] = [b"cu", b"hip", b"__hip", b"_Z24hip"];

/// Decides for [`dlsym`]. Must not allocate for names other than CUDA's or HIP's, because allocators call `dlsym` while
/// they initialise.
unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Decision {
    let as_asked = Decision { hook: std::ptr::null_mut(), real: real_dlsym() as *mut c_void };
    if handle == libc::RTLD_NEXT || name.is_null() {
        return as_asked;
    }
    // SAFETY: a name given to dlsym is NUL-terminated.
    let name = unsafe { CStr::from_ptr(name) };
    if !PREFIXES.iter().any(|prefix| name.to_bytes().starts_with(prefix)) {
        return as_asked;
    }
    let _put_off = PutOff::begin();
    // SAFETY: the handle is the caller's.
    let found = std::panic::catch_unwind(|| unsafe { found(handle, name) });
    match found.ok().flatten() {
        Some(hook) => Decision { hook, real: std::ptr::null_mut() },
        None => as_asked,
    }
}

/// The address to return instead of the real function's result.
///
/// # Safety
/// The handle is an argument of `dlsym`, and not `RTLD_NEXT`.
unsafe fn found(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // From here, `RTLD_DEFAULT` searches the program and its globally loaded libraries, which come first for every
    // caller.
    // SAFETY: handle and name are the caller's, for the function that it wanted to call.
    let found = unsafe { real_dlsym()(handle, name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    let ours = by_name(name);
    if ours == Some(found) {
        // SAFETY: valid name.
        let behind = unsafe { real_dlsym()(libc::RTLD_NEXT, name.as_ptr()) };
        // Found only because this library is preloaded: the function does not exist if the vendor's library lacks it or
        // is missing.
        let is_there =
            !behind.is_null() || (is_vendor_loaded(Family::of_symbol(name)) && !vendor_symbol(name).is_null());
        return (!is_there).then_some(behind);
    }
    if handle == libc::RTLD_DEFAULT {
        return None;
    }
    let vendors = vendor_symbol(name);
    if found == vendors {
        return ours;
    }
    // A function of this name in another library is not the vendor's, and is returned unchanged.
    let is_replaced = !vendors.is_null() && cpu_device().is_some() && is_of_hip(found as usize);
    is_replaced.then(|| ours.unwrap_or(vendors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_dlsym_is_in_front_and_finds_what_the_real_one_finds() {
        for (handle, name) in [
            (libc::RTLD_DEFAULT, c"getpid"),
            (libc::RTLD_NEXT, c"dlsym"),
            (libc::RTLD_DEFAULT, c"no_such_symbol_anywhere"),
        ] {
            // SAFETY: valid handles and names.
            let (ours, real) = unsafe { (dlsym(handle, name.as_ptr()), real_dlsym()(handle, name.as_ptr())) };
            assert_eq!(ours, real, "{name:?}");
        }
        assert_ne!(real_dlsym() as usize, dlsym as *const () as usize);
    }

    #[test]
    fn a_foreign_function_with_a_driver_name_is_left_alone() {
        // C libraries' handles do not have it, and the real answer (null) is passed on.
        // SAFETY: valid handle and name.
        let found = unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY);
            dlsym(library, c"cuMemAlloc_v2".as_ptr())
        };
        assert!(found.is_null());
    }
}

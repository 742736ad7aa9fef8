//! The preloaded `dlsym`: cudart gets at the driver by it, and other languages at HIP.

use std::ffi::{CStr, c_char, c_void};

use super::by_name;
use crate::process::linker::{cpu_device, is_of_hip, real_dlsym, vendor_symbol};

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

/// How the names of hooked functions begin.
const PREFIXES: [&[u8]; 4] = [b"cu", b"hip", b"__hip", b"_Z24hip"];

/// Must not allocate for names that are not CUDA's or HIP's: allocators call `dlsym` while they initialise.
unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Decision {
    let mut decision = Decision { hook: std::ptr::null_mut(), real: real_dlsym() as *mut c_void };
    let relative = handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT;
    if relative || name.is_null() {
        return decision;
    }
    // SAFETY: a name given to dlsym is NUL-terminated.
    let name = unsafe { CStr::from_ptr(name) };
    if !PREFIXES.iter().any(|prefix| name.to_bytes().starts_with(prefix)) {
        return decision;
    }
    let hook = std::panic::catch_unwind(|| {
        // SAFETY: handle and name are the caller's, for the function that it wanted to call.
        let found = unsafe { real_dlsym()(handle, name.as_ptr()) };
        if found.is_null() {
            return None;
        }
        let vendors = vendor_symbol(name);
        if found == vendors {
            return by_name(name);
        }
        // A library of somebody else's that has a function of this name is not the vendor's; it is left as it is.
        let is_replaced = !vendors.is_null() && cpu_device().is_some() && is_of_hip(found as usize);
        is_replaced.then(|| by_name(name).unwrap_or(vendors))
    });
    decision.hook = hook.ok().flatten().unwrap_or(std::ptr::null_mut());
    decision
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
        // No handle of a C library has it, and the real answer (null) is passed on.
        // SAFETY: valid handle and name.
        let found = unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY);
            dlsym(library, c"cuMemAlloc_v2".as_ptr())
        };
        assert!(found.is_null());
    }
}

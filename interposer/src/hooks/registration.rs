//! The functions by which HIP programs register their code before `main`, which return no status.
//!
//! A process that registers code with HIP uses HIP.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use mneme_abi::hip::types::FatBinaryWrapper;
use mneme_abi::hip::types::registration::{
    RegisterFatBinary, RegisterFunction, RegisterManagedVariable, RegisterVariable, UnregisterFatBinary,
};

use crate::driver::Slot;
use crate::kernels::loading;
use crate::process::family::Family;
use crate::process::reentrancy;

/// Gives the address of a function.
pub type Address = fn() -> *mut c_void;

/// Names and addresses of the functions here.
pub static FUNCTIONS: &[(&CStr, Address)] = &[
    (c"__hipRegisterFatBinary", || __hipRegisterFatBinary as *const () as *mut c_void),
    (c"__hipUnregisterFatBinary", || __hipUnregisterFatBinary as *const () as *mut c_void),
    (c"__hipRegisterFunction", || __hipRegisterFunction as *const () as *mut c_void),
    (c"__hipRegisterVar", || __hipRegisterVar as *const () as *mut c_void),
    (c"__hipRegisterManagedVar", || __hipRegisterManagedVar as *const () as *mut c_void),
];

/// The vendor's function of a name, as a type; the expression around is left where there is none.
macro_rules! real {
    ($name:literal as $type:ty $(, $otherwise:expr)?) => {{
        static SLOT: Slot = Slot::new();
        let address = SLOT.get($name);
        if address.is_null() {
            return $($otherwise)?;
        }
        // SAFETY: the library's function of this name has this type in every version.
        unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
    }};
}

/// Runs the vendor's function, and what we note before or after it, with hooks switched off; what we note must not end
/// the program.
fn followed<R>(before: impl FnOnce(), call: impl FnOnce() -> R, after: impl FnOnce(&R)) -> R {
    let is_outermost = !reentrancy::inside() && Family::Hip.is_recorded();
    reentrancy::bypassing(|| {
        if is_outermost {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(before));
        }
        let result = call();
        if is_outermost {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| after(&result)));
        }
        result
    })
}

/// # Safety
/// As for HIP's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's")]
pub unsafe extern "C" fn __hipRegisterFatBinary(wrapper: *const FatBinaryWrapper) -> *mut *mut c_void {
    let real = real!(c"__hipRegisterFatBinary" as RegisterFatBinary, std::ptr::null_mut());
    // SAFETY: the argument is the program's own.
    let call = || unsafe { real(wrapper) };
    // SAFETY: the library has just taken it.
    followed(|| (), call, |handle| unsafe { loading::register_binary(*handle, wrapper) })
}

/// # Safety
/// As for HIP's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's")]
pub unsafe extern "C" fn __hipUnregisterFatBinary(handle: *mut *mut c_void) {
    let real = real!(c"__hipUnregisterFatBinary" as UnregisterFatBinary);
    // SAFETY: the argument is the program's own.
    followed(|| loading::forget_binary(handle), || unsafe { real(handle) }, |()| ());
}

/// # Safety
/// As for HIP's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments, reason = "HIP's")]
pub unsafe extern "C" fn __hipRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_void,
    host_name: *mut c_char,
    name: *const c_char,
    threads: c_uint,
    thread: *mut c_void,
    block: *mut c_void,
    block_size: *mut c_void,
    grid_size: *mut c_void,
    warp_size: *mut c_int,
) {
    let real = real!(c"__hipRegisterFunction" as RegisterFunction);
    // SAFETY: the arguments are the program's own.
    let call = || unsafe {
        real(handle, host, host_name, name, threads, thread, block, block_size, grid_size, warp_size);
    };
    followed(|| (), call, |()| loading::register_function(handle, host, name));
}

/// # Safety
/// As for HIP's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments, reason = "HIP's")]
pub unsafe extern "C" fn __hipRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_void,
    host_name: *mut c_char,
    name: *const c_char,
    external: c_int,
    bytes: usize,
    constant: c_int,
    global: c_int,
) {
    let real = real!(c"__hipRegisterVar" as RegisterVariable);
    // SAFETY: the arguments are the program's own.
    let call = || unsafe { real(handle, host, host_name, name, external, bytes, constant, global) };
    followed(|| (), call, |()| loading::register_variable(handle, host, name, None));
}

/// # Safety
/// As for HIP's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HIP's")]
pub unsafe extern "C" fn __hipRegisterManagedVar(
    handle: *mut c_void,
    pointer: *mut *mut c_void,
    initial: *mut c_void,
    name: *const c_char,
    bytes: usize,
    alignment: c_uint,
) {
    let real = real!(c"__hipRegisterManagedVar" as RegisterManagedVariable);
    // SAFETY: the arguments are the program's own.
    let call = || unsafe { real(handle, pointer, initial, name, bytes, alignment) };
    followed(
        || (),
        call,
        |()| {
            loading::register_variable(handle.cast(), pointer.cast(), name, Some(bytes as u64));
        },
    );
}

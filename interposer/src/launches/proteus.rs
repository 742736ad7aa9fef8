//! Proteus: sends its launches straight to the vendor's launch of the original kernel.
//!
//! Proteus does not specialise while a program is recorded. Its IR is found in the image, see `native`.
//!
//! A program without a copy of Proteus's runtime calls these functions of a library, and the preloaded ones here come
//! first. Registrations can be ignored, because Proteus compiles no code.

use std::ffi::{CStr, c_char, c_void};

use mneme_abi::cuda::runtime::pointers::cudaLaunchKernel as Launch;
use mneme_abi::hip::runtime::pointers::hipLaunchKernel;
use mneme_abi::hip::types::{CUstream, Dimensions};

use crate::driver::Status;
use crate::process::linker::real_dlsym;
use crate::process::recorded_family;

// Either is called through the other's type.
const _: fn(hipLaunchKernel) -> Launch = |launch| launch;

/// Proteus's launch: the same arguments as the runtime's.
///
/// # Safety
/// As for `cudaLaunchKernel` and `hipLaunchKernel`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_launch_kernel(
    kernel: *const c_void,
    grid: Dimensions,
    block: Dimensions,
    arguments: *mut *mut c_void,
    shared: u64,
    stream: CUstream,
) -> Status {
    if let Some(launch) = the_programs_own() {
        // SAFETY: the arguments are the application's own.
        return unsafe { launch(kernel, grid, block, arguments, shared as usize, stream) };
    }
    crate::process::log::raw(
        "mneme: cannot pass on a launch through Proteus: the program has no CUDA or HIP runtime that the recorder finds\n",
    );
    Status::NOT_FOUND
}

/// The function with which Proteus would launch the original kernel.
fn the_programs_own() -> Option<Launch> {
    // A program stores its `cudaLaunchKernel` here, which may belong to a static runtime without symbols.
    let left = default_symbol(c"__proteus_cudaLaunchKernel_ptr").cast::<Option<Launch>>();
    // SAFETY: Proteus's library has a variable of this type and name, if any.
    if let Some(Some(launch)) = unsafe { left.as_ref() } {
        return Some(*launch);
    }
    // The interface in use comes first, because the CPU device has both. If this is the program's first call, it has
    // only one.
    let mut names = [c"cudaLaunchKernel", c"hipLaunchKernel"];
    if recorded_family::is_hip() {
        names.reverse();
    }
    let found = names.into_iter().map(default_symbol).find(|found| !found.is_null())?;
    // SAFETY: both functions have this type.
    Some(unsafe { std::mem::transmute::<*mut c_void, Launch>(found) })
}

/// The symbol of a name in the global scope, where the launching program's runtime comes before this library.
fn default_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a valid name.
    unsafe { real_dlsym()(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// # Safety
/// The arguments are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_fatbinary(
    _handle: *mut c_void,
    _wrapper: *mut c_void,
    _module: *const c_char,
) {
}

/// # Safety
/// The argument is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_fatbinary_end(_handle: *mut c_void) {}

/// # Safety
/// The arguments are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_linked_binary(_wrapper: *mut c_void, _module: *const c_char) {}

/// # Safety
/// The arguments are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_function(
    _handle: *mut c_void,
    _kernel: *mut c_void,
    _name: *const c_char,
    _constants: *mut *mut c_void,
    _count: i32,
) {
}

/// # Safety
/// The arguments are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_var(
    _handle: *mut c_void,
    _host: *const c_void,
    _name: *const c_char,
    _size: u64,
) {
}

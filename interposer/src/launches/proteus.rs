//! Proteus: its launches go straight to the vendor's launch of the original kernel.
//!
//! Nothing is specialised while a program is recorded. The IR is found in the image, see `native`.
//!
//! A program that has no copy of Proteus's runtime in itself calls these functions of a library; ours come first. What
//! is registered with it needs no answer, because nothing is compiled.

use std::ffi::{CStr, c_char, c_void};

use mneme_abi::cuda::runtime::pointers::cudaLaunchKernel as Launch;
use mneme_abi::hip::runtime::pointers::hipLaunchKernel;
use mneme_abi::hip::types::{CUstream, Dimensions};

use crate::driver::Status;
use crate::process::linker::real_dlsym;
use crate::process::recorded_family;

// Either is called for the other.
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
        "mneme: a launch through Proteus cannot be passed on: it has no CUDA or HIP runtime that could be found\n",
    );
    Status::NOT_FOUND
}

/// What Proteus would launch the original kernel with.
fn the_programs_own() -> Option<Launch> {
    // A program leaves its `cudaLaunchKernel` here, which may be of a static runtime that no name leads to.
    let left = default_symbol(c"__proteus_cudaLaunchKernel_ptr").cast::<Option<Launch>>();
    // SAFETY: Proteus's library has a variable of this type by this name, where it has one.
    if let Some(Some(launch)) = unsafe { left.as_ref() } {
        return Some(*launch);
    }
    // That of the interface in use comes first: the CPU device has both. A program whose first call this is has one.
    let mut names = [c"cudaLaunchKernel", c"hipLaunchKernel"];
    if recorded_family::is_hip() {
        names.reverse();
    }
    let found = names.into_iter().map(default_symbol).find(|found| !found.is_null())?;
    // SAFETY: both functions have this type.
    Some(unsafe { std::mem::transmute::<*mut c_void, Launch>(found) })
}

/// What a name leads to in the global scope. The program that launches has its runtime loaded before us there.
fn default_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a valid name.
    unsafe { real_dlsym()(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// # Safety
/// Nothing is done with the arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_fatbinary(
    _handle: *mut c_void,
    _wrapper: *mut c_void,
    _module: *const c_char,
) {
}

/// # Safety
/// Nothing is done with the argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_fatbinary_end(_handle: *mut c_void) {}

/// # Safety
/// Nothing is done with the arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_linked_binary(_wrapper: *mut c_void, _module: *const c_char) {}

/// # Safety
/// Nothing is done with the arguments.
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
/// Nothing is done with the arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __proteus_register_var(
    _handle: *mut c_void,
    _host: *const c_void,
    _name: *const c_char,
    _size: u64,
) {
}

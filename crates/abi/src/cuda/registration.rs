//! The functions of CUDA's runtime by which compiled programs register their code before `main`.
//!
//! `crt/host_runtime.h` of CUDA 12.9 declares them, which a test compares; `since` is that version, though older ones
//! have them too.

use super::types::*;
use crate::declare::declare;

declare! { ($)
    // Gives the handle of the code
    12090 __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void;
    12090 __cudaRegisterFatBinaryEnd(handle: *mut *mut c_void) -> ();
    12090 __cudaUnregisterFatBinary(handle: *mut *mut c_void) -> ();
    12090 __cudaInitModule(handle: *mut *mut c_void) -> c_char;
    // A limit of threads, which is -1, and five that are null
    12090 __cudaRegisterFunction(
        handle: *mut *mut c_void, host: *const c_char, device: *mut c_char, name: *const c_char, threads: c_int,
        thread: *mut c_void, block: *mut c_void, block_size: *mut Dimensions, grid_size: *mut Dimensions,
        warp_size: *mut c_int
    ) -> ();
    12090 __cudaRegisterVar(
        handle: *mut *mut c_void, host: *mut c_char, device: *mut c_char, name: *const c_char, external: c_int,
        bytes: usize, constant: c_int, global: c_int
    ) -> ();
}

//! The HIP functions with which compiled programs register their code before `main`.
//!
//! `since` is the version of the symbol, as in [`runtime`](super::runtime). The headers do not declare them: the
//! arguments come from clang's calls.

use super::types::*;
use crate::declare::declare;

declare! { ($)
    // Returns the handle of the code
    402 __hipRegisterFatBinary(wrapper: *const FatBinaryWrapper) -> *mut *mut c_void;
    402 __hipUnregisterFatBinary(handle: *mut *mut c_void) -> ();
    // A limit of threads, and five null arguments
    402 __hipRegisterFunction(
        handle: *mut *mut c_void, host: *const c_void, host_name: *mut c_char, name: *const c_char, threads: c_uint,
        thread: *mut c_void, block: *mut c_void, block_size: *mut c_void, grid_size: *mut c_void, warp_size: *mut c_int
    ) -> ();
    402 __hipRegisterVar(
        handle: *mut *mut c_void, host: *mut c_void, host_name: *mut c_char, name: *const c_char, external: c_int,
        bytes: usize, constant: c_int, global: c_int
    ) -> ();
    // The place for its address, and its initial value
    402 __hipRegisterManagedVar(
        handle: *mut c_void, place: *mut *mut c_void, initial: *mut c_void, name: *const c_char, bytes: usize,
        alignment: c_uint
    ) -> ();
}

//! The exported functions, and the table of them.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUipcMemHandle, CUlaunchConfig, CUmemAccessDesc,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemoryPool,
};

use super::{Hook, enter, proc_address};
use crate::kernels::loading;
use crate::launches::{forms, graphs, legacy};
use crate::lifetimes::contexts as ends;
use crate::memory::{served, sharing, tracked};
use crate::table::every_hook;
use crate::vendor::{
    self, CUcontext, CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUstream, Status, captures, contexts, gate,
};

macro_rules! handle {
    ($call:ident, ($($argument:ident),*), gated) => {{
        $(let _ = $argument;)*
        gate::passing($call)
    }};
    // SAFETY: the arguments are the application's own, as the handler's contract wants.
    ($call:ident, ($($argument:ident),*), $handler:path) => { unsafe { $handler($call, $($argument),*) } };
}

/// Makes an exported function of each hook. `=> gated` only passes the gate; `=> path` calls a handler with the call itself (`&dyn Fn() -> Status`)
/// and the arguments.
macro_rules! export {
    ($( $purpose:literal $tests:tt { $( $since:literal $name:ident($($argument:ident: $type:ty),* $(,)?) => $handler:tt $(:: $rest:ident)*; )* } )*) => {
        /// Every hooked function.
        pub static TABLE: &[Hook] = &[$($(
            Hook {
                name: vendor::c_name(concat!(stringify!($name), "\0")),
                since: $since,
                purpose: $purpose,
                tests: &$tests,
                address: || $name as *const () as *mut std::ffi::c_void,
                real: &vendor::hooked::$name::SLOT,
            },
        )*)*];

        $($(
            /// # Safety
            /// As for the driver function of this name.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                enter(
                    // SAFETY: the arguments are the application's own.
                    || unsafe { vendor::hooked::$name::call($($argument),*) },
                    |call| handle!(call, ($($argument),*), $handler $(:: $rest)*),
                )
            }
        )*)*
    };
}

every_hook!(export);

//! The vendor's functions, called by type, found by the real `dlsym` at their first use.
//!
//! Statuses and enumerations cross as plain integers: a newer driver's values must not become invalid Rust enums.

pub mod captures;
pub mod contexts;
pub mod gate;
pub mod hooked;
pub mod streams;
pub mod timing;

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUdevice_attribute, CUlimit, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocation,
};
pub use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUstream};

use mneme_core::launch::Limits;

use crate::process::linker::vendor_symbol;

/// `CUresult`.
pub type Status = u32;
pub const SUCCESS: Status = 0;
pub const INVALID_VALUE: Status = 1;
pub const OUT_OF_MEMORY: Status = 2;
pub const INVALID_CONTEXT: Status = 201;
pub const MAP_FAILED: Status = 205;
pub const INVALID_HANDLE: Status = 400;
pub const NOT_FOUND: Status = 500;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, the names of stream 0 under its two meanings.
pub const STREAM_LEGACY: usize = 1;
pub const STREAM_PER_THREAD: usize = 2;

/// The address of one function, resolved lazily.
pub struct Slot {
    address: AtomicPtr<c_void>,
    /// Another tool's function that stands before it, or null.
    tool: AtomicPtr<c_void>,
}

impl Slot {
    #[expect(clippy::new_without_default, reason = "a static's initialiser")]
    pub const fn new() -> Self {
        Self { address: AtomicPtr::new(std::ptr::null_mut()), tool: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The function's address, null if the vendor's library (or the library itself) is missing.
    #[inline]
    pub fn get(&self, name: &'static CStr) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.find(name) } else { known }
    }

    #[cold]
    fn find(&self, name: &CStr) -> *mut c_void {
        let found = vendor_symbol(name);
        self.address.store(found, Ordering::Relaxed);
        found
    }

    /// Takes an address learnt from `cuGetProcAddress` for a function that `dlsym` does not know.
    pub fn learn(&self, address: *mut c_void) {
        let _ = self.address.compare_exchange(std::ptr::null_mut(), address, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Has the application's calls go to another tool's function, which calls the vendor's.
    pub fn put_before(&self, tool: *mut c_void) {
        self.tool.store(tool, Ordering::Relaxed);
    }

    /// The function that the application's calls go to.
    #[inline]
    pub fn outermost(&self, name: &'static CStr) -> *mut c_void {
        let tool = self.tool.load(Ordering::Relaxed);
        if tool.is_null() { self.get(name) } else { tool }
    }
}

/// A C string constant from a literal with its terminator.
pub(crate) const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the macro appends the only NUL"),
    }
}

/// Declares module `$name` with `call`, which answers `NOT_FOUND` where the vendor has no such function. [`Status`] and the
/// arguments' types are taken from the module around.
macro_rules! function {
    ($name:ident($($argument:ident: $type:ty),* $(,)?)) => {
        pub mod $name {
            use super::*;
            pub static SLOT: $crate::driver::Slot = $crate::driver::Slot::new();

            /// # Safety
            /// As for the driver function of this name.
            #[allow(clippy::too_many_arguments)]
            #[inline]
            pub unsafe fn call($($argument: $type),*) -> Status {
                let address = SLOT.get(const { $crate::driver::c_name(concat!(stringify!($name), "\0")) });
                // SAFETY: the slot of this name; the caller vouches for the arguments.
                unsafe { call_at(address, $($argument),*) }
            }

            /// # Safety
            /// As for the driver function of this name, which is at this address if it is not null.
            #[allow(clippy::too_many_arguments)]
            #[inline]
            pub unsafe fn call_at(address: *mut std::ffi::c_void, $($argument: $type),*) -> Status {
                if address.is_null() {
                    return $crate::driver::NOT_FOUND;
                }
                // SAFETY: the symbol of this name has this type in every version of the driver API.
                let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> Status>(address) };
                // SAFETY: the caller vouches for the arguments.
                unsafe { function($($argument),*) }
            }
        }
    };
}
pub(crate) use function;

/// Functions that the recorder calls for itself and does not hook.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        #[expect(non_snake_case, reason = "the driver's names")]
        pub(crate) mod own { use super::*; $(function!($name($($argument: $type),*));)* }
        $(
            /// # Safety
            /// As for the driver function of this name.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe fn $name($($argument: $type),*) -> Status {
                // SAFETY: the caller vouches for the arguments.
                unsafe { own::$name::call($($argument),*) }
            }
        )*
    };
}

functions! {
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxSetCurrent(context: CUcontext);
    cuCtxGetDevice(device: *mut CUdevice);
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cuCtxGetLimit(value: *mut usize, limit: c_uint);
    cuCtxSynchronize();
    cuEventCreate(event: *mut *mut c_void, flags: c_uint);
    cuEventDestroy_v2(event: *mut c_void);
    cuEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void);
    cuEventQuery(event: *mut c_void);
    cuEventRecord(event: *mut c_void, stream: CUstream);
    cuEventSynchronize(event: *mut c_void);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
    cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
    cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
    cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    cuGraphChildGraphNodeGetGraph(node: *mut c_void, graph: *mut *mut c_void);
    cuGraphClone(clone: *mut *mut c_void, graph: *mut c_void);
    cuGraphDestroy(graph: *mut c_void);
    cuGraphGetEdges(graph: *mut c_void, from: *mut *mut c_void, to: *mut *mut c_void, count: *mut usize);
    cuGraphGetNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize);
    cuGraphHostNodeGetParams(node: *mut c_void, parameters: *mut CUDA_HOST_NODE_PARAMS);
    cuGraphKernelNodeGetAttribute(node: *mut c_void, attribute: c_uint, value: *mut c_void);
    cuGraphKernelNodeGetParams_v2(node: *mut c_void, parameters: *mut CUDA_KERNEL_NODE_PARAMS);
    cuGraphKernelNodeSetParams_v2(node: *mut c_void, parameters: *const CUDA_KERNEL_NODE_PARAMS);
    cuGraphMemcpyNodeGetParams(node: *mut c_void, parameters: *mut [u64; 25]);
    cuGraphMemsetNodeGetParams(node: *mut c_void, parameters: *mut CUDA_MEMSET_NODE_PARAMS);
    cuGraphNodeFindInClone(twin: *mut *mut c_void, node: *mut c_void, clone: *mut c_void);
    cuGraphNodeGetType(node: *mut c_void, kind: *mut c_uint);
    cuKernelGetAttribute(value: *mut c_int, attribute: c_uint, kernel: CUkernel, device: CUdevice);
    cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel);
    cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    cuLibraryGetGlobal(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char);
    cuLibraryGetManaged(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, name: *const c_char);
    cuLinkAddData_v2(linker: *mut c_void, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void);
    cuLinkComplete(linker: *mut c_void, cubin: *mut *mut c_void, bytes: *mut usize);
    cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, linker: *mut *mut c_void);
    cuLinkDestroy(linker: *mut c_void);
    cuMemAddressFree(address: CUdeviceptr, size: usize);
    cuMemAddressReserve(address: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr, flags: c_ulonglong);
    cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr);
    cuMemGetAllocationGranularity(granularity: *mut usize, properties: *const CUmemAllocationProp, option: c_uint);
    cuMemGetAllocationPropertiesFromHandle(properties: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle);
    cuMemRelease(handle: CUmemGenericAllocationHandle);
    cuModuleGetGlobal_v2(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char);
    cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    cuStreamIsCapturing(stream: CUstream, status: *mut c_uint);
    cuStreamSynchronize(stream: CUstream);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
}

/// The current context of this thread, if it has one.
pub fn current_context() -> Option<usize> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is valid to write.
    let status = unsafe { cuCtxGetCurrent(&mut context) };
    (status == SUCCESS && !context.is_null()).then_some(context as usize)
}

/// Whether the current context still takes calls: after an illegal address, for one, every call gives that error. This is the
/// cheapest call that tells (10 ns on driver 580).
pub fn context_is_sound() -> bool {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: the pointers are valid to write.
    let status = unsafe { cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
    matches!(status, SUCCESS | NOT_FOUND)
}

/// The device of this thread's current context.
pub fn current_device() -> Option<CUdevice> {
    let mut device = 0;
    // SAFETY: the pointer is valid to write.
    (unsafe { cuCtxGetDevice(&mut device) } == SUCCESS).then_some(device)
}

/// The limits of this thread's current context that are not the driver's defaults (CUDA Driver API, `CUlimit`).
pub fn limits() -> Limits {
    let changed = |limit: CUlimit, default: usize| {
        let mut value = 0;
        // SAFETY: the pointer is valid to write.
        let known = unsafe { cuCtxGetLimit(&mut value, limit as c_uint) } == SUCCESS;
        (known && value != default).then_some(value as u64)
    };
    Limits {
        stack: changed(CUlimit::CU_LIMIT_STACK_SIZE, 1024),
        printf_fifo: changed(CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20),
        malloc_heap: changed(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20),
    }
}

/// A device attribute.
pub fn device_attribute(attribute: CUdevice_attribute, device: CUdevice) -> Option<c_int> {
    let mut value = 0;
    // SAFETY: the pointer is valid to write.
    (unsafe { cuDeviceGetAttribute(&mut value, attribute as c_uint, device) } == SUCCESS).then_some(value)
}

//! The vendor's functions, typed, found by the real `dlsym` at their first use.
//!
//! The recorder calls functions of CUDA's driver; in a process that uses HIP, [`hip`] has a replacement for each.
//!
//! Statuses and enumerations are plain integers here: a newer driver's values must not become invalid Rust enums.

pub mod captures;
pub mod contexts;
pub mod gate;
pub mod hip;
pub mod hooked;
pub mod idle;
pub mod last_error;
pub mod streams;
pub mod timing;
pub mod waiting;

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use mneme_abi::cuda::sys::{CUdevice_attribute, CUlimit};
pub use mneme_abi::cuda::types::*;
use mneme_model::launch::Limits;

use crate::process::linker::vendor_symbol;
use crate::process::recorded_family;

/// The address of one function, resolved at its first use.
pub struct Slot {
    address: AtomicPtr<c_void>,
    /// The function that the recorder calls: this one, or HIP's in place of the driver's.
    own: AtomicPtr<c_void>,
    /// Another tool's function that comes before it, or null.
    tool: AtomicPtr<c_void>,
}

impl Slot {
    #[expect(clippy::new_without_default, reason = "a static's initialiser")]
    pub const fn new() -> Self {
        const NONE: *mut c_void = std::ptr::null_mut();
        Self { address: AtomicPtr::new(NONE), own: AtomicPtr::new(NONE), tool: AtomicPtr::new(NONE) }
    }

    /// The function's address, or null if the vendor's library lacks it or is missing.
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

    /// The function that the recorder calls, or null.
    #[inline]
    pub fn own(&self, name: &'static CStr) -> *mut c_void {
        let known = self.own.load(Ordering::Relaxed);
        if known.is_null() { self.find_own(name) } else { known }
    }

    #[cold]
    fn find_own(&self, name: &'static CStr) -> *mut c_void {
        let found = if recorded_family::is_hip() { hip::in_place_of(name) } else { None };
        let found = found.unwrap_or_else(|| self.get(name));
        if recorded_family::of_process().is_some() {
            self.own.store(found, Ordering::Relaxed);
        }
        found
    }

    /// Stores an address from `cuGetProcAddress`, for a function that `dlsym` does not find.
    pub fn learn(&self, address: *mut c_void) {
        let _ = self.address.compare_exchange(std::ptr::null_mut(), address, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Sends the application's calls to another tool's function, which calls the vendor's.
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

/// Makes a C string constant from a literal with its terminator.
pub(crate) const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the macro appends the only NUL"),
    }
}

/// Declares the module `$name` with `call`, for the recorder, which returns `NOT_FOUND` if the vendor lacks the
/// function. [`Status`] and the types of the arguments come from the surrounding module.
macro_rules! function {
    ({} $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        pub mod $name {
            use super::*;
            pub static SLOT: $crate::driver::Slot = $crate::driver::Slot::new();

            /// # Safety
            /// As for the driver function of this name.
            #[allow(clippy::too_many_arguments, reason = "the vendor's")]
            #[inline]
            pub unsafe fn call($($argument: $type),*) -> Status {
                let address = SLOT.own(const { $crate::driver::c_name(concat!(stringify!($name), "\0")) });
                // SAFETY: the slot of this name; the caller vouches for the arguments.
                unsafe { call_at(address, $($argument),*) }
            }

            /// # Safety
            /// As for the driver function of this name, which is at this address if it is not null.
            #[allow(clippy::too_many_arguments, reason = "the vendor's")]
            #[inline]
            pub unsafe fn call_at(address: *mut std::ffi::c_void, $($argument: $type),*) -> Status {
                if address.is_null() {
                    return Status::NOT_FOUND;
                }
                // SAFETY: the symbol of this name has this type in every version of the driver API.
                let function = unsafe {
                    std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C-unwind" fn($($type),*) -> Status>(address)
                };
                // SAFETY: the caller vouches for the arguments.
                unsafe { function($($argument),*) }
            }
        }
    };
}
pub(crate) use function;

/// A plain function that calls into a module of [`function`].
macro_rules! plain {
    ({} $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// As for the driver function of this name.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the vendor's")]
        pub unsafe fn $name($($argument: $type),*) -> Status {
            // SAFETY: the caller vouches for the arguments.
            unsafe { own::$name::call($($argument),*) }
        }
    };
}

/// Declares functions that the recorder calls and does not hook.
macro_rules! functions {
    ($($name:ident;)*) => {
        pub(crate) mod own { use super::*; $(mneme_abi::$name! { function {} })* }
        $(mneme_abi::$name! { plain {} })*
    };
}
pub(crate) use {functions, plain};

functions! {
    cuCtxGetCurrent;
    cuCtxSetCurrent;
    cuCtxGetDevice;
    cuCtxGetStreamPriorityRange;
    cuCtxGetLimit;
    cuCtxRecordEvent;
    cuCtxSynchronize;
    cuEventCreate;
    cuEventDestroy_v2;
    cuEventElapsedTime;
    cuEventQuery;
    cuEventRecord;
    cuDeviceGetAttribute;
    cuDeviceGetName;
    cuDevicePrimaryCtxGetState;
    cuFuncGetAttribute;
    cuFuncGetModule;
    cuFuncGetName;
    cuFuncLoad;
    cuGraphAddMemcpyNode;
    cuGraphChildGraphNodeGetGraph;
    cuGraphClone;
    cuGraphCreate;
    cuGraphDestroy;
    cuGraphEventRecordNodeGetEvent;
    cuGraphEventRecordNodeSetEvent;
    cuGraphEventWaitNodeGetEvent;
    cuGraphEventWaitNodeSetEvent;
    cuGraphGetEdges;
    cuGraphGetNodes;
    cuGraphHostNodeGetParams;
    cuGraphHostNodeSetParams;
    cuGraphKernelNodeGetAttribute;
    cuGraphKernelNodeGetParams_v2;
    cuGraphKernelNodeSetParams_v2;
    cuGraphMemcpyNodeGetParams;
    cuGraphMemcpyNodeSetParams;
    cuGraphMemsetNodeGetParams;
    cuGraphMemsetNodeSetParams;
    cuGraphNodeFindInClone;
    cuGraphNodeGetType;
    cuGraphNodeSetParams;
    cuKernelGetAttribute;
    cuKernelGetLibrary;
    cuKernelGetName;
    cuLibraryGetGlobal;
    cuLibraryGetManaged;
    cuLinkAddData_v2;
    cuLinkComplete;
    cuLinkCreate_v2;
    cuLinkDestroy;
    cuMemAddressFree;
    cuMemAddressReserve;
    cuMemGetAccess;
    cuMemGetAllocationGranularity;
    cuMemGetAllocationPropertiesFromHandle;
    cuModuleGetGlobal_v2;
    cuOccupancyMaxActiveBlocksPerMultiprocessor;
    cuMemHostGetDevicePointer_v2;
    cuStreamCreate;
    cuStreamCreateWithPriority;
    cuStreamGetCtx;
    cuStreamGetPriority;
    cuStreamIsCapturing;
    cuStreamWaitEvent;
    cuThreadExchangeStreamCaptureMode;
}

/// The current context of this thread, if it has one.
pub fn current_context() -> Option<usize> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is valid to write.
    let status = unsafe { cuCtxGetCurrent(&mut context) };
    (status == Status::SUCCESS && !context.is_null()).then_some(context as usize)
}

/// The reason if the current context is broken: after an illegal address, for example, every call returns that error.
/// This is the cheapest call that shows it (10 ns on driver 580).
fn fault() -> Option<Status> {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: the pointers are valid to write.
    let status = unsafe { cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
    (!matches!(status, Status::SUCCESS | Status::NOT_FOUND)).then_some(status)
}

/// Whether the current context still accepts calls.
pub fn context_is_sound() -> bool {
    fault().is_none()
}

/// The status that the vendor would return to a call instead of `status`: in a broken context, the reason why it is
/// broken.
pub fn answer(status: Status) -> Status {
    fault().unwrap_or(status)
}

/// The device of this thread's current context.
pub fn current_device() -> Option<CUdevice> {
    let mut device = 0;
    // SAFETY: the pointer is valid to write.
    (unsafe { cuCtxGetDevice(&mut device) } == Status::SUCCESS).then_some(device)
}

/// The limits of this thread's current context that differ from the driver's defaults (CUDA Driver API, `CUlimit`).
/// HIP's defaults differ by device, so for HIP these are the limits that the application has set.
pub fn limits() -> Limits {
    if recorded_family::is_hip() {
        return current_device().map(hip::limits_of).unwrap_or_default();
    }
    let changed = |limit: CUlimit, default: usize| {
        let mut value = 0;
        // SAFETY: the pointer is valid to write.
        let known = unsafe { cuCtxGetLimit(&mut value, limit as c_uint) } == Status::SUCCESS;
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
    (unsafe { cuDeviceGetAttribute(&mut value, attribute as c_uint, device) } == Status::SUCCESS).then_some(value)
}

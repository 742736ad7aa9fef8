//! Functions that replace the driver's in a process that uses HIP.
//!
//! Most have a counterpart with the same arguments ([`equivalent`]); this module has the others. HIP has no contexts,
//! so each device gets one handle, made here, that stands for its only context. HIP's device attributes have other
//! numbers. Versions before 7 do not know CUDA's name for the default stream.
//!
//! [`last_error`](super::last_error) hides the errors that these calls leave from the application.

use std::ffi::CStr;
use std::sync::{Mutex, OnceLock, PoisonError};

use mneme_abi::cuda::sys::{CUdevice_attribute, CUlimit};
use mneme_abi::hip::equivalent;
use mneme_abi::hip::properties::{PropertiesR0000, PropertiesR0600};
use mneme_abi::hip::types::*;
use mneme_model::launch::Limits;

use super::{function, functions, hooked, plain};
use crate::process::linker::vendor_symbol;

functions! {
    hipGetDevice;
    hipSetDevice;
    hipDeviceGetAttribute;
    hipDeviceSynchronize;
    hipGetDeviceProperties;
    hipGetDevicePropertiesR0600;
    hipGetSymbolAddress;
    hipGetSymbolSize;
    hipKernelGetName;
    hipLibraryGetKernelCount;
    hipOccupancyMaxActiveBlocksPerMultiprocessor;
    hipStreamGetDevice;
    hipStreamIsCapturing;
    hipStreamWaitEvent;
    hipEventRecord;
    hipGraphDestroyNode;
    hipGraphKernelNodeGetAttribute;
    hipGraphKernelNodeGetParams;
    hipGraphKernelNodeSetParams;
    hipGraphMemcpyNodeSetParams;
    hipGraphMemcpyNodeSetParams1D;
    hipGraphMemcpyNodeSetParamsFromSymbol;
    hipGraphMemcpyNodeSetParamsToSymbol;
    hipGraphMemsetNodeSetParams;
    hipGraphRemoveDependencies;
    hipCtxPushCurrent;
    hipCtxPopCurrent;
    hipRuntimeGetVersion;
}

/// The function that the recorder calls instead of a driver function: null if HIP has no such function, `None` if the
/// function is already HIP's.
pub fn in_place_of(name: &CStr) -> Option<*mut c_void> {
    let text = name.to_str().unwrap_or_default();
    if let Some((_, stand_in)) = STAND_INS.iter().find(|(known, _)| *known == text) {
        return Some(stand_in());
    }
    if !text.starts_with("cu") {
        return None;
    }
    let same = equivalent(text).and_then(|name| std::ffi::CString::new(name).ok());
    Some(same.map_or(std::ptr::null_mut(), |name| vendor_symbol(&name)))
}

type StandIn = (&'static str, fn() -> *mut c_void);

/// Names and functions. The compiler checks that each function has the type of the driver's.
macro_rules! stand_ins {
    ($($name:ident => $function:expr;)*) => {
        static STAND_INS: &[StandIn] = &[$((stringify!($name), || {
            let function: mneme_abi::cuda::driver::pointers::$name = $function;
            function as *mut c_void
        }),)*];
    };
}

stand_ins! {
    cuCtxGetCurrent => current_context;
    cuCtxSetCurrent => set_current_context;
    cuCtxGetDevice => current_device;
    cuCtxSynchronize => synchronise;
    cuDeviceGetAttribute => device_attribute;
    cuEventRecord => record;
    cuFuncGetAttribute => function_attribute;
    cuStreamGetCtx => context_of_stream;
    cuStreamIsCapturing => is_capturing;
    cuStreamWaitEvent => wait;
}

/// The handle of the only context on a device.
pub fn context_on(device: CUdevice) -> CUcontext {
    std::ptr::without_provenance_mut(device as usize + 1)
}

/// The device of a handle from [`context_on`].
fn device_of(context: CUcontext) -> CUdevice {
    (context.addr() as CUdevice).wrapping_sub(1)
}

unsafe extern "C" fn current_context(context: *mut CUcontext) -> Status {
    let mut device = 0;
    // SAFETY: a valid place, and the caller's.
    unsafe {
        let status = hipGetDevice(&mut device);
        if status == Status::SUCCESS {
            *context = context_on(device);
        }
        status
    }
}

/// Sets the device of a context. For no context, the thread keeps its device, because HIP always has one.
unsafe extern "C" fn set_current_context(context: CUcontext) -> Status {
    if context.is_null() {
        return Status::SUCCESS;
    }
    // SAFETY: a number.
    unsafe { hipSetDevice(device_of(context)) }
}

unsafe extern "C" fn current_device(device: *mut CUdevice) -> Status {
    // SAFETY: passed on.
    unsafe { hipGetDevice(device) }
}

unsafe extern "C" fn synchronise() -> Status {
    // SAFETY: no arguments.
    unsafe { hipDeviceSynchronize() }
}

/// `hipDeviceAttribute_t` of the attributes that the recorder asks for; HIP lacks the others.
const ATTRIBUTES: [(CUdevice_attribute, c_uint); 4] = [
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH, 58),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 65),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 82),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 89),
];

unsafe extern "C" fn device_attribute(value: *mut c_int, attribute: c_uint, device: CUdevice) -> Status {
    match ATTRIBUTES.iter().find(|(of_driver, _)| *of_driver as c_uint == attribute) {
        // SAFETY: passed on.
        Some((_, attribute)) => unsafe { hipDeviceGetAttribute(value, *attribute, device) },
        None => Status::INVALID_VALUE,
    }
}

/// Always fails: HIP's attributes of functions are limits of the hardware, not the values that the program has set.
unsafe extern "C" fn function_attribute(_value: *mut c_int, _attribute: c_uint, _function: CUfunction) -> Status {
    Status::NOT_SUPPORTED
}

unsafe extern "C" fn context_of_stream(stream: CUstream, context: *mut CUcontext) -> Status {
    let mut device = 0;
    // SAFETY: a valid place, and the caller's.
    unsafe {
        let status = hipStreamGetDevice(named(stream), &mut device);
        if status == Status::SUCCESS {
            *context = context_on(device);
        }
        status
    }
}

/// The default stream under the name that every version knows.
pub fn named(stream: CUstream) -> CUstream {
    if stream.addr() == STREAM_LEGACY { std::ptr::null_mut() } else { stream }
}

unsafe extern "C" fn record(event: CUevent, stream: CUstream) -> Status {
    // SAFETY: passed on.
    unsafe { hipEventRecord(event, named(stream)) }
}

unsafe extern "C" fn wait(stream: CUstream, event: CUevent, flags: c_uint) -> Status {
    // SAFETY: passed on.
    unsafe { hipStreamWaitEvent(named(stream), event, flags) }
}

unsafe extern "C" fn is_capturing(stream: CUstream, status: *mut c_uint) -> Status {
    // SAFETY: passed on.
    unsafe { hipStreamIsCapturing(named(stream), status) }
}

/// The processor of a device and its features, e.g. "gfx90a:sramecc+:xnack-".
pub fn processor(device: CUdevice) -> Option<String> {
    let (mut properties, mut of_5) = (Box::<PropertiesR0600>::default(), Box::<PropertiesR0000>::default());
    // SAFETY: each place is a structure of the layout that its function fills.
    let name = unsafe {
        if hipGetDevicePropertiesR0600((&raw mut *properties).cast(), device) == Status::SUCCESS {
            &properties.gcnArchName
        } else if hipGetDeviceProperties((&raw mut *of_5).cast(), device) == Status::SUCCESS {
            &of_5.gcnArchName
        } else {
            return None;
        }
    };
    let bytes: Vec<u8> = name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8(bytes).ok().filter(|name| name.starts_with("gfx"))
}

/// The device of a context of the application (`hipCtx_t`), which this makes current for a moment.
///
/// # Safety
/// The library has just returned the context, or the application is about to pass it to the library.
pub unsafe fn device_of_foreign(context: CUcontext) -> Option<CUdevice> {
    let (mut device, mut popped) = (0, std::ptr::null_mut());
    // SAFETY: the application has just used the context; the current one is restored.
    unsafe {
        if hipCtxPushCurrent(context) != Status::SUCCESS {
            return None;
        }
        let known = hipGetDevice(&mut device) == Status::SUCCESS;
        hipCtxPopCurrent(&mut popped);
        known.then_some(device)
    }
}

/// The address and size in bytes of a registered variable, by the address of its host variable.
pub fn variable_of(host: usize) -> Option<(u64, u64)> {
    let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
    let host = host as *const c_void;
    // SAFETY: valid places, and an address that the program has registered.
    let known = unsafe {
        hipGetSymbolAddress(&mut address, host) == Status::SUCCESS
            && hipGetSymbolSize(&mut bytes, host) == Status::SUCCESS
    };
    known.then_some((address as u64, bytes as u64))
}

/// The number of kernels in a library.
///
/// # Safety
/// The application has just used the library.
pub unsafe fn kernels_in(library: CUlibrary) -> c_uint {
    let mut count = 0;
    // SAFETY: a valid place, and a library by the caller's contract.
    let known = unsafe { hipLibraryGetKernelCount(&mut count, library) } == Status::SUCCESS;
    if known { count } else { 0 }
}

/// The name of a kernel of a library, or null if HIP does not know it.
///
/// # Safety
/// A library has just returned the kernel.
pub unsafe fn name_of(kernel: CUkernel) -> *const c_char {
    let mut name = std::ptr::null();
    // SAFETY: a valid place, and a kernel by the caller's contract.
    let known = unsafe { hipKernelGetName(&mut name, kernel) } == Status::SUCCESS;
    if known { name } else { std::ptr::null() }
}

/// The limits that the application has set for each device.
static LIMITS: Mutex<Vec<(CUdevice, Limits)>> = Mutex::new(Vec::new());

/// The limits that the application has set for a device.
pub fn limits_of(device: CUdevice) -> Limits {
    let known = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().find(|(of, _)| *of == device).map(|(_, limits)| *limits).unwrap_or_default()
}

/// # Safety
/// The arguments are those of `hipDeviceSetLimit`, whose limits have the driver's numbers.
pub unsafe fn set_limit(call: &dyn Fn() -> Status, limit: c_uint, value: usize) -> Status {
    let status = call();
    let mut device = 0;
    // SAFETY: a valid place.
    if status == Status::SUCCESS && unsafe { hipGetDevice(&mut device) } == Status::SUCCESS {
        let mut known = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|(of, _)| *of != device) {
            known.push((device, Limits::default()));
        }
        for (_, limits) in known.iter_mut().filter(|(of, _)| *of == device) {
            match limit {
                limit if limit == CUlimit::CU_LIMIT_STACK_SIZE as c_uint => limits.stack = Some(value as u64),
                limit if limit == CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE as c_uint => {
                    limits.printf_fifo = Some(value as u64)
                }
                limit if limit == CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE as c_uint => {
                    limits.malloc_heap = Some(value as u64)
                }
                _ => {}
            }
        }
    }
    status
}

/// Whether the kinds of graph nodes have the driver's numbers, as they do from HIP 5.5 on.
pub fn numbers_nodes_as_the_driver() -> bool {
    let mut version = 0;
    // SAFETY: a valid place.
    let status = unsafe { hipRuntimeGetVersion(&mut version) };
    // As HIP_VERSION: major version times ten million, minor version times a hundred thousand.
    status == Status::SUCCESS && version >= 50_500_000
}

static RELEASE: OnceLock<c_int> = OnceLock::new();

/// The major version of HIP.
pub fn release() -> c_int {
    *RELEASE.get_or_init(|| {
        let mut version = 0;
        // SAFETY: a valid place.
        let known = unsafe { hipRuntimeGetVersion(&mut version) } == Status::SUCCESS;
        // As HIP_VERSION: major version times ten million.
        if known { version / 10_000_000 } else { 0 }
    })
}

/// The major version if [`release`] has been called, without a call.
pub fn known_release() -> Option<c_int> {
    RELEASE.get().copied()
}

/// The last error of HIP itself; see [`last_error`](super::last_error).
pub fn peek_at_last_error() -> Status {
    // SAFETY: no arguments.
    unsafe { hooked::hipPeekAtLastError::call() }
}

pub fn take_last_error() -> Status {
    // SAFETY: no arguments.
    unsafe { hooked::hipGetLastError::call() }
}

pub fn take_status_of_last_call() -> Status {
    // SAFETY: no arguments.
    unsafe { hooked::hipExtGetLastError::call() }
}

/// Causes a known error: asks for the size of `printf`'s buffer, which no version of HIP has. The status is
/// `UnsupportedLimit`, which only the functions of limits return.
pub fn fail_on_purpose() {
    let mut value = 0;
    // SAFETY: a valid place.
    unsafe { hooked::hipDeviceGetLimit::call(&mut value, CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE as c_uint) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_stands_for_its_context() {
        for device in [0, 1, 63] {
            assert!(!context_on(device).is_null());
            assert_eq!(device_of(context_on(device)), device);
        }
        assert!(named(std::ptr::without_provenance_mut(STREAM_LEGACY)).is_null());
        assert_eq!(named(std::ptr::without_provenance_mut(STREAM_PER_THREAD)).addr(), STREAM_PER_THREAD);
    }

    /// Every function that the recorder calls has a counterpart, a replacement, or is listed as missing.
    #[test]
    fn our_own_calls_reach_hip_or_are_known_not_to() {
        let own = include_str!("mod.rs").split_once("\nfunctions! {").unwrap().1.split_once('}').unwrap().0;
        let names = own.lines().map(|line| line.trim().trim_end_matches(';')).filter(|line| !line.is_empty());
        let without: Vec<&str> = names
            .filter(|name| equivalent(name).is_none() && STAND_INS.iter().all(|(known, _)| known != name))
            .filter(|name| !WITHOUT.contains(name))
            .collect();
        assert_eq!(without, [""; 0]);
    }

    /// Events after all work of a context; graph nodes, which HIP represents differently; libraries, because registered
    /// code is not in one; NVIDIA's linker; and loading a function completely.
    const WITHOUT: &[&str] = &[
        "cuCtxRecordEvent", "cuFuncGetModule", "cuFuncGetName", "cuFuncLoad", "cuGraphAddMemcpyNode",
        "cuGraphEventRecordNodeGetEvent", "cuGraphEventWaitNodeGetEvent", "cuGraphHostNodeGetParams",
        "cuGraphKernelNodeGetAttribute", "cuGraphKernelNodeGetParams_v2", "cuGraphKernelNodeSetParams_v2",
        "cuGraphMemcpyNodeGetParams", "cuGraphMemsetNodeGetParams", "cuGraphMemsetNodeSetParams",
        "cuKernelGetAttribute", "cuKernelGetLibrary", "cuKernelGetName", "cuLibraryGetGlobal", "cuLibraryGetManaged",
        "cuLinkAddData_v2", "cuLinkComplete", "cuLinkCreate_v2", "cuLinkDestroy",
    ];
}

//! The driver's functions, as the runtimes call them.
//!
//! CUDA's runtime finds them as NVIDIA's does, through the public `dlsym` and `cuGetProcAddress`, so a recorder in
//! front sees its calls. HIP has no separate driver library: a recorder sees the calls of `hip*` functions, and these
//! call this library's own driver.

#![allow(non_snake_case, clippy::too_many_arguments, reason = "names and arguments are the driver's")]

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::sync::OnceLock;

use mneme_abi::cuda::driver::{FUNCTIONS, pointers};
use mneme_abi::cuda::split_name;
use mneme_abi::cuda::types::*;

use crate::abi::{CStringArgument, Give, Out};
use crate::driver::VERSION;
use crate::driver::exports::TABLE;
use crate::status::StatusResult;

macro_rules! driver_calls {
    ($($name:ident),* $(,)?) => {
        /// Pointers of the declared types.
        pub struct Calls {
            $($name: pointers::$name,)*
        }

        impl Calls {
            fn load(find: impl Fn(&str) -> Result<*const c_void, Status>) -> Result<Self, Status> {
                Ok(Self {
                    // SAFETY: the driver's function of this name has its declared type.
                    $($name: unsafe {
                        std::mem::transmute::<*const c_void, pointers::$name>(find(stringify!($name))?)
                    },)*
                })
            }

            $( mneme_abi::$name! { call {} } )*
        }
    };
}

macro_rules! call {
    ({} $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        pub fn $name(&self, $($argument: impl Give<$type>),*) -> StatusResult {
            // SAFETY: every argument keeps what its type promises.
            check(unsafe { (self.$name)($($argument.give()),*) })
        }
    };
}

fn check(status: Status) -> StatusResult {
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

/// Looks up a declared function by base name and version, as programs do.
fn look_up(get: pointers::cuGetProcAddress_v2, name: &str) -> Result<*const c_void, Status> {
    let since = FUNCTIONS.iter().find(|function| function.name == name).map_or(VERSION, |function| function.since);
    let base = CString::new(split_name(name).0).map_err(|_| Status::NOT_FOUND)?;
    let mut address = std::ptr::null_mut();
    let mut found = 0;
    // SAFETY: a NUL-terminated name and valid places to write.
    check(unsafe { get(base.as_ptr(), &mut address, since, 0, &mut found) })?;
    if address.is_null() { Err(Status::NOT_FOUND) } else { Ok(address) }
}

driver_calls! {
    cuInit, cuDriverGetVersion, cuDeviceGetCount, cuDeviceGetName, cuDeviceGetUuid_v2, cuDeviceTotalMem_v2,
    cuDeviceGetAttribute, cuDeviceGetPCIBusId, cuDeviceCanAccessPeer, cuDevicePrimaryCtxRetain,
    cuDevicePrimaryCtxReset_v2, cuDeviceGetMemPool, cuDeviceSetMemPool, cuMemPoolCreate, cuMemPoolDestroy,
    cuMemPoolTrimTo, cuMemPoolSetAttribute, cuMemPoolGetAttribute, cuMemPoolSetAccess, cuCtxEnablePeerAccess,
    cuCtxDisablePeerAccess, cuDeviceGetDefaultMemPool, cuCtxGetCurrent, cuCtxSetCurrent, cuCtxSynchronize,
    cuCtxGetLimit, cuCtxSetLimit, cuCtxGetStreamPriorityRange, cuMemAlloc_v2, cuMemFree_v2, cuIpcGetMemHandle,
    cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle, cuMemAllocPitch_v2, cuMemAllocManaged, cuMemHostAlloc, cuMemFreeHost,
    cuMemHostRegister_v2, cuMemHostUnregister, cuMemHostGetDevicePointer_v2, cuMemAllocAsync, cuMemFreeAsync,
    cuMemAllocFromPoolAsync, cuMemGetInfo_v2, cuMemAdvise, cuMemPrefetchAsync, cuPointerGetAttribute, cuMemcpy,
    cuMemcpyAsync, cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, cuMemcpyDtoD_v2,
    cuMemcpyDtoDAsync_v2, cuMemcpyPeer, cuMemcpy2DUnaligned_v2, cuMemcpy2DAsync_v2, cuMemcpy3D_v2, cuMemcpy3DAsync_v2,
    cuArray3DCreate_v2, cuArray3DGetDescriptor_v2, cuArrayDestroy, cuTexObjectCreate, cuTexObjectDestroy,
    cuSurfObjectCreate, cuSurfObjectDestroy, cuMemsetD8_v2, cuMemsetD8Async,
    cuMemsetD2D8_v2, cuMemsetD2D8Async, cuStreamCreateWithPriority, cuStreamDestroy_v2, cuStreamQuery,
    cuStreamSynchronize, cuStreamWaitEvent, cuStreamGetFlags, cuStreamGetPriority, cuStreamIsCapturing,
    cuStreamBeginCapture_v2, cuStreamEndCapture, cuThreadExchangeStreamCaptureMode, cuGraphCreate,
    cuGraphAddKernelNode_v2, cuGraphAddMemcpyNode, cuGraphAddMemsetNode, cuGraphAddHostNode, cuGraphAddEmptyNode,
    cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphDestroy, cuGraphClone, cuGraphGetNodes,
    cuGraphInstantiateWithFlags, cuGraphExecUpdate_v2, cuGraphExecDestroy, cuGraphLaunch, cuLaunchHostFunc,
    cuStreamAddCallback,
    cuEventCreate, cuEventDestroy_v2, cuEventRecord, cuEventQuery, cuEventSynchronize, cuEventElapsedTime_v2,
    cuLibraryLoadData, cuLibraryUnload, cuLibraryGetKernel, cuLibraryGetGlobal, cuKernelGetFunction,
    cuKernelGetAttribute, cuKernelSetAttribute, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    cuOccupancyAvailableDynamicSMemPerBlock, cuLaunchKernel, cuLaunchKernelEx, cuLaunchCooperativeKernel,
    cuProfilerStart, cuProfilerStop
}

/// `cudaGetDriverEntryPoint`: finds a function of the driver by name. A missing function is a result
/// (`cudaDriverEntryPointQueryResult`), not a failure.
pub fn entry_point(name: CStringArgument, out: Out<usize>, version: i32, flags: u64, result: Out<u32>) -> StatusResult {
    driver()?;
    name.get()?;
    let get = entrance().ok_or(Status::NO_DEVICE)?;
    let (mut address, mut found) = (std::ptr::null_mut(), 0u32);
    // SAFETY: a NUL-terminated name, by its type's promise, and valid places to write.
    let done = check(unsafe { get(name.0, &mut address, version, flags, &mut found) });
    if done.is_err() && done != Err(Status::NOT_FOUND) {
        return done;
    }
    // 1 is "symbol not found", 2 "version not sufficient".
    result.put_if_wanted(if done.is_err() { found.max(1) } else { found });
    out.put(address as usize)
}

/// The same for a given version (`cudaGetDriverEntryPointByVersion`).
pub fn entry_point_by_version(
    name: CStringArgument,
    out: Out<usize>,
    version: u32,
    flags: u64,
    result: Out<u32>,
) -> StatusResult {
    entry_point(name, out, i32::try_from(version).map_err(|_| Status::INVALID_VALUE)?, flags, result)
}

thread_local! {
    /// Whether the running function is one of HIP's.
    static DIRECT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`, whose driver calls go to this library directly.
pub fn directly<R>(body: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            DIRECT.set(self.0);
        }
    }
    let _back = Back(DIRECT.replace(true));
    body()
}

/// Returns the driver, which the first call looks up and initialises.
pub fn driver() -> Result<&'static Calls, Status> {
    static PUBLIC: OnceLock<Result<Calls, Status>> = OnceLock::new();
    static OWN: OnceLock<Result<Calls, Status>> = OnceLock::new();
    let initialised = |calls: Calls| calls.cuInit(0).map(|()| calls);
    let calls = if DIRECT.get() {
        OWN.get_or_init(|| Calls::load(exported).and_then(initialised))
    } else {
        PUBLIC.get_or_init(|| {
            let get = entrance().ok_or(Status::NO_DEVICE)?;
            Calls::load(|name| look_up(get, name)).and_then(initialised)
        })
    };
    calls.as_ref().map_err(|status| *status)
}

/// Finds this library's function of a name. The linker binds its functions to each other, so functions preloaded in
/// front of it are not called instead.
fn exported(name: &str) -> Result<*const c_void, Status> {
    let found = TABLE.iter().find(|export| export.symbol == name);
    found.map(|export| export.address).ok_or(Status::NOT_FOUND)
}

/// Finds `cuGetProcAddress_v2` with the C library's public `dlsym`, from a handle of the library that holds the driver,
/// which is this one.
fn entrance() -> Option<pointers::cuGetProcAddress_v2> {
    // SAFETY: all zeros is a valid value, `info` is a valid place to write, and the address lies in this object.
    let address = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(driver as *const c_void, &mut info) == 0 {
            return None;
        }
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let handle = if handle.is_null() { libc::RTLD_DEFAULT } else { handle };
        libc::dlsym(handle, c"cuGetProcAddress_v2".as_ptr())
    };
    // SAFETY: the function of that name has that type.
    (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, pointers::cuGetProcAddress_v2>(address) })
}

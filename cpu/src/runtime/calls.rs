//! The driver's functions as the runtime sees them.

#![allow(non_snake_case, clippy::too_many_arguments, reason = "names and arguments are the driver's")]

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use crate::abi::{In, Out, Text};
use crate::driver::VERSION;
use crate::driver::graph_nodes::{Allocation, KernelParameters};
use crate::driver::launch::Configuration;
use crate::driver::sharing::Handle;
use crate::driver::work::{Copy2d, Copy3d, Fill, Host, HostFunction};
use crate::status::{Done, Status};

macro_rules! driver_calls {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// Pointers got from `cuGetProcAddress`.
        pub struct Calls {
            $($name: unsafe extern "C" fn($($type),*) -> Status,)*
        }

        impl Calls {
            fn load(get: GetProcAddress) -> Result<Self, Status> {
                Ok(Self {
                    $($name: {
                        let address = look_up(get, concat!(stringify!($name), "\0"))?;
                        // SAFETY: the driver's function of this name has this type.
                        unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($type),*) -> Status>(address) }
                    },)*
                })
            }

            $(
                pub fn $name(&self, $($argument: $type),*) -> Done {
                    // SAFETY: every argument keeps what its type promises.
                    check(unsafe { (self.$name)($($argument),*) })
                }
            )*
        }
    };
}

fn check(status: Status) -> Done {
    if status == Status::SUCCESS { Ok(()) } else { Err(status) }
}

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut *const c_void, i32, u64, *mut u32) -> Status;

fn look_up(get: GetProcAddress, name: &'static str) -> Result<*const c_void, Status> {
    let mut address = std::ptr::null();
    let mut found = 0;
    // SAFETY: a NUL-terminated name and valid places to write.
    check(unsafe { get(name.as_ptr().cast(), &mut address, VERSION, 0, &mut found) })?;
    if address.is_null() { Err(Status::NOT_FOUND) } else { Ok(address) }
}

driver_calls! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: Out<i32>);
    cuDeviceGetCount(count: Out<i32>);
    cuDeviceGetName(name: Out<c_char>, length: i32, device: i32);
    cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32);
    cuDeviceTotalMem(bytes: Out<usize>, device: i32);
    cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32);
    cuDeviceGetPCIBusId(id: Out<c_char>, length: i32, device: i32);
    cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32);
    cuDevicePrimaryCtxRetain(context: Out<usize>, device: i32);
    cuDevicePrimaryCtxReset(device: i32);
    cuDeviceGetMemPool(pool: Out<usize>, device: i32);
    cuDeviceSetMemPool(device: i32, pool: usize);
    cuMemPoolCreate(pool: Out<usize>, properties: In<[i32; 4]>);
    cuMemPoolDestroy(pool: usize);
    cuMemPoolTrimTo(pool: usize, keep: usize);
    cuMemPoolSetAttribute(pool: usize, attribute: u32, value: *const c_void);
    cuMemPoolGetAttribute(pool: usize, attribute: u32, value: Out<u64>);
    cuMemPoolSetAccess(pool: usize, accesses: *const c_void, count: usize);
    cuCtxEnablePeerAccess(context: usize, flags: u32);
    cuCtxDisablePeerAccess(context: usize);
    cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32);
    cuCtxGetCurrent(context: Out<usize>);
    cuCtxSetCurrent(context: usize);
    cuCtxSynchronize();
    cuCtxGetLimit(value: Out<usize>, limit: u32);
    cuCtxSetLimit(limit: u32, value: usize);
    cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>);
    cuMemAlloc(address: Out<u64>, bytes: usize);
    cuMemFree(address: u64);
    cuIpcGetMemHandle(handle: Out<Handle>, address: u64);
    cuIpcOpenMemHandle(address: Out<u64>, handle: Handle, flags: u32);
    cuIpcCloseMemHandle(address: u64);
    cuMemAllocPitch(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32);
    cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: u32);
    cuMemHostAlloc(address: Out<u64>, bytes: usize, flags: u32);
    cuMemFreeHost(address: u64);
    cuMemHostRegister(address: u64, bytes: usize, flags: u32);
    cuMemHostUnregister(address: u64);
    cuMemHostGetDevicePointer(out: Out<u64>, address: u64, flags: u32);
    cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: usize);
    cuMemFreeAsync(address: u64, stream: usize);
    cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: usize, stream: usize);
    cuMemGetInfo(free: Out<usize>, total: Out<usize>);
    cuMemAdvise(address: u64, bytes: usize, advice: u32, device: i32);
    cuMemPrefetchAsync(address: u64, bytes: usize, device: i32, stream: usize);
    cuPointerGetAttribute(value: Out<u8>, attribute: u32, address: u64);
    cuMemcpy(to: u64, from: u64, bytes: usize);
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize);
    cuMemcpyHtoD(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoDAsync(to: u64, from: u64, bytes: usize, stream: usize);
    cuMemcpyDtoH(to: u64, from: u64, bytes: usize);
    cuMemcpyDtoHAsync(to: u64, from: u64, bytes: usize, stream: usize);
    cuMemcpyDtoD(to: u64, from: u64, bytes: usize);
    cuMemcpyDtoDAsync(to: u64, from: u64, bytes: usize, stream: usize);
    cuMemcpyPeer(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize);
    cuMemcpy2DUnaligned(what: In<Copy2d>);
    cuMemcpy2DAsync(what: In<Copy2d>, stream: usize);
    cuMemsetD8(address: u64, value: u8, count: usize);
    cuMemsetD8Async(address: u64, value: u8, count: usize, stream: usize);
    cuMemsetD2D8(address: u64, pitch: usize, value: u8, width: usize, height: usize);
    cuMemsetD2D8Async(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize);
    cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: i32);
    cuStreamDestroy(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    cuStreamGetFlags(stream: usize, flags: Out<u32>);
    cuStreamGetPriority(stream: usize, priority: Out<i32>);
    cuStreamIsCapturing(stream: usize, status: Out<u32>);
    cuStreamBeginCapture(stream: usize, mode: u32);
    cuStreamEndCapture(stream: usize, graph: Out<usize>);
    cuThreadExchangeStreamCaptureMode(mode: Out<u32>);
    cuGraphCreate(graph: Out<usize>, flags: u32);
    cuGraphAddKernelNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<KernelParameters>);
    cuGraphAddMemcpyNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Copy3d>, context: usize);
    cuGraphAddMemsetNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Fill>, context: usize);
    cuGraphAddHostNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<Host>);
    cuGraphAddEmptyNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize);
    cuGraphAddMemAllocNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: Out<Allocation>);
    cuGraphAddMemFreeNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, address: u64);
    cuGraphDestroy(graph: usize);
    cuGraphClone(copy: Out<usize>, graph: usize);
    cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>);
    cuGraphInstantiate(executable: Out<usize>, graph: usize, flags: u64);
    cuGraphExecUpdate(executable: usize, graph: usize, result: Out<u32>);
    cuGraphExecDestroy(executable: usize);
    cuGraphLaunch(executable: usize, stream: usize);
    cuLaunchHostFunc(stream: usize, function: HostFunction, data: *mut c_void);
    cuEventCreate(event: Out<usize>, flags: u32);
    cuEventDestroy(event: usize);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize);
    cuLibraryLoadData(
        library: Out<usize>, image: *const c_void, jit: *const c_void, jit_values: *const c_void, jit_count: u32,
        options: *const c_void, values: *const c_void, count: u32,
    );
    cuLibraryUnload(library: usize);
    cuLibraryGetKernel(kernel: Out<usize>, library: usize, name: *const c_char);
    cuLibraryGetGlobal(address: Out<u64>, size: Out<usize>, library: usize, name: *const c_char);
    cuKernelGetFunction(function: Out<usize>, kernel: usize);
    cuKernelGetAttribute(value: Out<i32>, attribute: u32, kernel: usize, device: i32);
    cuKernelSetAttribute(attribute: u32, value: i32, kernel: usize, device: i32);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<i32>, function: usize, threads: i32, shared: usize, flags: u32);
    cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: usize, blocks: i32, threads: i32);
    cuLaunchKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: usize,
        parameters: In<*const u8>, extra: In<usize>,
    );
    cuLaunchKernelEx(configuration: In<Configuration>, function: usize, parameters: In<*const u8>, extra: In<usize>);
    cuLaunchCooperativeKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: usize,
        parameters: In<*const u8>,
    );
    cuProfilerStart();
    cuProfilerStop();
}

/// A function of the driver by name, as `cudaGetDriverEntryPoint` gives it: one that is not there is a result
/// (`cudaDriverEntryPointQueryResult`) and no failure.
pub fn entry_point(name: Text, out: Out<usize>, version: i32, flags: u64, result: Out<u32>) -> Done {
    driver()?;
    name.get()?;
    let get = entrance().ok_or(Status::NO_DEVICE)?;
    let (mut address, mut found) = (std::ptr::null(), 0u32);
    // SAFETY: a NUL-terminated name, by its type's promise, and valid places to write.
    let done = check(unsafe { get(name.0, &mut address, version, flags, &mut found) });
    if done.is_err() && done != Err(Status::NOT_FOUND) {
        return done;
    }
    // 1 is "symbol not found", 2 "version not sufficient".
    result.put_if_wanted(if done.is_err() { found.max(1) } else { found });
    out.put(address as usize)
}

/// The driver, looked up at the first call and initialised.
pub fn driver() -> Result<&'static Calls, Status> {
    static CALLS: OnceLock<Result<Calls, Status>> = OnceLock::new();
    let calls = CALLS.get_or_init(|| {
        let calls = Calls::load(entrance().ok_or(Status::NO_DEVICE)?)?;
        calls.cuInit(0)?;
        Ok(calls)
    });
    calls.as_ref().map_err(|status| *status)
}

/// `cuGetProcAddress_v2` by the C library's public `dlsym`, from a handle of the library that holds the driver: this one.
fn entrance() -> Option<GetProcAddress> {
    // SAFETY: zeroed is a valid value and a valid place to write; the address is one of this object.
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
    (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(address) })
}

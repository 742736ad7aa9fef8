//! Launches as before CUDA 4.0, and as before HIP-Clang.
//!
//! Shape, shared memory and arguments are set on the function one by one (with HIP: on the thread), then it is
//! launched.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use mneme_abi::hip::types::Dimensions;
use mneme_core::launch::{Dim3, Launch, LaunchAttributes};
use mneme_core::thread_stack::ThreadStack;

use crate::driver::{CUfunction, CUstream, STREAM_LEGACY, Status, gate};
use crate::kernels::request::{Extras, LaunchArguments, LaunchRequest};
use crate::process::recorded_family;
use crate::recorder;

/// The driver takes no more parameters (bytes); an offset beyond is an application's error that it refuses.
const MOST: usize = 32 << 10;

#[derive(Clone, Default)]
struct Prepared {
    block: [u32; 3],
    shared: u32,
    parameters: Vec<u8>,
}

static PREPARED: LazyLock<Mutex<HashMap<usize, Prepared>>> = LazyLock::new(Mutex::default);

fn prepared() -> MutexGuard<'static, HashMap<usize, Prepared>> {
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn change(call: &dyn Fn() -> Status, function: CUfunction, change: impl FnOnce(&mut Prepared)) -> Status {
    let status = call();
    if status == Status::SUCCESS {
        change(prepared().entry(function as usize).or_default());
    }
    status
}

fn put(prepared: &mut Prepared, offset: c_int, bytes: &[u8]) {
    let Some(end) =
        usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len())).filter(|end| *end <= MOST)
    else {
        return;
    };
    if prepared.parameters.len() < end {
        prepared.parameters.resize(end, 0);
    }
    prepared.parameters[end - bytes.len()..end].copy_from_slice(bytes);
}

/// # Safety
/// The arguments are those of `cuFuncSetBlockShape`.
pub unsafe fn set_block(call: &dyn Fn() -> Status, function: CUfunction, x: c_int, y: c_int, z: c_int) -> Status {
    change(call, function, |prepared| prepared.block = [x, y, z].map(|extent| extent.max(0) as u32))
}

/// # Safety
/// The arguments are those of `cuFuncSetSharedSize`.
pub unsafe fn set_shared(call: &dyn Fn() -> Status, function: CUfunction, bytes: c_uint) -> Status {
    change(call, function, |prepared| prepared.shared = bytes)
}

/// # Safety
/// The arguments are those of `cuParamSetSize`.
pub unsafe fn set_size(call: &dyn Fn() -> Status, function: CUfunction, bytes: c_uint) -> Status {
    change(call, function, |prepared| prepared.parameters.resize((bytes as usize).min(MOST), 0))
}

/// # Safety
/// The arguments are those of `cuParamSeti`.
pub unsafe fn set_integer(call: &dyn Fn() -> Status, function: CUfunction, offset: c_int, value: c_uint) -> Status {
    change(call, function, |prepared| put(prepared, offset, &value.to_le_bytes()))
}

/// # Safety
/// The arguments are those of `cuParamSetf`.
pub unsafe fn set_float(call: &dyn Fn() -> Status, function: CUfunction, offset: c_int, value: f32) -> Status {
    change(call, function, |prepared| put(prepared, offset, &value.to_le_bytes()))
}

/// # Safety
/// The arguments are those of `cuParamSetv`.
pub unsafe fn set_bytes(
    call: &dyn Fn() -> Status,
    function: CUfunction,
    offset: c_int,
    bytes: *mut c_void,
    count: c_uint,
) -> Status {
    change(call, function, |prepared| {
        if !bytes.is_null() && count as usize <= MOST {
            // SAFETY: the driver has just read as many.
            put(prepared, offset, unsafe { std::slice::from_raw_parts(bytes.cast(), count as usize) });
        }
    })
}

fn launch_on(call: &dyn Fn() -> Status, function: CUfunction, width: c_int, height: c_int, stream: usize) -> Status {
    let Some(prepared) = prepared().get(&(function as usize)).cloned() else { return gate::passing(call) };
    let grid = Dim3::new(width.max(0) as u32, height.max(0) as u32, 1);
    launch_prepared(call, function, prepared, grid, stream)
}

fn launch_prepared(
    call: &dyn Fn() -> Status,
    function: CUfunction,
    mut prepared: Prepared,
    grid: Dim3,
    stream: usize,
) -> Status {
    let mut size = prepared.parameters.len();
    let mut extra = LaunchArguments::packed(&mut prepared.parameters, &mut size);
    let launch = Launch {
        grid,
        block: prepared.block.into(),
        shared_mem: prepared.shared,
        attributes: LaunchAttributes::default(),
    };
    recorder::launch(
        call,
        LaunchRequest {
            function,
            launch,
            stream,
            arguments: LaunchArguments::new(std::ptr::null_mut(), extra.as_mut_ptr()),
            // What was set for HIP's call is gone only with that.
            extras: if recorded_family::is_hip() { Extras::OwnCall } else { Extras::None },
        },
    )
}

/// # Safety
/// The arguments are those of `cuLaunch`.
pub unsafe fn launch(call: &dyn Fn() -> Status, function: CUfunction) -> Status {
    launch_on(call, function, 1, 1, STREAM_LEGACY)
}

/// # Safety
/// The arguments are those of `cuLaunchGrid`.
pub unsafe fn launch_grid(call: &dyn Fn() -> Status, function: CUfunction, width: c_int, height: c_int) -> Status {
    launch_on(call, function, width, height, STREAM_LEGACY)
}

/// # Safety
/// The arguments are those of `cuLaunchGridAsync`.
pub unsafe fn launch_grid_async(
    call: &dyn Fn() -> Status,
    function: CUfunction,
    width: c_int,
    height: c_int,
    stream: CUstream,
) -> Status {
    launch_on(call, function, width, height, if stream.is_null() { STREAM_LEGACY } else { stream as usize })
}

thread_local! {
    /// What this thread has configured and not launched yet, the last at the end.
    static CONFIGURED: ThreadStack<(Prepared, Dim3, usize)> = const { ThreadStack::new() };
}

/// # Safety
/// The arguments are those of `hipConfigureCall`.
pub unsafe fn configure(
    call: &dyn Fn() -> Status,
    grid: Dimensions,
    block: Dimensions,
    shared: usize,
    stream: CUstream,
) -> Status {
    let status = call();
    if status == Status::SUCCESS {
        let shared = u32::try_from(shared).unwrap_or(u32::MAX);
        let prepared = Prepared { block: [block.x, block.y, block.z], shared, parameters: Vec::new() };
        let grid = Dim3::new(grid.x, grid.y, grid.z);
        let stream = if stream.is_null() { STREAM_LEGACY } else { stream as usize };
        CONFIGURED.with(|configured| configured.push((prepared, grid, stream)));
    }
    status
}

/// # Safety
/// The arguments are those of `hipSetupArgument`.
pub unsafe fn set_argument(call: &dyn Fn() -> Status, bytes: *const c_void, count: usize, offset: usize) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && !bytes.is_null()
        && count <= MOST
        && let Ok(offset) = c_int::try_from(offset)
    {
        // SAFETY: the library has just read as many.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast(), count) };
        CONFIGURED.with(|configured| {
            configured.with_top(|top| {
                if let Some((prepared, ..)) = top {
                    put(prepared, offset, bytes);
                }
            });
        });
    }
    status
}

/// # Safety
/// The argument is that of `hipLaunchByPtr`.
pub unsafe fn launch_configured(call: &dyn Fn() -> Status, function: *const c_void) -> Status {
    match CONFIGURED.with(ThreadStack::pop) {
        Some((prepared, grid, stream)) => launch_prepared(call, function.cast_mut().cast(), prepared, grid, stream),
        None => gate::passing(call),
    }
}

/// A launch on several devices at once waits for all of them in the kernel: no replay on one device can repeat it.
///
/// # Safety
/// The arguments are those of `cuLaunchCooperativeKernelMultiDevice` or one of HIP's of the kind.
pub unsafe fn launch_on_devices(call: &dyn Fn() -> Status, list: *mut c_void, count: c_uint, _flags: c_uint) -> Status {
    /// Bytes of a `CUDA_LAUNCH_PARAMS`, `hipFunctionLaunchParams` or `hipLaunchParams`, which begin with the function.
    const ELEMENT: usize = 56;
    if !list.is_null() {
        for index in 0..count as usize {
            // SAFETY: the application's array has so many elements.
            let function = unsafe { list.cast::<u8>().add(index * ELEMENT).cast::<CUfunction>().read_unaligned() };
            recorder::refuse(function, "it is a cooperative launch on several devices");
        }
    }
    gate::passing(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_call_is_launched_with_its_arguments() {
        let dimensions = |x| Dimensions { x, y: 1, z: 1 };
        let (stream, argument) = (0x40 as CUstream, 7u32);
        let done = || Status::SUCCESS;
        // SAFETY: the library has taken each call, and the argument is four bytes.
        unsafe {
            configure(&done, dimensions(3), dimensions(64), 16, stream);
            configure(&|| Status::INVALID_VALUE, dimensions(9), dimensions(9), 0, stream);
            set_argument(&done, (&raw const argument).cast(), 4, 8);
        }
        let top =
            |look: fn(Option<&mut (Prepared, Dim3, usize)>)| CONFIGURED.with(|configured| configured.with_top(look));
        top(|top| {
            let (prepared, grid, on) = top.unwrap();
            assert_eq!((prepared.block, prepared.shared, *grid), ([64, 1, 1], 16, Dim3::new(3, 1, 1)));
            assert_eq!((&prepared.parameters[8..], *on), (&[7, 0, 0, 0][..], 0x40));
        });
        // SAFETY: no function is known by this address, so that the call is passed on.
        assert_eq!(unsafe { launch_configured(&|| Status(7), std::ptr::null()) }, Status(7));
        top(|top| assert!(top.is_none()));
    }

    #[test]
    fn parameters_are_put_where_they_belong() {
        let mut prepared = Prepared::default();
        put(&mut prepared, 4, &7u32.to_le_bytes());
        put(&mut prepared, 0, &[1, 2]);
        put(&mut prepared, -1, &[9]);
        put(&mut prepared, MOST as c_int, &[9]);
        assert_eq!(prepared.parameters, [1, 2, 0, 0, 7, 0, 0, 0]);
    }
}

//! Launches as before CUDA 4.0.
//!
//! Shape, shared memory and arguments are set on the function one by one, then it is launched.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use mneme_core::launch::{Dim3, Launch, LaunchAttributes};

use crate::driver::{CUfunction, CUstream, STREAM_LEGACY, Status, gate};
use crate::kernels::request::{LaunchArguments, LaunchRequest};
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
    let Some(mut prepared) = prepared().get(&(function as usize)).cloned() else { return gate::passing(call) };
    let mut size = prepared.parameters.len();
    let mut extra = LaunchArguments::packed(&mut prepared.parameters, &mut size);
    let launch = Launch {
        grid: Dim3::new(width.max(0) as u32, height.max(0) as u32, 1),
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

/// A launch on several devices at once waits for all of them in the kernel: no replay on one device can repeat it.
///
/// # Safety
/// The arguments are those of `cuLaunchCooperativeKernelMultiDevice`.
pub unsafe fn launch_on_devices(call: &dyn Fn() -> Status, list: *mut c_void, count: c_uint, _flags: c_uint) -> Status {
    /// Bytes of a `CUDA_LAUNCH_PARAMS`, which begins with the function.
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
    fn parameters_are_put_where_they_belong() {
        let mut prepared = Prepared::default();
        put(&mut prepared, 4, &7u32.to_le_bytes());
        put(&mut prepared, 0, &[1, 2]);
        put(&mut prepared, -1, &[9]);
        put(&mut prepared, MOST as c_int, &[9]);
        assert_eq!(prepared.parameters, [1, 2, 0, 0, 7, 0, 0, 0]);
    }
}

//! The forms of a launch: turns the arguments of each launch function into a [`LaunchRequest`].
//!
//! `None` stands for invalid arguments, which the driver refuses.

use std::ffi::{c_uint, c_void};

use mneme_abi::cuda::structures::launch_attribute as attribute;
use mneme_abi::cuda::structures::{LaunchAttribute, LaunchConfiguration};
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use crate::driver::{CUfunction, CUstream};
use crate::kernels::request::{Extras, LaunchArguments, LaunchRequest};

/// A stream, never 0: `default` replaces null.
pub fn named(stream: CUstream, default: usize) -> usize {
    if stream.is_null() { default } else { stream as usize }
}

/// A launch with the dimensions as separate arguments, on a stream that is not 0.
#[inline]
fn request(
    function: CUfunction,
    [grid, block]: [[c_uint; 3]; 2],
    shared_mem: c_uint,
    stream: usize,
    arguments: LaunchArguments,
    cooperative: bool,
) -> Option<LaunchRequest> {
    let attributes = LaunchAttributes { cooperative, ..LaunchAttributes::default() };
    let launch = Launch { grid: grid.into(), block: block.into(), shared_mem, attributes };
    Some(LaunchRequest { function, launch, stream, arguments, extras: Extras::None })
}

/// `cuLaunchKernel`.
#[inline]
pub fn kernel(
    function: CUfunction,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: usize,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Option<LaunchRequest> {
    request(function, [grid, block], shared, stream, LaunchArguments::new(parameters, extra), false)
}

/// `cuLaunchCooperativeKernel`, which accepts no packed buffer.
#[inline]
pub fn cooperative(
    function: CUfunction,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: usize,
    parameters: *mut *mut c_void,
) -> Option<LaunchRequest> {
    let arguments = LaunchArguments::new(parameters, std::ptr::null_mut());
    request(function, [grid, block], shared, stream, arguments, true)
}

/// `cuLaunchKernelEx`, on `default` if the stream is null.
///
/// # Safety
/// The configuration is null or the driver's.
#[inline]
pub unsafe fn kernel_ex(
    configuration: *const LaunchConfiguration,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    default: usize,
) -> Option<LaunchRequest> {
    // SAFETY: null or as the caller promises.
    let configuration = unsafe { configuration.as_ref() }?;
    let launch = Launch {
        grid: configuration.grid.into(),
        block: configuration.block.into(),
        shared_mem: configuration.shared,
        // SAFETY: the array has this many elements.
        attributes: unsafe { attributes(configuration.attributes, configuration.count) },
    };
    let arguments = LaunchArguments::new(parameters, extra);
    let extras = Extras::Attributes(configuration.attributes, configuration.count);
    Some(LaunchRequest {
        function,
        launch,
        stream: named(configuration.stream as CUstream, default),
        arguments,
        extras,
    })
}

/// Reads the attributes that a replay repeats.
///
/// # Safety
/// The array is null or has `count` elements.
pub(super) unsafe fn attributes(array: *const LaunchAttribute, count: c_uint) -> LaunchAttributes {
    let mut found = LaunchAttributes::default();
    if array.is_null() {
        return found;
    }
    for index in 0..count as usize {
        // SAFETY: inside the array.
        let LaunchAttribute { id, value: [x, y, z, ..], .. } = unsafe { array.add(index).read() };
        match id {
            attribute::COOPERATIVE => found.cooperative = x != 0,
            attribute::CLUSTER_DIMENSION => found.cluster = Some(Dim3::new(x, y, z)),
            _ => {}
        }
    }
    found
}

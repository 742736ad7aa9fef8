//! The forms of a launch: turns the arguments of each launch function into a [`LaunchRequest`].
//!
//! `None` stands for invalid arguments, which the driver refuses.

use std::ffi::{c_uint, c_void};

use mneme_abi::cuda::structures::launch_attribute as attribute;
use mneme_abi::cuda::structures::{LaunchAttribute, LaunchConfiguration};
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use crate::driver::{CUfunction, CUstream, STREAM_LEGACY, STREAM_PER_THREAD};
use crate::kernels::request::{Extras, LaunchArguments, LaunchRequest};

/// A stream, never 0: `default` replaces null.
pub(super) fn named(stream: CUstream, default: usize) -> usize {
    if stream.is_null() { default } else { stream as usize }
}

/// A launch with the dimensions as separate arguments, on `$default` if the stream is null. `[extra]` if the driver
/// function also accepts a packed buffer.
macro_rules! launch {
    ($(#[$meta:meta])* $name:ident, $default:expr, cooperative: $cooperative:literal, [$($extra:ident)?]) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// The arguments are those of the driver function.
        #[expect(clippy::too_many_arguments, reason = "the driver's")]
        #[inline]
        pub unsafe fn $name(
            function: CUfunction,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared: c_uint,
            stream: CUstream,
            parameters: *mut *mut c_void,
            $($extra: *mut *mut c_void,)?
        ) -> Option<LaunchRequest> {
            let launch = Launch {
                grid: Dim3::new(grid_x, grid_y, grid_z),
                block: Dim3::new(block_x, block_y, block_z),
                shared_mem: shared,
                attributes: LaunchAttributes { cooperative: $cooperative, ..LaunchAttributes::default() },
            };
            let arguments = LaunchArguments::new(parameters, launch!(@or_null $($extra)?));
            Some(LaunchRequest { function, launch, stream: named(stream, $default), arguments, extras: Extras::None })
        }
    };
    (@or_null) => { std::ptr::null_mut() };
    (@or_null $extra:ident) => { $extra };
}

launch!(
    /// `cuLaunchKernel`.
    kernel,
    STREAM_LEGACY,
    cooperative: false,
    [extra]
);
launch!(
    /// `cuLaunchKernel_ptsz`.
    kernel_per_thread,
    STREAM_PER_THREAD,
    cooperative: false,
    [extra]
);
launch!(
    /// `cuLaunchCooperativeKernel`.
    cooperative,
    STREAM_LEGACY,
    cooperative: true,
    []
);
launch!(
    /// `cuLaunchCooperativeKernel_ptsz`.
    cooperative_per_thread,
    STREAM_PER_THREAD,
    cooperative: true,
    []
);

/// # Safety
/// The configuration is null or the driver's.
#[inline]
unsafe fn extended(
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

/// `cuLaunchKernelEx`.
///
/// # Safety
/// The arguments are those of the driver function.
#[inline]
pub unsafe fn kernel_ex(
    configuration: *const LaunchConfiguration,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Option<LaunchRequest> {
    // SAFETY: passed on.
    unsafe { extended(configuration, function, parameters, extra, STREAM_LEGACY) }
}

/// `cuLaunchKernelEx_ptsz`.
///
/// # Safety
/// The arguments are those of the driver function.
#[inline]
pub unsafe fn kernel_ex_per_thread(
    configuration: *const LaunchConfiguration,
    function: CUfunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Option<LaunchRequest> {
    // SAFETY: passed on.
    unsafe { extended(configuration, function, parameters, extra, STREAM_PER_THREAD) }
}

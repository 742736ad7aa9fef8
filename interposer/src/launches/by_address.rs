//! HIP's launches that name a kernel by the address of its host function, as compiled programs do.

use std::ffi::{c_int, c_void};

use mneme_abi::hip::types::{CUevent, Dimensions, LaunchConfiguration};
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use super::forms::{attributes, named};
use super::graphs;
use crate::driver::{CUstream, STREAM_LEGACY};
use crate::kernels::request::{Extras, LaunchArguments, LaunchRequest};

#[inline]
fn request(
    host: *const c_void,
    [grid, block]: [Dimensions; 2],
    arguments: *mut *mut c_void,
    shared: usize,
    stream: usize,
    attributes: LaunchAttributes,
) -> Option<LaunchRequest> {
    let dimensions = |of: Dimensions| Dim3::new(of.x, of.y, of.z);
    let launch = Launch {
        grid: dimensions(grid),
        block: dimensions(block),
        shared_mem: u32::try_from(shared).ok()?,
        attributes,
    };
    let arguments = LaunchArguments::new(arguments, std::ptr::null_mut());
    Some(LaunchRequest { function: host.cast_mut().cast(), launch, stream, arguments, extras: Extras::None })
}

/// `hipLaunchKernel`.
#[inline]
pub fn kernel(
    host: *const c_void,
    shape: [Dimensions; 2],
    arguments: *mut *mut c_void,
    shared: usize,
    stream: usize,
) -> Option<LaunchRequest> {
    request(host, shape, arguments, shared, stream, LaunchAttributes::default())
}

/// `hipLaunchCooperativeKernel`.
#[inline]
pub fn cooperative(
    host: *const c_void,
    shape: [Dimensions; 2],
    arguments: *mut *mut c_void,
    shared: u32,
    stream: usize,
) -> Option<LaunchRequest> {
    let attributes = LaunchAttributes { cooperative: true, ..LaunchAttributes::default() };
    request(host, shape, arguments, shared as usize, stream, attributes)
}

/// `hipExtLaunchKernel`.
#[expect(clippy::too_many_arguments, reason = "HIP's")]
#[inline]
pub fn kernel_with_events(
    host: *const c_void,
    grid: Dimensions,
    block: Dimensions,
    arguments: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
    start: CUevent,
    stop: CUevent,
    flags: c_int,
) -> Option<LaunchRequest> {
    graphs::note_events(stream, [start, stop]);
    let request = kernel(host, [grid, block], arguments, shared, named(stream, STREAM_LEGACY))?;
    let is_plain = start.is_null() && stop.is_null() && flags == 0;
    Some(LaunchRequest { extras: if is_plain { Extras::None } else { Extras::OwnCall }, ..request })
}

/// `hipLaunchKernelExC`.
///
/// # Safety
/// The arguments are those of the function.
#[inline]
pub unsafe fn kernel_ex(
    configuration: *const LaunchConfiguration,
    host: *const c_void,
    arguments: *mut *mut c_void,
) -> Option<LaunchRequest> {
    // SAFETY: null or the application's.
    let configuration = unsafe { configuration.as_ref() }?;
    // SAFETY: the array has this many elements, in the layout of the driver.
    let attributes = unsafe { attributes(configuration.attributes.cast(), configuration.count) };
    let (shape, stream) = ([configuration.grid, configuration.block], named(configuration.stream, STREAM_LEGACY));
    let request = request(host, shape, arguments, configuration.shared, stream, attributes)?;
    Some(LaunchRequest { extras: Extras::Attributes(configuration.attributes.cast(), configuration.count), ..request })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::STREAM_PER_THREAD;

    #[test]
    fn launches_by_address_say_what_is_launched() {
        let dimensions = |x| Dimensions { x, y: 2, z: 3 };
        let (host, none) = (0x1234 as *const c_void, std::ptr::null_mut());
        let shape = [dimensions(4), dimensions(64)];
        let legacy = kernel(host, shape, none, 128, STREAM_LEGACY).unwrap();
        let own = cooperative(host, shape, none, 128, STREAM_PER_THREAD).unwrap();
        for request in [&legacy, &own] {
            assert_eq!((request.function as usize, request.launch.shared_mem), (0x1234, 128));
            assert_eq!((request.launch.grid, request.launch.block), (Dim3::new(4, 2, 3), Dim3::new(64, 2, 3)));
        }
        assert_eq!((legacy.stream, own.stream), (STREAM_LEGACY, STREAM_PER_THREAD));
        assert!(!legacy.launch.attributes.cooperative && own.launch.attributes.cooperative);
    }
}

//! Starts tuned code in the way in which the application starts its own.

use std::ffi::c_uint;

use mneme_abi::cuda::structures::{LaunchAttribute, LaunchConfiguration};
use mneme_device::cuda;
use mneme_model::launch::Launch;
use mneme_winners::LaunchDimensions;

use crate::driver::{CUfunction, CUstream, Status, hip, hooked};
use crate::kernels::request::{Extras, LaunchRequest};
use crate::process::recorded_family;

/// Why only the application's own call can make a launch.
pub fn obstacle(request: &LaunchRequest) -> Option<&'static str> {
    match request.extras {
        Extras::OwnCall => Some("launched by a call that has more than dimensions and arguments (events, attributes)"),
        Extras::Attributes(_, count) if count > 0 && recorded_family::is_hip() => {
            Some("launched by a call that has more than dimensions and arguments (events, attributes)")
        }
        _ => None,
    }
}

/// Launches a function with the arguments, stream and attributes of a request, and other dimensions.
pub fn start(request: &LaunchRequest, function: CUfunction, shape: &LaunchDimensions) -> Status {
    let stream = request.stream as CUstream;
    let (parameters, extra) = request.arguments.raw();
    let (grid, block) = (shape.grid, shape.block);
    if recorded_family::is_hip() {
        let stream = hip::named(stream);
        // SAFETY: a function of the recorder with the parameters of the application's; the arguments and the stream are
        // the request's.
        return unsafe {
            if request.launch.attributes.cooperative {
                hooked::hipModuleLaunchCooperativeKernel::call(
                    function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shape.shared_mem, stream, parameters,
                )
            } else {
                hooked::hipModuleLaunchKernel::call(
                    function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shape.shared_mem, stream, parameters,
                    extra,
                )
            }
        };
    }
    let described;
    let (attributes, count): (*const LaunchAttribute, c_uint) = match request.extras {
        Extras::Attributes(array, count) => (array, count),
        _ if request.launch.attributes.cooperative || request.launch.attributes.cluster.is_some() => {
            described = cuda::attributes(&Launch { ..request.launch });
            (described.as_ptr(), described.len() as c_uint)
        }
        _ => (std::ptr::null(), 0),
    };
    if count == 0 {
        // SAFETY: as above.
        return unsafe {
            hooked::cuLaunchKernel::call(
                function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shape.shared_mem, stream, parameters,
                extra,
            )
        };
    }
    let configuration = LaunchConfiguration {
        grid: grid.as_array(),
        block: block.as_array(),
        shared: shape.shared_mem,
        stream: stream as usize,
        attributes,
        count,
    };
    // SAFETY: as above; the attributes live until the call returns.
    unsafe { hooked::cuLaunchKernelEx::call(&configuration, function, parameters, extra) }
}

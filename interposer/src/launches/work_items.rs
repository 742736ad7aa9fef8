//! HIP's launches with a grid in work items, which need not be a multiple of the block.

use std::ffi::c_void;

use mneme_abi::hip::types::CUevent;
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};

use super::forms::named;
use super::graphs;
use crate::driver::{CUfunction, CUstream, STREAM_LEGACY, Status, gate};
use crate::kernels::request::{Extras, LaunchArguments, LaunchRequest};
use crate::recorder;

/// The number of blocks for work items. `None` if one block would have fewer work items than the others.
fn blocks(items: [u32; 3], block: [u32; 3]) -> Option<Dim3> {
    let of =
        |axis: usize| items[axis].checked_rem(block[axis]).filter(|rest| *rest == 0).map(|_| items[axis] / block[axis]);
    Some(Dim3::new(of(0)?, of(1)?, of(2)?))
}

/// # Safety
/// The arguments are those of `hipExtModuleLaunchKernel`.
#[expect(clippy::too_many_arguments, reason = "HIP's")]
pub unsafe fn launch(
    call: &dyn Fn() -> Status,
    function: CUfunction,
    items_x: u32,
    items_y: u32,
    items_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: usize,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: CUevent,
    stop: CUevent,
    flags: u32,
) -> Status {
    graphs::note_events(stream, [start, stop]);
    let block = [block_x, block_y, block_z];
    let Some((grid, shared_mem)) = blocks([items_x, items_y, items_z], block).zip(u32::try_from(shared).ok()) else {
        recorder::refuse(function, "its last blocks have fewer work items than the others");
        return gate::passing(call);
    };
    let launch = Launch { grid, block: block.into(), shared_mem, attributes: LaunchAttributes::default() };
    let arguments = LaunchArguments::new(parameters, extra);
    let stream = named(stream, STREAM_LEGACY);
    let is_plain = start.is_null() && stop.is_null() && flags == 0;
    let extras = if is_plain { Extras::None } else { Extras::OwnCall };
    recorder::launch(call, LaunchRequest { function, launch, stream, arguments, extras })
}

/// # Safety
/// The arguments are those of `hipHccModuleLaunchKernel`.
#[expect(clippy::too_many_arguments, reason = "HIP's")]
pub unsafe fn launch_without_flags(
    call: &dyn Fn() -> Status,
    function: CUfunction,
    items_x: u32,
    items_y: u32,
    items_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: usize,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: CUevent,
    stop: CUevent,
) -> Status {
    // SAFETY: passed on.
    unsafe {
        launch(
            call, function, items_x, items_y, items_z, block_x, block_y, block_z, shared, stream, parameters, extra,
            start, stop, 0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_items_make_whole_blocks_or_are_refused() {
        assert_eq!(blocks([128, 2, 1], [64, 1, 1]), Some(Dim3::new(2, 2, 1)));
        assert_eq!(blocks([100, 1, 1], [64, 1, 1]), None);
        assert_eq!(blocks([64, 1, 1], [0, 1, 1]), None, "the library refuses that");
        assert_eq!(blocks([0, 1, 1], [64, 1, 1]), Some(Dim3::new(0, 1, 1)));
    }
}

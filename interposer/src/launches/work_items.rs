//! HIP's launches with a grid in work items, which need not be a multiple of the block.

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

/// Launches blocks for a number of work items; `has_flags` if the call has flags that are not 0.
#[expect(clippy::too_many_arguments, reason = "HIP's")]
pub fn launch(
    call: &dyn Fn() -> Status,
    function: CUfunction,
    items: [u32; 3],
    block: [u32; 3],
    shared: usize,
    stream: CUstream,
    arguments: LaunchArguments,
    events: [CUevent; 2],
    has_flags: bool,
) -> Status {
    graphs::note_events(stream, events);
    let Some((grid, shared_mem)) = blocks(items, block).zip(u32::try_from(shared).ok()) else {
        recorder::refuse(function, "its last blocks have fewer work items than the others");
        return gate::passing(call);
    };
    let launch = Launch { grid, block: block.into(), shared_mem, attributes: LaunchAttributes::default() };
    let stream = named(stream, STREAM_LEGACY);
    let is_plain = events.iter().all(|event| event.is_null()) && !has_flags;
    let extras = if is_plain { Extras::None } else { Extras::OwnCall };
    recorder::launch(call, LaunchRequest { function, launch, stream, arguments, extras })
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

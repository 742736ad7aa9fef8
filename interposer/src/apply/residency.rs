//! The check that a device can hold all blocks of a launch at once.
//!
//! If it can, the blocks may wait for each other: persistent kernels and hand-made grid barriers do, in cooperative and
//! in other launches. If the device holds fewer blocks of tuned code, some start only after others have ended, and such
//! a kernel hangs. The application computes the grids of these launches from the occupancy of the original code.

use std::sync::OnceLock;

use mneme_abi::cuda::sys::CUdevice_attribute;
use mneme_winners::LaunchDimensions;

use crate::driver::{self, CUfunction, Status, hip};
use crate::kernels::kernel::{CodeOwner, FunctionHandle};
use crate::process::recorded_family;

/// For how many launches the occupancy is cached. For others the driver is asked each time.
const PLACES: usize = 8;
const MULTIPROCESSORS: CUdevice_attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;

/// The resources of a block: its threads and its dynamic shared memory, bytes.
type Demand = (u64, u32);

/// The occupancy of the application's own code and of tuned code in one context.
pub struct Residency {
    /// `None` if the device does not report it.
    multiprocessors: Option<u64>,
    known: [OnceLock<Occupancy>; PLACES],
}

/// How many blocks run on a multiprocessor at once, for the application's own code and for tuned code; `None` if the
/// driver does not report it.
#[derive(Clone, Copy)]
struct Occupancy {
    demands: [Demand; 2],
    /// The version of the application's settings for the kernel, on which occupancy depends too.
    settings: u32,
    blocks: [Option<u64>; 2],
}

impl Residency {
    /// The residency of code in the current context.
    pub fn here() -> Self {
        Self { multiprocessors: multiprocessors(), known: Default::default() }
    }

    /// Whether tuned code with `launches[1]` may replace a launch's original code with `launches[0]`: either the device
    /// cannot hold all blocks of the original code at once, or it can hold all of the tuned code. `ask` gets the index
    /// of the launch, and the threads and shared memory of a block.
    pub fn allows(
        &self,
        launches: [&LaunchDimensions; 2],
        settings: u32,
        ask: impl Fn(usize, Demand) -> Option<u64>,
    ) -> bool {
        let Some(multiprocessors) = self.multiprocessors else { return true };
        let demands = launches.map(|launch| (launch.block.count(), launch.shared_mem));
        let places = || self.known.iter().map_while(OnceLock::get);
        let known = places().find(|known| known.demands == demands && known.settings == settings);
        let blocks = known.map_or_else(
            || {
                let blocks = [0, 1].map(|index| ask(index, demands[index]));
                let found = Occupancy { demands, settings, blocks };
                let _ = self.known.iter().find(|place| place.get().is_none()).map(|place| place.set(found));
                blocks
            },
            |known| known.blocks,
        );
        let fits = |index: usize| {
            blocks[index].is_some_and(|blocks| launches[index].grid.count() <= blocks.saturating_mul(multiprocessors))
        };
        !fits(0) || fits(1)
    }
}

fn multiprocessors() -> Option<u64> {
    let count = driver::device_attribute(MULTIPROCESSORS, driver::current_device()?)?;
    u64::try_from(count).ok().filter(|count| *count > 0)
}

/// How many blocks of code that the application launches run on a multiprocessor at once.
///
/// # Safety
/// The handle is this function's, and alive.
pub unsafe fn own_blocks(handle: CUfunction, function: &FunctionHandle, demand: Demand) -> Option<u64> {
    if recorded_family::is_hip() && matches!(function.home, CodeOwner::Binary(_)) {
        // The handle is the address of the host function.
        return asked(demand, |blocks, threads, shared| {
            // SAFETY: a valid place; HIP recognises the addresses of its functions.
            unsafe { hip::hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle.cast(), threads, shared) }
        });
    }
    // SAFETY: the caller's promise.
    unsafe { blocks_of(handle, demand) }
}

/// How many blocks of a function run on a multiprocessor at once.
///
/// # Safety
/// The handle is alive.
pub unsafe fn blocks_of(function: CUfunction, demand: Demand) -> Option<u64> {
    asked(demand, |blocks, threads, shared| {
        // SAFETY: a valid place, and the caller's promise. The driver accepts a library's kernel too.
        unsafe { driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared) }
    })
}

fn asked((threads, shared): Demand, ask: impl FnOnce(&mut i32, i32, usize) -> Status) -> Option<u64> {
    let mut blocks = 0;
    let status = ask(&mut blocks, i32::try_from(threads).ok()?, shared as usize);
    (status == Status::SUCCESS).then_some(blocks).and_then(|blocks| u64::try_from(blocks).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;
    use std::cell::Cell;

    fn launch(grid: u32, block: u32) -> LaunchDimensions {
        LaunchDimensions { grid: Dim3::new(grid, 1, 1), block: Dim3::new(block, 1, 1), shared_mem: 0 }
    }

    fn of(multiprocessors: Option<u64>) -> Residency {
        Residency { multiprocessors, known: Default::default() }
    }

    #[test]
    fn blocks_that_are_on_the_device_at_once_stay_so() {
        // 4 blocks at a time of the own code, 2 of the tuned code, independent of their size.
        let ask = |index: usize, _| Some([4, 2][index]);
        let allows = |own: u32, tuned: u32| of(Some(10)).allows([&launch(own, 256), &launch(tuned, 128)], 0, ask);
        assert!(allows(20, 20), "both fit");
        assert!(!allows(40, 40) && !allows(40, 80), "only the own code fits");
        assert!(allows(41, 82), "neither fits");
        let launches = [&launch(1, 1), &launch(1000, 1)];
        assert!(of(None).allows(launches, 0, ask), "a device that does not say how many there are");
        assert!(of(Some(10)).allows(launches, 0, |_, _| None));
        assert!(!of(Some(10)).allows(launches, 0, |index, _| (index == 0).then_some(4)));
    }

    #[test]
    fn the_driver_is_asked_once_for_each_kind_of_launch() {
        let (residency, asked) = (of(Some(1)), Cell::new(0));
        let allows = |block: u32, settings: u32| {
            let ask = |_, _| {
                asked.set(asked.get() + 1);
                Some(1)
            };
            residency.allows([&launch(1, block), &launch(1, 1)], settings, ask)
        };
        assert!(allows(1, 0) && allows(1, 0) && allows(2, 0) && allows(1, 0));
        assert_eq!(asked.get(), 4);
        assert!(allows(1, 1));
        assert_eq!(asked.get(), 6, "after the application has changed its settings");
        assert!((0..100).all(|block| allows(block, 1) && allows(block, 1)), "more than there are places for");
    }
}

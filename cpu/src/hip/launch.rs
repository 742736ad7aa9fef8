//! HIP's own forms of launches: by global size, with events, and with HIP's numbers in `extra`.

use mneme_abi::cuda::structures::LaunchConfiguration;
use mneme_abi::cuda::types::{Dimensions, launch_parameter};
use mneme_abi::hip::structures::FunctionAttributes;

use crate::abi::{In, Out};
use crate::driver::work::LaunchExtents;
use crate::driver::{function, launch};
use crate::runtime::launch::{self as shared, as_configuration};
use crate::runtime::registration;
use crate::runtime::session::driver_with_context;
use crate::status::{Status, StatusResult};

/// Checks that the work items of the grid fit into HIP's 32 bits.
fn check(extents: &LaunchExtents) -> StatusResult {
    let items = |axis: usize| extents.grid[axis].checked_mul(extents.block[axis]);
    if (0..3).all(|axis| items(axis).is_some()) { Ok(()) } else { Err(Status::INVALID_CONFIGURATION) }
}

/// Launches the kernel of a host function.
pub fn launch_by_host(
    host: usize,
    grid: Dimensions,
    block: Dimensions,
    arguments: In<*const u8>,
    bytes: usize,
    stream: usize,
) -> StatusResult {
    check(&LaunchExtents { grid: grid.extents(), block: block.extents(), shared: 0 })?;
    shared::launch(host, grid, block, arguments, bytes, stream)
}

/// Converts `extra` to CUDA's numbers.
fn translated(extra: In<usize>) -> Result<[usize; 5], Status> {
    let mut list = [launch_parameter::END; 5];
    for pair in 0..2 {
        match extra.at(2 * pair)? {
            launch_parameter::HIP_END => return Ok(list),
            key @ (launch_parameter::BUFFER_POINTER | launch_parameter::BUFFER_SIZE) => {
                list[2 * pair] = key;
                list[2 * pair + 1] = extra.at(2 * pair + 1)?;
            }
            _ => return Err(Status::INVALID_VALUE),
        }
    }
    if extra.at(4)? == launch_parameter::HIP_END { Ok(list) } else { Err(Status::INVALID_VALUE) }
}

pub fn launch_module(
    function: usize,
    extents: LaunchExtents,
    stream: usize,
    arguments: In<*const u8>,
    extra: In<usize>,
) -> StatusResult {
    driver_with_context()?;
    check(&extents)?;
    if extra.is_null() || !arguments.is_null() {
        return launch::launch(function, extents, stream, arguments, In::of_place(0));
    }
    let list = translated(extra)?;
    launch::launch(function, extents, stream, arguments, In::from(&list[0]))
}

/// `hipDrvLaunchKernelEx`, with HIP's numbers in `extra`.
pub fn launch_configured(
    configuration: In<LaunchConfiguration>,
    function: usize,
    arguments: In<*const u8>,
    extra: In<usize>,
) -> StatusResult {
    if extra.is_null() || !arguments.is_null() {
        return launch::launch_extended(configuration, function, arguments, In::of_place(0));
    }
    let list = translated(extra)?;
    launch::launch_extended(configuration, function, arguments, In::from(&list[0]))
}

/// Events around a launch, 0 for none.
#[derive(Clone, Copy)]
pub struct Around {
    pub start: usize,
    pub stop: usize,
}

impl Around {
    pub fn run(self, stream: usize, launch: impl FnOnce() -> StatusResult) -> StatusResult {
        let driver = driver_with_context()?;
        if self.start != 0 {
            driver.cuEventRecord(self.start, stream)?;
        }
        launch()?;
        if self.stop != 0 {
            driver.cuEventRecord(self.stop, stream)?;
        }
        Ok(())
    }
}

/// The blocks of a grid that is given in work items.
pub fn in_blocks(items: [u32; 3], block: [u32; 3], bytes: usize) -> Result<LaunchExtents, Status> {
    let shared = u32::try_from(bytes).map_err(|_| Status::INVALID_CONFIGURATION)?;
    if block.contains(&0) {
        return Err(Status::INVALID_CONFIGURATION);
    }
    let grid = std::array::from_fn(|axis| items[axis] / block[axis]);
    if (0..3).any(|axis| !items[axis].is_multiple_of(block[axis])) {
        crate::report::say!("launches whose last blocks have fewer work items than the others are not supported");
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(LaunchExtents { grid, block, shared })
}

pub fn attributes(out: Out<FunctionAttributes>, host: usize) -> StatusResult {
    let all = shared::describe(host)?;
    out.put(FunctionAttributes {
        binary: all.binary,
        cache_mode: all.cache_mode,
        constant: all.constant,
        local: all.local,
        max_dynamic_shared: all.max_dynamic_shared,
        max_threads: all.max_threads,
        registers: all.registers,
        carveout: all.carveout,
        ptx: all.ptx,
        shared: all.shared,
    })
}

/// `hipOccupancyMaxPotentialBlockSize` for a host function.
pub fn potential_block(grid: Out<i32>, block: Out<i32>, host: usize, limit: i32) -> StatusResult {
    driver_with_context()?;
    function::potential_block(grid, block, registration::kernel(host)?, limit)
}

pub fn launch_cooperative_module(
    function: usize,
    extents: LaunchExtents,
    stream: usize,
    arguments: In<*const u8>,
) -> StatusResult {
    driver_with_context()?;
    check(&extents)?;
    as_configuration(launch::launch_cooperative(function, extents, stream, arguments, In::of_place(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_has_hip_s_end() {
        let given = [2usize, 70, 1, 60, 3];
        assert_eq!(translated(In::from(&given[0])), Ok([2, 70, 1, 60, 0]));
        assert_eq!(translated(In::from(&given[4])), Ok([0; 5]));
        let wrong = [1usize, 60, 2, 70, 0];
        assert_eq!(translated(In::from(&wrong[0])), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn grids_in_work_items_are_whole_blocks() {
        let extents = in_blocks([128, 4, 1], [64, 2, 1], 16).unwrap();
        assert_eq!((extents.grid, extents.shared), ([2, 2, 1], 16));
        assert_eq!(in_blocks([100, 1, 1], [64, 1, 1], 0).err(), Some(Status::NOT_SUPPORTED));
        assert_eq!(in_blocks([1, 1, 1], [0, 1, 1], 0).err(), Some(Status::INVALID_CONFIGURATION));
        let huge = LaunchExtents { grid: [1 << 26, 1, 1], block: [64, 1, 1], shared: 0 };
        assert_eq!(check(&huge), Err(Status::INVALID_CONFIGURATION));
    }
}

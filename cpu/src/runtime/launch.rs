//! Launches, and the stack of configurations for `<<<…>>>`.

use mneme_abi::cuda::runtime_structures::{FunctionAttributes, RuntimeKernelNode, RuntimeLaunchConfiguration};
use mneme_abi::cuda::structures::{KernelNode, LaunchConfiguration};
use mneme_abi::cuda::types::Dimensions;
use mneme_system::thread_stack::ThreadStack;

use super::registration;
use super::session::driver_with_context;
use crate::abi::{In, Out};
use crate::status::{Status, StatusResult};

struct Pushed {
    grid: Dimensions,
    block: Dimensions,
    shared: usize,
    stream: usize,
}

thread_local! {
    static PUSHED: ThreadStack<Pushed> = const { ThreadStack::new() };
}

pub fn push(grid: Dimensions, block: Dimensions, shared: usize, stream: usize) {
    PUSHED.with(|stack| stack.push(Pushed { grid, block, shared, stream }));
}

pub fn pop(grid: Out<Dimensions>, block: Out<Dimensions>, shared: Out<usize>, stream: Out<usize>) -> StatusResult {
    let pushed = PUSHED.with(ThreadStack::pop).ok_or(Status::INVALID_CONFIGURATION)?;
    grid.put(pushed.grid)?;
    block.put(pushed.block)?;
    shared.put(pushed.shared)?;
    stream.put(pushed.stream)
}

/// Converts the driver's "invalid value" to "invalid configuration", which the runtime returns for the numbers of a
/// launch.
pub fn as_configuration(done: StatusResult) -> StatusResult {
    done.map_err(|status| if status == Status::INVALID_VALUE { Status::INVALID_CONFIGURATION } else { status })
}

pub fn launch(
    host: usize,
    grid: Dimensions,
    block: Dimensions,
    arguments: In<*const u8>,
    shared: usize,
    stream: usize,
) -> StatusResult {
    driver_with_context()?;
    launch_kernel(registration::kernel(host)?, grid, block, arguments, shared, stream)
}

/// Launches a kernel by the handle from [`kernel`].
pub fn launch_kernel(
    kernel: usize,
    grid: Dimensions,
    block: Dimensions,
    arguments: In<*const u8>,
    shared: usize,
    stream: usize,
) -> StatusResult {
    let driver = driver_with_context()?;
    let shared = u32::try_from(shared).map_err(|_| Status::INVALID_CONFIGURATION)?;
    as_configuration(
        driver.cuLaunchKernel(
            kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments, 0usize,
        ),
    )
}

pub fn launch_cooperative(
    host: usize,
    grid: Dimensions,
    block: Dimensions,
    arguments: In<*const u8>,
    shared: usize,
    stream: usize,
) -> StatusResult {
    let driver = driver_with_context()?;
    let kernel = registration::kernel(host)?;
    let shared = u32::try_from(shared).map_err(|_| Status::INVALID_CONFIGURATION)?;
    as_configuration(driver.cuLaunchCooperativeKernel(
        kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments,
    ))
}

pub fn launch_extended(
    configuration: In<RuntimeLaunchConfiguration>,
    host: usize,
    arguments: In<*const u8>,
) -> StatusResult {
    let driver = driver_with_context()?;
    let kernel = registration::kernel(host)?;
    let given = configuration.get()?;
    let shared = u32::try_from(given.shared).map_err(|_| Status::INVALID_CONFIGURATION)?;
    let configuration = LaunchConfiguration {
        grid: given.grid.extents(),
        block: given.block.extents(),
        shared,
        stream: given.stream as usize,
        attributes: given.attributes.cast(),
        count: given.count,
    };
    as_configuration(driver.cuLaunchKernelEx(In::from(&configuration), kernel, arguments, 0usize))
}

/// Adds a launch to a graph.
pub fn add_node(
    out: Out<usize>,
    graph: usize,
    after: In<usize>,
    count: usize,
    parameters: In<RuntimeKernelNode>,
) -> StatusResult {
    let driver = driver_with_context()?;
    let node = parameters.get()?;
    let kernel = registration::kernel(node.host)?;
    let parameters = KernelNode::of_kernel(
        kernel,
        node.grid.extents(),
        node.block.extents(),
        node.shared,
        node.arguments,
        node.extra,
    );
    as_configuration(driver.cuGraphAddKernelNode_v2(out, graph, after, count, In::from(&parameters)))
}

pub fn attributes(out: Out<FunctionAttributes>, host: usize) -> StatusResult {
    out.put(describe(host)?)
}

pub fn describe(host: usize) -> Result<FunctionAttributes, Status> {
    let driver = driver_with_context()?;
    let kernel = registration::kernel(host)?;
    let get = |attribute| -> Result<i32, Status> {
        let mut value = 0;
        driver.cuKernelGetAttribute(Out::to(&mut value), attribute, kernel, 0)?;
        Ok(value)
    };
    Ok(FunctionAttributes {
        shared: get(1)? as usize,
        constant: get(2)? as usize,
        local: get(3)? as usize,
        max_threads: get(0)?,
        registers: get(4)?,
        ptx: get(5)?,
        binary: get(6)?,
        cache_mode: get(7)?,
        max_dynamic_shared: get(8)?,
        carveout: get(9)?,
        cluster: [0; 6],
        reserved: [0; 16],
    })
}

pub fn set_attribute(host: usize, attribute: u32, value: i32) -> StatusResult {
    driver_with_context()?.cuKernelSetAttribute(attribute, value, registration::kernel(host)?, 0)
}

/// Accepts preferences, which have no effect here, if the function exists.
pub fn accept(host: usize) -> StatusResult {
    registration::kernel(host).map(|_| ())
}

pub fn occupancy(blocks: Out<i32>, host: usize, threads: i32, shared: usize, flags: u32) -> StatusResult {
    let driver = driver_with_context()?;
    driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks,
        registration::kernel(host)?,
        threads,
        shared,
        flags,
    )
}

pub fn available_shared(bytes: Out<usize>, host: usize, blocks: i32, threads: i32) -> StatusResult {
    driver_with_context()?.cuOccupancyAvailableDynamicSMemPerBlock(bytes, registration::kernel(host)?, blocks, threads)
}

pub fn kernel(out: Out<usize>, host: usize) -> StatusResult {
    driver_with_context()?;
    out.put(registration::kernel(host)?)
}

pub fn function(out: Out<usize>, host: usize) -> StatusResult {
    driver_with_context()?.cuKernelGetFunction(out, registration::kernel(host)?)
}

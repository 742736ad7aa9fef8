//! Launches and occupancy.

use mneme_abi::cuda::driver::pointers;
use mneme_abi::hip::types::*;

use crate::backend;
use crate::books::books;
use crate::code;
use crate::devices::{MAX_THREADS, SHARED_MEMORY};
use crate::mistake::{CallResult, Mistake, place, wrong};
use crate::profiler;

/// `HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const STATIC_SHARED: u32 = 1;
/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `…_BUFFER_SIZE` and `…_END`.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 3;

/// Blocks, threads of a block, and dynamic shared memory.
#[derive(Clone, Copy)]
pub struct LaunchSize {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared: c_uint,
}

fn check_shape(function: CUfunction, shape: LaunchSize) -> Result<(), Mistake> {
    let LaunchSize { grid, block, shared } = shape;
    if grid.contains(&0) || block.contains(&0) {
        return wrong(format!("a dimension is 0: grid {grid:?}, block {block:?}"));
    }
    let threads: u64 = block.iter().map(|length| u64::from(*length)).product();
    if threads > MAX_THREADS {
        return wrong(format!("a block has {threads} threads; the device takes {MAX_THREADS}"));
    }
    // HIP counts the work items of a dimension in 32 bits.
    if grid.iter().zip(block).any(|(blocks, threads)| u64::from(*blocks) * u64::from(threads) > u64::from(u32::MAX)) {
        return wrong("a dimension has more than 2^32 - 1 threads");
    }
    let mut own = 0;
    // SAFETY: the type is the function's; the caller has checked the kernel.
    unsafe {
        let ask: pointers::cuFuncGetAttribute = backend::function("cuFuncGetAttribute")?;
        ask(&mut own, STATIC_SHARED, function);
    }
    let all = u64::from(shared) + u64::try_from(own).unwrap_or(0);
    if all > SHARED_MEMORY {
        return wrong(format!("a block has {all} bytes of shared memory; the device has {SHARED_MEMORY}"));
    }
    Ok(())
}

/// Checks that no argument is missing.
unsafe fn check_arguments(
    function: CUfunction,
    name: &str,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<(), Mistake> {
    let wanted = code::parameters(function)?;
    if !parameters.is_null() && !extra.is_null() {
        return wrong("both ways to give arguments are used");
    }
    if !extra.is_null() {
        // SAFETY: the caller's array ends with its end key.
        let given = unsafe { buffer_size(extra) }?;
        let end = wanted.last().map_or(0, |(offset, size)| offset + size);
        if given < end {
            return wrong(format!("the arguments of {name} have {end} bytes, and {given} were given"));
        }
        return Ok(());
    }
    if wanted.is_empty() {
        return Ok(());
    }
    if parameters.is_null() {
        return wrong(format!("{name} has {} parameters, and no arguments were given", wanted.len()));
    }
    for index in 0..wanted.len() {
        // SAFETY: the caller passes an argument for each parameter.
        if unsafe { (*parameters.add(index)).is_null() } {
            return wrong(format!("argument {index} of {name} is null"));
        }
    }
    Ok(())
}

unsafe fn buffer_size(extra: *mut *mut c_void) -> Result<usize, Mistake> {
    let (mut size, mut has_buffer) = (None, false);
    let mut at = 0;
    loop {
        // SAFETY: the caller passes pairs of key and value up to the end key.
        let (key, value) = unsafe { (*extra.add(at) as usize, extra.add(at + 1)) };
        match key {
            END => break,
            // SAFETY: this key has a value.
            BUFFER_POINTER => has_buffer = unsafe { !(*value).is_null() },
            // SAFETY: the value is the address of the size.
            BUFFER_SIZE => size = Some(unsafe { *(*value).cast::<usize>() }),
            other => return wrong(format!("{other} is no key of a launch's arguments")),
        }
        at += 2;
    }
    match size {
        Some(size) if has_buffer => Ok(size),
        _ => wrong("the arguments have no buffer or no size"),
    }
}

/// Checks and launches.
pub unsafe fn run(
    function: CUfunction,
    shape: LaunchSize,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CallResult {
    let name = books().check_function(function)?.to_owned();
    books().check_stream(stream)?;
    check_shape(function, shape)?;
    // SAFETY: as for the caller.
    unsafe { check_arguments(function, &name, parameters, extra) }?;
    let LaunchSize { grid: [gx, gy, gz], block: [bx, by, bz], shared } = shape;
    let mut translated = Vec::new();
    // SAFETY: the type is the function's, and everything else was checked. The driver's array uses another end key.
    unsafe {
        if !extra.is_null() {
            let mut at = 0;
            while *extra.add(at) as usize != END {
                translated.extend([*extra.add(at), *extra.add(at + 1)]);
                at += 2;
            }
            translated.push(std::ptr::null_mut());
        }
        let extra = if extra.is_null() { extra } else { translated.as_mut_ptr() };
        let launch: pointers::cuLaunchKernel = backend::function("cuLaunchKernel")?;
        Ok(noted(launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)))
    }
}

#[allow(clippy::too_many_arguments, reason = "as the vendor's function")]
pub unsafe fn launch(
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
    extra: *mut *mut c_void,
) -> CallResult {
    let shape = LaunchSize { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
    // SAFETY: as for the caller.
    unsafe { run(function, shape, stream, parameters, extra) }
}

#[allow(clippy::too_many_arguments, reason = "as the vendor's function")]
pub unsafe fn launch_cooperative(
    driver: pointers::cuLaunchCooperativeKernel,
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
) -> CallResult {
    let name = books().check_function(function)?.to_owned();
    books().check_stream(stream)?;
    let shape = LaunchSize { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
    check_shape(function, shape)?;
    // SAFETY: as for the caller, and checked.
    unsafe {
        check_arguments(function, &name, parameters, std::ptr::null_mut())?;
        Ok(noted(driver(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters)))
    }
}

/// Notes an accepted launch for the profiler.
fn noted(status: Status) -> Status {
    if status == Status::SUCCESS {
        profiler::dispatched();
    }
    status
}

pub unsafe fn occupancy(
    driver: pointers::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    blocks: *mut c_int,
    function: CUfunction,
    threads: c_int,
    shared: usize,
    flags: c_uint,
) -> CallResult {
    place(blocks, "the number of blocks")?;
    books().check_function(function)?;
    if threads <= 0 || threads as u64 > MAX_THREADS {
        return wrong(format!("a block of {threads} threads"));
    }
    if flags > 1 {
        return wrong(format!("0x{flags:x} has flags that HIP does not know"));
    }
    // SAFETY: as checked.
    Ok(unsafe { driver(blocks, function, threads, shared, flags) })
}

pub unsafe fn occupancy_plain(
    driver: pointers::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    blocks: *mut c_int,
    function: CUfunction,
    threads: c_int,
    shared: usize,
) -> CallResult {
    // SAFETY: as for the caller.
    unsafe { occupancy(driver, blocks, function, threads, shared, 0) }
}

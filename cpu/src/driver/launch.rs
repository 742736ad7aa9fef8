//! Launches: the driver's checks, the parameter buffer, and the run.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mneme_abi::cuda::structures::{HostCall, LaunchAttribute, LaunchConfiguration, launch_attribute};
use mneme_abi::cuda::types::launch_parameter;
use mneme_image::symbol::readable;

use super::attributes::{MAX_BLOCK, MAX_GRID, SHARED_OPT_IN};
use super::function::KernelHandle;
use super::lanes::{self, Task};
use super::work::{KernelLaunch, LaunchExtents, LaunchKind, Work};
use super::{context, function, graph, stream};
use crate::abi::{Callback, HostFunction, In};
use crate::execution::cluster::{MAX_BLOCKS, PORTABLE_BLOCKS};
use crate::execution::grid::Parameters;
use crate::execution::{CheckedLaunch, images, limit};
use crate::status::{Status, StatusResult};

pub fn launch(
    handle: usize,
    shape: LaunchExtents,
    stream: usize,
    parameters: In<*const u8>,
    extra: In<usize>,
) -> StatusResult {
    launch_as(handle, shape, stream, parameters, extra, LaunchKind::default())
}

fn launch_as(
    handle: usize,
    shape: LaunchExtents,
    stream: usize,
    parameters: In<*const u8>,
    extra: In<usize>,
    kind: LaunchKind,
) -> StatusResult {
    context::usable()?;
    let function = function::get(handle)?;
    // AMD's kernels synchronise blocks by means that the device lacks.
    if kind.cooperative && function.kernel.is_of_amd() && shape.grid.iter().any(|extent| *extent > 1) {
        let name = readable(&function.kernel.row().name);
        crate::report::say!(
            "kernel {name} cannot run on the CPU device: it needs a cooperative launch of several blocks"
        );
        return Err(Status::NOT_SUPPORTED);
    }
    stream::check(stream)?;
    let buffer = prepare(handle, &shape, kind, parameters, extra)?;
    let kernel = KernelLaunch { function: handle, shape, buffer: Arc::new(buffer), kind };
    if graph::is_captured(stream) {
        return graph::capture(stream, || Ok(Work::Kernel(kernel))).map(|_| ());
    }
    lanes::submit(&stream::place(stream)?, &[], task(&kernel)?).map(|_| ())
}

/// Checks a launch and collects its arguments.
pub fn prepare(
    handle: usize,
    shape: &LaunchExtents,
    kind: LaunchKind,
    parameters: In<*const u8>,
    extra: In<usize>,
) -> Result<Vec<u8>, Status> {
    let function = function::get(handle)?;
    check(&function, shape)?;
    cluster_of(&function, shape, kind)?;
    let kernel = &function.kernel;
    if let Some(reason) = kernel.refusal() {
        crate::report::say!("kernel {} cannot run on the CPU device: it needs {reason}", readable(&kernel.row().name));
        return Err(Status::NOT_SUPPORTED);
    }
    gather(&function, parameters, extra)
}

/// The address of each argument in a parameter buffer.
pub fn argument_addresses(handle: usize, buffer: &[u8]) -> Result<Vec<usize>, Status> {
    let function = function::get(handle)?;
    Ok(function
        .kernel
        .row()
        .parameters
        .iter()
        .map(|parameter| buffer.as_ptr() as usize + parameter.offset as usize)
        .collect())
}

/// Turns a launch with collected arguments into a task that owns all it needs.
pub fn task(KernelLaunch { function, shape, buffer, kind }: &KernelLaunch) -> Result<Task, Status> {
    let function = function::get(*function)?;
    let kernel = &function.kernel;
    let row = kernel.row();
    let launch = CheckedLaunch {
        name: row.name.clone(),
        entry: kernel.entry()?,
        collective: row.collective,
        cooperative: kind.cooperative,
        parameters: Parameters::new(buffer),
        images: images::live(),
        heap: context::heap()?,
        grid: shape.grid,
        block: shape.block,
        cluster: cluster_of(&function, shape, *kind)?,
        warp_size: row.warp_size,
        dynamic_shared_offset: row.dynamic_shared_offset.max(row.static_shared),
        dynamic_shared: shape.shared,
        code: kernel.addresses(),
        time_limit: limit::setting(),
        owner: Some(function.clone()),
    };
    if kind.cooperative && !launch.fits_at_once() {
        return Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(Task::Kernel(Box::new(launch)))
}

fn check(function: &KernelHandle, shape: &LaunchExtents) -> StatusResult {
    let fits = |extents: &[u32; 3], most: &[u32; 3]| {
        extents.iter().zip(most).all(|(extent, most)| (1..=*most).contains(extent))
    };
    if !fits(&shape.grid, &MAX_GRID) || !fits(&shape.block, &MAX_BLOCK) {
        return Err(Status::INVALID_VALUE);
    }
    let threads: u32 = shape.block.iter().product();
    if threads > super::attributes::MAX_THREADS {
        return Err(Status::INVALID_VALUE);
    }
    if threads > function.max_threads() {
        return Err(Status::INVALID_VALUE);
    }
    let fixed = function.kernel.row().static_shared;
    if shape.shared > function.max_dynamic_shared.load(Ordering::Relaxed)
        || fixed.saturating_add(shape.shared) > SHARED_OPT_IN
    {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}

/// Blocks of a cluster along each axis: from the launch's attributes, or those that the kernel was compiled with.
fn cluster_of(function: &KernelHandle, shape: &LaunchExtents, kind: LaunchKind) -> Result<Option<[u32; 3]>, Status> {
    let required = function.kernel.row().cluster;
    let required = required.iter().all(|extent| *extent > 0).then_some(required);
    let Some(cluster) = kind.cluster.or(required) else { return Ok(None) };
    let blocks = cluster.iter().try_fold(1u32, |blocks, extent| blocks.checked_mul(*extent)).unwrap_or(0);
    let divides = cluster.iter().zip(shape.grid).all(|(extent, blocks)| *extent > 0 && blocks % extent == 0);
    let most = if function.large_clusters.load(Ordering::Relaxed) { MAX_BLOCKS } else { PORTABLE_BLOCKS };
    if !divides || blocks > most || required.is_some_and(|required| required != cluster) {
        return Err(Status::INVALID_CLUSTER_SIZE);
    }
    Ok(Some(cluster))
}

/// Builds the parameter buffer from an array of pointers to arguments, or from the buffer in `extra`.
fn gather(function: &KernelHandle, parameters: In<*const u8>, extra: In<usize>) -> Result<Vec<u8>, Status> {
    let row = function.kernel.row();
    let mut buffer = vec![0u8; row.parameter_bytes as usize];
    if !parameters.is_null() {
        for (index, parameter) in row.parameters.iter().enumerate() {
            let argument = parameters.at(index)?;
            let place = buffer
                .get_mut(parameter.offset as usize..(parameter.offset + parameter.size) as usize)
                .ok_or(Status::INVALID_IMAGE)?;
            if argument.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            // SAFETY: the caller promises that each pointer points to an argument of the parameter's size.
            place.copy_from_slice(unsafe { std::slice::from_raw_parts(argument, place.len()) });
        }
        return Ok(buffer);
    }
    if extra.is_null() {
        return if row.parameters.is_empty() { Ok(buffer) } else { Err(Status::INVALID_VALUE) };
    }
    let (mut address, mut size) = (0, 0);
    for pair in 0.. {
        match extra.at(2 * pair)? {
            launch_parameter::END => break,
            launch_parameter::BUFFER_POINTER => address = extra.at(2 * pair + 1)?,
            // The value is a pointer to the size.
            launch_parameter::BUFFER_SIZE => size = In::<usize>::of_place(extra.at(2 * pair + 1)?).get()?,
            _ => return Err(Status::INVALID_VALUE),
        }
    }
    if address == 0 || size > buffer.len().next_multiple_of(16) {
        return Err(Status::INVALID_VALUE);
    }
    let used = size.min(buffer.len());
    // SAFETY: the caller promises a buffer of that size.
    buffer[..used].copy_from_slice(unsafe { std::slice::from_raw_parts(address as *const u8, used) });
    Ok(buffer)
}

pub fn launch_extended(
    configuration: In<LaunchConfiguration>,
    handle: usize,
    parameters: In<*const u8>,
    extra: In<usize>,
) -> StatusResult {
    let configuration = configuration.get()?;
    let mut kind = LaunchKind::default();
    for index in 0..configuration.count as usize {
        let attribute = In::<LaunchAttribute>::of_place(configuration.attributes as usize).at(index)?;
        match attribute.id {
            launch_attribute::COOPERATIVE => kind.cooperative = attribute.value[0] != 0,
            launch_attribute::CLUSTER_DIMENSION => {
                let [x, y, z, ..] = attribute.value;
                kind.cluster = Some([x, y, z]).filter(|cluster| *cluster != [0; 3]);
            }
            // The other attributes are hints on order and placement.
            _ => {}
        }
    }
    let shape = LaunchExtents { grid: configuration.grid, block: configuration.block, shared: configuration.shared };
    launch_as(handle, shape, configuration.stream, parameters, extra, kind)
}

/// Launches a kernel whose blocks may all wait for each other.
pub fn launch_cooperative(
    handle: usize,
    shape: LaunchExtents,
    stream: usize,
    parameters: In<*const u8>,
    extra: In<usize>,
) -> StatusResult {
    launch_as(handle, shape, stream, parameters, extra, LaunchKind { cooperative: true, cluster: None })
}

/// Calls a function of the application when the stream gets to it.
pub fn launch_on_host(stream: usize, function: HostFunction, data: *mut c_void) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Host(HostCall { function, data })))? {
        return Ok(());
    }
    let call = host_task(&HostCall { function, data })?;
    lanes::submit(&stream::place(stream)?, &[], call).map(|_| ())
}

/// A call of an application's function, which is skipped if a kernel has failed.
pub fn host_task(host: &HostCall) -> Result<Task, Status> {
    let function = host.function.ok_or(Status::INVALID_VALUE)?;
    let data = host.data as usize;
    Ok(Task::Host(Box::new(move |state| {
        if state.is_ok() {
            // SAFETY: the application's function and argument, which the application promises to be valid at that time.
            unsafe { function(data as *mut c_void) };
        }
    })))
}

/// Adds a callback, which is called after a fault too and receives the state of the device.
pub fn add_callback(stream: usize, function: Callback, data: *mut c_void) -> StatusResult {
    context::current()?;
    stream::check(stream)?;
    if graph::is_captured(stream) {
        return graph::check_uncaptured(Some(stream));
    }
    let function = function.ok_or(Status::INVALID_VALUE)?;
    let data = data as usize;
    // SAFETY: as above.
    let call = move |state| unsafe { function(stream, crate::status::of(state), data as *mut c_void) };
    lanes::submit(&stream::place(stream)?, &[], Task::Host(Box::new(call))).map(|_| ())
}

//! Nodes of graphs, whose parameters HIP lays out in its own order.

use mneme_abi::cuda::types::Dimensions;

use crate::abi::{In, Out};
use crate::driver::executable;
use crate::driver::graph_nodes::{self, At, KernelParameters};
use crate::driver::work::{Fill, LaunchExtents};
use crate::runtime::launch::as_configuration;
use crate::runtime::volumes::{CopyParameters, described};
use crate::runtime::{memory, registration};
use crate::status::{Status, StatusResult};

/// `hipKernelNodeParams`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNode {
    block: Dimensions,
    extra: usize,
    host: usize,
    grid: Dimensions,
    arguments: usize,
    shared: u32,
}

const _: () = assert!(size_of::<KernelNode>() == 64);

fn of_driver(node: In<KernelNode>) -> Result<KernelParameters, Status> {
    let node = node.get()?;
    if node.extra != 0 {
        crate::say!("kernel nodes with arguments in 'extra' are not supported");
        return Err(Status::NOT_SUPPORTED);
    }
    // A function of a module is known by its handle.
    let kernel = match registration::kernel(node.host) {
        Err(Status::INVALID_DEVICE_FUNCTION) if crate::driver::function::get(node.host).is_ok() => node.host,
        found => found?,
    };
    Ok(KernelParameters::new(kernel, node.grid.extents(), node.block.extents(), node.shared, node.arguments, 0))
}

pub fn add_kernel(out: Out<usize>, at: At, node: In<KernelNode>) -> StatusResult {
    as_configuration(graph_nodes::kernel(out, at, In::from(&of_driver(node)?)))
}

pub fn set_kernel(node: usize, parameters: In<KernelNode>) -> StatusResult {
    graph_nodes::set_kernel_parameters(node, In::from(&of_driver(parameters)?))
}

pub fn set_kernel_of_executable(executable: usize, node: usize, parameters: In<KernelNode>) -> StatusResult {
    executable::set_kernel(executable, node, In::from(&of_driver(parameters)?))
}

/// The kernel is told as it was named: by the address of its host function, or by the handle of a module's.
pub fn kernel_parameters(node: usize, out: Out<KernelNode>) -> StatusResult {
    let (function, LaunchExtents { grid, block, shared }, arguments) = graph_nodes::kernel_described(node)?;
    let dimensions = |[x, y, z]: [u32; 3]| Dimensions { x, y, z };
    out.put(KernelNode {
        block: dimensions(block),
        extra: 0,
        host: registration::host_of(function).unwrap_or(function),
        grid: dimensions(grid),
        arguments,
        shared,
    })
}

/// `hipMemsetParams`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FillNode {
    to: u64,
    element: u32,
    height: usize,
    pitch: usize,
    value: u32,
    width: usize,
}

const _: () = assert!(size_of::<FillNode>() == 48);

pub fn add_fill(out: Out<usize>, at: At, node: In<FillNode>) -> StatusResult {
    let FillNode { to, element, height, pitch, value, width } = node.get()?;
    graph_nodes::fill(out, at, In::from(&Fill { to, pitch, value, element, width, height }))
}

pub fn fill_parameters(node: usize, out: Out<FillNode>) -> StatusResult {
    let mut fill = Fill { to: 0, pitch: 0, value: 0, element: 0, width: 0, height: 0 };
    graph_nodes::fill_parameters(node, Out::to(&mut fill))?;
    let Fill { to, pitch, value, element, width, height } = fill;
    out.put(FillNode { to, element, height, pitch, value, width })
}

pub fn add_copy(out: Out<usize>, at: At, what: In<CopyParameters>) -> StatusResult {
    graph_nodes::copy(out, at, In::from(&described(what)?))
}

pub fn add_line(out: Out<usize>, at: At, to: u64, from: u64, bytes: usize, kind: u32) -> StatusResult {
    graph_nodes::copy(out, at, In::from(&memory::line(to, from, bytes, super::memory::direction(kind))?))
}

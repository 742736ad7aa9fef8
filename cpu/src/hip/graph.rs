//! Nodes of graphs with HIP's layout of parameters.

use mneme_abi::cuda::runtime_structures::VolumeCopy;
use mneme_abi::cuda::structures::{Fill, KernelNode};
use mneme_abi::cuda::types::Dimensions;
use mneme_abi::hip::structures::{FillNode, KernelNodeParameters};

use crate::abi::{In, Out};
use crate::driver::executable;
use crate::driver::graph_nodes::{self, At};
use crate::driver::work::{LaunchExtents, Work};
use crate::runtime::launch::as_configuration;
use crate::runtime::volumes::described;
use crate::runtime::{memory, registration};
use crate::status::{Status, StatusResult};

fn of_driver(node: In<KernelNodeParameters>) -> Result<KernelNode, Status> {
    let node = node.get()?;
    if !node.extra.is_null() {
        crate::report::say!("kernel nodes with arguments in 'extra' are not supported");
        return Err(Status::NOT_SUPPORTED);
    }
    // A function of a module is identified by its handle.
    let function = node.function as usize;
    let kernel = match registration::kernel(function) {
        Err(Status::INVALID_DEVICE_FUNCTION) if crate::driver::function::get(function).is_ok() => function,
        found => found?,
    };
    let arguments = node.parameters as usize;
    Ok(KernelNode::of_kernel(kernel, node.grid.extents(), node.block.extents(), node.shared, arguments, 0))
}

pub fn add_kernel(out: Out<usize>, at: At, node: In<KernelNodeParameters>) -> StatusResult {
    as_configuration(graph_nodes::kernel(out, at, In::from(&of_driver(node)?)))
}

pub fn set_kernel(node: usize, parameters: In<KernelNodeParameters>) -> StatusResult {
    graph_nodes::set_kernel_parameters(node, In::from(&of_driver(parameters)?))
}

pub fn set_kernel_of_executable(executable: usize, node: usize, parameters: In<KernelNodeParameters>) -> StatusResult {
    executable::set_kernel(executable, node, In::from(&of_driver(parameters)?))
}

/// Returns the kernel as the program named it: by the address of its host function, or by the handle of a module's
/// function.
pub fn kernel_parameters(node: usize, out: Out<KernelNodeParameters>) -> StatusResult {
    let (function, LaunchExtents { grid, block, shared }, arguments) = graph_nodes::kernel_described(node)?;
    let dimensions = |[x, y, z]: [u32; 3]| Dimensions { x, y, z };
    out.put(KernelNodeParameters {
        block: dimensions(block),
        extra: std::ptr::null_mut(),
        function: registration::host_of(function).unwrap_or(function) as *mut _,
        grid: dimensions(grid),
        parameters: arguments as *mut _,
        shared,
    })
}

pub fn fill_of(node: In<FillNode>) -> Result<Work, Status> {
    let FillNode { to, element, height, pitch, value, width } = node.get()?;
    Ok(Work::Fill(Fill { to, pitch, value, element, width, height }))
}

pub fn line_of(to: u64, from: u64, bytes: usize, kind: u32) -> Result<Work, Status> {
    memory::line(to, from, bytes, super::memory::direction(kind)).map(Work::Copy)
}

pub fn add_fill(out: Out<usize>, at: At, node: In<FillNode>) -> StatusResult {
    at.add(out, fill_of(node)?)
}

pub fn fill_parameters(node: usize, out: Out<FillNode>) -> StatusResult {
    let mut fill = Fill { to: 0, pitch: 0, value: 0, element: 0, width: 0, height: 0 };
    graph_nodes::fill_parameters(node, Out::to(&mut fill))?;
    let Fill { to, pitch, value, element, width, height } = fill;
    out.put(FillNode { to, element, height, pitch, value, width })
}

pub fn add_copy(out: Out<usize>, at: At, what: In<VolumeCopy>) -> StatusResult {
    graph_nodes::copy(out, at, In::from(&described(what)?))
}

pub fn add_line(out: Out<usize>, at: At, to: u64, from: u64, bytes: usize, kind: u32) -> StatusResult {
    at.add(out, line_of(to, from, bytes, kind)?)
}

//! Nodes of graphs that calls add one by one, and their parameters.

use std::sync::{Arc, PoisonError};

use mneme_abi::cuda::structures::{AllocationNode, Copy3d, Fill, HostCall, KernelNode, launch_attribute};

use super::graph_memory::GraphAddresses;
use super::work::{KernelLaunch, LaunchExtents, LaunchKind, Work};
use super::{graph, launch, memory, module};
use crate::abi::{In, Out};
use crate::status::{Status, StatusResult};

/// The position of a new node: its graph, and an array of the nodes that it depends on.
#[derive(Clone, Copy)]
pub struct At {
    pub graph: usize,
    pub after: In<usize>,
    pub count: usize,
}

impl At {
    pub fn add(self, out: Out<usize>, work: Work) -> StatusResult {
        let after = (0..self.count).map(|index| self.after.at(index)).collect::<Result<Vec<_>, _>>()?;
        out.put(graph::add(self.graph, work, after)?)
    }
}

pub fn kernel(out: Out<usize>, at: At, parameters: In<KernelNode>) -> StatusResult {
    at.add(out, kernel_of(parameters, LaunchKind::default())?)
}

pub fn copy_of(what: In<Copy3d>) -> Result<Work, Status> {
    what.get().map(Work::Copy)
}

pub fn fill_of(what: In<Fill>) -> Result<Work, Status> {
    what.get().map(Work::Fill)
}

pub fn host_of(what: In<HostCall>) -> Result<Work, Status> {
    what.get().map(Work::Host)
}

pub fn copy(out: Out<usize>, at: At, what: In<Copy3d>) -> StatusResult {
    at.add(out, copy_of(what)?)
}

pub fn fill(out: Out<usize>, at: At, what: In<Fill>) -> StatusResult {
    at.add(out, fill_of(what)?)
}

pub fn host(out: Out<usize>, at: At, what: In<HostCall>) -> StatusResult {
    at.add(out, host_of(what)?)
}

pub fn empty(out: Out<usize>, at: At) -> StatusResult {
    at.add(out, Work::Nothing)
}

pub fn child(out: Out<usize>, at: At, graph: usize) -> StatusResult {
    at.add(out, Work::Child(graph::cloned(graph)?))
}

/// Replaces the work of a node by other work of its kind.
pub fn set(node: usize, work: Work) -> StatusResult {
    graph::node(node)?.work().replace(work)
}

pub fn graph_of_child(node: usize, out: Out<usize>) -> StatusResult {
    match &*graph::node(node)?.work() {
        Work::Child(graph) => out.put(*graph),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn event_of(node: usize, out: Out<usize>) -> StatusResult {
    match &*graph::node(node)?.work() {
        Work::Wait(event) | Work::Record(event) => out.put(*event),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn allocation(out: Out<usize>, at: At, parameters: Out<AllocationNode>) -> StatusResult {
    let wanted = In::<AllocationNode>::of_place(parameters.address()).get()?;
    let [kind, handles, location, device, ..] = wanted.pool;
    if kind != 1 || handles != 0 || location != 1 {
        return Err(Status::INVALID_VALUE);
    }
    let place = GraphAddresses::new(memory::known_device(device as i32)?, wanted.bytes)?;
    let address = place.start();
    at.add(out, Work::Allocate(place))?;
    parameters.put(AllocationNode { address, ..wanted })
}

pub fn free(out: Out<usize>, at: At, address: u64) -> StatusResult {
    at.add(out, Work::Free(address))
}

pub fn kernel_parameters(node: usize, out: Out<KernelNode>) -> StatusResult {
    let (function, LaunchExtents { grid, block, shared }, parameters) = kernel_described(node)?;
    // The vendor's driver returns this handle too, whichever handle the launch used.
    let function = module::function_in_context(function)?;
    let (parameters, extra) = (parameters as *const _, std::ptr::null());
    out.put(KernelNode { function, grid, block, shared, parameters, extra, kernel: 0, context: 0 })
}

/// Returns the function, the extents, and the address of an array of pointers to the arguments. The array is valid
/// until the next query.
pub fn kernel_described(node: usize) -> Result<(usize, LaunchExtents, usize), Status> {
    let node = graph::node(node)?;
    let work = node.work();
    let Work::Kernel(kernel) = &*work else { return Err(Status::INVALID_VALUE) };
    let mut pointers = node.pointers.lock().unwrap_or_else(PoisonError::into_inner);
    *pointers = launch::argument_addresses(kernel.function, &kernel.buffer)?;
    Ok((kernel.function, kernel.shape, pointers.as_ptr() as usize))
}

pub fn kernel_of(parameters: In<KernelNode>, kind: LaunchKind) -> Result<Work, Status> {
    let given = parameters.get()?;
    let function = if given.function == 0 { given.kernel } else { given.function };
    let shape = LaunchExtents { grid: given.grid, block: given.block, shared: given.shared };
    let buffer = launch::prepare(
        function,
        &shape,
        kind,
        In::of_place(given.parameters as usize),
        In::of_place(given.extra as usize),
    )?;
    Ok(Work::Kernel(KernelLaunch { function, shape, buffer: Arc::new(buffer), kind }))
}

/// The attributes of a kernel node.
pub fn kind_of(work: &Work) -> LaunchKind {
    match work {
        Work::Kernel(kernel) => kernel.kind,
        _ => LaunchKind::default(),
    }
}

pub fn set_kernel_parameters(node: usize, parameters: In<KernelNode>) -> StatusResult {
    let node = graph::node(node)?;
    let mut work = node.work();
    let new = kernel_of(parameters, kind_of(&work))?;
    work.replace(new)
}

/// Returns an attribute of 64 bytes: whether the launch is cooperative, or its clusters. The others read as 0, as the
/// device has no use for them.
pub fn kernel_attribute(node: usize, attribute: u32, out: Out<[u32; 16]>) -> StatusResult {
    let node = graph::node(node)?;
    let work = node.work();
    let mut value = [0; 16];
    match (&*work, attribute) {
        (Work::Kernel(kernel), launch_attribute::COOPERATIVE) => value[0] = u32::from(kernel.kind.cooperative),
        (Work::Kernel(kernel), launch_attribute::CLUSTER_DIMENSION) => {
            value[..3].copy_from_slice(&kernel.kind.cluster.unwrap_or([0; 3]));
        }
        (Work::Kernel(_), _) => {}
        _ => return Err(Status::INVALID_VALUE),
    }
    out.put(value)
}

pub fn copy_parameters(node: usize, out: Out<Copy3d>) -> StatusResult {
    match &*graph::node(node)?.work() {
        Work::Copy(copy) => out.put(*copy),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn fill_parameters(node: usize, out: Out<Fill>) -> StatusResult {
    match &*graph::node(node)?.work() {
        Work::Fill(fill) => out.put(*fill),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn host_parameters(node: usize, out: Out<HostCall>) -> StatusResult {
    match &*graph::node(node)?.work() {
        Work::Host(host) => out.put(*host),
        _ => Err(Status::INVALID_VALUE),
    }
}

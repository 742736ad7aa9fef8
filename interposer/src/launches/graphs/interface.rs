//! The differences between graphs of CUDA and of HIP: how to read nodes and how to repeat their work.

use std::ffi::c_void;

use mneme_abi::cuda::structures::launch_attribute::{
    CLUSTER_DIMENSION as CLUSTER, COOPERATIVE, DEVICE_UPDATABLE_KERNEL_NODE as UPDATABLE,
};
use mneme_abi::cuda::structures::{Fill, HostCall, KernelNode, memory_type};
use mneme_abi::hip::types::{Dimensions, KernelNodeParameters};
use mneme_device::cuda;
use mneme_model::launch::{Dim3, Launch, LaunchAttributes};
use mneme_winners::LaunchDimensions;

use super::nodes::{
    GraphObstacle, MEMCPY, MEMSET, RECORD, STREAM_MEMORY, WAIT, edges_of, nodes_of, parameters, twin_in,
};
use super::{Executable, Graph, GraphNode};
use crate::driver::{self, CUcontext, CUevent, CUfunction, CUstream, Status, hip};
use crate::kernels::handles;
use crate::kernels::kernel::CodeOwner;
use crate::kernels::request::LaunchArguments;
use crate::process::recorded_family;

/// A value of `CUlaunchAttributeValue`, which has 64 bytes; HIP's is smaller.
type AttributeValue = [u32; 16];

/// `CUDA_MEMCPY3D`, which is only passed on, because its memory types may be newer than this code.
pub type OpaqueCopy3d = [u64; 25];

/// The most nodes of a graph of HIP with other nodes than kernels.
const MOST_NODES_OF_PARTS: usize = 2_000;

/// A step of a graph, which calls can repeat.
pub enum GraphStep {
    /// A kernel node. Its parameters stay valid until the node is changed.
    Kernel(GraphNode),
    /// A copy within device memory.
    Copy(Box<OpaqueCopy3d>),
    Set(Fill),
    Host(HostCall),
    Record(CUevent),
    Wait(CUevent),
    /// A graph that contains only this node.
    Part(GraphPart),
    /// A disabled node, or a place where branches meet.
    Nothing,
}

/// The kernel of a node.
pub struct NodeKernel {
    pub function: CUfunction,
    pub launch: Launch,
    /// As the driver's launch functions take them. They live as long as the node, or until its parameters change.
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    /// Null for the current context, and for HIP.
    context: CUcontext,
}

impl NodeKernel {
    pub fn arguments(&self) -> LaunchArguments {
        LaunchArguments::new(self.parameters, self.extra)
    }

    /// The parameters for `cuGraphKernelNodeSetParams_v2`, with another function and shape.
    fn cuda_parameters(&self, function: CUfunction, shape: &LaunchDimensions) -> KernelNode {
        KernelNode {
            function: function as usize,
            grid: shape.grid.as_array(),
            block: shape.block.as_array(),
            shared: shape.shared_mem,
            parameters: self.parameters.cast_const().cast(),
            extra: self.extra.cast_const().cast(),
            kernel: 0,
            context: self.context as usize,
        }
    }

    /// The parameters for `hipGraphKernelNodeSetParams`, with another function and shape.
    fn hip_parameters(&self, function: CUfunction, shape: &LaunchDimensions) -> KernelNodeParameters {
        let dimensions = |of: Dim3| Dimensions { x: of.x, y: of.y, z: of.z };
        KernelNodeParameters {
            block: dimensions(shape.block),
            extra: self.extra,
            function: function.cast(),
            grid: dimensions(shape.grid),
            parameters: self.parameters,
            shared: shape.shared_mem,
        }
    }
}

/// The structure of a vendor with the parameters of a kernel's node.
pub enum KernelParameters {
    Cuda(KernelNode),
    Hip(KernelNodeParameters),
}

impl KernelParameters {
    fn place(&self) -> *const c_void {
        match self {
            Self::Cuda(parameters) => (&raw const *parameters).cast(),
            Self::Hip(parameters) => (&raw const *parameters).cast(),
        }
    }
}

pub trait GraphInterface {
    /// Why graphs cannot be launched node by node.
    fn obstacle(&self) -> Option<GraphObstacle>;

    /// The driver's number (`CUgraphNodeType`) of a kind of node.
    fn kind(&self, number: u32) -> u32;

    /// Reads a kernel's node.
    fn kernel(&self, node: GraphNode) -> Result<NodeKernel, GraphObstacle>;

    /// A kernel's node with these parameters.
    ///
    /// # Safety
    /// The vendor has just accepted them for such a node.
    unsafe fn kernel_with(&self, node: GraphNode, parameters: *const c_void) -> Result<NodeKernel, GraphObstacle>;

    /// Parameters for a node's kernel, with another function and shape.
    fn parameters(&self, kernel: &NodeKernel, function: CUfunction, shape: &LaunchDimensions) -> KernelParameters;

    /// Changes the parameters of a kernel's node in an executable.
    ///
    /// # Safety
    /// They are for this node.
    unsafe fn set_kernel_of(&self, executable: Executable, node: GraphNode, parameters: *const c_void) -> Status;

    /// Replaces the function of a node's kernel in an executable, with the kernel's own arguments.
    ///
    /// # Safety
    /// The kernel is that of the node in this executable, and the function takes the same arguments.
    unsafe fn replace(
        &self,
        executable: Executable,
        node: GraphNode,
        kernel: &NodeKernel,
        function: CUfunction,
        shape: &LaunchDimensions,
    ) -> Status {
        let parameters = self.parameters(kernel, function, shape);
        // SAFETY: the caller's promise.
        unsafe { self.set_kernel_of(executable, node, parameters.place()) }
    }

    /// Changes the parameters of a kernel's node.
    ///
    /// # Safety
    /// The vendor has just accepted them for such a node.
    unsafe fn set_kernel(&self, node: GraphNode, parameters: *const c_void) -> Status;

    /// Replaces the function of a node's kernel in a graph, with the kernel's own arguments.
    ///
    /// # Safety
    /// The kernel is that of the node, and the function takes the same arguments.
    unsafe fn replace_in_graph(
        &self,
        node: GraphNode,
        kernel: &NodeKernel,
        function: CUfunction,
        shape: &LaunchDimensions,
    ) -> Status {
        let parameters = self.parameters(kernel, function, shape);
        // SAFETY: the caller's promise.
        unsafe { self.set_kernel(node, parameters.place()) }
    }

    /// Updates an executable with a graph.
    ///
    /// # Safety
    /// Both are alive.
    unsafe fn update(&self, executable: Executable, graph: Graph) -> Status;

    /// Launches the kernel of a node.
    ///
    /// # Safety
    /// The kernel was read from a live node; the stream is the application's.
    unsafe fn launch(&self, kernel: &NodeKernel, stream: CUstream) -> Status;

    /// The step of a node of a graph that is neither a kernel nor a child.
    fn step(&self, graph: Graph, node: GraphNode, kind: u32) -> Result<GraphStep, GraphObstacle>;
}

/// The kind of a node (`CUgraphNodeType`).
pub fn kind_of(interface: &dyn GraphInterface, node: GraphNode) -> Option<u32> {
    let mut number = u32::MAX;
    // SAFETY: a node of a live graph, and a place for an enumerator.
    let status = unsafe { driver::cuGraphNodeGetType(node, &mut number) };
    (status == Status::SUCCESS).then(|| interface.kind(number))
}

/// The interface of this process.
pub fn interface() -> &'static dyn GraphInterface {
    if recorded_family::is_hip() { &Hip } else { &Cuda }
}

struct Cuda;

impl GraphInterface for Cuda {
    fn obstacle(&self) -> Option<GraphObstacle> {
        None
    }

    fn kind(&self, number: u32) -> u32 {
        number
    }

    fn kernel(&self, node: GraphNode) -> Result<NodeKernel, GraphObstacle> {
        let read: KernelNode = parameters(node, driver::cuGraphKernelNodeGetParams_v2)?;
        // SAFETY: just read.
        unsafe { self.kernel_with(node, (&raw const read).cast()) }
    }

    unsafe fn kernel_with(&self, node: GraphNode, parameters: *const c_void) -> Result<NodeKernel, GraphObstacle> {
        // SAFETY: the caller's promise.
        let read = unsafe { *parameters.cast::<KernelNode>() };
        let mut attributes = LaunchAttributes::default();
        let mut value = AttributeValue::default();
        // SAFETY: a kernel node, and a place for a value.
        unsafe {
            if driver::cuGraphKernelNodeGetAttribute(node, COOPERATIVE, value.as_mut_ptr().cast()) == Status::SUCCESS
                && value[0] != 0
            {
                return Err(GraphObstacle::Cooperative);
            }
            value = AttributeValue::default();
            if driver::cuGraphKernelNodeGetAttribute(node, CLUSTER, value.as_mut_ptr().cast()) == Status::SUCCESS
                && value[0] > 0
            {
                let shape = Dim3::new(value[0], value[1].max(1), value[2].max(1));
                attributes.cluster = Some(shape).filter(|shape| shape.count() > 1);
            }
            value = AttributeValue::default();
            if driver::cuGraphKernelNodeGetAttribute(node, UPDATABLE, value.as_mut_ptr().cast()) == Status::SUCCESS
                && value[0] != 0
            {
                return Err(GraphObstacle::ChangedByKernels);
            }
        }
        Ok(NodeKernel {
            function: if read.function == 0 { read.kernel } else { read.function } as CUfunction,
            launch: Launch { grid: read.grid.into(), block: read.block.into(), shared_mem: read.shared, attributes },
            parameters: read.parameters.cast_mut().cast(),
            extra: read.extra.cast_mut().cast(),
            context: read.context as CUcontext,
        })
    }

    fn parameters(&self, kernel: &NodeKernel, function: CUfunction, shape: &LaunchDimensions) -> KernelParameters {
        KernelParameters::Cuda(kernel.cuda_parameters(function, shape))
    }

    unsafe fn set_kernel_of(&self, executable: Executable, node: GraphNode, parameters: *const c_void) -> Status {
        // SAFETY: the caller's promise.
        unsafe { driver::hooked::cuGraphExecKernelNodeSetParams_v2::call(executable, node, parameters.cast()) }
    }

    unsafe fn update(&self, executable: Executable, graph: Graph) -> Status {
        // `CUgraphExecUpdateResultInfo`: a number and two nodes.
        let mut result = [0u64; 3];
        // SAFETY: the caller's promise; the place is large enough.
        unsafe { driver::hooked::cuGraphExecUpdate_v2::call(executable, graph, result.as_mut_ptr().cast()) }
    }

    unsafe fn set_kernel(&self, node: GraphNode, parameters: *const c_void) -> Status {
        // SAFETY: the caller's promise.
        unsafe { driver::cuGraphKernelNodeSetParams_v2(node, parameters.cast()) }
    }

    unsafe fn launch(&self, kernel: &NodeKernel, stream: CUstream) -> Status {
        let attributes = cuda::attributes(&kernel.launch);
        let configuration = cuda::launch_configuration(&kernel.launch, stream, &attributes);
        let NodeKernel { function, parameters, extra, .. } = *kernel;
        // SAFETY: the caller's promise; the configuration lives until the call returns.
        unsafe { driver::hooked::cuLaunchKernelEx::call(&configuration, function, parameters, extra) }
    }

    fn step(&self, _graph: Graph, node: GraphNode, kind: u32) -> Result<GraphStep, GraphObstacle> {
        Ok(match kind {
            MEMCPY => {
                let copy: Box<OpaqueCopy3d> = Box::new(parameters(node, driver::cuGraphMemcpyNodeGetParams)?);
                if is_within_device(&copy) {
                    GraphStep::Copy(copy)
                } else {
                    GraphStep::Part(GraphPart::of_copy(&copy)?)
                }
            }
            MEMSET => GraphStep::Set(parameters(node, driver::cuGraphMemsetNodeGetParams)?),
            RECORD => GraphStep::Record(event_of(node, driver::cuGraphEventRecordNodeGetEvent)?),
            WAIT => GraphStep::Wait(event_of(node, driver::cuGraphEventWaitNodeGetEvent)?),
            _ => GraphStep::Host(parameters(node, driver::cuGraphHostNodeGetParams)?),
        })
    }
}

/// Whether both ends of a copy are arrays or device memory. A graph reads and writes host memory when the copy runs; a
/// call for a copy of pageable memory may do so earlier, or wait.
fn is_within_device(copy: &OpaqueCopy3d) -> bool {
    // The words of `srcMemoryType` and `dstMemoryType`.
    [copy[4], copy[15]].iter().all(|kind| matches!(*kind as u32, memory_type::DEVICE | memory_type::ARRAY))
}

fn event_of(node: GraphNode, get: unsafe fn(GraphNode, *mut CUevent) -> Status) -> Result<CUevent, GraphObstacle> {
    let mut event = std::ptr::null_mut();
    // SAFETY: the caller passes a node of the function's kind, and a valid place.
    let status = unsafe { get(node, &mut event) };
    if status == Status::SUCCESS { Ok(event) } else { Err(GraphObstacle::Unreadable) }
}

/// HIP reports only the parameters of kernels reliably: for some copies it does not return the right ones, and for a
/// fill of a volume the depth is missing. So the recorder launches every other node as a graph with one node.
struct Hip;

impl GraphInterface for Hip {
    fn obstacle(&self) -> Option<GraphObstacle> {
        (!hip::numbers_nodes_as_the_driver()).then_some(GraphObstacle::OtherNumbers)
    }

    /// `hipGraphNodeType`: copies from and to symbols, and stream memory operations.
    fn kind(&self, number: u32) -> u32 {
        match number {
            12 | 13 => MEMCPY,
            14 => STREAM_MEMORY,
            number => number,
        }
    }

    fn kernel(&self, node: GraphNode) -> Result<NodeKernel, GraphObstacle> {
        let read: KernelNodeParameters = parameters(node, hip::hipGraphKernelNodeGetParams)?;
        // SAFETY: just read.
        unsafe { self.kernel_with(node, (&raw const read).cast()) }
    }

    unsafe fn kernel_with(&self, node: GraphNode, parameters: *const c_void) -> Result<NodeKernel, GraphObstacle> {
        // SAFETY: the caller's promise.
        let read = unsafe { *parameters.cast::<KernelNodeParameters>() };
        let mut value = AttributeValue::default();
        // SAFETY: a kernel node, and a place for a value.
        let status = unsafe { hip::hipGraphKernelNodeGetAttribute(node, COOPERATIVE, value.as_mut_ptr().cast()) };
        if status != Status::SUCCESS {
            return Err(GraphObstacle::PerhapsCooperative);
        }
        if value[0] != 0 {
            return Err(GraphObstacle::Cooperative);
        }
        let function = read.function.cast();
        let is_packed = read.parameters.is_null() && !read.extra.is_null();
        match handles::function(function).map(|function| function.home) {
            Some(CodeOwner::Module(_)) => {}
            Some(CodeOwner::Binary(_)) if !is_packed => {}
            Some(CodeOwner::Binary(_)) => return Err(GraphObstacle::PackedArguments),
            Some(CodeOwner::Library(_)) => return Err(GraphObstacle::LibraryKernels),
            None => return Err(GraphObstacle::UnknownCode),
        }
        let dimensions = |of: Dimensions| Dim3::new(of.x, of.y, of.z);
        Ok(NodeKernel {
            function,
            launch: Launch {
                grid: dimensions(read.grid),
                block: dimensions(read.block),
                shared_mem: read.shared,
                attributes: LaunchAttributes::default(),
            },
            parameters: read.parameters,
            // For a node with both, `extra` is the application's pointer and may be invalid.
            extra: if is_packed { read.extra } else { std::ptr::null_mut() },
            context: std::ptr::null_mut(),
        })
    }

    fn parameters(&self, kernel: &NodeKernel, function: CUfunction, shape: &LaunchDimensions) -> KernelParameters {
        KernelParameters::Hip(kernel.hip_parameters(function, shape))
    }

    unsafe fn set_kernel_of(&self, executable: Executable, node: GraphNode, parameters: *const c_void) -> Status {
        // SAFETY: the caller's promise.
        unsafe { driver::hooked::hipGraphExecKernelNodeSetParams::call(executable, node, parameters.cast()) }
    }

    unsafe fn update(&self, executable: Executable, graph: Graph) -> Status {
        let (mut node, mut result) = (std::ptr::null_mut(), 0);
        // SAFETY: the caller's promise, and valid places.
        unsafe { driver::hooked::hipGraphExecUpdate::call(executable, graph, &mut node, &mut result) }
    }

    unsafe fn set_kernel(&self, node: GraphNode, parameters: *const c_void) -> Status {
        // SAFETY: the caller's promise.
        unsafe { hip::hipGraphKernelNodeSetParams(node, parameters) }
    }

    unsafe fn launch(&self, kernel: &NodeKernel, stream: CUstream) -> Status {
        let NodeKernel { function, launch: Launch { grid, block, shared_mem, .. }, parameters, extra, .. } = *kernel;
        let is_registered =
            handles::function(function).is_some_and(|function| matches!(function.home, CodeOwner::Binary(_)));
        let stream = hip::named(stream);
        if is_registered {
            let dimensions = |of: Dim3| Dimensions { x: of.x, y: of.y, z: of.z };
            let (grid, block) = (dimensions(grid), dimensions(block));
            let host = function.cast();
            // SAFETY: the caller's promise; the address is that of a registered host function.
            return unsafe {
                driver::hooked::hipLaunchKernel::call(host, grid, block, parameters, shared_mem as usize, stream)
            };
        }
        // SAFETY: the caller's promise; the handle is that of a module's function.
        unsafe {
            driver::hooked::hipModuleLaunchKernel::call(
                function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_mem, stream, parameters, extra,
            )
        }
    }

    fn step(&self, graph: Graph, node: GraphNode, _kind: u32) -> Result<GraphStep, GraphObstacle> {
        // Each of these nodes needs a clone of the graph.
        if nodes_of(graph).is_none_or(|nodes| nodes.len() > MOST_NODES_OF_PARTS) {
            return Err(GraphObstacle::TooLarge);
        }
        Ok(GraphStep::Part(GraphPart::of_node(graph, node)?))
    }
}

/// An executable with one node of a graph.
pub struct GraphPart(Executable);

impl GraphPart {
    /// A copy, for CUDA.
    fn of_copy(copy: &OpaqueCopy3d) -> Result<Self, GraphObstacle> {
        let context = driver::current_context().ok_or(GraphObstacle::Contexts)?;
        let (mut graph, mut node) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: valid places; the parameters are those of a node that the driver has accepted.
        unsafe {
            if driver::cuGraphCreate(&mut graph, 0) != Status::SUCCESS {
                return Err(GraphObstacle::Unreadable);
            }
            let copy = std::ptr::from_ref(copy).cast();
            let part =
                match driver::cuGraphAddMemcpyNode(&mut node, graph, std::ptr::null(), 0, copy, context as CUcontext) {
                    Status::SUCCESS => Self::instantiated(graph),
                    _ => None,
                };
            driver::cuGraphDestroy(graph);
            part.ok_or(GraphObstacle::Unreadable)
        }
    }

    /// Any node, for HIP.
    fn of_node(graph: Graph, node: GraphNode) -> Result<Self, GraphObstacle> {
        let mut clone = std::ptr::null_mut();
        // SAFETY: a valid place, and a graph that has just been read.
        if unsafe { driver::cuGraphClone(&mut clone, graph) } != Status::SUCCESS {
            return Err(GraphObstacle::Unreadable);
        }
        let part = Self::of_clone(clone, node);
        // SAFETY: the clone made above, which has no other references: an executable has its own nodes.
        unsafe { driver::cuGraphDestroy(clone) };
        part.ok_or(GraphObstacle::Unreadable)
    }

    fn instantiated(graph: Graph) -> Option<Self> {
        let mut executable = std::ptr::null_mut();
        // SAFETY: a valid place, and a live graph.
        let status = unsafe {
            if recorded_family::is_hip() {
                driver::hooked::hipGraphInstantiateWithFlags::call(&mut executable, graph, 0)
            } else {
                driver::hooked::cuGraphInstantiateWithFlags::call(&mut executable, graph, 0)
            }
        };
        (status == Status::SUCCESS).then_some(Self(executable))
    }

    /// Destroys the other nodes of a clone. Removes their edges first, because versions before 6.3 miscount them.
    fn of_clone(clone: Graph, node: GraphNode) -> Option<Self> {
        let kept = twin_in(clone, node)?;
        let nodes = nodes_of(clone)?;
        let (from, to) = edges_of(clone).ok()?;
        // SAFETY: edges of the clone.
        let status = unsafe { hip::hipGraphRemoveDependencies(clone, from.as_ptr(), to.as_ptr(), from.len()) };
        if status != Status::SUCCESS {
            return None;
        }
        for node in nodes {
            // SAFETY: a node of the clone.
            if node != kept && unsafe { hip::hipGraphDestroyNode(node) } != Status::SUCCESS {
                return None;
            }
        }
        Self::instantiated(clone)
    }

    /// # Safety
    /// The stream is alive.
    pub unsafe fn launch(&self, stream: CUstream) -> Status {
        // SAFETY: an executable of the recorder; the caller's promise.
        unsafe {
            if recorded_family::is_hip() {
                driver::hooked::hipGraphLaunch::call(self.0, hip::named(stream))
            } else {
                driver::hooked::cuGraphLaunch::call(self.0, stream)
            }
        }
    }
}

impl Drop for GraphPart {
    fn drop(&mut self) {
        // SAFETY: an executable of the recorder, which is not launched any more.
        unsafe {
            if recorded_family::is_hip() {
                driver::hooked::hipGraphExecDestroy::call(self.0)
            } else {
                driver::hooked::cuGraphExecDestroy::call(self.0)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_hip_s_nodes_have_the_driver_s_numbers() {
        assert_eq!([0, 1, 5, 11, 12, 13, 14, 15].map(|number| Hip.kind(number)), [0, 1, 5, 11, 1, 1, 12, 15]);
        assert_eq!([0, 12, 13].map(|number| Cuda.kind(number)), [0, 12, 13]);
    }
}

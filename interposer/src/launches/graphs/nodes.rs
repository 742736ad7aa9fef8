//! Nodes of graphs: their kinds, and how to read them.

use mneme_abi::cuda::sys::CUgraphNodeType;

use super::{Graph, GraphNode, branches};
use crate::driver::{self, Status};

pub const KERNEL: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32;
pub const MEMCPY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY as u32;
pub const MEMSET: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET as u32;
pub const HOST: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST as u32;
pub const CHILD: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH as u32;
pub const EMPTY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY as u32;
pub const WAIT: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT as u32;
pub const RECORD: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD as u32;
pub const STREAM_MEMORY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP as u32;

/// Why a graph cannot be launched node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphObstacle {
    #[error("it was made in a way that is not hooked")]
    NotSeen,
    #[error("the program has several contexts")]
    Contexts,
    #[error("the program has captured a launch with its own events, which HIP does not report")]
    CapturedEvents,
    #[error("the driver refuses to clone it")]
    NotCloned,
    #[error("{}", CHANGED)]
    Changed,
    #[error("the driver does not show its nodes")]
    Unreadable,
    #[error("its child graphs are nested too deep")]
    TooDeep,
    #[error("it has more nodes than the recorder copies")]
    TooLarge,
    #[error("it has programmatic edges")]
    ProgrammaticEdges,
    #[error("kernels launch it too")]
    ForDevice,
    #[error("another stream was being captured")]
    Capturing,
    #[error("it was launched as a whole into another stream before")]
    OtherStream,
    #[error("another thread was launching it")]
    Concurrent,
    #[error("the driver refuses streams for its branches")]
    NoStreams,
    #[error("it has more than {} branches", branches::MOST)]
    Branches,
    #[error("calls of other threads did not end in time")]
    Busy,
    #[error("the program ties the lifetime of objects to graphs (cuGraphRetainUserObject)")]
    UserObjects,
    #[error("launching it node by node recorded nothing new")]
    InVain,
    #[error("its nodes were changed after all its kernels had been recorded")]
    ChangedLater,
    #[error("it has nodes for semaphores of other programs")]
    Semaphores,
    #[error("it has nodes that allocate or free memory")]
    Memory,
    #[error("it has nodes for stream memory operations")]
    StreamMemory,
    #[error("it has conditional nodes")]
    Conditional,
    #[error("it has nodes of an unknown kind")]
    UnknownKind,
    #[error("it has a node that kernels may change")]
    ChangedByKernels,
    #[error("HIP before 5.5 gives kinds of nodes other numbers")]
    OtherNumbers,
    #[error("HIP does not report whether its kernels are cooperative")]
    PerhapsCooperative,
    #[error("it has cooperative kernels")]
    Cooperative,
    #[error("it has kernels of the program with packed arguments")]
    PackedArguments,
    #[error("it has kernels of libraries")]
    LibraryKernels,
    #[error("it has kernels of unknown code")]
    UnknownCode,
}

pub const CHANGED: &str = "its nodes were changed after its instantiation";

/// The nodes of a graph, in any order.
pub fn nodes_of(graph: Graph) -> Option<Vec<GraphNode>> {
    let mut count = 0;
    // SAFETY: a live graph; without a place for nodes only their number is written.
    if unsafe { driver::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count) } != Status::SUCCESS {
        return None;
    }
    let mut nodes: Vec<GraphNode> = vec![std::ptr::null_mut(); count];
    // SAFETY: the place has the length that is passed.
    if count > 0 && unsafe { driver::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) } != Status::SUCCESS {
        return None;
    }
    nodes.truncate(count);
    Some(nodes)
}

/// `CUDA_ERROR_LOSSY_QUERY`: the graph has edges with data, which this function does not return.
const LOSSY_QUERY: Status = Status(402);

/// The edges of a graph: the nodes from which, and to which, they lead.
pub fn edges_of(graph: Graph) -> Result<(Vec<GraphNode>, Vec<GraphNode>), GraphObstacle> {
    let read = |from, to, count: &mut usize| {
        // SAFETY: a live graph, and no places, or as many as the number says.
        match unsafe { driver::cuGraphGetEdges(graph, from, to, count) } {
            Status::SUCCESS => Ok(()),
            LOSSY_QUERY => Err(GraphObstacle::ProgrammaticEdges),
            _ => Err(GraphObstacle::Unreadable),
        }
    };
    let mut count = 0;
    read(std::ptr::null_mut(), std::ptr::null_mut(), &mut count)?;
    let (mut from, mut to) = (vec![std::ptr::null_mut(); count], vec![std::ptr::null_mut(); count]);
    if count > 0 {
        read(from.as_mut_ptr(), to.as_mut_ptr(), &mut count)?;
    }
    Ok((from, to))
}

/// The clone of a node in the clone of its graph.
pub fn twin_in(clone: Graph, node: GraphNode) -> Option<GraphNode> {
    let mut twin = std::ptr::null_mut();
    // SAFETY: a valid place, a node of the original, and its clone.
    let status = unsafe { driver::cuGraphNodeFindInClone(&mut twin, node, clone) };
    (status == Status::SUCCESS).then_some(twin)
}

/// The graph of a child node, which owns it.
pub fn child_of(node: GraphNode) -> Option<Graph> {
    let mut child = std::ptr::null_mut();
    // SAFETY: a child node, and a place for its graph.
    let status = unsafe { driver::cuGraphChildGraphNodeGetGraph(node, &mut child) };
    (status == Status::SUCCESS).then_some(child)
}

/// Reads a node's parameters.
pub fn parameters<T, P>(node: GraphNode, get: unsafe fn(GraphNode, *mut P) -> Status) -> Result<T, GraphObstacle> {
    // SAFETY: each is a structure of numbers and pointers, for which all zeros are valid.
    let mut parameters: T = unsafe { std::mem::zeroed() };
    // SAFETY: the caller passes a node of the function's kind, and the place has its type.
    if unsafe { get(node, (&raw mut parameters).cast()) } == Status::SUCCESS {
        Ok(parameters)
    } else {
        Err(GraphObstacle::Unreadable)
    }
}

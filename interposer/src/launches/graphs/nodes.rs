//! Nodes of graphs: their kinds, and how to read them.

use mneme_abi::cuda::sys::CUgraphNodeType;

use super::{Graph, GraphNode};
use crate::driver::{self, Status};

pub const KERNEL: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32;
pub const MEMCPY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY as u32;
pub const MEMSET: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET as u32;
pub const HOST: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST as u32;
pub const CHILD: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH as u32;
pub const EMPTY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY as u32;
pub const STREAM_MEMORY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP as u32;

pub const UNREADABLE: &str = "the driver does not show its nodes";

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

/// The edges of a graph: the nodes from which, and to which, they lead.
pub fn edges_of(graph: Graph) -> Option<(Vec<GraphNode>, Vec<GraphNode>)> {
    let mut count = 0;
    // SAFETY: a live graph; without places for edges only their number is written.
    let status = unsafe { driver::cuGraphGetEdges(graph, std::ptr::null_mut(), std::ptr::null_mut(), &mut count) };
    if status != Status::SUCCESS {
        return None;
    }
    let (mut from, mut to) = (vec![std::ptr::null_mut(); count], vec![std::ptr::null_mut(); count]);
    // SAFETY: the places have the length that is passed.
    let read = count == 0
        || unsafe { driver::cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &mut count) } == Status::SUCCESS;
    read.then_some((from, to))
}

/// The graph of a child node, which owns it.
pub fn child_of(node: GraphNode) -> Option<Graph> {
    let mut child = std::ptr::null_mut();
    // SAFETY: a child node, and a place for its graph.
    let status = unsafe { driver::cuGraphChildGraphNodeGetGraph(node, &mut child) };
    (status == Status::SUCCESS).then_some(child)
}

/// Reads a node's parameters.
pub fn parameters<T, P>(node: GraphNode, get: unsafe fn(GraphNode, *mut P) -> Status) -> Result<T, &'static str> {
    // SAFETY: each is a structure of numbers and pointers, for which all zeros are valid.
    let mut parameters: T = unsafe { std::mem::zeroed() };
    // SAFETY: the caller passes a node of the function's kind, and the place has its type.
    if unsafe { get(node, (&raw mut parameters).cast()) } == Status::SUCCESS { Ok(parameters) } else { Err(UNREADABLE) }
}

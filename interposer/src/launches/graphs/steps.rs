//! The steps of a graph: its nodes in an order to launch them one by one, or why there is none.

use std::collections::HashMap;
use std::hash::Hash;

use cudarc::driver::sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUgraphNodeType, CUlaunchAttributeID,
};
use mneme_core::launch::{Dim3, LaunchAttributes};

use super::{Graph, GraphNode};
use crate::driver::{self, Status};

/// Child graphs within child graphs: deeper than any program builds, and an end to damage.
const DEEPEST: usize = 16;

const KERNEL: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32;
const MEMCPY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY as u32;
const MEMSET: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET as u32;
const HOST: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST as u32;
const CHILD: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH as u32;
const EMPTY: u32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY as u32;
const COOPERATIVE: u32 = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as u32;
const CLUSTER: u32 = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as u32;

/// `CUDA_MEMCPY3D`, which is only passed on: its kinds of memory are enumerators that may be newer than we are.
pub type OpaqueCopy3d = [u64; 25];

/// One node, as a call has its effect.
pub enum Step {
    Kernel { parameters: CUDA_KERNEL_NODE_PARAMS, attributes: LaunchAttributes },
    Copy(Box<OpaqueCopy3d>),
    Set(CUDA_MEMSET_NODE_PARAMS),
    Host(CUDA_HOST_NODE_PARAMS),
}

pub type Steps = Result<Vec<Step>, &'static str>;

const UNREADABLE: &str = "the driver does not show its nodes";

/// The nodes of a graph, each after those that it depends on.
fn ordered(graph: Graph) -> Option<Vec<GraphNode>> {
    let (mut count, mut edges) = (0, 0);
    // SAFETY: the clone is alive; without a place for nodes only their number is written.
    unsafe {
        if driver::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count) != Status::SUCCESS
            || driver::cuGraphGetEdges(graph, std::ptr::null_mut(), std::ptr::null_mut(), &mut edges) != Status::SUCCESS
        {
            return None;
        }
    }
    let null = std::ptr::null_mut();
    let (mut nodes, mut from, mut to): (Vec<GraphNode>, Vec<GraphNode>, Vec<GraphNode>) =
        (vec![null; count], vec![null; edges], vec![null; edges]);
    // SAFETY: the places have the lengths that are passed.
    let read = unsafe {
        driver::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) == Status::SUCCESS
            && (edges == 0
                || driver::cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &mut edges) == Status::SUCCESS)
    };
    read.then(|| topological(&nodes, &from, &to)).flatten()
}

/// Orders nodes so that every edge leads forward; `None` for a cycle.
fn topological<T: Copy + Eq + Hash>(nodes: &[T], from: &[T], to: &[T]) -> Option<Vec<T>> {
    let mut missing: HashMap<T, usize> = nodes.iter().map(|node| (*node, 0)).collect();
    let mut after: HashMap<T, Vec<T>> = HashMap::new();
    for (before, node) in from.iter().zip(to) {
        *missing.get_mut(node)? += 1;
        after.entry(*before).or_default().push(*node);
    }
    let mut ordered: Vec<T> = nodes.iter().copied().filter(|node| missing[node] == 0).collect();
    let mut next = 0;
    while let Some(done) = ordered.get(next) {
        next += 1;
        for node in after.remove(done).unwrap_or_default() {
            let missing = missing.get_mut(&node)?;
            *missing -= 1;
            if *missing == 0 {
                ordered.push(node);
            }
        }
    }
    (ordered.len() == nodes.len()).then_some(ordered)
}

pub fn steps(graph: Graph, depth: usize, found: &mut Vec<Step>) -> Result<(), &'static str> {
    if depth > DEEPEST {
        return Err("its child graphs are nested too deep");
    }
    for node in ordered(graph).ok_or(UNREADABLE)? {
        let mut kind = u32::MAX;
        // SAFETY: a node of the clone, and a place for an enumerator.
        if unsafe { driver::cuGraphNodeGetType(node, &mut kind) } != Status::SUCCESS {
            return Err(UNREADABLE);
        }
        match kind {
            KERNEL => found.push(kernel(node)?),
            MEMCPY => found.push(Step::Copy(Box::new(read(node, driver::cuGraphMemcpyNodeGetParams)?))),
            MEMSET => found.push(Step::Set(read(node, driver::cuGraphMemsetNodeGetParams)?)),
            HOST => found.push(Step::Host(read(node, driver::cuGraphHostNodeGetParams)?)),
            CHILD => {
                let mut child = std::ptr::null_mut();
                // SAFETY: a child node, and a place for its graph, which the node owns.
                if unsafe { driver::cuGraphChildGraphNodeGetGraph(node, &mut child) } != Status::SUCCESS {
                    return Err(UNREADABLE);
                }
                steps(child, depth + 1, found)?;
            }
            EMPTY => {}
            _ => return Err(obstacle(kind).unwrap_or(UNREADABLE)),
        }
    }
    Ok(())
}

/// Why no single call has the effect of a node of this kind (`CUgraphNodeType`), if so.
fn obstacle(kind: u32) -> Option<&'static str> {
    match kind {
        KERNEL | MEMCPY | MEMSET | HOST | CHILD | EMPTY => None,
        6 | 7 => Some("it has nodes that wait for or record events"),
        8 | 9 => Some("it has nodes for semaphores of other programs"),
        10 | 11 => Some("it has nodes that allocate or free memory"),
        12 => Some("it has nodes for stream memory operations"),
        13 => Some("it has conditional nodes"),
        _ => Some("it has nodes of an unknown kind"),
    }
}

/// The first node of a graph that is in the way of launching it node by node.
pub fn obstacle_in(graph: Graph, depth: usize) -> Option<&'static str> {
    let mut count = 0;
    // SAFETY: the application's graph, which the driver has just read; without a place for nodes only their number is
    // written.
    if unsafe { driver::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count) } != Status::SUCCESS {
        return Some(UNREADABLE);
    }
    let mut nodes: Vec<GraphNode> = vec![std::ptr::null_mut(); count];
    // SAFETY: the place has the length that is passed.
    if count > 0 && unsafe { driver::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) } != Status::SUCCESS {
        return Some(UNREADABLE);
    }
    nodes.into_iter().take(count).find_map(|node| {
        let mut kind = u32::MAX;
        // SAFETY: a node of the graph, and a place for an enumerator.
        if unsafe { driver::cuGraphNodeGetType(node, &mut kind) } != Status::SUCCESS {
            return Some(UNREADABLE);
        }
        if kind != CHILD || depth >= DEEPEST {
            return obstacle(kind);
        }
        let mut child = std::ptr::null_mut();
        // SAFETY: a child node, and a place for its graph, which the node owns.
        let status = unsafe { driver::cuGraphChildGraphNodeGetGraph(node, &mut child) };
        if status == Status::SUCCESS { obstacle_in(child, depth + 1) } else { Some(UNREADABLE) }
    })
}

/// Reads a node's parameters.
fn read<T>(node: GraphNode, get: unsafe fn(GraphNode, *mut T) -> Status) -> Result<T, &'static str> {
    // SAFETY: each is a structure of numbers and pointers, for which all zero is a value.
    let mut parameters: T = unsafe { std::mem::zeroed() };
    // SAFETY: the node is of the kind that the function is for (the caller's match), and the place is of its type.
    if unsafe { get(node, &mut parameters) } == Status::SUCCESS { Ok(parameters) } else { Err(UNREADABLE) }
}

fn kernel(node: GraphNode) -> Result<Step, &'static str> {
    let parameters = read(node, driver::cuGraphKernelNodeGetParams_v2)?;
    let mut attributes = LaunchAttributes::default();
    let mut value = [0u32; 16];
    // SAFETY: a kernel node; a value is 64 bytes.
    unsafe {
        if driver::cuGraphKernelNodeGetAttribute(node, COOPERATIVE, value.as_mut_ptr().cast()) == Status::SUCCESS {
            attributes.cooperative = value[0] != 0;
        }
        value = [0; 16];
        if driver::cuGraphKernelNodeGetAttribute(node, CLUSTER, value.as_mut_ptr().cast()) == Status::SUCCESS
            && value[0] > 0
        {
            let shape = Dim3::new(value[0], value[1].max(1), value[2].max(1));
            attributes.cluster = Some(shape).filter(|shape| shape.count() > 1);
        }
    }
    Ok(Step::Kernel { parameters, attributes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_edge_leads_forward(nodes in 1usize..20, edges in proptest::collection::vec((0usize..20, 0usize..20), 0..40)) {
            // Edges from a smaller to a larger number make no cycle; the list is reversed so that the order has to be
            // found.
            let edges: Vec<_> = edges.into_iter().filter(|(from, to)| from < to && *to < nodes).collect();
            let (from, to): (Vec<_>, Vec<_>) = edges.iter().copied().unzip();
            let reversed: Vec<_> = (0..nodes).rev().collect();
            let order = topological(&reversed, &from, &to).unwrap();
            prop_assert_eq!(order.len(), nodes);
            let place = |node| order.iter().position(|other| *other == node).unwrap();
            prop_assert!(edges.iter().all(|(from, to)| place(*from) < place(*to)));
        }
    }

    #[test]
    fn a_long_chain_is_ordered_at_once() {
        let nodes: Vec<u32> = (0..20_000).rev().collect();
        let (from, to): (Vec<u32>, Vec<u32>) = (0..19_999).map(|node| (node, node + 1)).unzip();
        assert!(topological(&nodes, &from, &to).unwrap().is_sorted());
    }

    #[test]
    fn a_cycle_has_no_order() {
        assert_eq!(topological(&[1, 2], &[1, 2], &[2, 1]), None);
    }
}

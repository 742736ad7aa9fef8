//! The steps of a graph: its nodes in an order in which they can be launched one by one.

use std::collections::HashMap;
use std::hash::Hash;

use super::interface::{GraphInterface, GraphStep};
use super::nodes::{
    CHILD, EMPTY, GraphObstacle, HOST, KERNEL, MEMCPY, MEMSET, STREAM_MEMORY, child_of, edges_of, nodes_of,
};
use super::{Graph, GraphNode};
use crate::driver::{self, Status};

/// The limit of nesting of child graphs: deeper than real programs build, and an end for corrupt ones.
pub const DEEPEST: usize = 16;

/// The nodes of a graph, each after those that it depends on.
fn ordered(graph: Graph) -> Option<Vec<GraphNode>> {
    let (from, to) = edges_of(graph)?;
    topological(&nodes_of(graph)?, &from, &to)
}

/// Orders nodes so every edge leads forward. `None` for a cycle.
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

/// The kind of a node (`CUgraphNodeType`).
pub fn kind_of(interface: &dyn GraphInterface, node: GraphNode) -> Option<u32> {
    let mut number = u32::MAX;
    // SAFETY: a node of a live graph, and a place for an enumerator.
    let status = unsafe { driver::cuGraphNodeGetType(node, &mut number) };
    (status == Status::SUCCESS).then(|| interface.kind(number))
}

pub fn steps(
    interface: &dyn GraphInterface,
    graph: Graph,
    depth: usize,
    found: &mut Vec<GraphStep>,
) -> Result<(), GraphObstacle> {
    if depth > DEEPEST {
        return Err(GraphObstacle::TooDeep);
    }
    let mut others = Vec::new();
    for node in ordered(graph).ok_or(GraphObstacle::Unreadable)? {
        let kind = kind_of(interface, node).ok_or(GraphObstacle::Unreadable)?;
        if matches!(kind, KERNEL | CHILD) {
            found.extend(interface.steps(graph, &std::mem::take(&mut others))?);
        }
        match kind {
            KERNEL => {
                interface.kernel(node)?;
                found.push(GraphStep::Kernel(node));
            }
            MEMCPY | MEMSET | HOST => others.push((node, kind)),
            CHILD => steps(interface, child_of(node).ok_or(GraphObstacle::Unreadable)?, depth + 1, found)?,
            EMPTY => {}
            _ => return Err(obstacle(kind).unwrap_or(GraphObstacle::Unreadable)),
        }
    }
    found.extend(interface.steps(graph, &others)?);
    Ok(())
}

/// Why one call cannot repeat a node of this kind (`CUgraphNodeType`).
fn obstacle(kind: u32) -> Option<GraphObstacle> {
    match kind {
        KERNEL | MEMCPY | MEMSET | HOST | CHILD | EMPTY => None,
        6 | 7 => Some(GraphObstacle::Events),
        8 | 9 => Some(GraphObstacle::Semaphores),
        10 | 11 => Some(GraphObstacle::Memory),
        STREAM_MEMORY => Some(GraphObstacle::StreamMemory),
        13 => Some(GraphObstacle::Conditional),
        _ => Some(GraphObstacle::UnknownKind),
    }
}

/// Why a graph cannot be launched node by node: the first node that prevents it.
pub fn obstacle_in(interface: &dyn GraphInterface, graph: Graph, depth: usize) -> Option<GraphObstacle> {
    let Some(nodes) = nodes_of(graph) else { return Some(GraphObstacle::Unreadable) };
    nodes.into_iter().find_map(|node| {
        let Some(kind) = kind_of(interface, node) else { return Some(GraphObstacle::Unreadable) };
        if kind != CHILD || depth >= DEEPEST {
            return obstacle(kind);
        }
        child_of(node).map_or(Some(GraphObstacle::Unreadable), |child| obstacle_in(interface, child, depth + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_edge_leads_forward(
            nodes in 1usize..20,
            edges in proptest::collection::vec((0usize..20, 0usize..20), 0..40),
        ) {
            // Edges from smaller to larger numbers form no cycle. The list is reversed, so the order has to be found.
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

//! The steps of a graph: its nodes in an order in which they can be launched one by one.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::ControlFlow;

use super::cloned::{ClonedGraph, Differences};
use super::interface::{GraphInterface, GraphStep, interface, kind_of};
use super::nodes::{
    CHILD, EMPTY, GraphObstacle, HOST, KERNEL, MEMCPY, MEMSET, RECORD, STREAM_MEMORY, WAIT, child_of, edges_of,
    nodes_of,
};
use super::{Graph, GraphNode};

/// The limit of nesting of child graphs: deeper than real programs build, and an end for corrupt ones.
const DEEPEST: usize = 16;

/// The most nodes of a graph that is copied, which limits what its instantiation costs.
const MOST_NODES: usize = 20_000;

/// A step, and the earlier steps that it depends on.
pub struct Step {
    pub work: GraphStep,
    pub after: Vec<usize>,
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

/// Finds the steps of a clone, each after those that it depends on.
pub fn steps(interface: &dyn GraphInterface, clone: &ClonedGraph) -> Result<Vec<Step>, GraphObstacle> {
    let mut found = Vec::new();
    add_steps(interface, clone.graph, &clone.differences, 0, &[], &mut found)?;
    Ok(found)
}

/// Adds the steps of a graph that begins after some steps. Returns the steps at its end.
fn add_steps(
    interface: &dyn GraphInterface,
    graph: Graph,
    differences: &Differences,
    depth: usize,
    before: &[usize],
    found: &mut Vec<Step>,
) -> Result<Vec<usize>, GraphObstacle> {
    if depth > DEEPEST {
        return Err(GraphObstacle::TooDeep);
    }
    let (from, to) = edges_of(graph)?;
    let nodes = nodes_of(graph).ok_or(GraphObstacle::Unreadable)?;
    let ordered = topological(&nodes, &from, &to).ok_or(GraphObstacle::Unreadable)?;
    let mut after: HashMap<GraphNode, Vec<usize>> = HashMap::new();
    let mut followers: HashMap<GraphNode, Vec<GraphNode>> = HashMap::new();
    from.into_iter().zip(to).for_each(|(from, to)| followers.entry(from).or_default().push(to));
    let mut ends = Vec::new();
    for node in ordered {
        let kind = kind_of(interface, node).ok_or(GraphObstacle::Unreadable)?;
        let after_these = after.remove(&node).unwrap_or_else(|| before.to_vec());
        let work = match kind {
            _ if differences.disabled.contains(&(node as usize)) => GraphStep::Nothing,
            KERNEL => {
                interface.kernel(node)?;
                GraphStep::Kernel(node)
            }
            MEMCPY | MEMSET | HOST | RECORD | WAIT => interface.step(graph, node, kind)?,
            CHILD | EMPTY => GraphStep::Nothing,
            _ => return Err(obstacle(kind).unwrap_or(GraphObstacle::Unreadable)),
        };
        found.push(Step { work, after: after_these });
        if kind == CHILD {
            let begin = [found.len() - 1];
            let last = match differences.children.get(&(node as usize)) {
                Some(child) => add_steps(interface, child.graph, &child.differences, depth + 1, &begin, found)?,
                None => {
                    let child = child_of(node).ok_or(GraphObstacle::Unreadable)?;
                    add_steps(interface, child, differences, depth + 1, &begin, found)?
                }
            };
            found.push(Step { work: GraphStep::Nothing, after: last });
        }
        let step = found.len() - 1;
        match followers.remove(&node) {
            Some(followers) => followers.into_iter().for_each(|node| after.entry(node).or_default().push(step)),
            None => ends.push(step),
        }
    }
    Ok(if ends.is_empty() { before.to_vec() } else { ends })
}

/// Why one call cannot repeat a node of this kind (`CUgraphNodeType`).
fn obstacle(kind: u32) -> Option<GraphObstacle> {
    match kind {
        KERNEL | MEMCPY | MEMSET | HOST | CHILD | EMPTY | RECORD | WAIT => None,
        8 | 9 => Some(GraphObstacle::Semaphores),
        10 | 11 => Some(GraphObstacle::Memory),
        STREAM_MEMORY => Some(GraphObstacle::StreamMemory),
        13 => Some(GraphObstacle::Conditional),
        _ => Some(GraphObstacle::UnknownKind),
    }
}

/// Why a graph cannot be launched node by node: the first node that prevents it, or their number.
pub fn obstacle_in(interface: &dyn GraphInterface, graph: Graph) -> Option<GraphObstacle> {
    let mut count = 0;
    obstacle_below(interface, graph, 0, &mut count)
}

fn obstacle_below(
    interface: &dyn GraphInterface,
    graph: Graph,
    depth: usize,
    count: &mut usize,
) -> Option<GraphObstacle> {
    let Some(nodes) = nodes_of(graph) else { return Some(GraphObstacle::Unreadable) };
    *count += nodes.len();
    if *count > MOST_NODES {
        return Some(GraphObstacle::TooLarge);
    }
    nodes.into_iter().find_map(|node| {
        let Some(kind) = kind_of(interface, node) else { return Some(GraphObstacle::Unreadable) };
        if kind != CHILD || depth >= DEEPEST {
            return obstacle(kind);
        }
        child_of(node)
            .map_or(Some(GraphObstacle::Unreadable), |child| obstacle_below(interface, child, depth + 1, count))
    })
}

/// Calls `see` for every kernel node of a graph and its children, until it breaks off, with the node of the outermost
/// graph that contains it.
pub fn visit(graph: Graph, see: &mut dyn FnMut(GraphNode, GraphNode) -> ControlFlow<()>) -> ControlFlow<()> {
    visit_below(graph, 0, None, see)
}

fn visit_below(
    graph: Graph,
    depth: usize,
    within: Option<GraphNode>,
    see: &mut dyn FnMut(GraphNode, GraphNode) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for node in nodes_of(graph).unwrap_or_default() {
        let outermost = within.unwrap_or(node);
        match kind_of(interface(), node) {
            Some(KERNEL) => see(node, outermost)?,
            Some(CHILD) if depth < DEEPEST => {
                if let Some(child) = child_of(node) {
                    visit_below(child, depth + 1, Some(outermost), see)?;
                }
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
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

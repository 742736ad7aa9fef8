//! Clones of graphs, kept because an executable graph cannot be read back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::interface::{interface, kind_of};
use super::nodes::{CHILD, KERNEL, child_of, edges_of, nodes_of, twin_in};
use super::{Graph, GraphNode};
use crate::driver::{self, Status};

/// The changes of an executable that its clone cannot hold, by nodes of the clone.
#[derive(Default)]
pub struct Differences {
    pub disabled: BTreeSet<usize>,
    /// Clones of the graphs that have replaced those of child nodes.
    pub children: BTreeMap<usize, ClonedGraph>,
}

/// A clone of a graph, with the state of an executable.
pub struct ClonedGraph {
    pub graph: Graph,
    pub differences: Differences,
    /// For the clone of a graph with which the executable was updated: the nodes of the graph of its instantiation, by
    /// which the application names nodes, and their clones.
    renamed: Option<HashMap<GraphNode, GraphNode>>,
}

// SAFETY: handles and parameters, which every thread may use.
unsafe impl Send for ClonedGraph {}

impl ClonedGraph {
    /// Clones a graph. `None` if the driver refuses.
    pub fn of(graph: Graph) -> Option<Self> {
        let mut copy = std::ptr::null_mut();
        // SAFETY: a valid place, and a graph that has just been read.
        let status = unsafe { driver::cuGraphClone(&mut copy, graph) };
        (status == Status::SUCCESS).then(|| Self { graph: copy, differences: Differences::default(), renamed: None })
    }

    /// Clones a graph with which an executable was updated. `names` are the nodes of the graph of its instantiation,
    /// and `old` is the clone until now.
    pub fn of_update(graph: Graph, names: &[GraphNode], old: Option<&Self>) -> Option<Self> {
        let mut clone = Self::of(graph)?;
        let pairs = old.and_then(|old| old.paired(names, graph)).unwrap_or_default();
        let twins = pairs.into_iter().filter_map(|(name, node)| Some((name, twin_in(clone.graph, node)?)));
        clone.renamed = Some(twins.collect());
        Some(clone)
    }

    /// Pairs the names of nodes with the nodes of a graph, in the order of their creation, as the driver does in an
    /// update. `None` unless kinds, functions and edges agree.
    fn paired(&self, names: &[GraphNode], graph: Graph) -> Option<Vec<(GraphNode, GraphNode)>> {
        let nodes = nodes_of(graph).filter(|nodes| nodes.len() == names.len())?;
        let twins: Vec<GraphNode> = names.iter().map(|name| self.twin(*name)).collect::<Option<_>>()?;
        let agree = twins.iter().zip(&nodes).all(|(old, new)| {
            let kinds = [*old, *new].map(|node| kind_of(interface(), node));
            let functions = || [*old, *new].map(|node| interface().kernel(node).ok().map(|kernel| kernel.function));
            kinds[0] == kinds[1] && (kinds[0] != Some(KERNEL) || functions()[0] == functions()[1])
        });
        let edges = |graph: Graph, nodes: &[GraphNode]| {
            let places: HashMap<GraphNode, usize> =
                nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect();
            let (from, to) = edges_of(graph).ok()?;
            let mut edges: Vec<_> = from.iter().zip(&to).map(|(from, to)| (places.get(from), places.get(to))).collect();
            edges.sort_unstable();
            Some(edges.into_iter().map(|(from, to)| (from.copied(), to.copied())).collect::<Vec<_>>())
        };
        let is_same = agree && edges(self.graph, &twins)? == edges(graph, &nodes)?;
        is_same.then(|| names.iter().copied().zip(nodes).collect())
    }

    /// The clone of a node, which may be inside a child graph.
    pub fn twin(&self, node: GraphNode) -> Option<GraphNode> {
        match &self.renamed {
            Some(renamed) => renamed.get(&node).copied(),
            None => twin_in(self.graph, node).or_else(|| twin_in_children(self.graph, node)),
        }
    }
}

fn twin_in_children(graph: Graph, node: GraphNode) -> Option<GraphNode> {
    let nodes = nodes_of(graph).unwrap_or_default().into_iter();
    let mut children = nodes.filter(|node| kind_of(interface(), *node) == Some(CHILD)).filter_map(child_of);
    children.find_map(|child| twin_in(child, node).or_else(|| twin_in_children(child, node)))
}

impl Drop for ClonedGraph {
    fn drop(&mut self) {
        // SAFETY: the recorder's clone, which has no other references.
        unsafe { driver::cuGraphDestroy(self.graph) };
    }
}

//! Clones of graphs, kept because an executable graph cannot be read back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::interface::{interface, kind_of};
use super::nodes::{CHILD, KERNEL, child_of, nodes_of, twin_in};
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

    /// Pairs the names of nodes with the nodes of a graph by their kinds and functions. The driver pairs them by their
    /// edges, so `None` if two nodes have the same kind and function, or some have no counterpart.
    fn paired(&self, names: &[GraphNode], graph: Graph) -> Option<Vec<(GraphNode, GraphNode)>> {
        let described = |node: GraphNode| {
            let kind = kind_of(interface(), node)?;
            let is_kernel = kind == KERNEL;
            let function = is_kernel.then(|| interface().kernel(node).ok().map(|kernel| kernel.function));
            Some((kind, function))
        };
        let nodes = nodes_of(graph).filter(|nodes| nodes.len() == names.len())?;
        let mut by_kind = HashMap::new();
        for node in nodes {
            if by_kind.insert(described(node)?, node).is_some() {
                return None;
            }
        }
        let counterpart = |name: &GraphNode| Some((*name, by_kind.remove(&described(self.twin(*name)?)?)?));
        names.iter().map(counterpart).collect()
    }

    /// The clone of a node, which may be inside a child graph unless one was replaced.
    pub fn twin(&self, node: GraphNode) -> Option<GraphNode> {
        match &self.renamed {
            Some(renamed) => renamed.get(&node).copied(),
            None => twin_in(self.graph, node).or_else(|| {
                let inside = || twin_in_children(self.graph, node);
                if self.differences.children.is_empty() { inside() } else { None }
            }),
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

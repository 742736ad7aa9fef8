//! Puts tuned code into the kernel nodes of executable graphs, under `MNEME_MODE=apply`.
//!
//! An executable gets the code right after the application has made or changed it. The application's graph is
//! unchanged.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cloned::ClonedGraph;
use super::interface::{NodeKernel, interface};
use super::nodes::{CHANGED, GraphObstacle};
use super::steps::visit;
use super::{Executable, Graph, GraphNode};
use crate::apply::GraphKernel;
use crate::driver::{CUstream, STREAM_LEGACY, Status, captures, contexts};
use crate::kernels::request::{Extras, LaunchRequest};

const SEVERAL_CONTEXTS: &str = "in a graph of a program with several contexts";
const FOR_DEVICE: &str = "in a graph that kernels launch";
const REFUSED: &str = "the driver refuses its tuned code in a graph";

/// A kernel node whose kernel has winners.
struct Node {
    /// The node of the outermost graph that it is, or is inside.
    outermost: usize,
    kernel: GraphKernel,
}

#[derive(Default)]
struct Known {
    /// Kernels launch it too.
    is_for_device: bool,
    /// By handle.
    nodes: BTreeMap<usize, Node>,
}

static EXECUTABLES: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());

fn executables() -> MutexGuard<'static, BTreeMap<usize, Known>> {
    EXECUTABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts tuned code into an executable that was made from a graph.
pub fn made(executable: Executable, graph: Graph, is_for_device: bool) {
    let nodes = replace(graph, is_for_device, &mut |node, kernel, tuned| {
        let Some((function, shape)) = tuned.tuned() else { return };
        // SAFETY: the node's kernel, and code with its parameters.
        if unsafe { interface().replace(executable, node, kernel, function, &shape) } != Status::SUCCESS {
            tuned.keep(REFUSED);
        }
    });
    executables().insert(executable as usize, Known { is_for_device, nodes });
}

/// Puts tuned code into an executable that was updated with a graph. Uses another update, with a clone, because an
/// executable does not know the nodes of a graph that it was not made from.
pub fn updated(executable: Executable, graph: Graph) {
    let is_for_device = executables().get(&(executable as usize)).is_some_and(|known| known.is_for_device);
    let mut clone: Option<Option<ClonedGraph>> = None;
    let mut nodes = replace(graph, is_for_device, &mut |node, kernel, tuned| {
        let Some((function, shape)) = tuned.tuned() else { return };
        let clone = clone.get_or_insert_with(|| ClonedGraph::of(graph));
        let twin = clone.as_ref().and_then(|clone| clone.twin(node));
        // SAFETY: the node's kernel, and code with its parameters.
        let is_set = twin.is_some_and(|twin| unsafe {
            interface().replace_in_graph(twin, kernel, function, &shape) == Status::SUCCESS
        });
        if !is_set {
            tuned.keep(REFUSED);
        }
    });
    // SAFETY: a clone of the graph with which the driver has just updated the executable.
    let is_taken =
        clone.flatten().is_some_and(|clone| unsafe { interface().update(executable, clone.graph) == Status::SUCCESS });
    if !is_taken {
        nodes.values_mut().filter(|node| node.kernel.tuned().is_some()).for_each(|node| node.kernel.keep(REFUSED));
    }
    executables().insert(executable as usize, Known { is_for_device, nodes });
}

/// Chooses code for the kernels of a graph, and calls `put` for each.
fn replace(
    graph: Graph,
    is_for_device: bool,
    put: &mut dyn FnMut(GraphNode, &NodeKernel, &mut GraphKernel),
) -> BTreeMap<usize, Node> {
    let mut found = BTreeMap::new();
    let mut add = |node, outermost| {
        let kernel = interface().kernel(node).ok()?;
        let mut tuned = choose(&kernel, is_for_device)?;
        put(node, &kernel, &mut tuned);
        found.insert(node as usize, Node { outermost: outermost as usize, kernel: tuned })
    };
    let _all = visit(graph, &mut |node, outermost| {
        add(node, outermost);
        ControlFlow::Continue(())
    });
    found
}

/// Chooses code for a kernel. `None` if it is not tuned.
fn choose(kernel: &NodeKernel, is_for_device: bool) -> Option<GraphKernel> {
    let (function, launch, arguments) = (kernel.function, kernel.launch, kernel.arguments());
    let request = LaunchRequest { function, launch, stream: STREAM_LEGACY, arguments, extras: Extras::None };
    let mut chosen = GraphKernel::choose(&request)?;
    if chosen.tuned().is_some() {
        if is_for_device {
            chosen.keep(FOR_DEVICE);
        } else if contexts::count() > 1 {
            chosen.keep(SEVERAL_CONTEXTS);
        }
    }
    Some(chosen)
}

/// Handles new parameters of a kernel's node in an executable.
pub fn set(executable: Executable, node: GraphNode, kernel: Result<NodeKernel, GraphObstacle>) {
    let (outermost, is_for_device) = {
        let mut executables = executables();
        let Some(known) = executables.get_mut(&(executable as usize)) else { return };
        match known.nodes.get(&(node as usize)) {
            Some(node) => (node.outermost, known.is_for_device),
            // The node may belong to the graph of the instantiation, if the executable was updated with another one
            // since.
            None => return known.nodes.values_mut().for_each(|node| node.kernel.keep(CHANGED)),
        }
    };
    let chosen = kernel.ok().and_then(|kernel| {
        let mut chosen = choose(&kernel, is_for_device)?;
        if let Some((function, shape)) = chosen.tuned()
            // SAFETY: the node's kernel, and code with its parameters.
            && unsafe { interface().replace(executable, node, &kernel, function, &shape) } != Status::SUCCESS
        {
            chosen.keep(REFUSED);
        }
        Some(chosen)
    });
    if let Some(known) = executables().get_mut(&(executable as usize)) {
        match chosen {
            Some(kernel) => known.nodes.insert(node as usize, Node { outermost, kernel }),
            None => known.nodes.remove(&(node as usize)),
        };
    }
}

/// Notes that the application has changed a node of an executable in an unsupported way.
pub fn note_change(executable: Executable, node: GraphNode) {
    let mut executables = executables();
    let nodes = executables.get_mut(&(executable as usize)).into_iter().flat_map(|known| known.nodes.iter_mut());
    for (_, known) in nodes.filter(|(handle, known)| **handle == node as usize || known.outermost == node as usize) {
        known.kernel.keep(CHANGED);
    }
}

/// Counts the kernels of a graph that was launched.
pub fn count(executable: Executable, stream: CUstream) {
    if captures::in_progress() && captures::captures(stream) {
        return;
    }
    let kernels: Vec<GraphKernel> = executables()
        .get(&(executable as usize))
        .map(|known| known.nodes.values().map(|node| node.kernel.clone()).collect())
        .unwrap_or_default();
    kernels.iter().for_each(GraphKernel::count);
}

pub fn forget(executable: Executable) {
    executables().remove(&(executable as usize));
}

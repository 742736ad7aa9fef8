//! Graphs: launched node by node under `MNEME_GRAPHS=expand`, and with tuned kernels by `mneme apply`.
//!
//! Launched node by node, their kernels can be recorded. An executable graph cannot be read back, so a clone of its
//! graph is kept from its instantiation on. Changes of the executable are repeated on the clone, or they end its
//! expansion. A graph with a node that cannot be repeated by one call (memory allocations, conditions, semaphores, …)
//! is launched as a whole, and the summary gives the reason.

mod interface;
mod nodes;
mod replaced;
mod steps;

use std::collections::BTreeMap;
use std::ffi::{c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_model::summary::RecorderMode;

use crate::driver::{self, CUevent, CUstream, Status, captures, contexts, gate};
use crate::kernels::request::{Extras, LaunchRequest};
use crate::process::recorded_family;
use crate::process::settings::settings;
use crate::recorder::{self, graph_launches};
use interface::{GraphStep, NodeKernel, interface};
use nodes::GraphObstacle;
use steps::{obstacle_in, steps};

/// `CUgraph`, `CUgraphNode`, `CUgraphExec`
pub type Graph = *mut c_void;
pub type GraphNode = *mut c_void;
pub type Executable = *mut c_void;

/// A clone of a graph, and its steps.
struct ClonedGraph {
    graph: Graph,
    steps: Vec<GraphStep>,
}

// SAFETY: handles and parameters, which every thread may use.
unsafe impl Send for ClonedGraph {}
// SAFETY: as above.
unsafe impl Sync for ClonedGraph {}

impl ClonedGraph {
    /// Clones a graph, without steps. `None` if the driver refuses.
    fn of(graph: Graph) -> Option<Self> {
        let mut copy = std::ptr::null_mut();
        // SAFETY: a valid place, and a graph that has just been read.
        let status = unsafe { driver::cuGraphClone(&mut copy, graph) };
        (status == Status::SUCCESS).then(|| Self { graph: copy, steps: Vec::new() })
    }

    /// The clone of a node.
    fn twin(&self, node: GraphNode) -> Option<GraphNode> {
        let mut twin = std::ptr::null_mut();
        // SAFETY: a valid place, a node of the original, and its clone.
        let status = unsafe { driver::cuGraphNodeFindInClone(&mut twin, node, self.graph) };
        (status == Status::SUCCESS).then_some(twin)
    }
}

impl Drop for ClonedGraph {
    fn drop(&mut self) {
        // SAFETY: the recorder's clone, which has no other references.
        unsafe { driver::cuGraphDestroy(self.graph) };
    }
}

/// A clone, or the reason why the graph was not cloned.
type Followed = Result<Arc<ClonedGraph>, GraphObstacle>;

#[derive(Default)]
struct Graphs {
    /// The clone for each executable graph (`CUgraphExec`).
    clones: BTreeMap<usize, Followed>,
}

static GRAPHS: Mutex<Graphs> = Mutex::new(Graphs { clones: BTreeMap::new() });

fn graphs() -> MutexGuard<'static, Graphs> {
    GRAPHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clone for an executable graph, and its kernels in the order of its steps.
fn expansion(executable: Executable) -> Result<(Arc<ClonedGraph>, Vec<NodeKernel>), GraphObstacle> {
    let clone = graphs().clones.get(&(executable as usize)).cloned().unwrap_or(Err(GraphObstacle::NotSeen))?;
    if contexts::count() > 1 {
        return Err(GraphObstacle::Contexts);
    }
    let kernel =
        |step: &GraphStep| if let GraphStep::Kernel(node) = step { Some(interface().kernel(*node)) } else { None };
    let kernels = clone.steps.iter().filter_map(kernel).collect::<Result<_, _>>()?;
    Ok((clone, kernels))
}

/// Launches a graph on a stream, or on `default`.
pub fn launch(call: &dyn Fn() -> Status, executable: Executable, stream: CUstream, default: usize) -> Status {
    let stream_handle = if stream.is_null() { default } else { stream as usize };
    let whole = |reason: &str| {
        graph_launches::count_whole(reason);
        gate::passing(call)
    };
    if replaces_nodes() {
        let status = gate::passing(call);
        if status == Status::SUCCESS {
            replaced::count(executable, stream);
        }
        return status;
    }
    if !settings().expand_graphs {
        return whole(graph_launches::on_request());
    }
    if captures::captures(stream) {
        return gate::passing(call);
    }
    match expansion(executable) {
        Ok((clone, kernels)) => {
            graph_launches::count_expanded();
            let mut kernels = kernels.into_iter();
            clone
                .steps
                .iter()
                .map(|step| perform(step, &mut kernels, stream_handle))
                .find(|status| *status != Status::SUCCESS)
                .unwrap_or(Status::SUCCESS)
        }
        Err(obstacle) => whole(&obstacle.to_string()),
    }
}

/// Performs a step. If the step is a kernel, takes the next of `kernels`.
fn perform(step: &GraphStep, kernels: &mut impl Iterator<Item = NodeKernel>, handle: usize) -> Status {
    let stream = handle as CUstream;
    match step {
        GraphStep::Kernel(_) => kernels.next().map_or(Status::SUCCESS, |kernel| launch_kernel(&kernel, handle)),
        GraphStep::Copy(copy) => {
            // SAFETY: the parameters are those of a node that the driver has accepted; the stream is the application's.
            gate::passing(&|| unsafe { driver::hooked::cuMemcpy3DAsync_v2::call((&raw const **copy).cast(), stream) })
        }
        GraphStep::Set(set) => gate::passing(&|| {
            let (pitch, rows) =
                if set.height > 1 { (set.pitch, set.height) } else { (set.width * set.element as usize, 1) };
            // SAFETY: as above.
            unsafe {
                match set.element {
                    1 => {
                        driver::hooked::cuMemsetD2D8Async::call(set.to, pitch, set.value as u8, set.width, rows, stream)
                    }
                    2 => driver::hooked::cuMemsetD2D16Async::call(
                        set.to, pitch, set.value as u16, set.width, rows, stream,
                    ),
                    _ => driver::hooked::cuMemsetD2D32Async::call(set.to, pitch, set.value, set.width, rows, stream),
                }
            }
        }),
        GraphStep::Host(host) => {
            let function = host.function.map_or(std::ptr::null_mut(), |function| function as *mut c_void);
            // SAFETY: as above.
            gate::passing(&|| unsafe { driver::hooked::cuLaunchHostFunc::call(stream, function, host.data) })
        }
        // SAFETY: as above.
        GraphStep::Part(part) => gate::passing(&|| unsafe { part.launch(stream) }),
    }
}

fn launch_kernel(kernel: &NodeKernel, stream: usize) -> Status {
    // SAFETY: the clone's node is alive; the stream is the application's.
    let call = || unsafe { interface().launch(kernel, stream as CUstream) };
    let (function, launch, arguments) = (kernel.function, kernel.launch, kernel.arguments());
    recorder::launch(&call, LaunchRequest { function, launch, stream, arguments, extras: Extras::None })
}

/// Replaces the clone for an executable graph.
fn keep(executable: Executable, clone: Option<Followed>) {
    let mut graphs = graphs();
    let old = match clone {
        Some(clone) => graphs.clones.insert(executable as usize, clone),
        None => graphs.clones.remove(&(executable as usize)),
    };
    drop(graphs);
    // Dropped without the lock, because dropping calls the vendor.
    drop(old);
}

/// Whether the kernels of graphs are replaced in their nodes.
fn replaces_nodes() -> bool {
    settings().mode == RecorderMode::Apply && !settings().expand_graphs
}

/// Clones a graph for an executable that was made from it or updated with it.
fn follow(executable: Executable, graph: Graph) {
    if !settings().expand_graphs {
        return;
    }
    keep(executable, Some(cloned(graph).map(Arc::new)));
}

/// Clones a graph if it can be launched node by node. The check comes first, because no driver clones a graph with
/// memory nodes.
fn cloned(graph: Graph) -> Result<ClonedGraph, GraphObstacle> {
    if EVENTS.load(Ordering::Relaxed) {
        return Err(GraphObstacle::CapturedEvents);
    }
    let interface = interface();
    if let Some(obstacle) = interface.obstacle().or_else(|| obstacle_in(interface, graph, 0)) {
        return Err(obstacle);
    }
    let mut clone = ClonedGraph::of(graph).ok_or(GraphObstacle::NotCloned)?;
    steps(interface, clone.graph, 0, &mut clone.steps)?;
    Ok(clone)
}

/// Whether a HIP launch with its own events was captured. Its node contains them, but HIP does not report them.
static EVENTS: AtomicBool = AtomicBool::new(false);

/// Notes the events of a HIP launch.
pub fn note_events(stream: CUstream, events: [CUevent; 2]) {
    if events.iter().any(|event| !event.is_null()) && captures::captures(stream) {
        EVENTS.store(true, Ordering::Relaxed);
    }
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`; HIP's has the same value. Kernels too launch such a graph, in the state
/// of its upload.
const FOR_DEVICE: c_ulonglong = 4;

/// # Safety
/// The arguments are those of `cuGraphInstantiateWithFlags`.
pub unsafe fn instantiate(
    call: &dyn Fn() -> Status,
    executable: *mut Executable,
    graph: Graph,
    flags: c_ulonglong,
) -> Status {
    call().on_success(|| {
        // SAFETY: the vendor has just written it.
        let executable = unsafe { *executable };
        if replaces_nodes() {
            replaced::made(executable, graph, flags & FOR_DEVICE != 0);
        } else {
            follow(executable, graph);
        }
    })
}

/// # Safety
/// The arguments are those of `cuGraphInstantiateWithParams`.
pub unsafe fn instantiate_with_parameters(
    call: &dyn Fn() -> Status,
    executable: *mut Executable,
    graph: Graph,
    parameters: *mut c_void,
) -> Status {
    // `CUDA_GRAPH_INSTANTIATE_PARAMS` begins with its flags, `hipGraphInstantiateParams` with a place for a node.
    let at = usize::from(recorded_family::is_hip());
    let flags = parameters.cast_const().cast::<c_ulonglong>();
    // SAFETY: null, or the structure; the first two arguments mean the same.
    unsafe { instantiate(call, executable, graph, if flags.is_null() { 0 } else { *flags.add(at) }) }
}

/// Handles `cuGraphExecUpdate_v2`.
pub fn update(call: &dyn Fn() -> Status, executable: Executable, graph: Graph) -> Status {
    call().on_success(|| {
        if replaces_nodes() {
            replaced::updated(executable, graph);
        } else {
            follow(executable, graph);
        }
    })
}

/// # Safety
/// The arguments are those of `cuGraphExecKernelNodeSetParams_v2`.
pub unsafe fn set_kernel<P>(
    call: &dyn Fn() -> Status,
    executable: Executable,
    node: GraphNode,
    parameters: *const P,
) -> Status {
    let status = call();
    if status == Status::SUCCESS && replaces_nodes() {
        // SAFETY: the driver has just accepted them for this node.
        let kernel = unsafe { interface().kernel_with(node, parameters.cast()) };
        replaced::set(executable, node, kernel);
        return status;
    }
    let clone = graphs().clones.get(&(executable as usize)).cloned();
    if status == Status::SUCCESS
        && let Some(Ok(clone)) = clone
    {
        let set = clone.twin(node).is_some_and(|twin| {
            // SAFETY: the driver has just accepted the same parameters for the same node of the original.
            unsafe { interface().set_kernel(twin, parameters.cast()) == Status::SUCCESS }
        });
        if !set {
            keep(executable, Some(Err(GraphObstacle::Changed)));
        }
    }
    status
}

/// Notes that a node of an executable was changed in a way that cannot be repeated.
pub fn change(call: &dyn Fn() -> Status, executable: Executable, node: GraphNode) -> Status {
    let status = call();
    if status == Status::SUCCESS && replaces_nodes() {
        replaced::note_change(executable, node);
    }
    if status == Status::SUCCESS && graphs().clones.contains_key(&(executable as usize)) {
        keep(executable, Some(Err(GraphObstacle::Changed)));
    }
    status
}

/// Handles `cuGraphExecDestroy`.
pub fn destroy(call: &dyn Fn() -> Status, executable: Executable) -> Status {
    // Before the call: afterwards another thread may already have got the same handle.
    replaced::forget(executable);
    call().on_success(|| {
        keep(executable, None);
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::c_uint;

    use super::*;

    /// A driver with a few graphs: 1 is a kernel and a child, 2, which allocates memory; 3 is a kernel alone; 4 is
    /// empty.
    #[test]
    fn a_graph_that_cannot_be_launched_node_by_node_is_not_cloned_and_says_why() {
        unsafe extern "C" fn nodes(graph: Graph, out: *mut GraphNode, count: *mut usize) -> Status {
            let found: &[usize] = match graph as usize {
                1 => &[0x100, 0x104],
                2 => &[0x100, 0x10a],
                3 => &[0x100],
                _ => &[],
            };
            // SAFETY: the caller passes a place for a number, and one for that many nodes.
            unsafe {
                if !out.is_null() {
                    found
                        .iter()
                        .take(*count)
                        .enumerate()
                        .for_each(|(index, node)| *out.add(index) = *node as GraphNode);
                }
                *count = found.len();
            }
            Status::SUCCESS
        }
        unsafe extern "C" fn kind(node: GraphNode, out: *mut c_uint) -> Status {
            // SAFETY: the caller passes a place.
            unsafe { *out = node as u32 & 0xff };
            Status::SUCCESS
        }
        unsafe extern "C" fn child(_node: GraphNode, out: *mut Graph) -> Status {
            // SAFETY: the caller passes a place.
            unsafe { *out = 2 as Graph };
            Status::SUCCESS
        }
        unsafe extern "C" fn clone(out: *mut Graph, graph: Graph) -> Status {
            assert!(matches!(graph as usize, 3 | 4), "the driver refuses such a clone");
            // SAFETY: the caller passes a place.
            unsafe { *out = 0x99 as Graph };
            Status::SUCCESS
        }
        unsafe extern "C" fn edges(_: Graph, _: *mut GraphNode, _: *mut GraphNode, count: *mut usize) -> Status {
            // SAFETY: the caller passes a place.
            unsafe { *count = 0 };
            Status::SUCCESS
        }
        driver::own::cuGraphGetNodes::SLOT.learn(nodes as *mut c_void);
        driver::own::cuGraphNodeGetType::SLOT.learn(kind as *mut c_void);
        driver::own::cuGraphChildGraphNodeGetGraph::SLOT.learn(child as *mut c_void);
        driver::own::cuGraphGetEdges::SLOT.learn(edges as *mut c_void);
        driver::own::cuGraphClone::SLOT.learn(clone as *mut c_void);
        let memory = Err(GraphObstacle::Memory);
        assert_eq!(
            [1, 2, 3, 4].map(|graph| cloned(graph as Graph).map(|clone| clone.graph as usize)),
            [memory, memory, Ok(0x99), Ok(0x99)]
        );
    }
}

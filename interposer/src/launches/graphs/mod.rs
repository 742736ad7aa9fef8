//! Graphs: launched node by node while a kernel lacks an instance, or with tuned kernels.
//!
//! Launched node by node, their kernels can be recorded. An executable graph cannot be read back, so a clone of its
//! graph is kept from its instantiation on (`cloned`), and `changes` of the executable are repeated on the clone.
//! The nodes become `steps` in the streams of some `branches`, which an `expansion` performs by calls. A graph
//! with a node that cannot be repeated by one call (memory allocations, conditions, semaphores, …) is launched as a
//! whole, and the summary gives the reason.
//!
//! When no kernel lacks an instance any more, the graph is launched as a whole too (`followed`), which costs one
//! look-up of the executable.

mod branches;
pub mod changes;
mod cloned;
mod expansion;
mod followed;
mod interface;
mod nodes;
mod replaced;
mod steps;

use std::collections::BTreeMap;
use std::ffi::{c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_model::summary::RecorderMode;

use crate::driver::{CUevent, CUstream, Status, captures, gate};
use crate::process::recorded_family;
use crate::process::settings::{GraphExpansion, settings};
use crate::recorder::graph_launches;
use followed::Followed;
use nodes::GraphObstacle;

/// `CUgraph`, `CUgraphNode`, `CUgraphExec`
pub type Graph = *mut c_void;
pub type GraphNode = *mut c_void;
pub type Executable = *mut c_void;

/// The executables that are followed, by handle.
static FOLLOWED: Mutex<BTreeMap<usize, Arc<Followed>>> = Mutex::new(BTreeMap::new());

fn all_followed() -> MutexGuard<'static, BTreeMap<usize, Arc<Followed>>> {
    FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn followed(executable: Executable) -> Option<Arc<Followed>> {
    all_followed().get(&(executable as usize)).cloned()
}

/// Launches a graph on a stream, or on `default`.
pub fn launch(call: &dyn Fn() -> Status, executable: Executable, stream: CUstream, default: usize) -> Status {
    if replaces_nodes() {
        return gate::passing(call).on_success(|| replaced::count(executable, stream));
    }
    let whole = |reason: &str| {
        graph_launches::count_whole(reason);
        gate::passing(call)
    };
    if captures::in_progress() && captures::captures(stream) {
        return gate::passing(call);
    }
    if settings().graphs == GraphExpansion::Never {
        return whole(graph_launches::on_request());
    }
    let Some(followed) = followed(executable) else { return whole(&GraphObstacle::NotSeen.to_string()) };
    let stream = if stream.is_null() { std::ptr::without_provenance_mut(default) } else { stream };
    if followed.is_complete() {
        graph_launches::count_complete();
        return followed.launch_whole(call, stream);
    }
    followed.launch(call, stream)
}

/// Whether the kernels of graphs are replaced in their nodes.
fn replaces_nodes() -> bool {
    settings().mode == RecorderMode::Apply && settings().graphs != GraphExpansion::Always
}

/// Why no graph that is instantiated now can be launched node by node.
fn obstacle(is_for_device: bool) -> Option<GraphObstacle> {
    let obstacles = [
        (is_for_device, GraphObstacle::ForDevice),
        (EVENTS.load(Ordering::Relaxed), GraphObstacle::CapturedEvents),
        (USER_OBJECTS.load(Ordering::Relaxed), GraphObstacle::UserObjects),
    ];
    obstacles.into_iter().find(|(applies, _)| *applies).map(|(_, obstacle)| obstacle)
}

/// Whether a HIP launch with its own events was captured. Its node contains them, but HIP does not report them.
static EVENTS: AtomicBool = AtomicBool::new(false);

/// Notes the events of a HIP launch.
pub fn note_events(stream: CUstream, events: [CUevent; 2]) {
    if events.iter().any(|event| !event.is_null()) && captures::captures(stream) {
        EVENTS.store(true, Ordering::Relaxed);
    }
}

/// Whether the program has tied a user object to a graph. The driver releases it when the graph, its executables and
/// their launches have ended, and knows nothing of launches node by node.
static USER_OBJECTS: AtomicBool = AtomicBool::new(false);

/// Handles `cuGraphRetainUserObject`.
pub fn retain_user_object(call: &dyn Fn() -> Status) -> Status {
    USER_OBJECTS.store(true, Ordering::Relaxed);
    call()
}

/// Forgets the executables of contexts that have ended, with which the driver has destroyed the recorder's events and
/// executables.
pub fn forget_contexts(has_ended: impl Fn(usize) -> bool) {
    let mut followed = all_followed();
    let ended: Vec<usize> = followed
        .iter()
        .filter(|(_, followed)| has_ended(followed.context))
        .map(|(executable, _)| *executable)
        .collect();
    for executable in ended {
        std::mem::forget(followed.remove(&executable));
        replaced::forget(executable as Executable);
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
        } else if settings().graphs != GraphExpansion::Never {
            let new = Arc::new(Followed::new(graph, obstacle(flags & FOR_DEVICE != 0)));
            let old = all_followed().insert(executable as usize, new);
            // Dropped without the lock, because dropping calls the vendor.
            drop(old);
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
        } else if let Some(followed) = followed(executable) {
            followed.update(graph, obstacle(false));
        }
    })
}

/// Handles `cuGraphExecDestroy`.
pub fn destroy(call: &dyn Fn() -> Status, executable: Executable) -> Status {
    // Before the call: afterwards another thread may already have got the same handle.
    replaced::forget(executable);
    let followed = all_followed().remove(&(executable as usize));
    let status = call();
    if status != Status::SUCCESS {
        all_followed().extend(followed.map(|followed| (executable as usize, followed)));
    }
    status
}

#[cfg(test)]
mod tests {
    use std::ffi::c_uint;

    use super::cloned::ClonedGraph;
    use super::followed::source;
    use super::*;
    use crate::driver;

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
        driver::own::cuGraphGetNodes::SLOT.learn(nodes as *mut c_void);
        driver::own::cuGraphNodeGetType::SLOT.learn(kind as *mut c_void);
        driver::own::cuGraphChildGraphNodeGetGraph::SLOT.learn(child as *mut c_void);
        driver::own::cuGraphClone::SLOT.learn(clone as *mut c_void);
        let memory = Err(GraphObstacle::Memory);
        assert_eq!(
            [1, 2, 3, 4].map(|graph| source(graph as Graph, false, ClonedGraph::of).map(|clone| clone.graph as usize)),
            [memory, memory, Ok(0x99), Ok(0x99)]
        );
    }
}

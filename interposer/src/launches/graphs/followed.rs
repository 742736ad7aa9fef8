//! An executable graph that the recorder follows: its clone, its steps, and the order of its launches.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::branches::{self, Branches};
use super::cloned::ClonedGraph;
use super::expansion::{self, new_event, perform, request};
use super::interface::{GraphStep, NodeKernel, interface};
use super::nodes::{GraphObstacle, nodes_of};
use super::steps::{Step, obstacle_in, steps, visit};
use super::{Graph, GraphNode};
use crate::driver::{
    self, CUevent, CUstream, STREAM_LEGACY, STREAM_PER_THREAD, Status, captures, contexts, gate, idle,
};
use crate::driver::{streams, waiting};
use crate::process::flags::FLAGS;
use crate::process::settings::{GraphExpansion, settings};
use crate::recorder::{self, graph_launches};

/// After this many expanded launches in a row with which no recording came about, the graph is launched as a whole.
/// Its kernels may always find the device busy, for example.
const MOST_IN_VAIN: u32 = 16;

/// The clone of a graph, or the reason why the recorder keeps no clone.
type Source = Result<ClonedGraph, GraphObstacle>;

pub struct Followed {
    pub context: usize,
    /// Every kernel has its instances, so the graph is launched as a whole, until it changes.
    is_complete: AtomicBool,
    /// A thread has held the state for too long, so changes may be missing in the clone.
    is_lost: AtomicBool,
    /// The stream of the last launch as a whole ([`identity`]), or 0.
    last_whole: AtomicUsize,
    /// Held by a thread that launches or changes the executable. It is held across vendor calls, so a thread that waits
    /// for it does so for a limited time.
    state: Mutex<State>,
}

struct State {
    source: Source,
    /// The nodes of the graph of the instantiation.
    names: Vec<GraphNode>,
    steps: Option<(Vec<Step>, Branches)>,
    /// The end of the last expanded launch, which the next launch waits for.
    last: Option<End>,
    /// An update has left no kernel without its instances, and the last launch may not have ended.
    is_nearly_complete: bool,
    in_vain: u32,
}

// SAFETY: handles, and parameters that live as long as the clone; any thread may use them.
unsafe impl Send for State {}

/// An event behind a launch.
struct End {
    context: usize,
    event: CUevent,
}

impl Drop for End {
    fn drop(&mut self) {
        idle::destroy(self.context, self.event);
    }
}

/// A number for a stream. The handle of the threads' own default streams is the same for all threads, so these have
/// numbers from the end of the address space.
fn identity(stream: CUstream) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(usize::MAX);
    thread_local! {
        static OWN: usize = NEXT.fetch_sub(1, Ordering::Relaxed);
    }
    if stream.addr() == STREAM_PER_THREAD { OWN.with(|own| *own) } else { stream.addr() }
}

impl Followed {
    /// Follows an executable that was made from a graph in the current context.
    pub fn new(graph: Graph, obstacle: Option<GraphObstacle>) -> Self {
        let is_complete = obstacle.is_none() && lacks_nothing(graph);
        let context = driver::current_context().unwrap_or(0);
        let source = match obstacle {
            Some(obstacle) => Err(obstacle),
            None => source(graph, is_complete, ClonedGraph::of),
        };
        let names = nodes_of(graph).unwrap_or_default();
        Self {
            context,
            is_complete: AtomicBool::new(is_complete),
            is_lost: AtomicBool::new(false),
            last_whole: AtomicUsize::new(0),
            state: Mutex::new(State { source, names, steps: None, last: None, is_nearly_complete: false, in_vain: 0 }),
        }
    }

    /// Whether no launch of it is recorded. Takes no lock.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Takes the state. A thread that has left its call by a jump never returns it, so only the first of the threads
    /// that wait in vain waits for long.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let limit = if self.is_lost.load(Ordering::Relaxed) { Duration::ZERO } else { settings().kernel_limit };
        let state = waiting::until(Instant::now() + limit, || match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        if state.is_none() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        state
    }

    /// Launches it as a whole.
    pub fn launch_whole(&self, call: &dyn Fn() -> Status, stream: CUstream) -> Status {
        self.last_whole.store(identity(stream), Ordering::Relaxed);
        gate::passing(call)
    }

    /// Launches it on a stream, node by node if a kernel lacks an instance.
    pub fn launch(&self, call: &dyn Fn() -> Status, stream: CUstream) -> Status {
        let whole = |obstacle: GraphObstacle| {
            graph_launches::count_whole(&obstacle.to_string());
            self.launch_whole(call, stream)
        };
        let Some(mut state) = self.state() else { return whole(GraphObstacle::Concurrent) };
        if let Some(last) = &state.last {
            expansion::wait(stream, last.event);
        }
        if state.is_nearly_complete {
            return self.launch_complete(&mut state, call, stream);
        }
        let last_whole = self.last_whole.load(Ordering::Relaxed);
        let is_elsewhere = last_whole != 0 && last_whole != identity(stream);
        let obstacle = [
            (contexts::count() > 1, GraphObstacle::Contexts),
            (self.is_lost.load(Ordering::Relaxed), GraphObstacle::Concurrent),
            (captures::in_progress(), GraphObstacle::Capturing),
            // No event marks the end of that launch.
            (is_elsewhere, GraphObstacle::OtherStream),
        ];
        let obstacle = obstacle.into_iter().find(|(applies, _)| *applies).map(|(_, obstacle)| obstacle);
        let kernels = match obstacle.map_or_else(|| state.kernels(), Err) {
            Ok(kernels) => kernels,
            Err(obstacle) => {
                state.last = None;
                return whole(obstacle);
            }
        };
        let expands_always = settings().graphs == GraphExpansion::Always;
        if !expands_always && !kernels.iter().any(|kernel| recorder::lacks(&request(kernel, stream))) {
            return self.launch_complete(&mut state, call, stream);
        }
        let recorded = recorder::recorded();
        let context = streams::context_of(stream.addr()).or_else(driver::current_context);
        let Some((steps, branches)) = &state.steps else { return whole(GraphObstacle::Unreadable) };
        let performed = context.and_then(|context| {
            contexts::within(context, || {
                perform(steps, branches, &kernels, stream).map(|status| (status, end(context, stream)))
            })
        });
        let (status, last) = match performed.unwrap_or(Err(GraphObstacle::NoStreams)) {
            Ok(performed) => performed,
            Err(obstacle) => {
                state.last = None;
                if obstacle == GraphObstacle::Busy {
                    state.source = Err(obstacle);
                }
                return whole(obstacle);
            }
        };
        graph_launches::count_expanded();
        self.last_whole.store(0, Ordering::Relaxed);
        state.last = last;
        let is_in_vain = recorder::recorded() == recorded && !FLAGS.leaves_out.load(Ordering::Relaxed);
        state.in_vain = if is_in_vain { state.in_vain + 1 } else { 0 };
        if !expands_always && state.in_vain >= MOST_IN_VAIN {
            state.steps = None;
            state.source = Err(GraphObstacle::InVain);
        }
        status
    }

    /// Launches it as a whole from now on, until it changes.
    fn launch_complete(&self, state: &mut State, call: &dyn Fn() -> Status, stream: CUstream) -> Status {
        (state.last, state.steps, state.is_nearly_complete) = (None, None, false);
        self.is_complete.store(true, Ordering::Release);
        graph_launches::count_complete();
        self.launch_whole(call, stream)
    }

    /// Follows an update with a graph.
    pub fn update(&self, graph: Graph, obstacle: Option<GraphObstacle>) {
        let Some(mut state) = self.state() else { return };
        state.steps = None;
        // The driver's documentation does not say whether an update enables nodes again.
        let is_unclear = state.source.as_ref().is_ok_and(|clone| !clone.differences.disabled.is_empty());
        let obstacle = obstacle.or(is_unclear.then_some(GraphObstacle::Changed));
        let is_complete = obstacle.is_none() && lacks_nothing(graph);
        let new = match obstacle {
            Some(obstacle) => Err(obstacle),
            None => {
                let old = state.source.as_ref().ok();
                source(graph, is_complete, |graph| ClonedGraph::of_update(graph, &state.names, old))
            }
        };
        state.source = new;
        state.is_nearly_complete = is_complete && state.last.is_some();
        self.is_complete.store(is_complete && state.last.is_none(), Ordering::Release);
    }

    /// Repeats a change of a node on its clone. `brings` is whether the node lacks an instance now.
    pub fn change(&self, node: GraphNode, brings: bool, repeat: &dyn Fn(&mut ClonedGraph, GraphNode) -> bool) {
        let Some(mut state) = self.state() else { return };
        state.steps = None;
        if let Ok(clone) = &mut state.source
            && !clone.twin(node).is_some_and(|twin| repeat(clone, twin))
        {
            state.source = Err(GraphObstacle::Changed);
        }
        if brings {
            state.is_nearly_complete = false;
            self.is_complete.store(false, Ordering::Release);
        }
    }
}

impl State {
    /// The kernels of the steps, in their order. An obstacle stays until the graph is updated.
    fn kernels(&mut self) -> Result<Vec<NodeKernel>, GraphObstacle> {
        self.find_kernels().inspect_err(|obstacle| {
            self.steps = None;
            self.source = Err(*obstacle);
        })
    }

    /// Finds the steps if they have changed, and reads their kernels.
    fn find_kernels(&mut self) -> Result<Vec<NodeKernel>, GraphObstacle> {
        let clone = self.source.as_ref().map_err(|obstacle| *obstacle)?;
        if self.steps.is_none() {
            let steps = steps(interface(), clone)?;
            let branches = Branches::of(steps.iter().map(|step| &step.after[..]));
            if branches.ends.len() > branches::MOST {
                return Err(GraphObstacle::Branches);
            }
            self.steps = Some((steps, branches));
        }
        let kernel = |step: &Step| match step.work {
            GraphStep::Kernel(node) => Some(interface().kernel(node)),
            _ => None,
        };
        self.steps.iter().flat_map(|(steps, _)| steps).filter_map(kernel).collect()
    }
}

/// Clones a graph if it can be launched node by node and may have to be. The check comes first, because no driver
/// clones a graph with memory nodes.
pub fn source(graph: Graph, is_complete: bool, clone: impl FnOnce(Graph) -> Option<ClonedGraph>) -> Source {
    let interface = interface();
    if let Some(obstacle) = interface.obstacle().or_else(|| obstacle_in(interface, graph)) {
        return Err(obstacle);
    }
    if is_complete {
        return Err(GraphObstacle::ChangedLater);
    }
    clone(graph).ok_or(GraphObstacle::NotCloned)
}

/// Whether all kernels of a graph have their instances, so its clone would not be used.
fn lacks_nothing(graph: Graph) -> bool {
    if settings().graphs == GraphExpansion::Always || !FLAGS.records.load(Ordering::Acquire) {
        return false;
    }
    let lacks = |node| {
        interface()
            .kernel(node)
            .map_or(true, |kernel| recorder::lacks(&request(&kernel, std::ptr::without_provenance_mut(STREAM_LEGACY))))
    };
    visit(graph, &mut |node, _| if lacks(node) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        .is_continue()
}

/// Marks the end of a launch.
fn end(context: usize, stream: CUstream) -> Option<End> {
    let event = new_event()?;
    let end = End { context, event };
    (expansion::record(event, stream) == Status::SUCCESS).then_some(end)
}

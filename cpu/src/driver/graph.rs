//! Graphs: work that stream capture or single calls put into nodes.
//!
//! An [executable](super::executable) of the graph runs the work.
//!
//! A node can only depend on existing nodes, so the order of creation is an order in which the nodes can be executed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::types::STREAM_LEGACY;

use super::work::Work;
use super::{context, stream};
use crate::abi::{In, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

pub struct Node {
    work: Mutex<Work>,
    /// Handles of the nodes that it depends on.
    after: Mutex<Vec<usize>>,
    /// Pointers to the arguments, as returned by the last query.
    pub pointers: Mutex<Vec<usize>>,
}

impl Node {
    /// The nodes that it depends on and that still exist.
    fn after(&self) -> Vec<usize> {
        let after = self.after.lock().unwrap_or_else(PoisonError::into_inner);
        after.iter().copied().filter(|before| NODES.get(*before).is_ok()).collect()
    }

    pub fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Graph {
    nodes: Mutex<Vec<usize>>,
    /// In a clone: the node for each node of the original.
    twins: BTreeMap<usize, usize>,
}

impl Graph {
    /// The nodes that still exist.
    fn nodes(&self) -> Vec<usize> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.iter().copied().filter(|node| NODES.get(*node).is_ok()).collect()
    }

    fn add(&self, work: Work, after: Vec<usize>) -> usize {
        let node = NODES.insert(Arc::new(Node {
            work: Mutex::new(work),
            after: Mutex::new(after),
            pointers: Mutex::default(),
        }));
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node);
        node
    }
}

static GRAPHS: Registry<Graph> = Registry::new("a graph");
static NODES: Registry<Node> = Registry::answering();

/// A stream under capture.
#[derive(Clone)]
struct Capture {
    graph: usize,
    /// The nodes that the next one depends on.
    last: Vec<usize>,
    /// For a recapture: the existing graph that takes over the captured work.
    again: Option<usize>,
    /// Whether the capture began on this stream, and has to end on it.
    is_origin: bool,
    /// Whether a call that cannot be captured has invalidated the capture.
    broken: bool,
}

#[derive(Default)]
struct Captures {
    streams: BTreeMap<usize, Capture>,
    /// Events recorded in a captured stream: the graph, and the nodes before the event.
    events: BTreeMap<usize, (usize, Vec<usize>)>,
}

static CAPTURES: Mutex<Captures> = Mutex::new(Captures { streams: BTreeMap::new(), events: BTreeMap::new() });

fn captures() -> MutexGuard<'static, Captures> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds work to the graph if the stream is under capture. Returns whether it is.
pub fn capture(stream: usize, work: impl FnOnce() -> Result<Work, Status>) -> Result<bool, Status> {
    if !is_captured(stream) {
        return Ok(false);
    }
    let work = work()?;
    let mut captures = captures();
    let Some(capture) = captures.streams.get_mut(&stream) else { return Ok(false) };
    let node = GRAPHS.get(capture.graph)?.add(work, capture.last.clone());
    capture.last = vec![node];
    Ok(true)
}

/// Destroys a stream and ends a capture that it takes part in.
pub fn destroy_stream(stream: usize) -> StatusResult {
    stream::destroy(stream)?;
    let mut captures = captures();
    if let Some(capture) = captures.streams.remove(&stream) {
        captures.events.retain(|_, (graph, _)| *graph != capture.graph);
        // Other streams captured into the same graph can no longer complete it.
        captures
            .streams
            .values_mut()
            .filter(|other| other.graph == capture.graph)
            .for_each(|other| other.broken = true);
    }
    Ok(())
}

pub fn is_captured(stream: usize) -> bool {
    captures().streams.contains_key(&stream)
}

/// Invalidates the capture if a call that cannot be captured waits for a captured stream or for everything (`None`), or
/// launches a graph into a captured stream.
pub fn check_uncaptured(stream: Option<usize>) -> StatusResult {
    let mut captures = captures();
    let mut broken = false;
    for (captured, capture) in &mut captures.streams {
        if stream.is_none_or(|stream| stream == *captured) {
            capture.broken = true;
            broken = true;
        }
    }
    if broken { Err(Status::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

pub fn begin_capture(stream: usize) -> StatusResult {
    begin(stream, None)
}

/// Captures again into an existing graph, whose nodes take the new parameters at the end.
pub fn begin_recapture(stream: usize, graph: usize) -> StatusResult {
    GRAPHS.get(graph)?;
    begin(stream, Some(graph))
}

fn begin(stream: usize, again: Option<usize>) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    if stream <= STREAM_LEGACY || is_captured(stream) {
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    let graph = GRAPHS.insert(Arc::default());
    captures().streams.insert(stream, Capture { graph, last: Vec::new(), again, is_origin: true, broken: false });
    Ok(())
}

pub fn end_capture(stream: usize, out: Out<usize>) -> StatusResult {
    context::usable()?;
    let mut captures = captures();
    let capture =
        captures.streams.get(&stream).filter(|capture| capture.is_origin).cloned().ok_or(Status::INVALID_VALUE)?;
    let broken = captures.streams.values().any(|other| other.graph == capture.graph && other.broken);
    captures.streams.retain(|_, other| other.graph != capture.graph);
    captures.events.retain(|_, (graph, _)| *graph != capture.graph);
    if broken {
        let _ = GRAPHS.remove(capture.graph);
        out.put_if_wanted(0);
        return Err(Status::STREAM_CAPTURE_INVALIDATED);
    }
    let Some(known) = capture.again else { return out.put(capture.graph) };
    let captured = GRAPHS.remove(capture.graph)?;
    let graph = GRAPHS.get(known)?;
    take(&graph, &captured)?;
    out.put_if_wanted(known);
    Ok(())
}

/// Copies the work of one graph's nodes to those of another graph of the same shape.
fn take(graph: &Graph, from: &Graph) -> StatusResult {
    let works = |graph: &Graph| graph.nodes().into_iter().map(|node| NODES.get(node)).collect::<Result<Vec<_>, _>>();
    let (old, new) = (works(graph)?, works(from)?);
    let fits = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| old.work().kind() == new.work().kind());
    if !fits {
        return Err(Status::GRAPH_EXEC_UPDATE_FAILURE);
    }
    for (old, new) in old.iter().zip(new) {
        let work = new.work().clone();
        *old.work() = work;
    }
    Ok(())
}

/// `CU_STREAM_CAPTURE_STATUS_*`, and an id of the capture.
fn capture_status(stream: usize) -> (u32, u64) {
    match captures().streams.get(&stream) {
        None => (0, 0),
        Some(capture) => (if capture.broken { 2 } else { 1 }, capture.graph as u64),
    }
}

pub fn is_capturing(stream: usize, out: Out<u32>) -> StatusResult {
    stream::check(stream)?;
    out.put(capture_status(stream).0)
}

pub fn capture_info(stream: usize, status: Out<u32>, id: Out<u64>, others: [usize; 4]) -> StatusResult {
    stream::check(stream)?;
    let (state, identity) = capture_status(stream);
    if state != 0 && others != [0; 4] {
        crate::report::say!("cuStreamGetCaptureInfo does not return the graph or the dependencies of a capture");
        return Err(Status::NOT_SUPPORTED);
    }
    id.put_if_wanted(identity);
    status.put(state)
}

/// Marks a place in the graph if the event is recorded in a captured stream. Returns whether it is.
pub fn capture_event(event: usize, stream: usize) -> bool {
    let mut captures = captures();
    match captures.streams.get(&stream) {
        Some(capture) => {
            let place = (capture.graph, capture.last.clone());
            captures.events.insert(event, place);
            true
        }
        None => {
            captures.events.remove(&event);
            false
        }
    }
}

/// Adds a stream to the capture if it waits for a captured event. Returns whether it does.
pub fn capture_wait(stream: usize, event: usize) -> bool {
    let mut captures = captures();
    let Some((graph, nodes)) = captures.events.get(&event).cloned() else { return false };
    let capture = captures.streams.entry(stream).or_insert(Capture {
        graph,
        last: Vec::new(),
        again: None,
        is_origin: false,
        broken: false,
    });
    if capture.graph != graph {
        capture.broken = true;
    }
    for node in nodes {
        if !capture.last.contains(&node) {
            capture.last.push(node);
        }
    }
    true
}

/// Looks a node up by its handle.
pub fn node(handle: usize) -> Result<Arc<Node>, Status> {
    NODES.get(handle)
}

/// Adds a node that depends on others of its graph.
pub fn add(graph: usize, work: Work, after: Vec<usize>) -> Result<usize, Status> {
    let graph = GRAPHS.get(graph)?;
    let known = graph.nodes();
    if !after.iter().all(|node| known.contains(node)) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(graph.add(work, after))
}

pub fn create(out: Out<usize>) -> StatusResult {
    context::initialised()?;
    out.put(GRAPHS.insert(Arc::default()))
}

pub fn destroy(graph: usize) -> StatusResult {
    for node in GRAPHS.remove(graph)?.nodes() {
        if let Ok(Work::Child(child)) = NODES.remove(node).map(|node| node.work().clone()) {
            destroy(child)?;
        }
    }
    Ok(())
}

/// Removes edges from a graph.
pub fn remove_dependencies(graph: usize, from: In<usize>, to: In<usize>, count: usize) -> StatusResult {
    let nodes = GRAPHS.get(graph)?.nodes();
    for index in 0..count {
        let (from, to) = (from.at(index)?, to.at(index)?);
        if !nodes.contains(&to) {
            return Err(Status::INVALID_VALUE);
        }
        let node = NODES.get(to)?;
        let mut after = node.after.lock().unwrap_or_else(PoisonError::into_inner);
        let place = after.iter().position(|before| *before == from).ok_or(Status::INVALID_VALUE)?;
        after.remove(place);
    }
    Ok(())
}

/// Destroys a node. Memory nodes cannot be destroyed.
pub fn destroy_node(node: usize) -> StatusResult {
    if matches!(*NODES.get(node)?.work(), Work::Allocate(_) | Work::Free(_)) {
        return Err(Status::NOT_SUPPORTED);
    }
    NODES.remove(node).map(|_| ())
}

/// Clones a graph. A graph that owns memory cannot be cloned.
pub fn clone(out: Out<usize>, graph: usize) -> StatusResult {
    if steps_of(graph)?.iter().any(|step| matches!(step.work, Work::Allocate(_) | Work::Free(_))) {
        return Err(Status::NOT_SUPPORTED);
    }
    out.put(cloned(graph)?)
}

/// A clone of a graph and of its children.
pub fn cloned(graph: usize) -> Result<usize, Status> {
    let mut copy = Graph::default();
    for handle in GRAPHS.get(graph)?.nodes() {
        let node = NODES.get(handle)?;
        let after = node.after().iter().filter_map(|before| copy.twins.get(before).copied()).collect();
        let work = node.work().clone();
        let work = if let Work::Child(child) = work { Work::Child(cloned(child)?) } else { work };
        let twin = copy.add(work, after);
        copy.twins.insert(handle, twin);
    }
    Ok(GRAPHS.insert(Arc::new(copy)))
}

pub fn find_in_clone(out: Out<usize>, original: usize, clone: usize) -> StatusResult {
    let clone = GRAPHS.get(clone)?;
    let twin = clone.twins.get(&original).filter(|twin| NODES.get(**twin).is_ok());
    out.put(*twin.ok_or(Status::INVALID_VALUE)?)
}

/// Fills an array of the caller's length, or returns the required length if there is no array.
fn put_all(values: &[usize], out: Out<usize>, count: Out<usize>, capacity: In<usize>) -> StatusResult {
    if out.is_null() {
        return count.put(values.len());
    }
    let capacity = capacity.get()?;
    for index in 0..capacity {
        out.at(index).put(values.get(index).copied().unwrap_or(0))?;
    }
    count.put(values.len().min(capacity))
}

pub fn nodes(graph: usize, out: Out<usize>, count: Out<usize>) -> StatusResult {
    put_all(&GRAPHS.get(graph)?.nodes(), out, count, In::of_place(count.address()))
}

/// The nodes that depend on no other.
pub fn roots(graph: usize, out: Out<usize>, count: Out<usize>) -> StatusResult {
    let nodes = GRAPHS.get(graph)?.nodes().into_iter();
    let is_root = |node: &usize| NODES.get(*node).is_ok_and(|node| node.after().is_empty());
    put_all(&nodes.filter(is_root).collect::<Vec<_>>(), out, count, In::of_place(count.address()))
}

pub fn edges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) -> StatusResult {
    let mut pairs = Vec::new();
    for node in GRAPHS.get(graph)?.nodes() {
        pairs.extend(NODES.get(node)?.after().into_iter().map(|before| (before, node)));
    }
    let (starts, ends): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    if from.is_null() != to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let mut room = In::of_place(count.address()).get().unwrap_or(0);
    if !from.is_null() {
        put_all(&starts, from, Out::to(&mut room), In::of_place(count.address()))?;
    }
    put_all(&ends, to, count, In::of_place(count.address()))
}

pub fn node_type(node: usize, out: Out<u32>) -> StatusResult {
    out.put(NODES.get(node)?.work().kind())
}

/// A node's work and dependencies.
#[derive(Clone)]
pub struct Step {
    pub node: usize,
    /// The nodes that it depends on.
    pub after: Vec<usize>,
    pub work: Work,
    pub enabled: bool,
}

/// The work of all nodes, in an order in which it can be executed. A child node comes after the nodes of its graph.
pub fn steps_of(graph: usize) -> Result<Vec<Step>, Status> {
    let mut steps = Vec::new();
    add_steps(graph, &[], &mut steps)?;
    Ok(steps)
}

/// Adds the steps of a graph that begins after some nodes.
fn add_steps(graph: usize, before: &[usize], steps: &mut Vec<Step>) -> StatusResult {
    for node in GRAPHS.get(graph)?.nodes() {
        let known = NODES.get(node)?;
        let work = known.work().clone();
        let mut after = known.after();
        if after.is_empty() {
            after = before.to_vec();
        }
        if let Work::Child(child) = work {
            let first = steps.len();
            add_steps(child, &after, steps)?;
            after.extend(steps[first..].iter().map(|step| step.node));
        }
        steps.push(Step { node, after, work, enabled: true });
    }
    Ok(())
}

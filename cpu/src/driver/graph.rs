//! Graphs: work that is noted down while a stream is captured, or node by node (`graph_nodes`), and done in one go when an executable
//! of it is launched.
//!
//! A node can only depend on nodes that were there before it, so that the order in which they were made is one in which they
//! can be executed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::copy::Copy3d;
use super::launch::{self, Shape};
use super::{context, copy, graph_memory, stream};
use crate::abi::{HostFunction, In, Out};
use crate::handles::Registry;
use crate::status::{Done, Status};

/// `CUDA_MEMSET_NODE_PARAMS`: lengths in elements of 1, 2 or 4 bytes, the pitch in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub to: u64,
    pub pitch: usize,
    pub value: u32,
    pub element: u32,
    pub width: usize,
    pub height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Host {
    pub function: HostFunction,
    pub data: *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParameters {
    function: usize,
    shape: Shape,
    parameters: *const *const u8,
    extra: *const usize,
    kernel: usize,
    context: usize,
}

const _: () = assert!(size_of::<KernelParameters>() == 72);

impl KernelParameters {
    /// A launch of a `CUkernel`; the last two are the addresses of an array of pointers to the arguments and of the list of `extra`.
    pub fn new(kernel: usize, grid: [u32; 3], block: [u32; 3], shared: u32, arguments: usize, extra: usize) -> Self {
        let shape = Shape { grid, block, shared };
        Self { function: 0, shape, parameters: arguments as *const _, extra: extra as *const _, kernel, context: 0 }
    }
}

#[derive(Clone)]
pub struct Kernel {
    pub function: usize,
    pub shape: Shape,
    /// The parameter buffer; shared, because callers are given pointers into it.
    pub buffer: Arc<Vec<u8>>,
    pub cooperative: bool,
}

/// What a node does.
#[derive(Clone)]
pub enum Work {
    Kernel(Kernel),
    Copy(Copy3d),
    Fill(Fill),
    Host(Host),
    Nothing,
    Allocate(Arc<graph_memory::Place>),
    /// Of what an earlier node has allocated.
    Free(u64),
}

// SAFETY: the pointers are the application's, which promises that they are good when the work is done, on whichever thread.
unsafe impl Send for Work {}

impl Work {
    /// `CUgraphNodeType`
    fn kind(&self) -> u32 {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Fill(_) => 2,
            Work::Host(_) => 3,
            Work::Nothing => 5,
            Work::Allocate(_) => 10,
            Work::Free(_) => 11,
        }
    }

    fn perform(&self) -> Done {
        match self {
            Work::Kernel(kernel) => launch::run(kernel.function, &kernel.shape, &kernel.buffer),
            Work::Copy(what) => copy::copy_3d(In::from(what)),
            Work::Fill(fill) => match fill.element {
                1 => copy::fill_2d(fill.to, fill.pitch, fill.value as u8, fill.width, fill.height),
                2 => copy::fill_2d(fill.to, fill.pitch, fill.value as u16, fill.width, fill.height),
                _ => copy::fill_2d(fill.to, fill.pitch, fill.value, fill.width, fill.height),
            },
            Work::Host(host) => {
                let function = host.function.ok_or(Status::INVALID_VALUE)?;
                // SAFETY: the application's function with the application's argument.
                unsafe { function(host.data) };
                Ok(())
            }
            Work::Nothing => Ok(()),
            Work::Allocate(place) => graph_memory::allocate(place),
            Work::Free(address) => graph_memory::free(*address),
        }
    }
}

struct Node {
    work: Mutex<Work>,
    /// Handles of the nodes that it comes after.
    after: Vec<usize>,
    /// The node of the original, in a clone.
    original: Option<usize>,
    /// Pointers to the arguments as they were last given out.
    pointers: Mutex<Vec<usize>>,
}

impl Node {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Graph {
    nodes: Mutex<Vec<usize>>,
}

impl Graph {
    fn nodes(&self) -> Vec<usize> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, work: Work, after: Vec<usize>, original: Option<usize>) -> usize {
        let node = NODES.insert(Arc::new(Node { work: Mutex::new(work), after, original, pointers: Mutex::default() }));
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node);
        node
    }
}

/// Its steps in order, each with the node it was made from.
struct Executable(Mutex<Vec<(usize, Work)>>);

impl Executable {
    fn steps(&self) -> MutexGuard<'_, Vec<(usize, Work)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static GRAPHS: Registry<Graph> = Registry::new();
static NODES: Registry<Node> = Registry::new();
static EXECUTABLES: Registry<Executable> = Registry::new();

/// A stream that is being captured.
#[derive(Clone)]
struct Capture {
    graph: usize,
    /// Nodes that the next one comes after.
    last: Vec<usize>,
    /// The graph that exists and takes what is captured, for a recapture.
    again: Option<usize>,
    /// The stream at which the capture began and has to end.
    is_origin: bool,
    /// Something was done meanwhile that cannot be captured.
    broken: bool,
}

#[derive(Default)]
struct Captures {
    streams: BTreeMap<usize, Capture>,
    /// Events recorded in a captured stream: graph, and the nodes before it.
    events: BTreeMap<usize, (usize, Vec<usize>)>,
}

static CAPTURES: Mutex<Captures> = Mutex::new(Captures { streams: BTreeMap::new(), events: BTreeMap::new() });

fn captures() -> MutexGuard<'static, Captures> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes work down if the stream is being captured; whether it is.
pub fn capture(stream: usize, work: impl FnOnce() -> Result<Work, Status>) -> Result<bool, Status> {
    if !is_captured(stream) {
        return Ok(false);
    }
    let work = work()?;
    let mut captures = captures();
    let Some(capture) = captures.streams.get_mut(&stream) else { return Ok(false) };
    let node = GRAPHS.get(capture.graph)?.add(work, capture.last.clone(), None);
    capture.last = vec![node];
    Ok(true)
}

pub fn is_captured(stream: usize) -> bool {
    captures().streams.contains_key(&stream)
}

/// Waiting for a stream that is being captured ends the capture, as does waiting for everything (0).
pub fn check_wait(stream: Option<usize>) -> Done {
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

pub fn begin_capture(stream: usize) -> Done {
    begin(stream, None)
}

/// Captures once more what a graph was captured from; its nodes take the new parameters at the end.
pub fn begin_recapture(stream: usize, graph: usize) -> Done {
    GRAPHS.get(graph)?;
    begin(stream, Some(graph))
}

fn begin(stream: usize, again: Option<usize>) -> Done {
    context::usable()?;
    stream::check(stream)?;
    if stream <= stream::LEGACY || is_captured(stream) {
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    let graph = GRAPHS.insert(Arc::default());
    captures().streams.insert(stream, Capture { graph, last: Vec::new(), again, is_origin: true, broken: false });
    Ok(())
}

pub fn end_capture(stream: usize, out: Out<usize>) -> Done {
    context::usable()?;
    let mut captures = captures();
    let capture = captures.streams.get(&stream).filter(|capture| capture.is_origin).cloned().ok_or(Status::INVALID_VALUE)?;
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

/// Gives the nodes of a graph the work of another one's of the same shape.
fn take(graph: &Graph, from: &Graph) -> Done {
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

/// `CU_STREAM_CAPTURE_STATUS_*`, and an identity of the capture.
pub fn capture_status(stream: usize) -> (u32, u64) {
    match captures().streams.get(&stream) {
        None => (0, 0),
        Some(capture) => (if capture.broken { 2 } else { 1 }, capture.graph as u64),
    }
}

/// Recording an event in a captured stream marks a place in its graph; whether it was that.
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

/// Waiting for such an event makes a stream part of the capture; whether it was that.
pub fn capture_wait(stream: usize, event: usize) -> bool {
    let mut captures = captures();
    let Some((graph, nodes)) = captures.events.get(&event).cloned() else { return false };
    let capture =
        captures.streams.entry(stream).or_insert(Capture { graph, last: Vec::new(), again: None, is_origin: false, broken: false });
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

/// Adds a node that comes after others of its graph.
pub fn add(graph: usize, work: Work, after: Vec<usize>) -> Result<usize, Status> {
    let graph = GRAPHS.get(graph)?;
    let known = graph.nodes();
    if !after.iter().all(|node| known.contains(node)) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(graph.add(work, after, None))
}

pub fn create(out: Out<usize>) -> Done {
    context::initialised()?;
    out.put(GRAPHS.insert(Arc::default()))
}

pub fn destroy(graph: usize) -> Done {
    for node in GRAPHS.remove(graph)?.nodes() {
        let _ = NODES.remove(node);
    }
    Ok(())
}

/// A graph that owns memory has no clones.
pub fn clone(out: Out<usize>, graph: usize) -> Done {
    let original = GRAPHS.get(graph)?;
    if steps_of(graph)?.iter().any(|(_, work)| matches!(work, Work::Allocate(_) | Work::Free(_))) {
        return Err(Status::NOT_SUPPORTED);
    }
    let copy = Graph::default();
    let mut twins = BTreeMap::new();
    for handle in original.nodes() {
        let node = NODES.get(handle)?;
        let after = node.after.iter().filter_map(|before| twins.get(before).copied()).collect();
        let work = node.work().clone();
        twins.insert(handle, copy.add(work, after, Some(handle)));
    }
    out.put(GRAPHS.insert(Arc::new(copy)))
}

pub fn find_in_clone(out: Out<usize>, original: usize, clone: usize) -> Done {
    let is_twin = |node: &usize| NODES.get(*node).is_ok_and(|node| node.original == Some(original));
    let found = GRAPHS.get(clone)?.nodes().into_iter().find(is_twin).ok_or(Status::INVALID_VALUE)?;
    out.put(found)
}

/// Fills an array as long as the caller says, or tells how long it would have to be.
fn put_all(values: &[usize], out: Out<usize>, count: Out<usize>, asked: In<usize>) -> Done {
    if out.is_null() {
        return count.put(values.len());
    }
    let room = asked.get()?;
    for index in 0..room {
        out.at(index).put(values.get(index).copied().unwrap_or(0))?;
    }
    count.put(values.len().min(room))
}

pub fn nodes(graph: usize, out: Out<usize>, count: Out<usize>) -> Done {
    put_all(&GRAPHS.get(graph)?.nodes(), out, count, In::of_place(count.address()))
}

pub fn edges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) -> Done {
    let mut pairs = Vec::new();
    for node in GRAPHS.get(graph)?.nodes() {
        pairs.extend(NODES.get(node)?.after.iter().map(|before| (*before, node)));
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

pub fn node_type(node: usize, out: Out<u32>) -> Done {
    out.put(NODES.get(node)?.work().kind())
}

pub fn kernel_parameters(node: usize, out: Out<KernelParameters>) -> Done {
    let node = NODES.get(node)?;
    let work = node.work();
    let Work::Kernel(kernel) = &*work else { return Err(Status::INVALID_VALUE) };
    let mut pointers = node.pointers.lock().unwrap_or_else(PoisonError::into_inner);
    *pointers = launch::argument_addresses(kernel.function, &kernel.buffer)?;
    out.put(KernelParameters {
        function: kernel.function,
        shape: kernel.shape,
        parameters: pointers.as_ptr().cast(),
        extra: std::ptr::null(),
        kernel: 0,
        context: 0,
    })
}

pub fn kernel_of(parameters: In<KernelParameters>, cooperative: bool) -> Result<Work, Status> {
    let given = parameters.get()?;
    let function = if given.function == 0 { given.kernel } else { given.function };
    let buffer = launch::prepare(function, &given.shape, In::of_place(given.parameters as usize), In::of_place(given.extra as usize))?;
    Ok(Work::Kernel(Kernel { function, shape: given.shape, buffer: Arc::new(buffer), cooperative }))
}

fn is_cooperative(work: &Work) -> bool {
    matches!(work, Work::Kernel(kernel) if kernel.cooperative)
}

pub fn set_kernel_parameters(node: usize, parameters: In<KernelParameters>) -> Done {
    let node = NODES.get(node)?;
    let mut work = node.work();
    if work.kind() != 0 {
        return Err(Status::INVALID_VALUE);
    }
    *work = kernel_of(parameters, is_cooperative(&work))?;
    Ok(())
}

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE` and `_CLUSTER_DIMENSION`; a value is 64 bytes.
pub fn kernel_attribute(node: usize, attribute: u32, out: Out<[u32; 16]>) -> Done {
    let node = NODES.get(node)?;
    let work = node.work();
    let mut value = [0; 16];
    match (&*work, attribute) {
        (Work::Kernel(kernel), 2) => value[0] = u32::from(kernel.cooperative),
        (Work::Kernel(_), _) => {}
        _ => return Err(Status::INVALID_VALUE),
    }
    out.put(value)
}

pub fn copy_parameters(node: usize, out: Out<Copy3d>) -> Done {
    match &*NODES.get(node)?.work() {
        Work::Copy(copy) => out.put(*copy),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn fill_parameters(node: usize, out: Out<Fill>) -> Done {
    match &*NODES.get(node)?.work() {
        Work::Fill(fill) => out.put(*fill),
        _ => Err(Status::INVALID_VALUE),
    }
}

pub fn host_parameters(node: usize, out: Out<Host>) -> Done {
    match &*NODES.get(node)?.work() {
        Work::Host(host) => out.put(*host),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn steps_of(graph: usize) -> Result<Vec<(usize, Work)>, Status> {
    GRAPHS.get(graph)?.nodes().into_iter().map(|node| Ok((node, NODES.get(node)?.work().clone()))).collect()
}

pub fn instantiate(out: Out<usize>, graph: usize) -> Done {
    context::usable()?;
    out.put(EXECUTABLES.insert(Arc::new(Executable(Mutex::new(steps_of(graph)?)))))
}

/// `cuGraphExecUpdate_v2`: a graph of the same shape takes the place of the one before.
pub fn update(executable: usize, graph: usize, result: Out<u32>) -> Done {
    let executable = EXECUTABLES.get(executable)?;
    let new = steps_of(graph)?;
    let mut steps = executable.steps();
    let fits = steps.len() == new.len() && steps.iter().zip(&new).all(|((_, old), (_, new))| old.kind() == new.kind());
    // CU_GRAPH_EXEC_UPDATE_SUCCESS, _ERROR_TOPOLOGY_CHANGED
    result.put_if_wanted(if fits { 0 } else { 2 });
    if !fits {
        return Err(Status::GRAPH_EXEC_UPDATE_FAILURE);
    }
    *steps = new;
    Ok(())
}

pub fn set_executable_kernel(executable: usize, node: usize, parameters: In<KernelParameters>) -> Done {
    let executable = EXECUTABLES.get(executable)?;
    let mut steps = executable.steps();
    let (_, work) = steps.iter_mut().find(|(from, work)| *from == node && work.kind() == 0).ok_or(Status::INVALID_VALUE)?;
    *work = kernel_of(parameters, is_cooperative(work))?;
    Ok(())
}

pub fn destroy_executable(executable: usize) -> Done {
    EXECUTABLES.remove(executable).map(|_| ())
}

pub fn launch(executable: usize, stream: usize) -> Done {
    context::usable()?;
    stream::check(stream)?;
    let steps = EXECUTABLES.get(executable)?.steps().clone();
    for (_, work) in steps {
        if !capture(stream, || Ok(work.clone()))? {
            work.perform()?;
        }
    }
    Ok(())
}

//! Executable graphs: the steps of a graph, submitted in one launch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::structures::KernelNode;

use super::graph::Step;
use super::graph_nodes::{kernel_of, kind_of};
use super::lanes::{self, Moment, Place, Task};
use super::work::Work;
use super::{context, copy, event, graph, graph_memory, launch, stream};
use crate::abi::{In, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

struct Executable {
    /// In an order in which they can be executed.
    steps: Mutex<Vec<Step>>,
    /// The end of the last launch, because launches of one executable run one at a time.
    last: Mutex<Option<Moment>>,
}

impl Executable {
    fn steps(&self) -> MutexGuard<'_, Vec<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static EXECUTABLES: Registry<Executable> = Registry::new("an executable graph");

/// The work of a node. Memory nodes take effect at once for later nodes and calls.
fn task(work: &Work) -> Result<Task, Status> {
    match work {
        Work::Kernel(kernel) => launch::task(kernel),
        Work::Copy(what) => copy::task(*what),
        Work::Fill(fill) => match fill.element {
            1 => copy::fill_task(fill.to, fill.pitch, fill.value as u8, fill.width, fill.height),
            2 => copy::fill_task(fill.to, fill.pitch, fill.value as u16, fill.width, fill.height),
            _ => copy::fill_task(fill.to, fill.pitch, fill.value, fill.width, fill.height),
        },
        Work::Host(host) => launch::host_task(host),
        Work::Nothing | Work::Child(_) | Work::Wait(_) | Work::Record(_) => Ok(Task::nothing()),
        Work::Allocate(place) => graph_memory::allocate(place).map(|()| Task::nothing()),
        Work::Free(address) => graph_memory::forget(*address).map(|memory| {
            Task::quick(move || {
                memory.discard();
                Ok(())
            })
        }),
    }
}

pub fn instantiate(out: Out<usize>, graph: usize) -> StatusResult {
    context::usable()?;
    let steps = Mutex::new(graph::steps_of(graph)?);
    out.put(EXECUTABLES.insert(Arc::new(Executable { steps, last: Mutex::default() })))
}

/// `cuGraphExecUpdate_v2`: replaces the steps by those of a graph of the same shape.
pub fn update(executable: usize, graph: usize, result: Out<u32>) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let new = graph::steps_of(graph)?;
    let mut steps = executable.steps();
    let fits = steps.len() == new.len() && steps.iter().zip(&new).all(|(old, new)| old.work.kind() == new.work.kind());
    // CU_GRAPH_EXEC_UPDATE_SUCCESS, _ERROR_TOPOLOGY_CHANGED
    result.put_if_wanted(if fits { 0 } else { 2 });
    if !fits {
        return Err(Status::GRAPH_EXEC_UPDATE_FAILURE);
    }
    // The nodes stay those of the graph that the executable was instantiated from.
    steps.iter_mut().zip(new).for_each(|(old, new)| old.work = new.work);
    Ok(())
}

/// The place of a node of the graph that the executable was instantiated from.
fn place_of(steps: &[Step], node: usize) -> Result<usize, Status> {
    steps.iter().position(|step| step.node == node).ok_or(Status::INVALID_VALUE)
}

pub fn set_kernel(executable: usize, node: usize, parameters: In<KernelNode>) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let mut steps = executable.steps();
    let place = place_of(&steps, node)?;
    let work = kernel_of(parameters, kind_of(&steps[place].work))?;
    steps[place].work.replace(work)
}

/// Replaces the work of a node by other work of its kind.
pub fn set(executable: usize, node: usize, work: Work) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let mut steps = executable.steps();
    let place = place_of(&steps, node)?;
    steps[place].work.replace(work)
}

/// Replaces the work of a child node's graph by that of a graph of the same shape.
pub fn set_child(executable: usize, node: usize, graph: usize) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let mut steps = executable.steps();
    let Work::Child(child) = steps[place_of(&steps, node)?].work else { return Err(Status::INVALID_VALUE) };
    let (old, new) = (graph::steps_of(child)?, graph::steps_of(graph)?);
    if old.len() != new.len() {
        return Err(Status::INVALID_VALUE);
    }
    for (old, new) in old.iter().zip(new) {
        let place = place_of(&steps, old.node)?;
        steps[place].work.replace(new.work)?;
    }
    Ok(())
}

/// Switches a kernel, copy or fill on or off.
pub fn set_enabled(executable: usize, node: usize, enabled: u32) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let mut steps = executable.steps();
    let place = place_of(&steps, node)?;
    if steps[place].work.kind() > 2 {
        return Err(Status::INVALID_VALUE);
    }
    steps[place].enabled = enabled != 0;
    Ok(())
}

pub fn destroy(executable: usize) -> StatusResult {
    EXECUTABLES.remove(executable).map(|_| ())
}

/// Held while the steps of a graph are submitted, so graphs in one stream come one after the other.
static LAUNCHING: Mutex<()> = Mutex::new(());

pub fn launch(executable: usize, stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    let executable = EXECUTABLES.get(executable)?;
    graph::check_uncaptured(Some(stream))?;
    let steps = executable.steps().clone();
    let place = stream::place(stream)?;
    let _alone = LAUNCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = executable.last.lock().unwrap_or_else(PoisonError::into_inner);
    let (done, ends) = submit_steps(&steps, &place, *last);
    *last = if ends.is_empty() {
        None
    } else {
        // Keeps the steps' resources alive until the steps are done.
        let end = Task::quick(move || {
            drop(steps);
            Ok(())
        });
        lanes::submit(&place, &ends, end)?
    };
    done
}

/// Submits the steps of a graph, each in the branch of a step that it depends on, or in a new branch. Returns the
/// moments at which unfinished branches end.
fn submit_steps(steps: &[Step], place: &Place, last: Option<Moment>) -> (StatusResult, Vec<Moment>) {
    let mut start = lanes::before(place);
    start.extend(last);
    let mut moments: BTreeMap<usize, Moment> = BTreeMap::new();
    // Each branch with its last step so far.
    let mut branches: Vec<(Place, usize)> = Vec::new();
    let done = steps.iter().try_for_each(|Step { node, after, work, enabled }| {
        let work = if *enabled { work } else { &Work::Nothing };
        let mut before = match after.is_empty() {
            true => start.clone(),
            false => after.iter().filter_map(|node| moments.get(node).copied()).collect(),
        };
        let branch = match branches.iter_mut().find(|(_, last)| after.contains(last)) {
            Some((branch, last)) => {
                *last = *node;
                *branch
            }
            None => {
                branches.push((lanes::new_branch(place), *node));
                branches[branches.len() - 1].0
            }
        };
        let moment = match work {
            Work::Record(event) => event::record_at(*event, &branch, &before)?,
            Work::Wait(event) => {
                before.extend(event::unreached(*event)?);
                lanes::submit(&branch, &before, Task::nothing())?
            }
            work => lanes::submit(&branch, &before, task(work)?)?,
        };
        moments.extend(moment.map(|moment| (*node, moment)));
        Ok(())
    });
    (done, moments.into_values().collect())
}

//! Executable graphs: work that is done in one go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::structures::KernelNode;

use super::graph_nodes::{kernel_of, kind_of};
use super::work::Work;
use super::{context, copy, graph, graph_memory, launch, stream};
use crate::abi::{In, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

/// Its steps in order, each with the node it was made from.
struct Executable(Mutex<Vec<(usize, Work)>>);

impl Executable {
    fn steps(&self) -> MutexGuard<'_, Vec<(usize, Work)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static EXECUTABLES: Registry<Executable> = Registry::new("an executable graph");

fn perform(work: &Work) -> StatusResult {
    match work {
        Work::Kernel(kernel) => launch::run(kernel.function, &kernel.shape, &kernel.buffer, kernel.kind),
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

pub fn instantiate(out: Out<usize>, graph: usize) -> StatusResult {
    context::usable()?;
    out.put(EXECUTABLES.insert(Arc::new(Executable(Mutex::new(graph::steps_of(graph)?)))))
}

/// `cuGraphExecUpdate_v2`: a graph of the same shape takes the place of the one before.
pub fn update(executable: usize, graph: usize, result: Out<u32>) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let new = graph::steps_of(graph)?;
    let mut steps = executable.steps();
    let fits = steps.len() == new.len() && steps.iter().zip(&new).all(|((_, old), (_, new))| old.kind() == new.kind());
    // CU_GRAPH_EXEC_UPDATE_SUCCESS, _ERROR_TOPOLOGY_CHANGED
    result.put_if_wanted(if fits { 0 } else { 2 });
    if !fits {
        return Err(Status::GRAPH_EXEC_UPDATE_FAILURE);
    }
    // Its nodes stay those of the graph that it was made from.
    steps.iter_mut().zip(new).for_each(|((_, old), (_, new))| *old = new);
    Ok(())
}

pub fn set_kernel(executable: usize, node: usize, parameters: In<KernelNode>) -> StatusResult {
    let executable = EXECUTABLES.get(executable)?;
    let mut steps = executable.steps();
    let (_, work) =
        steps.iter_mut().find(|(from, work)| *from == node && work.kind() == 0).ok_or(Status::INVALID_VALUE)?;
    *work = kernel_of(parameters, kind_of(work))?;
    Ok(())
}

pub fn destroy(executable: usize) -> StatusResult {
    EXECUTABLES.remove(executable).map(|_| ())
}

pub fn launch(executable: usize, stream: usize) -> StatusResult {
    context::usable()?;
    stream::check(stream)?;
    let steps = EXECUTABLES.get(executable)?.steps().clone();
    for (_, work) in steps {
        if !graph::capture(stream, || Ok(work.clone()))? {
            perform(&work)?;
        }
    }
    Ok(())
}

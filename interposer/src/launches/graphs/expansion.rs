//! Performs the steps of a graph by calls, in a stream for each branch.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::time::Duration;

use mneme_abi::cuda::sys::{CUevent_flags, CUstream_flags};

use super::branches::Branches;
use super::interface::{GraphStep, NodeKernel, interface};
use super::nodes::GraphObstacle;
use super::steps::Step;
use crate::driver::streams::CaptureMode;
use crate::driver::{self, CUevent, CUstream, STREAM_PER_THREAD, Status, gate};
use crate::kernels::request::{Extras, LaunchRequest};
use crate::recorder::{self, patience};

const DISABLE_TIMING: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;

/// The streams of a launch, one for each branch, and an event behind each step that others wait for. Destroying them
/// does not wait for their work.
struct Streams {
    /// The first is the application's.
    streams: Vec<CUstream>,
    start: CUevent,
    events: BTreeMap<usize, CUevent>,
}

impl Streams {
    /// Makes the streams, with the priority of the application's. `None` if the driver refuses.
    fn new(branches: &Branches, stream: CUstream) -> Option<Self> {
        let mut streams = Self { streams: vec![stream], start: std::ptr::null_mut(), events: BTreeMap::new() };
        if branches.ends.len() < 2 {
            return Some(streams);
        }
        let mut priority = 0;
        if stream.addr() > STREAM_PER_THREAD {
            // SAFETY: the application's stream, and a valid place.
            unsafe { driver::cuStreamGetPriority(stream, &mut priority) };
        }
        for _ in &branches.ends[1..] {
            let mut new = std::ptr::null_mut();
            // SAFETY: a valid place.
            if unsafe { driver::cuStreamCreateWithPriority(&mut new, NON_BLOCKING, priority) } != Status::SUCCESS {
                return None;
            }
            streams.streams.push(new);
        }
        streams.start = new_event()?;
        for step in BTreeSet::from_iter(branches.awaited()) {
            streams.events.insert(step, new_event()?);
        }
        Some(streams)
    }

    fn fork(&self) -> Status {
        let [stream, others @ ..] = &self.streams[..] else { return Status::SUCCESS };
        if others.is_empty() {
            return Status::SUCCESS;
        }
        let begun = record(self.start, *stream);
        others.iter().fold(begun, |status, other| status.and_then(|| wait(*other, self.start)))
    }

    /// Makes the application's stream wait for the others, whose work may have ended early with an error.
    fn join(&self, branches: &Branches) -> Status {
        let ends = branches.ends.iter().zip(&self.streams).skip(1);
        ends.fold(Status::SUCCESS, |status, (end, stream)| {
            let Some(event) = self.events.get(end) else { return status };
            status.and_then(|| record(*event, *stream)).and_then(|| wait(self.streams[0], *event))
        })
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // SAFETY: the recorder's streams and events, which are not used again; the driver keeps what their work needs.
        unsafe {
            self.streams.iter().skip(1).for_each(|stream| _ = driver::hooked::cuStreamDestroy_v2::call(*stream));
            let start = (!self.start.is_null()).then_some(self.start);
            self.events.values().copied().chain(start).for_each(|event| _ = driver::cuEventDestroy_v2(event));
        }
    }
}

/// A new event of the current context.
pub fn new_event() -> Option<CUevent> {
    let mut event = std::ptr::null_mut();
    // SAFETY: a valid place.
    (unsafe { driver::cuEventCreate(&mut event, DISABLE_TIMING) } == Status::SUCCESS).then_some(event)
}

pub fn record(event: CUevent, stream: CUstream) -> Status {
    // SAFETY: a live event and a live stream.
    unsafe { driver::cuEventRecord(event, stream) }
}

pub fn wait(stream: CUstream, event: CUevent) -> Status {
    // SAFETY: as above.
    unsafe { driver::cuStreamWaitEvent(stream, event, 0) }
}

/// How long others wait for a step at most, if it is not recorded.
const STEP: Duration = Duration::from_secs(1);

/// Performs steps, whose kernels are given in their order, as a launch into a stream. No other thread's work comes
/// between them, because the gate is closed meanwhile, until a kernel waits in vain. An error ends the launch, and is its
/// status; an obstacle comes before any step.
pub fn perform(
    steps: &[Step],
    branches: &Branches,
    kernels: &[NodeKernel],
    stream: CUstream,
) -> Result<Status, GraphObstacle> {
    let streams = {
        let _mode = CaptureMode::relaxed();
        Streams::new(branches, stream).ok_or(GraphObstacle::NoStreams)?
    };
    let in_vain = patience::in_vain();
    let Some(closed) = gate::close(patience::limit()) else {
        patience::note_in_vain();
        return Err(GraphObstacle::Busy);
    };
    let mut closed = Some(closed);
    let mut kernels = kernels.iter();
    let mut status = streams.fork();
    if status != Status::SUCCESS {
        return Err(GraphObstacle::NoStreams);
    }
    for (index, (step, place)) in steps.iter().zip(&branches.places).enumerate() {
        let own = streams.streams[place.branch];
        let awaited = place.waits.iter().filter_map(|before| streams.events.get(before));
        status = awaited.fold(status, |status, event| status.and_then(|| wait(own, *event)));
        closed = closed.filter(|closed| closed.keep_for(STEP) && patience::in_vain() == in_vain);
        status = status.and_then(|| perform_step(&step.work, &mut kernels, own));
        if let Some(event) = streams.events.get(&index) {
            status = status.and_then(|| record(*event, own));
        }
    }
    let joined = streams.join(branches);
    drop(closed);
    Ok(status.and_then(|| joined))
}

/// Performs a step. If the step is a kernel, takes the next of `kernels`.
fn perform_step<'a>(step: &GraphStep, kernels: &mut impl Iterator<Item = &'a NodeKernel>, stream: CUstream) -> Status {
    match step {
        GraphStep::Kernel(_) => kernels.next().map_or(Status::SUCCESS, |kernel| launch_kernel(kernel, stream)),
        GraphStep::Copy(copy) => {
            // SAFETY: the parameters are those of a node that the driver has accepted; the stream is alive.
            gate::passing(&|| unsafe { driver::hooked::cuMemcpy3DAsync_v2::call((&raw const **copy).cast(), stream) })
        }
        GraphStep::Set(set) => gate::passing(&|| {
            let (to, value, width, pitch, rows) = (set.to, set.value, set.width, set.pitch, set.height);
            let (byte, half) = (value as u8, value as u16);
            // SAFETY: as above.
            unsafe {
                match (set.element, rows > 1) {
                    (1, false) => driver::hooked::cuMemsetD8Async::call(to, byte, width, stream),
                    (2, false) => driver::hooked::cuMemsetD16Async::call(to, half, width, stream),
                    (_, false) => driver::hooked::cuMemsetD32Async::call(to, value, width, stream),
                    (1, true) => driver::hooked::cuMemsetD2D8Async::call(to, pitch, byte, width, rows, stream),
                    (2, true) => driver::hooked::cuMemsetD2D16Async::call(to, pitch, half, width, rows, stream),
                    (_, true) => driver::hooked::cuMemsetD2D32Async::call(to, pitch, value, width, rows, stream),
                }
            }
        }),
        GraphStep::Host(host) => {
            let function = host.function.map_or(std::ptr::null_mut(), |function| function as *mut c_void);
            // SAFETY: as above.
            gate::passing(&|| unsafe { driver::hooked::cuLaunchHostFunc::call(stream, function, host.data) })
        }
        GraphStep::Record(event) => record(*event, stream),
        GraphStep::Wait(event) => wait(stream, *event),
        // SAFETY: as above.
        GraphStep::Part(part) => gate::passing(&|| unsafe { part.launch(stream) }),
        GraphStep::Nothing => Status::SUCCESS,
    }
}

/// The launch of a node's kernel.
pub fn request(kernel: &NodeKernel, stream: CUstream) -> LaunchRequest {
    let (function, launch, arguments) = (kernel.function, kernel.launch, kernel.arguments());
    LaunchRequest { function, launch, stream: stream as usize, arguments, extras: Extras::None }
}

fn launch_kernel(kernel: &NodeKernel, stream: CUstream) -> Status {
    // SAFETY: the clone's node is alive, and so is the stream.
    let call = || unsafe { interface().launch(kernel, stream) };
    recorder::launch(&call, request(kernel, stream))
}

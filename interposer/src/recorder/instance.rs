//! The recording of one instance: a launch with the device to itself, between two states of memory.
//!
//! Order of events: gate closed → device idle → prologue → the launch → kernel finished → epilogue → gate open → packs
//! synced → manifests → `<static-hash>.json`.
//!
//! The application waits meanwhile, and the kernel or the work before it may wait for the application. So each wait has
//! a limit ([`patience`]), and work that still runs then goes to [`unfinished`].

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mneme_model::launch::{LaunchAttributes, Moment};
use mneme_recording::RecordingError;
use mneme_recording::database::{InstanceDetails, InstanceRecord};
use mneme_recording::manifest::{RecordedArgument, RecordedVariable};

use super::host_writes::HostWriteWatch;
use super::images::{self, ImageRefusal, StagedImages};
use super::output::{self, PendingInstance};
use super::{Plan, patience, reachable, unfinished};
use crate::driver::idle::IdleQuestion;
use crate::driver::streams::{self, CaptureMode};
use crate::driver::timing::EventPair;
use crate::driver::{self, Status, captures, gate, waiting};
use crate::kernels::code::VariableKind;
use crate::kernels::kernel::demangle;
use crate::kernels::known_instances;
use crate::kernels::progress::Effect;
use crate::kernels::request::LaunchRequest;
use crate::memory::allocations::{KernelAccess, LiveAllocation};
use crate::memory::{access, pageable};
use crate::process::log::debug;
use crate::process::{linker, recorded_family};
use crate::snapshot::{self, Destination, SnapshotError};

/// How long one step of a snapshot may keep the application's other calls waiting; longer than each wait in it.
const STEP: Duration = Duration::from_secs(60);
/// How long an idle device may take to report that it is idle: with some drivers this needs a new thread.
const ANSWER: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum InstanceFailure {
    #[error("the driver refused the launch ({})", recorded_family::error(*.0))]
    Rejected(Status),
    #[error(
        "the device was busy for {} s while the application waited; its work may wait for the host or for other work; --kernel-limit raises the limit",
        .0.as_secs_f64()
    )]
    NotIdle(Duration),
    #[error("work that did not finish within the recorder's limit was still running")]
    Busy,
    #[error("several waits had reached the limit, and the recorder had not seen the kernel finish yet")]
    Unproven,
    #[error("inside a stream capture")]
    Captured,
    #[error("another stream is being captured into a graph")]
    Capturing,
    #[error(
        "its argument {0} points to pageable host memory, whose bounds are unknown; register that memory, or set the pointer to null if the kernel does not use it"
    )]
    Pageable(String),
    #[error("its stream belongs to another context than the current one")]
    Elsewhere,
    #[error(transparent)]
    Images(#[from] ImageRefusal),
    #[error("it reaches memory of a multicast object, which ordinary loads cannot read")]
    Multicast,
    #[error("it reaches memory that is mapped at two addresses (cuMemMap); a replay would have two copies of it")]
    Aliased,
    #[error(
        "memory changed while it was recorded: host threads write to managed, page-locked or fine-grained memory that the kernel can touch"
    )]
    HostWrites,
    #[error(
        "did not finish within {} s while the application waited; it may wait for the host or for other work; --kernel-limit raises the limit",
        .0.as_secs_f64()
    )]
    Unfinished(Duration),
    #[error("the kernel failed: {}", recorded_family::error(*.0))]
    Failed(Status),
    #[error("{}", recorded_family::error(*.0))]
    Cuda(Status),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the recorder is shutting down")]
    Closed,
    #[error(
        "its variable {0} is private to its module, and the driver does not report its address; build with mneme-cc"
    )]
    Private(String),
    #[error("its variable {0} is managed, and HIP does not report which address the device uses")]
    Managed(String),
    #[error(
        "its variable {0} is private to its file, and HIP does not report its address; declare it for the whole program (not static, outside functions and unnamed namespaces), or use it on the host"
    )]
    Hidden(String),
    #[error(
        "its variable {0} is inline or of a template, and HIP reports its address only if the host uses it; use it on the host, or declare it differently"
    )]
    Inline(String),
}

impl InstanceFailure {
    /// Whether the next launch may succeed, because host threads only write now.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::HostWrites)
    }

    /// Whether the application waited until the limit.
    pub fn was_waited_for(&self) -> bool {
        matches!(self, Self::NotIdle(_) | Self::Unfinished(_))
    }

    /// Whether no further launch can be recorded after this.
    pub fn ends_all(&self) -> bool {
        matches!(self, Self::Recording(_) | Self::Snapshot(SnapshotError::Late | SnapshotError::Stalled))
    }

    /// Whether an error occurred, as opposed to a kind of launch that is not recorded.
    pub fn is_broken(&self) -> bool {
        !matches!(
            self,
            Self::Rejected(_)
                | Self::Failed(_)
                | Self::Captured
                | Self::Capturing
                | Self::Pageable(_)
                | Self::Elsewhere
                | Self::Images(_)
                | Self::Multicast
                | Self::NotIdle(_)
                | Self::Busy
                | Self::Unproven
                | Self::Unfinished(_)
                | Self::Aliased
                | Self::Closed
                | Self::Private(_)
                | Self::Managed(_)
                | Self::Hidden(_)
                | Self::Inline(_)
                | Self::Snapshot(SnapshotError::Gone { .. })
        )
    }
}

/// Executes a launch and records it.
pub fn record_launch(
    launch: &dyn Fn() -> Status,
    request: &LaunchRequest,
    plan: &Plan,
) -> Result<Effect, InstanceFailure> {
    if let Some(name) = pageable_argument(plan) {
        return Err(InstanceFailure::Pageable(name));
    }
    let _mode = CaptureMode::relaxed();
    if streams::is_capturing(request.stream) {
        return Err(InstanceFailure::Captured);
    }
    if captures::in_progress() {
        return Err(InstanceFailure::Capturing);
    }
    if streams::context_of(request.stream).is_some_and(|context| context != plan.context.handle) {
        return Err(InstanceFailure::Elsewhere);
    }
    // This may load a lazily loaded module, which a capture does not survive, so it comes after the checks for
    // captures.
    let variables = variables(plan)?;
    images::refusal(plan)?;
    // Opening waits for a lock on the packs, so it comes before the application has to wait.
    let output = output::open()?.ok_or(InstanceFailure::Closed)?;
    let limit = patience::limit();
    let deadline = Instant::now() + limit;
    let closed = gate::close(limit).ok_or(InstanceFailure::NotIdle(limit))?;
    // Checked again, because no capture can begin now.
    if captures::in_progress() {
        return Err(InstanceFailure::Capturing);
    }
    let goes_on = || closed.keep_for(STEP);
    closed.keep_for(limit + STEP);
    let mut live = reachable::through_arguments(plan, &variables);
    refuse(&live)?;
    let mut contexts = access::that_touch(&live, plan.context.device);
    let become_idle = |contexts: &[usize]| finish(contexts, deadline).unwrap_or(Err(InstanceFailure::NotIdle(limit)));
    become_idle(&contexts)?;
    let mut allocations = reachable::allocations(&live);
    allocations.extend(reachable::unseen_allocations(plan, &variables, &allocations));
    let further = reachable::through_memory(plan, &live, &variables, &allocations)?;
    refuse(&further)?;
    if !further.is_empty() {
        allocations.extend(reachable::allocations(&further));
        live.extend(further);
        contexts = access::that_touch(&live, plan.context.device);
        become_idle(&contexts)?;
    }
    let mut images = StagedImages::of(plan, &allocations)?;
    allocations.extend(images.allocations());
    allocations.sort_unstable_by_key(|allocation| allocation.address);
    let written = Arc::default();
    let destination = Destination {
        context: plan.context.handle,
        store: &output.store,
        background: &output.background,
        written: &written,
        goes_on: &goes_on,
    };
    let watch = HostWriteWatch::new(plan.context.handle, &variables, &allocations, &live);
    images.fetch(plan.context.handle)?;
    let mut prologue =
        snapshot::take(&destination, Moment::Prologue, &variables, &allocations).inspect_err(|_| images.leak())?;
    prologue.header.arguments.clone_from(&plan.arguments);
    prologue.header.images.clone_from(&images.images);
    if watch.has_changed_since(&prologue)? {
        return Err(InstanceFailure::HostWrites);
    }

    if !closed.keep_for(limit) {
        return Err(SnapshotError::Taken.into());
    }
    let time = run(launch, request, plan, &contexts, limit).inspect_err(|_| images.leak())?;
    if !closed.keep_for(STEP) {
        return Err(InstanceFailure::Unfinished(limit));
    }
    images.fetch(plan.context.handle)?;
    let epilogue =
        snapshot::take(&destination, Moment::Epilogue, &variables, &allocations).inspect_err(|_| images.leak())?;
    if watch.changes_after(&prologue, &epilogue)? {
        return Err(InstanceFailure::HostWrites);
    }
    if !closed.is_kept() {
        return Err(SnapshotError::Taken.into());
    }
    drop(images);
    drop(closed);

    let effect = match prologue.chunks == epilogue.chunks {
        true => Effect::ChangedNothing,
        false => Effect::ChangedMemory,
    };
    if plan.is_further && effect == Effect::ChangedNothing {
        return Ok(effect);
    }
    let (static_hash, dynamic_hash) = (plan.code.static_hash, plan.dynamic_hash);
    let manifest = if plan.is_further { known_instances::further_manifest } else { known_instances::manifest };
    let name = |moment| manifest(moment, static_hash, dynamic_hash);
    let instance = InstanceRecord {
        prologue: name(Moment::Prologue),
        epilogue: name(Moment::Epilogue),
        block_dims: request.launch.block,
        grid_dims: request.launch.grid,
        shared_mem: request.launch.shared_mem,
        args: plan.arguments.iter().map(scalar).collect(),
        occurrences: 1,
        ours: InstanceDetails {
            attributes: LaunchAttributes {
                limits: driver::limits(),
                ..plan.function.launch_attributes(request, plan.context.device)
            },
            memory_bytes: prologue.memory_bytes(),
            gpu_time: time.filter(|_| linker::cpu_device().is_none()),
            original: plan.files.original(),
            compiled: plan.code.compiled.clone(),
            image: plan.code.image,
            prints: plan.code.prints,
            recorded_at: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        },
    };
    {
        let mut recorded = plan.function.kernel.progress.recorded();
        recorded.memory_bytes = recorded.memory_bytes.max(prologue.memory_bytes());
        if let Some(time) = time {
            recorded.gpu_time.add(time);
        }
    }
    output.complete(PendingInstance {
        kernel: plan.function.kernel.clone(),
        static_hash,
        files: plan.files.clone(),
        record: plan.code.record(&plan.files, &plan.function.kernel.demangled, plan.context.device),
        dynamic_hash,
        instance,
        replaces: plan.is_further,
        prologue,
        epilogue,
        written,
    });
    Ok(effect)
}

/// The device variables of the closure that the loaded code has.
fn variables(plan: &Plan) -> Result<Vec<RecordedVariable>, InstanceFailure> {
    let mut variables = Vec::new();
    for (name, kind) in plan.code.variables() {
        if plan.function.home.is_managed(name) {
            return Err(InstanceFailure::Managed(demangle(name)));
        }
        match plan.function.home.variable(name) {
            Some((address, size)) => {
                let (constant, code) = (kind == VariableKind::Constant, kind == VariableKind::Code);
                variables.push(RecordedVariable {
                    name: name.to_owned(),
                    address,
                    size,
                    constant,
                    code,
                    functions: plan.code.functions_in(name).to_vec(),
                });
            }
            // Without IR the names come from the loaded code, so the variables exist. A constant that is not found has
            // the value in the code.
            None if !plan.code.has_ir() && kind != VariableKind::Constant => {
                return Err(InstanceFailure::Private(demangle(name)));
            }
            // HIP registers only variables that the host uses, and kernels may have written to the others.
            None if recorded_family::is_hip() && kind == VariableKind::Global => {
                let is_exported = plan.code.exports_variable(name);
                let refusal = if is_exported { InstanceFailure::Inline } else { InstanceFailure::Hidden };
                return Err(refusal(demangle(name)));
            }
            // The vendor's compiler drops variables that it has folded away.
            None => debug!("the loaded code of {} has no variable {name}", plan.function.kernel.demangled),
        }
    }
    Ok(variables)
}

/// The argument that points to memory that cannot be recorded: its name or number, and the offset in a structure.
fn pageable_argument(plan: &Plan) -> Option<String> {
    if !pageable::is_accessible_from(plan.context.device) {
        return None;
    }
    let word = |index: usize, offset: u32| plan.arguments.get(index)?.bytes.get(offset as usize..)?.first_chunk();
    let is_pageable = |(index, _, offset): &(usize, &str, u32)| {
        word(*index, *offset).is_some_and(|word| pageable::is_pageable(u64::from_le_bytes(*word)))
    };
    let (index, name, offset) = plan.code.parameters.pointers().find(is_pageable)?;
    let place = if offset == 0 { String::new() } else { format!("byte {offset}") };
    let details: Vec<&str> = [name, &place].into_iter().filter(|text| !text.is_empty()).collect();
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    Some(format!("{index}{details}"))
}

/// Refuses reachable memory that cannot be recorded.
fn refuse(reached: &[LiveAllocation]) -> Result<(), InstanceFailure> {
    let refusal = |live: &LiveAllocation| match live.access {
        KernelAccess::Multicast => Some(InstanceFailure::Multicast),
        KernelAccess::Aliased => Some(InstanceFailure::Aliased),
        _ => None,
    };
    reached.iter().find_map(refusal).map_or(Ok(()), Err)
}

fn check(status: Status) -> Result<(), InstanceFailure> {
    if status == Status::SUCCESS { Ok(()) } else { Err(InstanceFailure::Cuda(status)) }
}

/// The value of an argument of at most 8 bytes; 0 for larger ones.
fn scalar(argument: &RecordedArgument) -> u64 {
    let mut value = [0; 8];
    match value.get_mut(..argument.bytes.len()) {
        Some(low) => low.copy_from_slice(&argument.bytes),
        None => return 0,
    }
    u64::from_le_bytes(value)
}

/// Makes the launch and waits until its kernel has finished. Returns its time, ns.
fn run(
    launch: &dyn Fn() -> Status,
    request: &LaunchRequest,
    plan: &Plan,
    contexts: &[usize],
    limit: Duration,
) -> Result<Option<u64>, InstanceFailure> {
    let timer = EventPair::create();
    let is_timed = timer.as_ref().is_some_and(|timer| timer.start(request.stream));
    let deadline = Instant::now() + limit;
    let status = launch();
    let Some(timer) = timer else { return after(status, contexts, deadline, limit).map(|()| None) };
    let is_timed = is_timed && status == Status::SUCCESS && timer.stop(request.stream);
    // Waits for the launch's own event first, because later checks of an unfinished launch use that event.
    if is_timed && waiting::until(deadline, || timer.is_reached()).is_none() {
        let Plan { function, context, .. } = plan;
        unfinished::keep_launch(&function.kernel, request.stream, context.handle, timer.into_end());
        return Err(InstanceFailure::Unfinished(limit));
    }
    let finished = after(status, contexts, deadline, limit);
    let time = if is_timed { timer.elapsed() } else { None };
    timer.destroy();
    finished.map(|()| time)
}

/// Waits until the kernel of a launch with this status has finished, and all work that it has started.
fn after(status: Status, contexts: &[usize], deadline: Instant, limit: Duration) -> Result<(), InstanceFailure> {
    if status != Status::SUCCESS {
        return Err(InstanceFailure::Rejected(status));
    }
    let finished = finish(contexts, deadline).unwrap_or(Err(InstanceFailure::Unfinished(limit)));
    // The device was idle before, so this is the launch's own failure.
    finished.map_err(|failure| match failure {
        InstanceFailure::Cuda(status) => InstanceFailure::Failed(status),
        failure => failure,
    })
}

/// Waits until these contexts are idle. `None` at the deadline, though there is always time for one answer.
fn finish(contexts: &[usize], deadline: Instant) -> Option<Result<(), InstanceFailure>> {
    let mut question = IdleQuestion::ask(contexts);
    match waiting::until(deadline.max(Instant::now() + ANSWER), || question.answer()) {
        Some(status) => Some(check(status)),
        None => {
            unfinished::keep_device(question);
            None
        }
    }
}

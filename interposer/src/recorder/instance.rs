//! One instance: a launch with the device to itself, between two states of all it can touch.
//!
//! Order of events: gate closed → device idle → prologue → the launch → kernel finished → epilogue → gate open → packs
//! synced → manifests → `<static-hash>.json`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use mneme_core::launch::LaunchAttributes;
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{InstanceDetails, InstanceRecord};
use mneme_core::recording::manifest::{Moment, RecordedArgument, RecordedVariable};
use mneme_core::recording::store;

use super::host_writes::HostWriteWatch;
use super::output::{self, PendingInstance};
use super::{Plan, reachable};
use crate::driver::streams::{self, CaptureMode};
use crate::driver::timing::EventPair;
use crate::driver::{self, CUcontext, Status, captures, gate};
use crate::kernels::code::VariableKind;
use crate::kernels::kernel::demangle;
use crate::kernels::request::LaunchRequest;
use crate::memory::access;
use crate::memory::allocations::{KernelAccess, LiveAllocation};
use crate::memory::pageable;
use crate::process::log::debug;
use crate::process::recorded_family;
use crate::process::reentrancy;
use crate::process::settings::settings;
use crate::snapshot::{self, Destination, SnapshotError};

/// How much longer than a device needs to become idle a kernel may run while the gate is closed.
const KERNEL_PATIENCE: u32 = 30;
/// How often a wait for a kernel looks whether it is still to go on.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum InstanceFailure {
    #[error("the driver refused the launch ({})", recorded_family::error(*.0))]
    Rejected(Status),
    #[error("device not idle")]
    NotIdle,
    #[error("inside a stream capture{}", of_captures(settings().expand_graphs))]
    Captured,
    #[error("another stream is being captured into a graph")]
    Capturing,
    #[error(
        "its argument {0} points to pageable host memory, which has no bounds that could be recorded; register that memory, or set the pointer to null where it is not used"
    )]
    Pageable(String),
    #[error("its stream belongs to another context than the current one")]
    Elsewhere,
    #[error("it reaches memory of a multicast object, which ordinary loads cannot read")]
    Multicast,
    #[error("it reaches memory that is mapped at two addresses (cuMemMap), and a replay would have it twice")]
    Aliased,
    #[error(
        "memory changed while it was recorded: host threads write to managed, page-locked or fine-grained memory that the kernel can touch"
    )]
    HostWrites,
    #[error("the kernel did not finish in time for its recording")]
    Unfinished,
    #[error(
        "the kernel still ran after {0} s in which another host thread waited in a call; it may wait for that thread (MNEME_IDLE_TIMEOUT sets the seconds)"
    )]
    Awaited(u64),
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
        "an argument holds the address of its variable {0}, which lies elsewhere in a replay without IR; build with mneme-cc"
    )]
    Anchored(String),
    #[error(
        "its variable {0} is private to its module, so that the driver does not report where it is; build with mneme-cc"
    )]
    Private(String),
    #[error("its variable {0} is managed, and HIP does not report where the device keeps its address")]
    Managed(String),
    #[error(
        "its variable {0} is private to its file, so that HIP does not report where it is; declare it for the whole program (not static, and in no function and no namespace without a name), or use it on the host"
    )]
    Hidden(String),
    #[error(
        "its variable {0} is inline or of a template, and HIP reports where such a one is only if the host uses it; use it on the host, or declare it otherwise"
    )]
    Inline(String),
}

/// What becomes of kernels of graphs.
fn of_captures(expands: bool) -> &'static str {
    if expands {
        ", whose graph is launched node by node"
    } else {
        " (MNEME_GRAPHS=expand records the kernels of graphs)"
    }
}

impl InstanceFailure {
    /// Whether the next launch may be another matter: host threads may write now, or the device be at work.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::HostWrites | Self::NotIdle)
    }

    /// Whether something went wrong, rather than the launch being of a kind that is not recorded.
    pub fn is_broken(&self) -> bool {
        !matches!(
            self,
            Self::Rejected(_)
                | Self::Captured
                | Self::Capturing
                | Self::Pageable(_)
                | Self::Elsewhere
                | Self::Multicast
                | Self::Awaited(_)
                | Self::Aliased
                | Self::Closed
                | Self::Anchored(_)
                | Self::Private(_)
                | Self::Managed(_)
                | Self::Hidden(_)
                | Self::Inline(_)
                | Self::Snapshot(SnapshotError::Gone { .. })
        )
    }
}

/// Executes a launch and records it.
pub fn record_launch(launch: &dyn Fn() -> Status, request: &LaunchRequest, plan: &Plan) -> Result<(), InstanceFailure> {
    let settings = settings();
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
    // Not before: a lazily loaded module is loaded by this, which a capture does not survive.
    let variables = variables(plan)?;
    if !plan.code.has_ir()
        && let Some(name) = anchored(&variables, &plan.arguments)
    {
        return Err(InstanceFailure::Anchored(name));
    }
    let closed = gate::close(settings.idle_timeout).ok_or(InstanceFailure::NotIdle)?;
    // Again, because no capture can begin now.
    if captures::in_progress() {
        return Err(InstanceFailure::Capturing);
    }
    let output = output::open()?.ok_or(InstanceFailure::Closed)?;
    let mut live = reachable::through_arguments(plan, &variables);
    refuse(&live)?;
    let mut contexts = access::that_touch(&live, plan.context.device);
    check(synchronise(&contexts, settings.idle_timeout).ok_or(InstanceFailure::NotIdle)?)?;
    let mut allocations = reachable::allocations(&live);
    allocations.extend(reachable::unseen_allocations(plan, &variables, &allocations));
    let further = reachable::through_memory(plan, &live, &variables, &allocations)?;
    refuse(&further)?;
    if !further.is_empty() {
        allocations.extend(reachable::allocations(&further));
        live.extend(further);
        contexts = access::that_touch(&live, plan.context.device);
        check(synchronise(&contexts, settings.idle_timeout).ok_or(InstanceFailure::NotIdle)?)?;
    }
    allocations.sort_unstable_by_key(|allocation| allocation.address);
    let written = Arc::default();
    let destination = Destination {
        context: plan.context.handle,
        store: &output.store,
        background: &output.background,
        written: &written,
    };
    let watch = HostWriteWatch::new(plan.context.handle, &variables, &allocations, &live);
    let mut prologue = snapshot::take(&destination, Moment::Prologue, &variables, &allocations)?;
    prologue.header.arguments.clone_from(&plan.arguments);
    if watch.has_changed_since(&prologue)? {
        return Err(InstanceFailure::HostWrites);
    }

    let timer = EventPair::create().filter(|timer| timer.start(request.stream));
    closed.lend(settings.idle_timeout);
    match launch() {
        Status::SUCCESS => {}
        status => return Err(InstanceFailure::Rejected(status)),
    }
    let timer = timer.filter(|timer| timer.stop(request.stream));
    let finished = synchronise_while(&contexts, settings.idle_timeout * KERNEL_PATIENCE, &|| closed.is_kept());
    if !closed.regain() {
        return Err(InstanceFailure::Awaited(settings.idle_timeout.as_secs()));
    }
    check(finished.ok_or(InstanceFailure::Unfinished)?)?;
    let time = timer.and_then(|timer| {
        let time = timer.elapsed();
        timer.destroy();
        time
    });
    let epilogue = snapshot::take(&destination, Moment::Epilogue, &variables, &allocations)?;
    if watch.changes_after(&prologue, &epilogue)? {
        return Err(InstanceFailure::HostWrites);
    }
    drop(closed);

    let (static_hash, dynamic_hash) = (plan.code.static_hash, plan.dynamic_hash);
    let name = |moment| format!("DeviceState.{moment}.{static_hash}.{dynamic_hash}.mneme");
    let instance = InstanceRecord {
        prologue: name("prologue"),
        epilogue: name("epilogue"),
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
            original: plan.code.original(),
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
        code: plan.code.clone(),
        record: plan.code.record(&plan.function.kernel.demangled, plan.context.device),
        dynamic_hash,
        instance,
        prologue,
        epilogue,
        written,
    });
    Ok(())
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
                variables.push(RecordedVariable { name: name.to_owned(), address, size, constant, code });
            }
            // What is named after loaded code is there; a constant that nobody finds holds what the code says.
            None if !plan.code.has_ir() && kind != VariableKind::Constant => {
                return Err(InstanceFailure::Private(demangle(name)));
            }
            // What the host does not use is not registered, and kernels may have written to it.
            None if recorded_family::is_hip() && kind == VariableKind::Global => {
                let is_exported = plan.code.exports_variable(name);
                let refusal = if is_exported { InstanceFailure::Inline } else { InstanceFailure::Hidden };
                return Err(refusal(demangle(name)));
            }
            // The vendor's compiler drops what it has folded away.
            None => debug!("the loaded code of {} has no variable {name}", plan.function.kernel.demangled),
        }
    }
    Ok(variables)
}

/// A variable that an argument points into.
fn anchored(variables: &[RecordedVariable], arguments: &[RecordedArgument]) -> Option<String> {
    let words = || {
        arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word))
    };
    let holds = |variable: &&RecordedVariable| {
        words().any(|word| (variable.address..variable.address + variable.size).contains(&word))
    };
    variables.iter().find(holds).map(|variable| demangle(&variable.name))
}

/// The argument that points to memory which cannot be recorded, by its name or number, and where in a structure.
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

/// Refuses what is reached and cannot be recorded.
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

/// The value of an argument of at most 8 bytes, 0 for larger ones.
fn scalar(argument: &RecordedArgument) -> u64 {
    let mut value = [0; 8];
    match value.get_mut(..argument.bytes.len()) {
        Some(low) => low.copy_from_slice(&argument.bytes),
        None => return 0,
    }
    u64::from_le_bytes(value)
}

/// Waits until these contexts are idle; `None` when it takes longer than `limit`.
fn synchronise(contexts: &[usize], limit: Duration) -> Option<Status> {
    synchronise_while(contexts, limit, &|| true)
}

/// The same, and `None` soon after `goes_on` says no.
///
/// The driver has no such wait with a limit, and no question about all streams at once, so that a thread waits in our
/// place. One that is stuck stays so until the device is idle; until then nothing else is recorded, and the next one
/// waits for it.
fn synchronise_while(contexts: &[usize], limit: Duration, goes_on: &dyn Fn() -> bool) -> Option<Status> {
    static WAITING: AtomicBool = AtomicBool::new(false);
    let deadline = Instant::now() + limit;
    while WAITING.swap(true, Ordering::AcqRel) {
        if Instant::now() >= deadline || !goes_on() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let (sender, receiver) = sync_channel(1);
    let contexts = contexts.to_vec();
    let wait = move || {
        reentrancy::bypassing(|| {
            let _mode = CaptureMode::relaxed();
            let idle = |context: usize| {
                // SAFETY: the context is alive: whoever destroys it waits at the gate. One that died in a way that is
                // not hooked has nothing to wait for.
                unsafe {
                    match driver::cuCtxSetCurrent(context as CUcontext) {
                        Status::SUCCESS => driver::cuCtxSynchronize(),
                        _ => Status::SUCCESS,
                    }
                }
            };
            let status =
                contexts.into_iter().map(idle).find(|status| *status != Status::SUCCESS).unwrap_or(Status::SUCCESS);
            WAITING.store(false, Ordering::Release);
            let _ = sender.send(status);
        });
    };
    if store::without_signals(|| std::thread::Builder::new().name("mneme-idle".into()).spawn(wait)).is_err() {
        WAITING.store(false, Ordering::Release);
        return None;
    }
    while goes_on() {
        match receiver.recv_timeout(LOOK.min(deadline.saturating_duration_since(Instant::now()))) {
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            result => return result.ok(),
        }
    }
    None
}

//! The recorder: decides about each launch, takes its prologue and epilogue, and writes the recording.
//!
//! Order of events for a recorded launch: gate closed → device idle → prologue → the launch → kernel finished →
//! epilogue → gate open → packs synced → manifests → `<static-hash>.json`. Whatever fails on the way leaves the
//! application with exactly one launch and its own result.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use cudarc::driver::sys::CUstreamCaptureMode;
use mneme_core::launch::LaunchAttributes;
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{self, Instance, InstanceDetails, KernelRecord};
use mneme_core::recording::manifest::{Allocation, AllocationKind, Argument, Moment, Variable};
use mneme_core::recording::store;
use mneme_core::summary::{self as report, Mode, Summary};
use mneme_core::tolerance::Tolerance;

use crate::allocations::{ALLOCATIONS, Reach};
use crate::annotations::ANNOTATIONS;
use crate::code::{self, Function, Kernel};
use crate::ir::{Device, KernelCode, VariableKind};
use crate::launches::Request;
use crate::log::{debug, warning};
use crate::output::{self, Pending};
use crate::progress::{Failed, Occurrences, Progress};
use crate::settings::settings;
use crate::snapshot::{self, Destination, SnapshotError};
use crate::tally::Key;
use crate::timing::Timer;
use crate::vendor::{self, CUcontext, CUdevice, CUfunction, CUstream, STREAM_PER_THREAD, SUCCESS, Status};
use crate::{captures, contexts, gate, graphs, pageable, profile, recent, reentrancy, summary};

/// The mode in which our calls do not disturb a capture of another thread.
const CAPTURE_RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
/// Where device memory can be: not in the first page, and below the end of user space with five levels of page tables.
const ADDRESSES: std::ops::Range<u64> = 1 << 16..1 << 57;
/// How much longer than a device needs to become idle a kernel may run while the gate is closed.
const KERNEL_PATIENCE: u32 = 30;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("device not idle")]
    NotIdle,
    #[error("inside a stream capture (MNEME_GRAPHS=expand records the kernels of graphs)")]
    Captured,
    #[error("another stream is being captured into a graph")]
    Capturing,
    #[error("its argument {0} points to pageable host memory, which has no bounds that could be recorded")]
    Pageable(String),
    #[error("its stream belongs to another context than the current one")]
    Elsewhere,
    #[error("the kernel did not finish in time for its recording")]
    Unfinished,
    #[error("CUDA error {0}")]
    Cuda(Status),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the recorder is shutting down")]
    Closed,
    #[error("an argument holds the address of its variable {0}, which lies elsewhere in a replay without IR; build with mneme-cc")]
    Anchored(String),
    #[error("its variable {0} is private to its module, so that the driver does not tell where it is; build with mneme-cc")]
    Private(String),
}

impl Failure {
    /// Whether something went wrong, rather than the launch being of a kind that is not recorded.
    fn is_broken(&self) -> bool {
        !matches!(
            self,
            Self::Captured | Self::Capturing | Self::Pageable(_) | Self::Elsewhere | Self::Closed | Self::Anchored(_) | Self::Private(_)
        )
    }
}

/// A launch that is to be recorded.
struct Plan {
    function: Function,
    code: Arc<KernelCode>,
    arguments: Vec<Argument>,
    dynamic_hash: u64,
    context: usize,
    device: CUdevice,
    /// Whose memory the kernel can touch, its own device first.
    devices: Vec<CUdevice>,
}

/// The process that launches: a forked child has our memory but neither the device nor the right to write.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static FINISHED: AtomicBool = AtomicBool::new(false);
/// We are a forked child of a process that launched: its number is asked for only where a call to the system costs nothing.
static INHERITED: AtomicBool = AtomicBool::new(false);

/// Runs in every forked child.
pub fn note_fork() {
    if PROCESS.load(Ordering::Relaxed) != 0 {
        INHERITED.store(true, Ordering::Relaxed);
    }
}

/// What every launch handler ends in.
pub fn launch(call: &dyn Fn() -> Status, request: Request) -> Status {
    if PROCESS.load(Ordering::Relaxed) == 0 {
        let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    }
    let found;
    let function = match recent::find(request.function as usize) {
        Some(function) => function,
        None => {
            found = code::function(request.function);
            let Some(function) = &found else { return gate::passing(call) };
            recent::remember(request.function as usize, function);
            function
        }
    };
    note_start();
    // Outside the gate: nothing is recorded, so that nobody closes it.
    if settings().mode == Mode::Profile {
        let number = function.kernel.progress.launches.fetch_add(1, Ordering::Relaxed);
        let watched = !INHERITED.load(Ordering::Relaxed) && settings().selects_kernel(&function.kernel);
        return if watched { profile::launch(call, &request, function, number) } else { call() };
    }
    match plan(function, &request) {
        Some(plan) if settings().mode == Mode::DryRun => {
            note_planned(&plan);
            gate::passing(call)
        }
        Some(plan) => record(call, &request, plan),
        None => gate::passing(call),
    }
}

/// When this process launched its first kernel.
static STARTED: OnceLock<Instant> = OnceLock::new();

fn note_start() {
    STARTED.get_or_init(Instant::now);
}

/// What a dry run learns from a launch that would be recorded.
fn note_planned(plan: &Plan) {
    let bytes = reachable_allocations(plan).iter().map(|allocation| allocation.size).sum();
    let mut recorded = plan.function.kernel.progress.recorded();
    recorded.memory_bytes = recorded.memory_bytes.max(bytes);
    if let Some(occurrences) = recorded.instances.get_mut(&plan.dynamic_hash) {
        occurrences.written = true;
    }
}

/// Counts a launch that cannot be recorded at all.
pub fn refuse(handle: CUfunction, reason: &str) {
    let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    if let Some(function) = code::function(handle) {
        let progress = &function.kernel.progress;
        progress.launches.fetch_add(1, Ordering::Relaxed);
        progress.count_failure(reason);
    }
}

/// Decides whether a launch is recorded, and prepares it.
fn plan(function: &Function, request: &Request) -> Option<Plan> {
    let kernel = &function.kernel;
    let progress = &kernel.progress;
    let number = progress.launches.fetch_add(1, Ordering::Relaxed);
    let settings = settings();
    if !settings.selects_kernel(kernel)
        || number < settings.skip_recordings
        || (settings.sample > 1 && !(number - settings.skip_recordings).is_multiple_of(settings.sample))
        || FINISHED.load(Ordering::Relaxed)
        || INHERITED.load(Ordering::Relaxed)
    {
        return None;
    }
    // A launch like an earlier one is the ordinary case; nothing is locked, asked of the driver or allocated for it.
    if progress.tally.is_given_up() {
        return None;
    }
    match progress.code.get() {
        // SAFETY: it is this kernel's launch, and under way.
        Some(Ok(code)) if progress.tally.counts(|key| unsafe { code.repeats(key, &request.launch, &request.arguments) }) => return None,
        Some(Err(_)) => {
            progress.tally.refuse();
            return None;
        }
        _ => {}
    }
    if let Some(reason) = output::broken() {
        progress.recorded().count_failures(reason, 1, true);
        return None;
    }
    let device = vendor::current_device()?;
    let context = vendor::current_context()?;
    let code = match progress.code.get() {
        Some(code) => code,
        None => {
            let device = Device::of(device);
            progress.code.get_or_init(|| KernelCode::of(kernel, &device))
        }
    };
    let code = match code {
        Ok(code) => code.clone(),
        Err(_) => {
            progress.tally.refuse();
            return None;
        }
    };
    // SAFETY: the layout is that of the kernel's parameters, and the launch is under way.
    let Some(arguments) = (unsafe { request.arguments.read(code.layout()) }) else {
        progress.count_failure("its arguments do not fit its IR; rebuild it as a whole");
        return None;
    };
    let dynamic_hash = code.dynamic_hash(&request.launch, &arguments);
    if !claim(progress, settings, &code, dynamic_hash, code.key(&request.launch, &arguments)) {
        return None;
    }
    contexts::note(context, device);
    let devices = contexts::reached_from(device);
    Some(Plan { function: function.clone(), code, arguments, dynamic_hash, context, device, devices })
}

/// Takes a dynamic hash for recording, unless it is recorded, being recorded or one too many.
fn claim(progress: &Progress, settings: &crate::settings::Settings, code: &KernelCode, dynamic_hash: u64, key: Key) -> bool {
    let mut recorded = progress.recorded();
    if recorded.counts(dynamic_hash, settings) {
        return false;
    }
    let known_before = KernelRecord::load(&settings.folder.join(format!("{}.json", code.static_hash)))
        .is_ok_and(|record| record.instances.contains_key(&dynamic_hash.to_string()));
    recorded.instances.insert(dynamic_hash, Occurrences { count: 1, written: false, known_before });
    progress.tally.watch(dynamic_hash, key);
    progress.update_tally(&recorded, settings);
    !known_before
}

/// Executes a launch and records it.
fn record(call: &dyn Fn() -> Status, request: &Request, plan: Plan) -> Status {
    let result = std::cell::Cell::new(None);
    let launch = || {
        let status = call();
        result.set(Some(status));
        status
    };
    // A panic of ours must not launch twice nor not at all, hence not left to the hook's own net.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| record_launch(&launch, request, &plan)));
    let outcome = outcome.unwrap_or_else(|_| Err(Failure::Io(std::io::Error::other("an internal error of the recorder"))));
    if let Err(failure) = outcome {
        let captured = matches!(failure, Failure::Captured | Failure::Capturing);
        let reason = match failure {
            Failure::Captured if settings().expand_graphs => "inside a stream capture, whose graph is launched node by node".to_owned(),
            _ => failure.to_string(),
        };
        if matches!(failure, Failure::Recording(_)) {
            output::give_up(&reason);
        }
        plan.function.kernel.progress.failed(plan.dynamic_hash, &reason, failure.is_broken(), !captured);
        if !captured && output::broken().is_none() {
            warning!("{} is not recorded any more: {failure}", plan.function.kernel.demangled);
        }
    }
    result.get().unwrap_or_else(|| gate::passing(call))
}

fn record_launch(launch: &dyn Fn() -> Status, request: &Request, plan: &Plan) -> Result<(), Failure> {
    let settings = settings();
    if let Some(name) = pageable_argument(plan) {
        return Err(Failure::Pageable(name));
    }
    let _mode = CaptureMode::relaxed();
    if is_capturing(request.stream) {
        return Err(Failure::Captured);
    }
    if captures::in_progress() {
        return Err(Failure::Capturing);
    }
    if context_of(request.stream).is_some_and(|context| context != plan.context) {
        return Err(Failure::Elsewhere);
    }
    // Not before: a lazily loaded module is loaded by this, which a capture does not survive.
    let variables = variables(plan)?;
    if !plan.code.has_ir()
        && let Some(name) = anchored(&variables, &plan.arguments)
    {
        return Err(Failure::Anchored(name));
    }
    let closed = gate::close(settings.idle_timeout).ok_or(Failure::NotIdle)?;
    // Again, because no capture can begin now.
    if captures::in_progress() {
        return Err(Failure::Capturing);
    }
    let output = output::open()?.ok_or(Failure::Closed)?;
    check(synchronise(&plan.devices, settings.idle_timeout).ok_or(Failure::NotIdle)?)?;
    let mut allocations = reachable_allocations(plan);
    allocations.extend(unseen_allocations(plan, &variables, &allocations));
    allocations.sort_unstable_by_key(|allocation| allocation.address);
    let written = Arc::default();
    let destination = Destination { context: plan.context, store: &output.store, background: &output.background, written: &written };
    let mut prologue = snapshot::take(&destination, Moment::Prologue, &variables, &allocations)?;
    prologue.header.arguments.clone_from(&plan.arguments);

    let timer = Timer::create().filter(|timer| timer.start(request.stream));
    check(launch())?;
    let timer = timer.filter(|timer| timer.stop(request.stream));
    check(synchronise(&plan.devices, settings.idle_timeout * KERNEL_PATIENCE).ok_or(Failure::Unfinished)?)?;
    let time = timer.and_then(|timer| {
        let time = timer.elapsed();
        timer.destroy();
        time
    });
    let epilogue = snapshot::take(&destination, Moment::Epilogue, &variables, &allocations)?;
    drop(closed);

    let (static_hash, dynamic_hash) = (plan.code.static_hash, plan.dynamic_hash);
    let name = |moment| format!("DeviceState.{moment}.{static_hash}.{dynamic_hash}.mneme");
    let instance = Instance {
        prologue: name("prologue"),
        epilogue: name("epilogue"),
        block_dims: request.launch.block,
        grid_dims: request.launch.grid,
        shared_mem: request.launch.shared_mem,
        args: plan.arguments.iter().map(scalar).collect(),
        occurrences: 1,
        ours: InstanceDetails {
            attributes: LaunchAttributes { limits: vendor::limits(), ..plan.code.attributes(request, &plan.function, plan.device) },
            memory_bytes: prologue.memory_bytes(),
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
    output.complete(Pending {
        kernel: plan.function.kernel.clone(),
        code: plan.code.clone(),
        record: plan.code.record(&plan.function.kernel, plan.device),
        dynamic_hash,
        instance,
        prologue,
        epilogue,
        written,
    });
    Ok(())
}

/// The device variables of the closure that the loaded code has.
fn variables(plan: &Plan) -> Result<Vec<Variable>, Failure> {
    let mut variables = Vec::new();
    for (name, kind) in plan.code.variables() {
        match code::variable(plan.function.home, name) {
            Some((address, size)) => {
                let (constant, code) = (kind == VariableKind::Constant, kind == VariableKind::Code);
                variables.push(Variable { name: name.to_owned(), address, size, constant, code });
            }
            // What is named after loaded code is there; a constant that nobody finds holds what the code says.
            None if !plan.code.has_ir() && kind != VariableKind::Constant => return Err(Failure::Private(name.to_owned())),
            // The vendor's compiler drops what it has folded away.
            None => debug!("the loaded code of {} has no variable {name}", plan.function.kernel.demangled),
        }
    }
    Ok(variables)
}

/// A variable that an argument points into.
fn anchored(variables: &[Variable], arguments: &[Argument]) -> Option<String> {
    let words = || arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word));
    let holds = |variable: &&Variable| words().any(|word| (variable.address..variable.address + variable.size).contains(&word));
    variables.iter().find(holds).map(|variable| variable.name.clone())
}

/// The argument that points to memory which cannot be recorded, by its name or number.
fn pageable_argument(plan: &Plan) -> Option<String> {
    let address = |index: usize| plan.arguments.get(index).map_or(0, scalar);
    let (index, name) = plan.code.pointers().find(|(index, _)| pageable::is_pageable(address(*index)))?;
    let is_accessible = plan.devices.first().is_some_and(|device| pageable::is_accessible_from(*device));
    is_accessible.then(|| if name.is_empty() { format!("{index}") } else { format!("{index} ({name})") })
}

fn check(status: Status) -> Result<(), Failure> {
    if status == SUCCESS { Ok(()) } else { Err(Failure::Cuda(status)) }
}

/// The value of an argument of at most 8 bytes, 0 for larger ones.
fn scalar(argument: &Argument) -> u64 {
    let mut value = [0; 8];
    match value.get_mut(..argument.bytes.len()) {
        Some(low) => low.copy_from_slice(&argument.bytes),
        None => return 0,
    }
    u64::from_le_bytes(value)
}

/// All live memory that the kernel can touch: of its device and of those that it reaches, and page-locked host memory that is
/// mapped for kernels or that an argument points into; of the rest a kernel sees nothing and host threads change it at any time.
fn reachable_allocations(plan: &Plan) -> Vec<Allocation> {
    let pointed_at = |address: u64, size: u64| {
        plan.arguments.iter().flat_map(|argument| argument.bytes.chunks_exact(8)).any(|word| {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            (address..address + size).contains(&word)
        })
    };
    ALLOCATIONS
        .all()
        .into_iter()
        .filter(|live| match live.reach {
            Reach::Arguments => pointed_at(live.address, live.size),
            Reach::Device => plan.devices.contains(&live.device),
            Reach::Everywhere => true,
        })
        .map(|live| {
            let annotation = ANNOTATIONS.of(live.address, live.size).unwrap_or_default();
            // All zero is what is done without one.
            let tolerance = Some(annotation.tolerance).filter(|tolerance| *tolerance != Tolerance::default());
            Allocation { address: live.address, size: live.size, kind: live.kind, tag: annotation.tag, tolerance }
        })
        .collect()
}

/// Memory that arguments point into and that no hook has seen being allocated, as far as the vendor knows it: what a graph has allocated,
/// or variables that the kernel does not know by name.
fn unseen_allocations(plan: &Plan, variables: &[Variable], allocations: &[Allocation]) -> Vec<Allocation> {
    let mut known: Vec<(u64, u64)> = variables.iter().map(|variable| (variable.address, variable.size)).collect();
    known.extend(allocations.iter().map(|allocation| (allocation.address, allocation.size)));
    let mut found = Vec::new();
    let words = plan.arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word));
    for word in words.filter(|word| ADDRESSES.contains(word)) {
        if known.iter().any(|(start, size)| (*start..start.saturating_add(*size)).contains(&word)) {
            continue;
        }
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: valid places; the driver answers with an error for what is no address of its.
        let status = unsafe { vendor::hooked::cuMemGetAddressRange_v2::call(&mut address, &mut bytes, word) };
        let (end, size) = (address.saturating_add(bytes as u64), bytes as u64);
        let overlaps = |(start, size): &(u64, u64)| *start < end && address < start.saturating_add(*size);
        if status == SUCCESS && !known.iter().any(overlaps) {
            known.push((address, size));
            found.push(Allocation { address, size, kind: AllocationKind::Vendor, tag: String::new(), tolerance: None });
        }
    }
    found
}

/// Whether a stream is captured, or cannot be asked because another one is.
pub fn is_capturing(stream: usize) -> bool {
    let mut status = 0;
    // SAFETY: the stream is the one that the application launches into.
    let result = unsafe { vendor::cuStreamIsCapturing(stream as CUstream, &mut status) };
    // The default stream answers with an error while another stream captures; a driver without the function captures nothing.
    status != 0 || !matches!(result, SUCCESS | vendor::NOT_FOUND)
}

/// The context that a stream was made in, in which a launch into it takes place; `None` for a default stream, which has
/// the current one.
pub fn context_of(stream: usize) -> Option<usize> {
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: a valid place, and the stream is the one that the application launches into.
    let known = stream > STREAM_PER_THREAD && unsafe { vendor::cuStreamGetCtx(stream as CUstream, &mut context) } == SUCCESS;
    (known && !context.is_null()).then_some(context as usize)
}

/// Runs `work` so that its calls do not disturb a capture of another thread.
pub fn with_relaxed_captures<R>(work: impl FnOnce() -> R) -> R {
    let _mode = CaptureMode::relaxed();
    work()
}

/// This thread's capture mode, put back when dropped.
struct CaptureMode(u32);

impl CaptureMode {
    fn relaxed() -> Self {
        let mut mode = CAPTURE_RELAXED;
        // SAFETY: exchanges the value; a driver without the function leaves it.
        unsafe { vendor::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Self(mode)
    }
}

impl Drop for CaptureMode {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { vendor::cuThreadExchangeStreamCaptureMode(&mut self.0) };
    }
}

/// Waits until every context of these devices is idle; `None` when it takes longer than `limit`.
///
/// The driver has no such wait with a limit, and no question about all streams at once, so that a thread waits in our
/// place. One that is stuck stays so until the device is idle; until then nothing else is recorded.
fn synchronise(devices: &[CUdevice], limit: Duration) -> Option<Status> {
    static WAITING: AtomicBool = AtomicBool::new(false);
    if WAITING.swap(true, Ordering::AcqRel) {
        return None;
    }
    let (sender, receiver) = sync_channel(1);
    let contexts = contexts::of_devices(devices);
    let wait = move || {
        reentrancy::bypassing(|| {
            let _mode = CaptureMode::relaxed();
            let idle = |context: usize| {
                // SAFETY: the context is alive: whoever destroys it waits at the gate. One that died in a way that is not hooked has
                // nothing to wait for.
                unsafe {
                    match vendor::cuCtxSetCurrent(context as CUcontext) {
                        SUCCESS => vendor::cuCtxSynchronize(),
                        _ => SUCCESS,
                    }
                }
            };
            let status = contexts.into_iter().map(idle).find(|status| *status != SUCCESS).unwrap_or(SUCCESS);
            WAITING.store(false, Ordering::Release);
            let _ = sender.send(status);
        });
    };
    if store::without_signals(|| std::thread::Builder::new().name("mneme-idle".into()).spawn(wait)).is_err() {
        WAITING.store(false, Ordering::Release);
        return None;
    }
    receiver.recv_timeout(limit).ok()
}

/// Whether this is the process that launched, not a child of it.
pub fn is_recording_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Whether this process has launched kernels and not said so yet.
pub fn has_something_to_finish() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id() && !FINISHED.load(Ordering::Relaxed)
}

/// Ends recording: closes the packs, writes the occurrences, and tells the user. Once, and only in the process that launched.
pub fn finish() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() || FINISHED.swap(true, Ordering::AcqRel) {
        return;
    }
    // A recorded launch of another thread is let finish; calls that are stuck in the vendor's library are not waited for.
    let _closed = gate::close(Duration::from_millis(200));
    output::close(write_occurrences);
    profile::collect_at_end();
    let settings = settings();
    let kernels: Vec<_> = code::kernels().iter().map(|kernel| report_on(kernel)).filter(|kernel| kernel.launches > 0).collect();
    let summary = Summary {
        process: std::process::id(),
        rank: settings.rank,
        selected: settings.rank_selected,
        mode: settings.mode,
        device: vendor::current_device().map(|device| Device::of(device).name).unwrap_or_default(),
        folder: settings.folder.display().to_string(),
        seconds: STARTED.get().map_or(0.0, |start| start.elapsed().as_secs_f64()),
        kernels,
    };
    summary::deliver(&summary, settings.summary.as_deref());
    let text = graphs::summary();
    if !text.is_empty() && crate::log::enabled(crate::log::Level::Warning) {
        crate::log::raw(&text);
    }
}

/// Writes how often each instance was launched.
fn write_occurrences() {
    for kernel in code::kernels() {
        let progress = &kernel.progress;
        let Some(Ok(code)) = progress.code.get() else { continue };
        let repeated: Vec<(u64, u64)> = {
            let recorded = progress.recorded();
            let written = recorded.instances.iter().filter(|(_, occurrences)| occurrences.written);
            written
                .map(|(hash, occurrences)| (*hash, occurrences.count + progress.tally.launches(*hash)))
                .filter(|(_, count)| *count > 1)
                .collect()
        };
        for (hash, count) in repeated {
            if let Err(error) = database::set_occurrences(&settings().folder, code.static_hash, &hash.to_string(), count) {
                output::give_up(&error.to_string());
            }
        }
    }
}

/// Says what became of a kernel.
fn report_on(kernel: &Kernel) -> report::Kernel {
    let progress = &kernel.progress;
    let settings = settings();
    let recorded = progress.recorded();
    let count = |matches: fn(&Occurrences) -> bool| recorded.instances.values().filter(|occurrences| matches(occurrences)).count() as u64;
    let (instances, known) = (count(|occurrences| occurrences.written), count(|occurrences| occurrences.known_before));
    let file = match progress.code.get() {
        Some(Ok(code)) if settings.mode == Mode::Record && instances + known > 0 => {
            Some(settings.folder.join(format!("{}.json", code.static_hash)).display().to_string())
        }
        _ => None,
    };
    let launches = progress.launches.load(Ordering::Relaxed);
    let seen: u64 = recorded.instances.iter().map(|(hash, occurrences)| occurrences.count + progress.tally.launches(*hash)).sum();
    let failure =
        |(reason, failed): (&String, &Failed)| report::Failure { reason: reason.clone(), launches: failed.launches, broken: failed.broken };
    let mut failures: Vec<_> = recorded.failures.iter().map(failure).collect();
    if let Some(Err(reason)) = progress.code.get() {
        failures.push(report::Failure { reason: reason.clone(), launches: progress.tally.refused(), broken: false });
    }
    let failed: u64 = failures.iter().map(|failure| failure.launches).sum();
    let mut left_out = if settings.mode == Mode::Profile { 0 } else { launches.saturating_sub(seen + failed) };
    if recorded.given_up && left_out > 0 {
        let launches = std::mem::take(&mut left_out);
        failures.push(report::Failure { reason: "given up after that".to_owned(), launches, broken: true });
    }
    let (profiled, shapes) = progress.profile.result();
    report::Kernel {
        kernel: kernel.demangled.clone(),
        mangled: kernel.name.clone(),
        launches,
        instances,
        known,
        repeats: seen.saturating_sub(instances + known),
        left_out,
        memory_bytes: recorded.memory_bytes,
        disk_bytes: recorded.bytes,
        code: progress.code.get().and_then(|code| code.as_ref().ok()).map_or("", |code| code.source()).to_owned(),
        file,
        failures,
        gpu_time: profiled.or((recorded.gpu_time.count > 0).then_some(recorded.gpu_time)),
        shapes,
    }
}

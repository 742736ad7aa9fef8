//! The recorder: decides about each launch, takes its prologue and epilogue, and writes the recording.
//!
//! If a step fails, the application still gets exactly one launch and its own result.

pub mod counted;
mod ending;
pub mod graph_launches;
mod host_writes;
mod images;
mod instance;
pub mod output;
pub mod patience;
pub mod profile;
mod reachable;
pub mod settling;
pub mod signals;
mod stall;
mod summary;
pub mod unfinished;
pub mod unwatched;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use mneme_model::summary::RecorderMode;
use mneme_recording::manifest::RecordedArgument;
use mneme_system::address_space;

pub use ending::finish;
use instance::{InstanceFailure, record_launch};
pub use summary::hold as hold_summary;

use crate::apply::{self, LaunchOutcome, NotRecorded, OnTrial};
use crate::driver::contexts::{self, LiveContext};
use crate::driver::{self, CUfunction, Status, gate};
use crate::kernels::code::{DeviceDescription, KernelCode};
use crate::kernels::files::KernelFiles;
use crate::kernels::kernel::FunctionHandle;
use crate::kernels::key::{Key, LaunchShape};
use crate::kernels::progress::{Effect, KernelProgress, Likeness, Occurrences};
use crate::kernels::request::LaunchRequest;
use crate::kernels::{handles, recent};
use crate::process::flags::FLAGS;
use crate::process::held_back::hold_back;
use crate::process::log::{debug, warning};
use crate::process::own_stack::on_own_stack;
use crate::process::settings::{GraphExpansion, RecorderSettings, settings};

/// How many launches of a kernel may fail because host threads write, before it is given up.
const ATTEMPTS: u64 = 3;
/// The address space that recording a launch needs, bytes: for buffers, stacks and heaps of threads.
const ROOM: usize = 64 << 20;

/// A launch to record.
struct Plan {
    function: FunctionHandle,
    code: Arc<KernelCode>,
    files: Arc<KernelFiles>,
    arguments: Vec<RecordedArgument>,
    dynamic_hash: u64,
    context: LiveContext,
    /// It changes memory, and replaces a recorded launch that did not; not written unless it does.
    is_further: bool,
}

/// The decision about a launch that is not only counted.
enum Decision {
    /// The driver refused launches like it, so this one is tried before any is recorded.
    Try,
    Record(Plan),
    /// It is not recorded, but the recorder checks whether it finishes.
    LookAfter,
}

/// The process that launches. A forked child has the same memory, but must not use the device or write.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static FINISHED: AtomicBool = AtomicBool::new(false);
/// This is a forked child of a process that launched. The flag avoids a system call for the process number on every
/// launch.
static INHERITED: AtomicBool = AtomicBool::new(false);

/// Runs in every forked child.
pub fn note_fork() {
    if PROCESS.load(Ordering::Relaxed) != 0 {
        INHERITED.store(true, Ordering::Relaxed);
        FLAGS.records.store(false, Ordering::Relaxed);
    }
}

/// The time of this process's first launch.
static STARTED: OnceLock<Instant> = OnceLock::new();
/// The name of the device of the first launch. At the end of the process the driver no longer reports it.
static FIRST_DEVICE: OnceLock<String> = OnceLock::new();

/// Notes that this process launches kernels.
#[cold]
fn begin() {
    if PROCESS.load(Ordering::Relaxed) == 0 {
        let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    }
    STARTED.get_or_init(|| {
        settling::start();
        ending::announce();
        FLAGS.leaves_out.store(settings().leaves_out_any(), Ordering::Relaxed);
        FLAGS.records.store(settings().mode != RecorderMode::Profile, Ordering::SeqCst);
        Instant::now()
    });
    // A launch into another context's stream may come before this thread has a context.
    if FIRST_DEVICE.get().is_none()
        && let Some(device) = driver::current_device()
    {
        let _ = FIRST_DEVICE.set(DeviceDescription::of(device).name);
    }
    if FINISHED.load(Ordering::SeqCst) || INHERITED.load(Ordering::Relaxed) {
        FLAGS.records.store(false, Ordering::SeqCst);
    }
}

/// Handles every launch without a [pass](counted::pass).
pub fn launch(call: &dyn Fn() -> Status, request: LaunchRequest) -> Status {
    if !FLAGS.records.load(Ordering::Acquire) {
        begin();
    }
    let known = recent::find(request.function as usize).or_else(|| handles::function(request.function));
    let Some(function) = &known else { return gate::passing(call) };
    if !FLAGS.records.load(Ordering::Acquire) {
        return launch_unrecorded(call, &request, function);
    }
    if settings().mode == RecorderMode::Apply {
        return launch_applied(call, &request, function);
    }
    let (held, decision) = match decide_at_once(function, &request) {
        Some(decision) => (None, decision),
        None => (Some(hold_back(signals::is_handled)), on_own_stack(|| decide(function, &request))),
    };
    match decision {
        Some(Decision::Record(plan)) if settings().mode == RecorderMode::DryRun => {
            note_planned(&plan);
            RECORDED.fetch_add(1, Ordering::Relaxed);
            function.kernel.progress.settle(plan.dynamic_hash, plan.key(&request), Some(Effect::ChangedMemory));
            drop(held);
            gate::passing(call)
        }
        Some(Decision::Record(plan)) => record(call, &request, plan),
        Some(Decision::Try) => {
            drop(held);
            let status = gate::passing(call);
            function.kernel.progress.tried(LaunchShape::of(&request.launch), status == Status::SUCCESS);
            status
        }
        Some(Decision::LookAfter) => {
            drop(held);
            look_after(call, &request, function)
        }
        None => {
            drop(held);
            gate::passing(call)
        }
    }
}

/// How many launches were recorded, and kernels given up.
static RECORDED: AtomicU64 = AtomicU64::new(0);

pub fn recorded() -> u64 {
    RECORDED.load(Ordering::Relaxed)
}

/// Whether a launch would be recorded, or could be later. The launch is not made, and not counted.
pub fn lacks(request: &LaunchRequest) -> bool {
    if !FLAGS.records.load(Ordering::Acquire) {
        begin();
    }
    let Some(function) = handles::function(request.function) else { return false };
    FLAGS.records.load(Ordering::Acquire)
        && function.kernel.is_selected()
        && !request.launch.is_empty()
        && output::broken().is_none()
        && function.kernel.progress.lacks(request)
}

/// Makes a launch that is not recorded, and checks later whether it finishes.
fn look_after(call: &dyn Fn() -> Status, request: &LaunchRequest, function: &FunctionHandle) -> Status {
    let status = gate::passing(call);
    if status == Status::SUCCESS {
        unfinished::look_after(request, &function.kernel);
    }
    status
}

/// Launches in a process that applies winners.
fn launch_applied(call: &dyn Fn() -> Status, request: &LaunchRequest, function: &FunctionHandle) -> Status {
    // Only tuned code is timed: not the application's own code, and not the search for and loading of tuned code.
    let replaced = |start: &dyn Fn() -> Status, number: u64| {
        if settings().times_replaced { profile::launch(start, request, function, number) } else { start() }
    };
    match apply::launch(call, request, function, &replaced) {
        LaunchOutcome::Launched(status) | LaunchOutcome::Replaced(status) => status,
        LaunchOutcome::OnTrial(trial) => record_for_trial(call, request, function, trial),
    }
}

/// Launches in a process that does not record, or not any more.
#[cold]
fn launch_unrecorded(call: &dyn Fn() -> Status, request: &LaunchRequest, function: &FunctionHandle) -> Status {
    let number = function.kernel.progress.launches.fetch_add(1, Ordering::Relaxed);
    if settings().mode != RecorderMode::Profile {
        return gate::passing(call);
    }
    // Without recording the gate stays open, so the launch does not pass it.
    let watched = !INHERITED.load(Ordering::Relaxed) && function.kernel.is_selected();
    if watched { profile::launch(call, request, function, number) } else { call() }
}

/// Notes the properties of a launch that a dry run would record.
fn note_planned(plan: &Plan) {
    let bytes = reachable::through_arguments(plan, &[]).iter().map(|live| live.size).sum();
    let mut recorded = plan.function.kernel.progress.recorded();
    recorded.memory_bytes = recorded.memory_bytes.max(bytes);
    if let Some(occurrences) = recorded.instances.get_mut(&plan.dynamic_hash) {
        occurrences.written = true;
    }
}

/// Counts a launch of a kind that cannot be recorded.
pub fn refuse(handle: CUfunction, reason: &str) {
    let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    settling::start();
    ending::announce();
    if let Some(function) = handles::function(handle) {
        let progress = &function.kernel.progress;
        progress.launches.fetch_add(1, Ordering::Relaxed);
        progress.count_failure(reason);
    }
}

/// Counts a launch and decides about it, if that does not need its code and arguments; otherwise returns `None`.
fn decide_at_once(function: &FunctionHandle, request: &LaunchRequest) -> Option<Option<Decision>> {
    let kernel = &function.kernel;
    let progress = &kernel.progress;
    let number = progress.launches.fetch_add(1, Ordering::Relaxed);
    if !kernel.is_selected() || (FLAGS.leaves_out.load(Ordering::Relaxed) && settings().leaves_out(number)) {
        return Some(None);
    }
    if counted::is_only_counted(progress, request) {
        return Some(None);
    }
    if progress.is_unfinished() {
        return Some(Some(Decision::LookAfter));
    }
    if request.launch.is_empty() {
        progress.recorded().rejected += 1;
        return Some(None);
    }
    if let Some(Err(_)) = progress.code.get() {
        progress.tally.refuse();
        return Some(None);
    }
    if gate::was_abandoned() {
        output::give_up("the application has left a recorded launch by a jump (longjmp) out of a signal handler");
    }
    if !address_space::has_room(ROOM) {
        output::give_up(&format!(
            "the limit on the address space (RLIMIT_AS) leaves less than the {} MiB that recording needs; raise it with 'ulimit -v' or setrlimit",
            ROOM >> 20
        ));
    }
    if let Some(reason) = output::broken() {
        progress.recorded().count_failures(reason, 1, true);
        return Some(None);
    }
    if let Some(obstacle) = obstacle(function) {
        progress.count_failure(&obstacle.to_string());
        return Some(patience::is_wary().then_some(Decision::LookAfter));
    }
    None
}

/// Decides whether to record a launch, and prepares it.
fn decide(function: &FunctionHandle, request: &LaunchRequest) -> Option<Decision> {
    let progress = &function.kernel.progress;
    let mut plan = plan(function, request)?;
    match claim(progress, settings(), &plan, plan.key(request)) {
        Claim::Counted => return None,
        Claim::Doubtful => return Some(Decision::Try),
        Claim::Taken => {}
        Claim::Further => plan.is_further = true,
    }
    contexts::note(plan.context.handle, plan.context.device);
    Some(Decision::Record(plan))
}

/// Why a launch of a kernel is not recorded now although a later one may be. Does not wait.
fn obstacle(function: &FunctionHandle) -> Option<InstanceFailure> {
    if unfinished::is_busy() {
        return Some(InstanceFailure::Busy);
    }
    if !patience::is_wary() || function.kernel.progress.is_finished() {
        return None;
    }
    unfinished::settle();
    (!function.kernel.progress.is_finished()).then_some(InstanceFailure::Unproven)
}

/// Collects the data for recording a launch. If the launch cannot be recorded, counts it and returns `None`.
fn plan(function: &FunctionHandle, request: &LaunchRequest) -> Option<Plan> {
    let kernel = &function.kernel;
    let progress = &kernel.progress;
    let device = driver::current_device()?;
    let context = driver::current_context()?;
    let find = || {
        let device = DeviceDescription::of(device);
        KernelCode::of(&kernel.name, &handles::origin(function.home), request.function, &device)
    };
    let Ok(code) = progress.code.get_or_init(find).clone() else {
        progress.tally.refuse();
        return None;
    };
    let Some(files) = code.files_or(find) else {
        progress.count_failure("its code has been unloaded, and the code loaded since then differs");
        return None;
    };
    // SAFETY: the layout is that of the kernel's parameters, and the launch is in progress.
    let Some(arguments) = (unsafe { request.arguments.read(code.parameters.layout()) }) else {
        progress.count_failure("its arguments do not fit its IR; rebuild it as a whole");
        return None;
    };
    let dynamic_hash = code.dynamic_hash(&request.launch, &arguments);
    let context = LiveContext { handle: context, device };
    Some(Plan { function: function.clone(), code, files, arguments, dynamic_hash, context, is_further: false })
}

impl Plan {
    fn key(&self, request: &LaunchRequest) -> Key {
        self.code.key(&request.launch, &self.arguments)
    }
}

enum Claim {
    /// It repeats an instance or exceeds the limit.
    Counted,
    /// Launches like it were refused.
    Doubtful,
    Taken,
    /// One like it was recorded and changed no memory.
    Further,
}

/// Claims a launch for recording.
fn claim(progress: &KernelProgress, settings: &RecorderSettings, plan: &Plan, key: Key) -> Claim {
    let dynamic_hash = plan.dynamic_hash;
    let mut recorded = progress.recorded();
    match recorded.count(dynamic_hash, settings) {
        Likeness::Counted => return Claim::Counted,
        Likeness::Further => return Claim::Further,
        Likeness::New => {}
    }
    if recorded.is_doubtful(key.shape) {
        return Claim::Doubtful;
    }
    let known_before = recorded.in_folder.contains(&settings.folder, plan.code.static_hash, dynamic_hash);
    recorded.instances.insert(dynamic_hash, Occurrences::new(known_before));
    if known_before {
        progress.tally.watch(dynamic_hash, key);
    }
    progress.update_tally(&recorded, settings);
    if known_before { Claim::Counted } else { Claim::Taken }
}

/// Executes a launch and records it. Returns its status, and the reason if it is not recorded.
fn execute(
    call: &dyn Fn() -> Status,
    request: &LaunchRequest,
    plan: &Plan,
) -> (Status, Result<Effect, InstanceFailure>) {
    let _held = hold_back(signals::is_handled);
    let progress = &plan.function.kernel.progress;
    let result = std::cell::Cell::new(None);
    let launch = || {
        let status = call();
        result.set(Some(status));
        status
    };
    // If the recorder panics, the launch must still happen exactly once, which the hook's own handler cannot ensure.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| record_launch(&launch, request, plan)));
    let outcome = outcome
        .unwrap_or_else(|_| Err(InstanceFailure::Io(std::io::Error::other("an internal error of the recorder"))));
    match &outcome {
        Ok(_) => progress.note_finished(),
        Err(failure) if failure.ends_all() => output::give_up(&failure.to_string()),
        Err(failure) if failure.was_waited_for() => {
            patience::note_in_vain();
            if matches!(failure, InstanceFailure::Unfinished(_)) {
                progress.note_unfinished();
            }
        }
        Err(_) => {}
    }
    (result.get().unwrap_or_else(|| gate::passing(call)), outcome)
}

/// Executes a launch and records it as an instance.
fn record(call: &dyn Fn() -> Status, request: &LaunchRequest, plan: Plan) -> Status {
    let (status, outcome) = execute(call, request, &plan);
    let progress = &plan.function.kernel.progress;
    match outcome {
        Ok(effect) => {
            RECORDED.fetch_add(1, Ordering::Relaxed);
            progress.settle(plan.dynamic_hash, plan.key(request), Some(effect));
        }
        Err(_) if plan.is_further => progress.settle(plan.dynamic_hash, plan.key(request), None),
        // The graph's launch is the launch, and is recorded then or counted with its reason.
        Err(InstanceFailure::Captured) if settings().graphs != GraphExpansion::Never => {
            progress.withdraw(plan.dynamic_hash);
        }
        Err(InstanceFailure::Rejected(_)) => progress.rejected(plan.dynamic_hash, LaunchShape::of(&request.launch)),
        Err(failure) => {
            let captured = matches!(failure, InstanceFailure::Captured | InstanceFailure::Capturing);
            let reason = failure.to_string();
            let may_pass = failure.may_pass() && progress.recorded().failures_of(&reason) < ATTEMPTS - 1;
            // An unused pointer argument may hold an old value, and objects come and go, so later launches are checked
            // again, which costs little.
            let is_of_the_launch = matches!(failure, InstanceFailure::Pageable(_) | InstanceFailure::Images(_));
            let gives_up = !captured && !may_pass && !is_of_the_launch;
            RECORDED.fetch_add(u64::from(gives_up), Ordering::Relaxed);
            progress.failed(plan.dynamic_hash, &reason, failure.is_broken(), gives_up);
            if gives_up && output::broken().is_none() {
                warning!("{} is not recorded any more: {failure}", plan.function.kernel.demangled);
            }
        }
    }
    status
}

/// Executes a launch and records it for a trial of a winner.
fn record_for_trial(
    call: &dyn Fn() -> Status,
    request: &LaunchRequest,
    function: &FunctionHandle,
    trial: OnTrial,
) -> Status {
    if !function.kernel.progress.is_unfinished()
        && let Some(obstacle) = obstacle(function)
    {
        debug!("{} is not tried yet: {obstacle}", function.kernel.demangled);
        trial.postpone();
        return look_after(call, request, function);
    }
    let Some(mut plan) = plan(function, request).filter(|_| may_record(function)) else {
        let reason = output::broken().unwrap_or("its launch cannot be recorded").to_owned();
        trial.end(0, 0, Err(NotRecorded { reason, may_pass: false }));
        return gate::passing(call);
    };
    plan.dynamic_hash = trial.distinguish(plan.dynamic_hash);
    contexts::note(plan.context.handle, plan.context.device);
    let (status, outcome) = execute(call, request, &plan);
    let outcome = outcome.map(|_| ()).map_err(|failure| NotRecorded {
        reason: failure.to_string(),
        may_pass: failure.may_pass()
            || matches!(failure, InstanceFailure::Rejected(_) | InstanceFailure::Captured | InstanceFailure::Capturing),
    });
    trial.end(plan.code.static_hash, plan.dynamic_hash, outcome);
    status
}

/// Whether launches of a kernel may still be recorded for trials.
fn may_record(function: &FunctionHandle) -> bool {
    output::broken().is_none() && !function.kernel.progress.is_unfinished()
}

/// Whether this process launched kernels, as opposed to being its child.
pub fn is_recording_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Whether this process has launched kernels and not delivered its summary yet.
pub fn has_something_to_finish() -> bool {
    is_recording_process() && !FINISHED.load(Ordering::Relaxed)
}

/// When this library was loaded, ns since 1970.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Notes when this library was loaded.
pub fn note_start() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    LOADED.store(now.map_or(0, |time| time.as_nanos() as u64), Ordering::Relaxed);
}

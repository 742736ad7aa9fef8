//! Requests code that is made while the application runs; a thread loads it.
//!
//! A request is written to the folder of the run, with the kernel's IR. The thread looks for the answer and loads its
//! code before launches use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_model::launch::Launch;
use mneme_winners::{LaunchDimensions, SpecialisationError, SpecialisationRequest, SpecialisedLaunch, Winner};

use super::candidate::{WinnerCandidate, shape_of};
use super::error::ApplyError;
use super::specialisation::Wanted;
use super::{KernelReplacement, loaded, loading};
use crate::driver::{self, captures};
use crate::kernels::files::KernelFiles;
use crate::kernels::kernel::Kernel;
use crate::kernels::request::LaunchRequest;
use crate::process::log::{info, warning};
use crate::process::settings::settings;
use crate::process::threads;

/// How often to look for answers while there are requests.
const LOOK: Duration = Duration::from_millis(10);

/// A request without an answer.
struct Open {
    kernel: Arc<Kernel>,
    place: usize,
    base: Option<usize>,
    context: usize,
    /// How many contexts had ended when it was made.
    ends: u64,
    state: State,
}

enum State {
    /// Not written yet.
    New(Box<SpecialisationRequest>, Arc<KernelFiles>),
    /// Written under this name.
    Written(Box<SpecialisationRequest>, String),
}

#[derive(Default)]
struct Requests {
    open: Vec<Open>,
    /// The thread runs.
    is_on: bool,
    /// The thread cannot be started.
    is_off: bool,
}

static REQUESTS: Mutex<Requests> = Mutex::new(Requests { open: Vec::new(), is_on: false, is_off: false });

fn requests() -> MutexGuard<'static, Requests> {
    REQUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests code for a launch in progress, which has the winner `base` and these dimensions so far.
pub fn submit(
    kernel: &Arc<Kernel>,
    request: &LaunchRequest,
    wanted: Wanted,
    base: Option<&WinnerCandidate>,
    shape: LaunchDimensions,
) -> Option<()> {
    let Some(Ok(code)) = kernel.progress.code.get() else { return None };
    let (device, context) = (driver::current_device()?, driver::current_context()?);
    // SAFETY: the layout is that of the kernel's parameters, and the launch is in progress.
    let arguments = unsafe { request.arguments.read(code.parameters.layout()) }?;
    let Launch { attributes, .. } = &request.launch;
    let files = code.files()?;
    let record = code.record(&files, &kernel.demangled, device);
    let asked = SpecialisationRequest {
        launch: SpecialisedLaunch {
            kernel: record.kernel_name.clone(),
            static_hash: record.static_hash,
            recorded: shape_of(&request.launch),
            shape,
            cluster: attributes.cluster,
            arguments,
            folded: wanted.folded,
        },
        record,
        compiled: code.compiled.clone(),
        base: base.map(|base| base.winner().identity()),
    };
    let state = State::New(Box::new(asked), files);
    let open =
        Open { kernel: kernel.clone(), place: wanted.place, base: wanted.base, context, ends: loading::ends(), state };
    let mut requests = requests();
    if requests.is_off {
        return None;
    }
    requests.open.push(open);
    if !requests.is_on {
        loading::begin();
        requests.is_on = threads::start("mneme-specialise", threads::LARGE, serve);
        requests.is_off = !requests.is_on;
    }
    Some(())
}

/// Writes requests and loads answers until none are left.
fn serve() {
    loop {
        let taken = std::mem::take(&mut requests().open);
        let left: Vec<Open> = taken.into_iter().filter_map(progress).collect();
        let mut requests = requests();
        requests.open.extend(left);
        if requests.open.is_empty() {
            requests.is_on = false;
            return;
        }
        drop(requests);
        std::thread::sleep(LOOK);
    }
}

/// Advances a request. Returns it unless it is done.
fn progress(open: Open) -> Option<Open> {
    match &open.state {
        State::New(request, files) => match write(files, request) {
            Ok(name) => Some(Open { state: State::Written(request.clone(), name), ..open }),
            Err(error) => {
                refuse(&open, &error, true);
                None
            }
        },
        State::Written(request, name) => {
            let Some(answer) = request.answer(&settings().folder, name) else { return Some(open) };
            // Loading must not become part of a capture.
            if captures::in_progress() {
                return Some(open);
            }
            match take_in(&open, answer) {
                Ok(()) => info!("{} is specialised", open.kernel.demangled),
                Err(error) => refuse(&open, &error, false),
            }
            None
        }
    }
}

/// Writes a request and the modules to compile. Returns the request's name.
fn write(files: &KernelFiles, request: &SpecialisationRequest) -> Result<String, ApplyError> {
    let folder = &settings().folder;
    files.write_modules(folder).map_err(|error| ApplyError::Modules(Arc::new(error)))?;
    request.ask(folder).map_err(|source| ApplyError::Request { folder: folder.clone(), source: Arc::new(source) })
}

fn replacement(kernel: &Kernel) -> Option<&KernelReplacement> {
    kernel.progress.replacement.get()?.downcast_ref()
}

/// Loads the code of an answer and makes it available to launches.
fn take_in(open: &Open, answer: Result<Winner, SpecialisationError>) -> Result<(), ApplyError> {
    let kernel = &open.kernel;
    let specialisation = replacement(kernel).and_then(|known| known.specialisation.as_ref());
    let specialisation = specialisation.ok_or(ApplyError::NoPlace)?;
    let winner = answer?;
    let Some(Ok(code)) = kernel.progress.code.get() else { return Err(ApplyError::UnknownCode) };
    // Leaked, because another thread may use it until the process ends.
    let winner = Box::leak(Box::new(winner));
    let candidate = WinnerCandidate::variant(winner, &code.parameters, code.prints, open.base)?;
    // If the context has ended, the first launch that uses the code loads it.
    let ready = loading::in_context(open.context, open.ends, || {
        let loaded = loaded::load(&candidate.code, open.context)?;
        loaded.follow(&kernel.progress.function_settings, winner)
    });
    ready.unwrap_or(Ok(()))?;
    specialisation.add(open.place, candidate);
    Ok(())
}

fn refuse(open: &Open, error: &ApplyError, is_final: bool) {
    warning!("{} is not specialised: {error}", open.kernel.demangled);
    if let Some(replacement) = replacement(&open.kernel) {
        if let Some(specialisation) = &replacement.specialisation {
            specialisation.refuse(&error.to_string(), is_final);
        }
        super::give_up_if_due(&open.kernel, replacement);
    }
}

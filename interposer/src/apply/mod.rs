//! `MNEME_MODE=apply`: replaces kernels that were recorded and tuned by tuned code.
//!
//! A kernel is recognised by the static hash of its recording, or by the image from which it was recorded, so a kernel
//! that has changed keeps its own code. If a replacement is impossible, the application's own launch takes place; the
//! log says so once if the user would not expect it.

mod candidate;
mod error;
mod graph_kernel;
mod index;
mod loaded;
mod loading;
mod observed;
mod on_trial;
mod replacement;
mod requests;
mod residency;
mod specialisation;
mod start;
mod trials;

pub use graph_kernel::GraphKernel;
pub use loading::{end_of_context, stop as stop_loading};
pub use on_trial::{NotRecorded, OnTrial};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mneme_model::launch::{DEFAULT_DYNAMIC_SHARED, Launch};
use mneme_model::summary::{Applied, RecordingFailure};
use mneme_winners::{LaunchDimensions, Winner};

use self::candidate::{Fit, WinnerCandidate, shape_of};
use self::error::ApplyError;
use self::loaded::LoadedCode;
use self::replacement::KernelReplacement;
use self::specialisation::Specialisation;
use crate::driver::{self, CUfunction, CUstream, Status, captures, gate, streams};
use crate::kernels::code::{DeviceDescription, KernelCode, image_key};
use crate::kernels::handles;
use crate::kernels::kernel::{FunctionHandle, Kernel};
use crate::kernels::origin::CodeOrigin;
use crate::kernels::parameters::Parameters;
use crate::kernels::request::{LaunchArguments, LaunchRequest};
use crate::process::log::{debug, info, warning};
use crate::process::settings::settings;
use crate::process::{recorded_family, winners};

/// After this many refused launches by the driver, a winner is not used any more.
const MOST_REFUSALS: u32 = 3;

const UNTRIED: &str = "its winner was not verified yet";
const UNFIT: &str = "no winner is for such dimensions and arguments";
// Why launches keep their own dimensions although a winner has others. For the first two, the launch also keeps its own
// code, unless the tuned code verified with its recorded dimensions; the others have tuned code.
const UNVERIFIED: &str = "its winner's dimensions were verified on other launches; --any-launch uses them for all";
const CROWDED: &str = "all of its blocks are on the device at once, and would not be with the tuned dimensions";
const ALWAYS_OWN: &str = "its winner is used with the application's dimensions alone";
const UNRULED: &str = "the rule for its winner's dimensions is for other launches";
const ROOMLESS: &str = "all of its blocks are on the device at once, and would not be with the tuned code";
const UNSPECIALISED: &str = "no code was made for launches like it yet";
const CAPTURING: &str = "its tuned code is not loaded while a stream is captured";
const ELSEWHERE: &str = "its stream belongs to another context than the current one";
const NO_REQUEST: &str = "no thread could be started for it";
const REFUSED: &str = "the driver refused the tuned code, and took the application's own";
const EMPTY: &str = "it has no block or no thread";
const TOO_LARGE: &str = "its block, its grid or its shared memory is larger than the application's own code takes";
const FAILED: &str = "the driver refused it, with tuned code and with the application's own";
/// The most blocks along each axis that CUDA accepts.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The outcome of a launch.
pub enum LaunchOutcome {
    /// The application's own kernel was launched.
    Launched(Status),
    /// Tuned code was launched.
    Replaced(Status),
    /// Not launched yet: for a winner on trial, the caller must launch and record the application's own kernel.
    OnTrial(OnTrial),
}

/// Makes the given launch of tuned code. The number counts the kernel's replaced launches from 0.
pub type AroundReplaced<'a> = &'a dyn Fn(&dyn Fn() -> Status, u64) -> Status;

/// Launches a kernel: tuned code, through `replaced`, if there is some for the launch, otherwise the application's own.
pub fn launch(
    call: &dyn Fn() -> Status,
    request: &LaunchRequest,
    function: &FunctionHandle,
    replaced: AroundReplaced<'_>,
) -> LaunchOutcome {
    let kernel = &function.kernel;
    kernel.progress.launches.fetch_add(1, Ordering::Relaxed);
    if !kernel.is_selected() || kernel.progress.tally.is_given_up() {
        return LaunchOutcome::Launched(gate::passing(call));
    }
    let Some(replacement) = of(function, request.function) else { return LaunchOutcome::Launched(gate::passing(call)) };
    let choice = choose_for_stream(replacement, request, function);
    if let Some(specialisation) = &replacement.specialisation {
        match &choice {
            Ok(choice) if choice.candidate.is_variant => {}
            Ok(choice) => want(kernel, replacement, specialisation, request, Some(choice.candidate), choice.shape),
            Err(Kept::For(UNFIT | UNVERIFIED | UNSPECIALISED)) => {
                want(kernel, replacement, specialisation, request, None, shape_of(&request.launch));
            }
            Err(_) => {}
        }
    }
    match choice {
        Ok(choice) => {
            let start = || replaced(&|| gate::passing(&|| choice.start(request)), replacement.replaced());
            return replace(call, &start, request, replacement, &choice, kernel);
        }
        Err(Kept::Untried(candidate, shape)) => {
            replacement.count_kept(UNTRIED);
            if let Some(trial) = OnTrial::take(kernel, replacement, candidate, shape) {
                return LaunchOutcome::OnTrial(trial);
            }
        }
        Err(Kept::Captured) => {
            kernel.progress.launches.fetch_sub(1, Ordering::Relaxed);
        }
        Err(Kept::For(reason)) => replacement.count_kept(reason),
        // The summary gives the reason for the rest of the launches.
        Err(Kept::GivenUp) => {}
    }
    LaunchOutcome::Launched(gate::passing(call))
}

/// Notes a launch that has no specialised code, and requests some once it repeats.
fn want(
    kernel: &Arc<Kernel>,
    replacement: &KernelReplacement,
    specialisation: &Specialisation,
    request: &LaunchRequest,
    base: Option<&WinnerCandidate>,
    shape: LaunchDimensions,
) {
    let at = base.and_then(|base| replacement.index_of(base));
    if let Some(wanted) = specialisation.note(&request.launch, &request.arguments, at, shape) {
        let Some(Ok(code)) = kernel.progress.code.get() else { return };
        let refused = match obstacle(code) {
            Some(reason) => Some(reason),
            None => requests::submit(kernel, request, wanted, base, shape).is_none().then(|| NO_REQUEST.to_owned()),
        };
        if let Some(reason) = refused {
            info!("{} is not specialised: {reason}", kernel.demangled);
            specialisation.refuse(&reason, true);
        }
    }
    give_up_if_due(kernel, replacement);
}

/// Why no code can be specialised for a kernel.
fn obstacle(code: &KernelCode) -> Option<String> {
    if !code.has_ir() {
        return Some(format!("it has no IR, only {}; build the program with mneme-cc", code.source()));
    }
    let names: Vec<&str> = code.variables().map(|(name, _)| name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "it uses variables of its module ({}), of which specialised code would have separate copies",
            names.join(", ")
        )
    })
}

/// Why a launch keeps the application's own code.
#[derive(Clone, Copy)]
enum Kept<'a> {
    /// It is only captured; launches of its graph are counted.
    Captured,
    /// The winner that needs trials, and the dimensions that it would use.
    Untried(&'a WinnerCandidate, LaunchDimensions),
    For(&'static str),
    /// Reported already, for all launches of the kernel.
    GivenUp,
}

/// The replacement for a launch.
struct Choice<'a> {
    candidate: &'a WinnerCandidate,
    loaded: &'static LoadedCode,
    shape: LaunchDimensions,
    /// Why these are the application's own dimensions although the winner has others.
    kept: Option<&'static str>,
}

impl Choice<'_> {
    /// The dimensions to request from the driver.
    fn requested(&self) -> LaunchDimensions {
        let is_in_code = self.candidate.winner().folded.shared_memory;
        LaunchDimensions { shared_mem: if is_in_code { 0 } else { self.shape.shared_mem }, ..self.shape }
    }

    /// Whether all blocks are on the device at once if those of the application's own code are.
    fn is_resident(&self, request: &LaunchRequest, function: &FunctionHandle) -> bool {
        let settings = function.kernel.progress.function_settings.version();
        let launches = [&shape_of(&request.launch), &self.requested()];
        self.loaded.residency.allows(launches, settings, |launch, demand| {
            // SAFETY: the handle of the launch in progress, and a function of the recorder in the current context.
            unsafe {
                match launch {
                    0 => residency::own_blocks(request.function, function, demand),
                    _ => residency::blocks_of(self.loaded.function, demand),
                }
            }
        })
    }

    fn start(&self, request: &LaunchRequest) -> Status {
        start::start(request, self.loaded.function, &self.requested())
    }
}

/// The replacement of a kernel, determined at its first launch. `None` if the context does not report its device.
fn of(function: &FunctionHandle, handle: CUfunction) -> Option<&KernelReplacement> {
    let kernel = &function.kernel;
    let known = match kernel.progress.replacement.get() {
        Some(known) => known,
        None => {
            let device = driver::current_device()?;
            kernel.progress.replacement.get_or_init(|| {
                let replacement = find(function, handle, &DeviceDescription::of(device));
                give_up_if_due(kernel, &replacement);
                Box::new(replacement)
            })
        }
    };
    known.downcast_ref()
}

/// Determines the replacement. Searches for the kernel's code only if its image does not identify it.
fn find(function: &FunctionHandle, handle: CUfunction, device: &DeviceDescription) -> KernelReplacement {
    let (kernel, origin) = (&function.kernel, || handles::origin(function.home));
    let winners = winners::of(&kernel.name);
    // Trials record the variables of all code.
    let is_code_wanted = settings().specialise.is_some() || settings().verify_first > 0;
    if winners.is_empty() && !is_code_wanted {
        return KernelReplacement::new(Err(ApplyError::Untuned), None);
    }
    if !is_code_wanted && let Some(known) = of_image(kernel, &origin, winners, device) {
        debug!("{} is recognised by its image", kernel.demangled);
        // Code that is recognised by its image has no types.
        let parameters = &Parameters::untyped(known.layout.iter().copied());
        let &Winner { static_hash, image, prints, .. } = known;
        let recognised = Recognised { static_hash, image, parameters, prints };
        return KernelReplacement::new(candidates(winners, &recognised, &device.arch()), None);
    }
    let code = kernel.progress.code.get_or_init(|| KernelCode::of(&kernel.name, &origin(), handle, device)).as_ref();
    let candidates = match code {
        Ok(code) => {
            let &KernelCode { static_hash, image, ref parameters, prints, .. } = &**code;
            candidates(winners, &Recognised { static_hash, image, parameters, prints }, &device.arch())
        }
        Err(refusal) => Err(ApplyError::Unrecognised(refusal.clone())),
    };
    let kinds = settings().specialise;
    let specialisation = code.ok().zip(kinds).map(|(code, kinds)| Specialisation::new(code, kinds));
    if let (Err(reason), Some(_), false) = (&candidates, &specialisation, winners.is_empty()) {
        warning!("no winner for {} is used: {reason}", kernel.demangled);
    }
    KernelReplacement::new(candidates, specialisation)
}

/// A winner that was recorded from the image that contains the kernel.
fn of_image<'a>(
    kernel: &Kernel,
    origin: &dyn Fn() -> CodeOrigin,
    winners: &'a [Winner],
    device: &DeviceDescription,
) -> Option<&'a Winner> {
    let architecture = device.arch();
    let mut known =
        winners.iter().filter(|winner| winner.image.is_some() && winner.architecture == architecture).peekable();
    known.peek()?;
    let image = image_key(&kernel.name, &origin(), device)?;
    known.find(|winner| winner.image == Some(image))
}

/// The identity and properties of a kernel's code.
struct Recognised<'a> {
    static_hash: u64,
    image: Option<u64>,
    parameters: &'a Parameters,
    prints: bool,
}

impl Recognised<'_> {
    /// Whether a winner is for that code.
    fn is_of(&self, winner: &Winner) -> bool {
        winner.static_hash == self.static_hash || (self.image.is_some() && winner.image == self.image)
    }
}

fn candidates(
    winners: &'static [Winner],
    code: &Recognised<'_>,
    architecture: &str,
) -> Result<Vec<WinnerCandidate>, ApplyError> {
    if winners.is_empty() {
        return Err(ApplyError::Untuned);
    }
    let then = winners.first().map_or(0, |winner| winner.static_hash);
    let mut last = ApplyError::Changed { now: code.static_hash, then };
    let mut found = Vec::new();
    // Winners for other devices are tried only without winners for this one, to report why they do not fit.
    let is_of = |winner: &&Winner| code.is_of(winner);
    let is_for_here = |winner: &&Winner| winner.architecture == architecture;
    let has_own = winners.iter().filter(is_of).any(|winner| is_for_here(&winner));
    for winner in winners.iter().filter(is_of).filter(|winner| !has_own || is_for_here(winner)) {
        match WinnerCandidate::new(winner, code.parameters, code.prints) {
            Ok(candidate) => found.push(candidate),
            Err(error) => last = error,
        }
    }
    if found.is_empty() { Err(last) } else { Ok(found) }
}

/// Reports once that a kernel keeps its own code. From then on its launches are only counted.
fn give_up_if_due(kernel: &Kernel, replacement: &KernelReplacement) {
    if let Some(reason) = replacement.given_up()
        && !kernel.progress.tally.is_given_up()
    {
        kernel.progress.tally.close(true, true);
        // Without a winner the user does not expect a replacement.
        if winners::of(&kernel.name).is_empty() {
            info!("{} keeps its own code: {reason}", kernel.demangled);
        } else {
            warning!("{} keeps its own code: {reason}", kernel.demangled);
        }
    }
}

/// Gives up one of several winners.
fn give_up(kernel: &Kernel, replacement: &KernelReplacement, candidate: &WinnerCandidate, reason: String) {
    if candidate.broken.set(reason.clone()).is_ok() {
        if replacement.given_up().is_none() {
            warning!("a winner for {} is not used: {reason}", kernel.demangled);
        }
        give_up_if_due(kernel, replacement);
    }
}

/// Chooses the winner for a launch into a stream.
fn choose_for_stream<'a>(
    replacement: &'a KernelReplacement,
    request: &LaunchRequest,
    function: &FunctionHandle,
) -> Result<Choice<'a>, Kept<'a>> {
    if captures::in_progress() && captures::captures(request.stream as CUstream) {
        return Err(Kept::Captured);
    }
    if let Some(reason) = start::obstacle(request) {
        return Err(Kept::For(reason));
    }
    let context = driver::current_context().ok_or(Kept::For(ELSEWHERE))?;
    if streams::context_of(request.stream).is_some_and(|of_stream| of_stream != context) {
        return Err(Kept::For(ELSEWHERE));
    }
    choose(replacement, request, function, context)
}

/// Chooses the winner for a launch in the current context.
fn choose<'a>(
    replacement: &'a KernelReplacement,
    request: &LaunchRequest,
    function: &FunctionHandle,
    context: usize,
) -> Result<Choice<'a>, Kept<'a>> {
    let kernel = &function.kernel;
    if request.launch.is_empty() {
        return Err(Kept::For(EMPTY));
    }
    if replacement.given_up().is_some() {
        return Err(Kept::GivenUp);
    }
    let (launch, arguments) = (&request.launch, &request.arguments);
    let by_winner = by_winner(replacement, launch, arguments);
    // The dimensions of such launches when the code was made: for this launch, a rule may result in another grid.
    let own = Fit { shape: shape_of(launch), kept: by_winner.err().filter(|reason| *reason == UNVERIFIED) };
    let (base, fit) = by_winner.map_or((None, own), |(candidate, fit)| (replacement.index_of(candidate), fit));
    let variant = replacement.usable_variants().find(|variant| variant.is_for(launch, arguments, base, &fit.shape));
    let (candidate, Fit { shape, kept }) = match variant {
        Some(variant) => (variant, fit),
        None => by_winner.map_err(Kept::For)?,
    };
    if is_too_large(replacement, request, function) {
        return Err(Kept::For(TOO_LARGE));
    }
    if !candidate.trials.are_passed() {
        return Err(Kept::Untried(candidate, shape));
    }
    let ready = match loaded::find(&candidate.code, context) {
        Some(loaded) => Ok(loaded),
        None if captures::in_progress() => return Err(Kept::For(CAPTURING)),
        None => loaded::load(&candidate.code, context),
    };
    let ready = ready.and_then(|loaded| {
        let settings = &kernel.progress.function_settings;
        loaded.follow(settings, candidate.winner()).map(|()| loaded)
    });
    let loaded = ready.map_err(|error| {
        give_up(kernel, replacement, candidate, error.to_string());
        Kept::GivenUp
    })?;
    if loaded.max_threads.is_some_and(|most| shape.block.count() > u64::from(most)) {
        return Err(Kept::For(UNFIT));
    }
    let choice = Choice { candidate, loaded, shape, kept };
    match choice.is_resident(request, function) {
        true => Ok(choice),
        false if shape == shape_of(launch) => Err(Kept::For(ROOMLESS)),
        false => Err(Kept::For(CROWDED)),
    }
}

/// The winner for a launch, and the dimensions; or the reason why the launch keeps its own code.
fn by_winner<'a>(
    replacement: &'a KernelReplacement,
    launch: &Launch,
    arguments: &LaunchArguments,
) -> Result<(&'a WinnerCandidate, Fit), &'static str> {
    let numbers = replacement.index.find(launch, arguments);
    let ask = || ask_winners(replacement, &numbers, launch, arguments);
    if numbers.len() <= index::FEW { ask() } else { replacement.index.remembered(launch, arguments, ask) }
}

/// [`by_winner`] for these winners.
fn ask_winners<'a>(
    replacement: &'a KernelReplacement,
    numbers: &[usize],
    launch: &Launch,
    arguments: &LaunchArguments,
) -> Result<(&'a WinnerCandidate, Fit), &'static str> {
    let verified = |found: &'a WinnerCandidate| {
        let shape = found.verified_shape(launch, arguments)?;
        Some((found, Fit { shape, kept: None }))
    };
    if let Some(found) = replacement.usable(numbers).find_map(verified) {
        return Ok(found);
    }
    let mut reason = if replacement.candidates.is_ok() { UNFIT } else { UNSPECIALISED };
    for candidate in replacement.usable(numbers) {
        match candidate.fit(launch, arguments) {
            Ok(fit) => return Ok((candidate, fit)),
            Err(UNVERIFIED) => reason = UNVERIFIED,
            Err(_) => {}
        }
    }
    Err(reason)
}

/// Whether CUDA refuses such a grid.
fn has_too_many_blocks(shape: &LaunchDimensions) -> bool {
    !recorded_family::is_hip() && shape.grid.as_array().into_iter().zip(MOST_BLOCKS).any(|(blocks, most)| blocks > most)
}

/// Whether the driver would refuse the application's own launch. Then it must get that launch.
fn is_too_large(replacement: &KernelReplacement, request: &LaunchRequest, function: &FunctionHandle) -> bool {
    let most = replacement.own_threads.get_or_init(|| {
        // SAFETY: the handle of the launch in progress.
        let threads = unsafe { function.attribute(request.function, loaded::MAX_THREADS, driver::current_device()?) }?;
        u64::try_from(threads).ok()
    });
    if most.is_some_and(|most| request.launch.block.count() > most) {
        return true;
    }
    if recorded_family::is_hip() {
        return false;
    }
    if has_too_many_blocks(&shape_of(&request.launch)) {
        return true;
    }
    let shared = request.launch.shared_mem;
    shared > 0 && {
        // The limit may be set on this function and not on another one of the kernel; the driver knows.
        let attribute = |number| {
            let device = driver::current_device()?;
            // SAFETY: the handle of the launch in progress.
            unsafe { function.attribute(request.function, number, device) }.map(i64::from)
        };
        let own = *replacement.own_shared.get_or_init(|| attribute(loaded::STATIC_SHARED).unwrap_or(0));
        let is_usual = i64::from(shared) + own <= i64::from(DEFAULT_DYNAMIC_SHARED);
        // Until it is raised, the limit includes the static shared memory of the code.
        !is_usual
            && attribute(loaded::MAX_DYNAMIC_SHARED).is_none_or(|limit| {
                let room = if limit > i64::from(DEFAULT_DYNAMIC_SHARED) {
                    limit
                } else {
                    limit.min(i64::from(DEFAULT_DYNAMIC_SHARED) - own)
                };
                i64::from(shared) > room
            })
    }
}

fn replace(
    call: &dyn Fn() -> Status,
    start: &dyn Fn() -> Status,
    request: &LaunchRequest,
    replacement: &KernelReplacement,
    choice: &Choice<'_>,
    kernel: &Kernel,
) -> LaunchOutcome {
    let winner = choice.candidate.winner();
    if replacement.is_untouched() {
        let what = if choice.candidate.is_variant { "code made for launches like it," } else { "the winner of" };
        info!("{} is replaced by {what} {}", kernel.demangled, winner.source.display());
    }
    if start() == Status::SUCCESS {
        let is_reshaped = choice.shape != shape_of(&request.launch);
        replacement.count(winner, is_reshaped, choice.candidate.is_variant, choice.kept);
        return LaunchOutcome::Replaced(Status::SUCCESS);
    }
    // No kernel ran. If the context is broken, the application's own launch reports it.
    let status = gate::passing(call);
    if status != Status::SUCCESS {
        replacement.count_kept(FAILED);
    } else {
        replacement.count_kept(REFUSED);
        // A refusal of dimensions that were never tried does not count against the code.
        let is_known = [shape_of(&request.launch), winner.tuned].contains(&choice.shape);
        if is_known && choice.candidate.refusals.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_REFUSALS {
            give_up(kernel, replacement, choice.candidate, REFUSED.to_owned());
        }
    }
    LaunchOutcome::Launched(status)
}

/// Forgets the tuned code in a context that has ended, or in all contexts for `None`.
pub fn forget(context: Option<usize>) {
    for kernel in handles::kernels() {
        let known = kernel.progress.replacement.get().and_then(|known| known.downcast_ref::<KernelReplacement>());
        let candidates = known.into_iter().flat_map(KernelReplacement::all);
        candidates.for_each(|candidate| loaded::forget(&candidate.code, context));
    }
}

/// The outcome of a kernel's launches, or `None` if it is not tuned.
pub fn outcome(kernel: &Kernel) -> Option<(Applied, Vec<RecordingFailure>)> {
    let launches = kernel.progress.launches.load(Ordering::Relaxed);
    let known = kernel.progress.replacement.get().and_then(|known| known.downcast_ref::<KernelReplacement>());
    let was_wanted = known.and_then(|known| known.specialisation.as_ref()).is_some_and(Specialisation::was_wanted);
    if winners::of(&kernel.name).is_empty() && !was_wanted {
        return None;
    }
    Some(known.map_or_else(Default::default, |known| known.outcome(launches)))
}

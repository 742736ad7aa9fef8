//! Opens a recording with the map of the bytes that its kernel only writes.
//!
//! [`open`] reads the map from the file beside the recording, or from the user's cache. If neither exists, an executor
//! searches for the bytes with the application's own code ([`crate::execute`]), and [`open`] stores the map. This
//! happens once for each instance and kind of device.
//!
//! The search changes the contents of buffers, a group at a time. If the kernel fails on them, its executor is lost and
//! the search tries each half of the group. It leaves out a single buffer on which the kernel fails, and, after
//! a few lost executors, all buffers that remain.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mneme_builds::builder::Preparation;
use mneme_device::Interface;
use mneme_model::configuration::Configuration;
use mneme_model::result::ReplayStatus;
use mneme_recording::poison::{self, PoisonMap};
use mneme_system::exit;

use crate::context::ReplayContext;
use crate::context::settings::{Isolation, ReplaySettings};
use crate::error::Fatal;
use crate::fresh_inputs;
use crate::job::Job;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// How many executors may be lost.
const LOSSES: u32 = 4;
/// The most and the least time for the runs on a group of buffers. The least applies if a run takes no time.
const LIMIT: Duration = Duration::from_secs(120);
const LEAST: Duration = Duration::from_secs(2);
/// Runs on a group of buffers, and on a fresh input, with a margin: on other contents a kernel may wait for ever.
const RUNS: u32 = 30;
const RUNS_ON_INPUT: u32 = 12;
/// So many bytes of memory are restored and compared in a nanosecond, at least.
const BYTES_PER_NS: u64 = 1;
/// How many fresh inputs are kept.
const INPUTS: u32 = 3;
/// If a run takes longer, one fresh input has to do: each takes three runs.
const QUICK: Duration = Duration::from_millis(100);
/// A search that takes longer is announced.
const SILENT: Duration = Duration::from_secs(1);

/// Opens a recording. Runs start from memory in which the bytes that the kernel only writes are filled.
///
/// # Errors
/// As [`ReplayContext::open`], and errors that end a replay.
pub fn open(settings: ReplaySettings) -> Result<ReplayContext, Fatal> {
    let is_changed = settings.code.is_some() || settings.external.is_some();
    let recorded = is_changed.then(|| ReplaySettings { code: None, external: None, ..settings.clone() });
    let mut context = ReplayContext::open(settings)?;
    if context.unbuilt.is_some() {
        return Ok(context);
    }
    let files = MapFiles::of(&context);
    let found = match files.load() {
        Some(map) => Ok(map),
        None if context.isolation == Isolation::None => Err(NotSearched::Isolation),
        None => {
            let found = match recorded {
                Some(settings) => find(&mut ReplayContext::open(settings)?),
                None => find(&mut context),
            };
            match found {
                // The replay itself reports the problem with the device, and knows more about it.
                Err(error) if error.status == exit::NO_DEVICE && !error.clash => Err(NotSearched::NoDevice(error)),
                found => found?.map(|map| files.keep(map)),
            }
        }
    };
    match found {
        Ok(map) => context.poison(&map)?,
        Err(reason) => context.not_searched = reason.to_string(),
    }
    Ok(context)
}

/// The places for the map of an instance.
struct MapFiles {
    made_from: String,
    /// Beside the recording, and in the user's cache for recordings in read-only folders.
    places: Vec<PathBuf>,
}

impl MapFiles {
    fn of(context: &ReplayContext) -> Self {
        let recorded = &context.recorded;
        let device = match context.devices[0].interface() {
            _ if context.is_cpu() => "cpu",
            Interface::Cuda => "cuda",
            Interface::Hip => "hip",
        };
        let made_from = poison::identity(&recorded.moments.prologue, &recorded.moments.epilogue);
        let beside = poison::path(&recorded.database, recorded.id(), device);
        let name = beside.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cached = cache_folder().map(|folder| folder.join("poison").join(format!("{made_from}.{name}")));
        Self { made_from, places: std::iter::once(beside).chain(cached).collect() }
    }

    fn load(&self) -> Option<PoisonMap> {
        self.places.iter().find_map(|place| PoisonMap::load(place, &self.made_from))
    }

    /// Writes a map to the first writable place. Without one, this replay can still use it.
    fn keep(&self, map: PoisonMap) -> PoisonMap {
        let map = PoisonMap { version: poison::VERSION, made_from: self.made_from.clone(), ..map };
        let (beside, cached) = self.places.split_first().expect("one is beside the recording");
        let write_cached = |place: &PathBuf| {
            place.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok()) && map.save(place).is_ok()
        };
        if let Err(error) = map.save(beside)
            && !cached.iter().any(write_cached)
        {
            tracing::info!("{} cannot be written: {error}", beside.display());
        }
        map
    }
}

/// The user's folder for files that can be made again.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let usual = || Some(variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?.join("mneme"));
    variable("MNEME_CACHE_DIR").or_else(usual)
}

/// Why the bytes cannot be searched now.
#[derive(Debug, thiserror::Error)]
enum NotSearched {
    #[error("--isolation none skips the search for bytes that the kernel only writes; replay once without it")]
    Isolation,
    #[error(transparent)]
    NoDevice(Fatal),
    #[error("the application's own code does not end within the time limit")]
    OwnCodeHangs,
    #[error("the recorded code cannot be built: {0}")]
    Unbuilt(String),
}

/// Finds the bytes.
fn find(context: &mut ReplayContext) -> Result<Result<PoisonMap, NotSearched>, Fatal> {
    let (quiet, workers) = (context.quiet, context.workers);
    (context.quiet, context.workers) = (true, 1);
    let found = Search::new(context).run();
    (context.quiet, context.workers) = (quiet, workers);
    // The builder that was started first is used up by the search, so another one gets ready for the replay.
    if context.isolation != Isolation::None {
        let _ = context.programs.of(context.first_llvm)?.start(Preparation::Full);
    }
    found
}

/// The search, group of buffers by group.
struct Search<'a> {
    context: &'a ReplayContext,
    waiting: VecDeque<Vec<usize>>,
    /// Whether the runs use the application's own code, and not the recorded pipeline.
    original: bool,
    losses: u32,
    /// The number of buffers that were left out, and how the kernel failed last.
    unsearched: usize,
    failure: String,
    /// The time of a run of the application's own code, with a margin for restoring and comparing memory.
    took: Duration,
    /// The time limit for the runs on a group of buffers.
    limit: Duration,
    found: PoisonMap,
    announced: bool,
    begin: Instant,
}

impl<'a> Search<'a> {
    fn new(context: &'a ReplayContext) -> Self {
        let regions = &context.snapshot.layout.regions;
        let all: Vec<usize> = (0..regions.len()).filter(|number| regions[*number].can_be_poisoned()).collect();
        Self {
            context,
            waiting: (!all.is_empty()).then_some(all).into_iter().collect(),
            original: true,
            losses: 0,
            unsearched: 0,
            failure: String::new(),
            took: Duration::ZERO,
            limit: context.limit,
            found: PoisonMap::default(),
            announced: false,
            begin: Instant::now(),
        }
    }

    fn run(mut self) -> Result<Result<PoisonMap, NotSearched>, Fatal> {
        if self.waiting.is_empty() {
            return Ok(Ok(self.found));
        }
        let mut engine = Engine::start(self.context)?;
        if self.try_own_code(&mut engine)? == ReplayStatus::Timeout {
            return Ok(Err(NotSearched::OwnCodeHangs));
        }
        let mut number = 1;
        while let Some(regions) = self.waiting.pop_front() {
            engine.submit(self.job(number, &regions));
            let (status, error, calibrated) = self.wait(&mut engine, number)?;
            match (status, calibrated) {
                (ReplayStatus::Verified, Some(map)) => self.found.join(&map),
                (ReplayStatus::InvalidConfig | ReplayStatus::CompileError | ReplayStatus::InternalError, _) => {
                    if !self.original {
                        return Ok(Err(NotSearched::Unbuilt(error)));
                    }
                    self.original = false;
                    self.waiting.push_front(regions);
                }
                _ => self.note_loss(regions, &error),
            }
            number += 1;
        }
        let (buffers, failure) = (self.unsearched, &self.failure);
        if buffers > 0 {
            self.found.leave_out(&format!(
                "{buffers} buffers were not searched for bytes that the kernel only writes, because it fails on other contents: {failure}"
            ));
        }
        let limit = (LEAST + RUNS_ON_INPUT * self.took).min(LIMIT);
        let count = if self.took < QUICK { INPUTS } else { 1 };
        self.found.fresh_inputs = fresh_inputs::screen(&mut engine, self.context, None, count, limit)?.seeds;
        Ok(Ok(self.found))
    }

    /// Leaves out the application's own code if it does not run here, even on the recorded input.
    fn try_own_code(&mut self, engine: &mut Engine<'_>) -> Result<ReplayStatus, Fatal> {
        let mut job = self.job(0, &[]);
        job.run.calibrate = None;
        // Loading takes a part of the first run.
        job.run.iterations = 2;
        engine.submit(job);
        let (status, ..) = self.wait(engine, 0)?;
        self.limit = (LEAST + RUNS * self.took).min(LIMIT);
        self.original = status.is_as_recorded() || status == ReplayStatus::FailedVerification;
        self.found.own_code_fails = !self.original;
        self.context.own_code_fails.set(!self.original);
        Ok(status)
    }

    fn job(&self, number: u64, regions: &[usize]) -> Job {
        let recorded = self.context.recorded.recorded_configuration();
        let configuration = if self.original { recorded.of_original() } else { recorded };
        let mut job = Job::new(number, Configuration { timeout_s: None, ..configuration }, 1, 0);
        job.schedule.fresh = true;
        job.run.limit = Some(self.limit);
        job.run.calibrate = Some(regions.to_vec());
        job
    }

    fn wait(
        &mut self,
        engine: &mut Engine<'_>,
        number: u64,
    ) -> Result<(ReplayStatus, String, Option<Box<PoisonMap>>), Fatal> {
        loop {
            let alarm = (!self.announced).then_some(self.begin + SILENT);
            match engine.next(Client { alarm, ..Client::default() })? {
                SupervisorEvent::Finished { id, result, calibrated, .. } if id == number => {
                    if number == 0 {
                        let bytes = self.context.snapshot.layout.prologue_bytes();
                        let run = result.exec_time.last().copied().unwrap_or(0);
                        self.took = Duration::from_nanos(run + bytes / BYTES_PER_NS);
                    }
                    return Ok((result.status, result.error, calibrated));
                }
                SupervisorEvent::Tick => {
                    self.announced = true;
                    mneme_system::remark!(
                        "mneme-replay: looking for the bytes that the kernel only writes, once for this recording…"
                    );
                }
                _ => {}
            }
        }
    }

    /// Handles a failure of the kernel on filled memory.
    fn note_loss(&mut self, mut regions: Vec<usize>, error: &str) {
        self.losses += 1;
        if regions.len() > 1 && self.losses < LOSSES {
            let rest = regions.split_off(regions.len() / 2);
            self.waiting.extend([regions, rest]);
            return;
        }
        let left: usize = if self.losses < LOSSES { 0 } else { self.waiting.drain(..).map(|it| it.len()).sum() };
        self.unsearched += regions.len() + left;
        error.clone_into(&mut self.failure);
    }
}

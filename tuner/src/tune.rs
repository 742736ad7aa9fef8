//! From options to sessions: which kernels and instances are meant, what their spaces are, and who chooses candidates.

use std::path::{Path, PathBuf};

use mneme_core::device::DeviceLimits;
use mneme_core::recording::database::{self, Instance as Recording, KernelRecord};
use mneme_core::recording::{CodeKind, RecordingError};
use mneme_core::{exit, install};
use serde_json::{Value, json};

use crate::bridge::{Bridge, BridgeError, OptunaSampler, PythonSpace, StudyOptions};
use crate::cache::CachePlan;
use crate::document::{self, DocumentError};
use crate::evaluator::Evaluator;
use crate::interrupt;
use crate::metric::Metric;
use crate::objective::{ObjectiveError, Objectives};
use crate::options::{Contradiction, MaxThreadsPolicy, MergeError, Options, Pruner, Range, Switch};
use crate::output;
use crate::racing::Racing;
use crate::results::{self, Results, ResultsError, default_folder};
use crate::sampler::{Kind, Sampler, Settings, SettingsError};
use crate::search::Search;
use crate::server::ServerCommand;
use crate::session::{self, EarlyStop, Finished, Instance, Plan, SessionError, status};
use crate::simulate::{Simulation, SimulationError};
use crate::space::{FileError, FileSpace, MaxThreads, Point, Preset, PresetOptions, PresetSpace, Recorded, Space, Surroundings};

/// Candidates under way where none depends on what became of others: builders have something to do while others run.
const WINDOW: usize = 32;

/// Why nothing, or nothing more, is tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    #[error(transparent)]
    Usage(#[from] Contradiction),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// One sentence about a setting that cannot be.
    #[error("{0}")]
    Setting(String),
    #[error(transparent)]
    Space(#[from] FileError),
    #[error(transparent)]
    Sampler(#[from] SettingsError),
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A folder that does not say which kernel is meant.
    #[error("{0}")]
    Kernel(String),
    #[error("mneme-replay is not beside mneme-tune; install all of Mneme, or set MNEME_HOME")]
    Incomplete,
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl TuneError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Usage(_) => exit::BAD_USAGE,
            Self::Merge(_)
            | Self::Document(_)
            | Self::Setting(_)
            | Self::Space(_)
            | Self::Sampler(_)
            | Self::Objective(_)
            | Self::Simulation(_) => status::INVALID_CONFIGURATION,
            Self::Recording(_) | Self::Kernel(_) => status::BAD_RECORD,
            Self::Incomplete => status::INTERNAL,
            Self::Session(error) => error.exit_status(),
        }
    }
}

impl From<BridgeError> for TuneError {
    fn from(error: BridgeError) -> Self {
        Self::Session(error.into())
    }
}

impl From<ResultsError> for TuneError {
    fn from(error: ResultsError) -> Self {
        Self::Session(error.into())
    }
}

/// Does what a command line says, and gives the exit status.
///
/// # Errors
/// One sentence for the user, and the status that goes with it.
pub fn run(said: Options) -> Result<i32, TuneError> {
    let options = said.merged()?;
    options.check()?;
    let options = options.with_pipelines()?;
    if options.passes.iter().chain(&options.fixed_passes).any(|passes| passes.trim().is_empty()) {
        return Err(TuneError::Setting("--passes has an empty pipeline; name one, such as 'default<O3>'".into()));
    }
    if let Some(path) = &options.dump_config {
        document::write(path, &options.clone().settled())?;
        return Ok(0);
    }
    interrupt::listen().map_err(|error| TuneError::Setting(format!("signals cannot be heard: {error}")))?;
    let subjects = subjects(&options)?;
    let folder = options.results_dir.clone().unwrap_or_else(default_folder);
    let several = subjects.len() > 1;
    let mut finished = Vec::new();
    for subject in &subjects {
        let mut options = subject.settle(&options);
        options.results_dir = Some(if several { folder.join(subject.record.static_hash.to_string()) } else { folder.clone() });
        if several && !(options.print_space || options.dry_run) {
            eprintln!("mneme-tune: {} ({} of {})", subject.record.demangled_name, finished.len() + 1, subjects.len());
        }
        match subject.tune(options) {
            Ok(outcome) => finished.push(outcome),
            // What goes wrong with one kernel is no reason to leave out the others.
            Err(error) if several => {
                eprintln!("mneme-tune: {}: {error}", subject.record.demangled_name);
                finished.push(Outcome { status: error.exit_status(), finished: None });
                if interrupt::check().is_err() {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    if several {
        write_totals(&folder, &options, &subjects, &finished)?;
        interrupt::check().map_err(SessionError::from)?;
    }
    // The first of several problems; "nothing verified" of one kernel says less than a broken other.
    let statuses = finished.iter().map(|outcome| outcome.status).filter(|status| *status != 0);
    Ok(statuses.min_by_key(|status| (*status == status::NOTHING_VERIFIED, *status)).unwrap_or(0))
}

/// A kernel and the instances to tune it for.
struct Subject {
    database: PathBuf,
    record: KernelRecord,
    ids: Vec<String>,
}

/// Who chooses candidates.
struct Choice {
    sampler: Box<dyn Sampler>,
    /// How many may be under way; `None` where each choice is to know of those before.
    window: Option<usize>,
    early_stop: Option<Box<dyn EarlyStop>>,
}

struct Outcome {
    status: i32,
    finished: Option<Finished>,
}

fn subjects(options: &Options) -> Result<Vec<Subject>, TuneError> {
    let mut subjects = Vec::new();
    for path in &options.record_database {
        for database in databases(path, options.all_kernels == Some(true))? {
            let record = KernelRecord::load(&database)?;
            let ids = if options.all_instances == Some(true) && !record.instances.is_empty() {
                record.instances.keys().cloned().collect()
            } else if options.record_id.is_empty() {
                vec![record.instance(&database, None)?.0.to_owned()]
            } else {
                let known = |id: &String| Ok(record.instance(&database, Some(id))?.0.to_owned());
                options.record_id.iter().map(known).collect::<Result<_, RecordingError>>()?
            };
            subjects.push(Subject { database, record, ids });
        }
    }
    Ok(subjects)
}

/// Kernels' files: as named, or of the named folder the only one, or all.
fn databases(path: &Path, all: bool) -> Result<Vec<PathBuf>, TuneError> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let found = database::kernels(path)?;
    match found.len() {
        0 => Err(TuneError::Kernel(format!("{} holds no recorded kernel", path.display()))),
        1 => Ok(found),
        _ if all => Ok(found),
        n => Err(TuneError::Kernel(format!(
            "{} holds {n} kernels; name one of its .json files (mneme ls lists them), or tune --all-kernels",
            path.display()
        ))),
    }
}

impl Subject {
    /// Defaults, which depend on what was recorded.
    fn settle(&self, options: &Options) -> Options {
        let mut options = Options { record_database: vec![self.database.clone()], ..options.clone() };
        if options.all_instances != Some(true) {
            options.record_id.clone_from(&self.ids);
        }
        let has_ir = self.record.modules.first().is_none_or(|module| CodeKind::of(module) == CodeKind::Bitcode);
        let built_in = options.space.is_none() && options.space_module.is_none();
        if !has_ir && built_in && options.space_preset != Some(Preset::Launch) {
            options.space_preset = Some(Preset::Launch);
            eprintln!("mneme-tune: the recording holds no LLVM IR, so that only launch dimensions are tuned; build with mneme-cc for more");
        }
        options.settled()
    }

    fn recorded(&self, id: &str) -> &Recording {
        &self.record.instances[id]
    }

    fn tune(&self, options: Options) -> Result<Outcome, TuneError> {
        let inspects = options.print_space || options.dry_run;
        let folder = options.results_dir.clone().unwrap_or_default();
        let (results, known) = if inspects {
            (None, Vec::new())
        } else {
            let (results, known) = Results::open(&folder, options.resume)?;
            // First of all: whatever happens from here on, the folder says what was wanted.
            results.write("config.json", &options)?;
            (Some(results), known)
        };
        let log = results.as_ref().map_or_else(|| PathBuf::from("/dev/stderr"), Results::log_path);
        let bridge = (options.space_module.is_some() || options.uses_optuna())
            .then(|| Bridge::start(options.python.as_deref(), &log))
            .transpose()?;
        let instances: Vec<Instance> = self.ids.iter().map(|id| self.instance(&options, id, &log)).collect::<Result<_, _>>()?;
        // Before the space, where that is about the device; else when all is known to be right.
        let (mut ready, mut limits) = (None, DeviceLimits::default());
        if options.space.as_deref().is_some_and(FileSpace::asks_for_device) {
            if inspects {
                limits = limits_to_show(&options, &instances);
            } else {
                limits = ready.insert(evaluator(&options, &instances)?).greeting().limits.clone();
            }
        }
        let mut spaces = Spaces { options: &options, subject: self, bridge: bridge.as_ref(), number: None, limits };
        let space = spaces.of(&self.ids[0])?;
        if let Some(problem) = spaces.endless(&*space) {
            return Err(TuneError::Setting(problem));
        }
        let Some(results) = results else { return inspect(&options, &*space) };
        let number = spaces.number;
        let further = self.ids[1..].iter().map(|id| spaces.of(id)).collect::<Result<_, _>>()?;
        let verified_on = self.others(&options)?.into_iter().map(|id| Ok((self.instance(&options, &id, &log)?, spaces.of(&id)?)));
        let verified_on = verified_on.collect::<Result<_, TuneError>>()?;
        let Choice { sampler, window, early_stop } = self.choice(&options, &*space, bridge.as_ref(), number)?;
        let objectives = Objectives::read(&options.objective, options.metric.unwrap_or(Metric::Mean))?;
        let evaluator = ready.map_or_else(|| evaluator(&options, &instances), Ok)?;
        let plan = Plan {
            kernel: self.record.kernel_name.clone(),
            instances,
            search: Search::new(space, sampler),
            further,
            verified_on,
            window,
            early_stop,
            cache: options.cache.clone().map(|path| CachePlan { path, conditions: self.conditions(&options, &objectives) }),
            objectives,
            bridge,
            options,
        };
        let finished = session::run(plan, evaluator, results, known)?;
        Ok(Outcome { status: finished.status, finished: Some(finished) })
    }

    /// The instances of `--verify-all` beside those that are tuned for.
    fn others(&self, options: &Options) -> Result<Vec<String>, TuneError> {
        let all = options.verify_all.iter().any(|id| id == "all");
        let named = if all { self.record.instances.keys().cloned().collect() } else { options.verify_all.clone() };
        if let Some(unknown) = named.iter().find(|id| !self.record.instances.contains_key(*id)) {
            return Err(self.record.instance(&self.database, Some(unknown)).map(drop).unwrap_err().into());
        }
        Ok(named.into_iter().filter(|id| !self.ids.contains(id)).collect())
    }

    fn instance(&self, options: &Options, id: &str, log: &Path) -> Result<Instance, TuneError> {
        let command = ServerCommand {
            // Nothing is replayed in a simulation.
            program: install::locate(install::REPLAYER).or(options.simulate.clone()).ok_or(TuneError::Incomplete)?,
            database: self.database.clone(),
            instance: id.into(),
            options: server_options(options),
            log: log.into(),
        };
        Ok(Instance { id: id.into(), weight: self.recorded(id).occurrences.max(1) as f64, command })
    }

    fn choice(&self, options: &Options, space: &dyn Space, bridge: Option<&Bridge>, python: Option<u64>) -> Result<Choice, TuneError> {
        let kind = options.sampler.unwrap_or(Kind::Exhaustive);
        let seed = options.seed.unwrap_or(0);
        if let Some(bridge) = bridge.filter(|_| options.uses_optuna()) {
            let folder = options.results_dir.clone().unwrap_or_default();
            let study = StudyOptions {
                name: options.study_name.clone(),
                storage: options.optuna_storage.clone(),
                sampler: kind.name(),
                pruner: options.pruner.map(Pruner::name),
                seed: options.seed,
                objectives: options.objective.len().max(1),
                kernel: self.record.kernel_name.clone(),
                session: std::fs::canonicalize(&folder).unwrap_or(folder).to_string_lossy().into_owned(),
            };
            let sampler = OptunaSampler::new(bridge, &study, space, python)?;
            let prunes = options.pruner.is_some_and(|pruner| pruner != Pruner::None);
            let early_stop = prunes.then(|| Box::new(sampler.pruner()) as Box<dyn EarlyStop>);
            return Ok(Choice { sampler: Box::new(sampler), window: None, early_stop });
        }
        let start = options.start_from.as_deref().map(start_point).transpose()?;
        let trials = options.trials.map(|trials| usize::try_from(trials).unwrap_or(usize::MAX));
        let sampler = kind.build(space, &Settings { seed, trials, start })?;
        let early_stop = options.racing.map(|factor| Box::new(Racing::new(factor)) as Box<dyn EarlyStop>);
        Ok(Choice { sampler, window: (!kind.learns()).then_some(WINDOW), early_stop })
    }

    /// What two sessions must have in common to share results.
    fn conditions(&self, options: &Options, objectives: &Objectives) -> Value {
        let Options { rtol, atol, dtype, tolerance, timer, iterations, warmup, .. } = options;
        let energy = objectives.need_energy();
        json!([self.record.static_hash, rtol, atol, dtype, tolerance, timer, iterations, warmup, energy])
    }
}

/// What the device can take, where only the space is to be seen; one that cannot be asked is taken to have what every one has.
fn limits_to_show(options: &Options, instances: &[Instance]) -> DeviceLimits {
    match evaluator(options, &instances[..1]) {
        Ok(evaluator) => evaluator.greeting().limits.clone(),
        Err(error) => {
            eprintln!("mneme-tune: the space is that of a device which has what every CUDA device has, because none can be asked: {error}");
            DeviceLimits::default()
        }
    }
}

/// What replays candidates, or answers from recorded results.
fn evaluator(options: &Options, instances: &[Instance]) -> Result<Evaluator, TuneError> {
    match &options.simulate {
        Some(folder) => Ok(Evaluator::simulated(Simulation::load(folder)?)),
        None => {
            let commands = instances.iter().map(|instance| instance.command.clone()).collect();
            Ok(Evaluator::start(commands).map_err(SessionError::from)?)
        }
    }
}

/// Options that `mneme-replay serve` is given.
fn server_options(options: &Options) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            all.extend([name.to_owned(), value]);
        }
    };
    add("--device", options.device.clone());
    add("--workers", options.workers.map(|workers| workers.to_string()));
    add("--rtol", options.rtol.map(|bound| bound.to_string()));
    add("--atol", options.atol.map(|bound| bound.to_string()));
    add("--dtype", options.dtype.clone());
    add("--timer", options.timer.clone());
    add("--timeout", options.trial_timeout.map(|seconds| seconds.to_string()));
    for tolerance in &options.tolerance {
        add("--tolerance", Some(tolerance.clone()));
    }
    all
}

/// Makes spaces of one kind for instances of one kernel.
struct Spaces<'a> {
    options: &'a Options,
    subject: &'a Subject,
    bridge: Option<&'a Bridge>,
    /// Of the first Python space.
    number: Option<u64>,
    limits: DeviceLimits,
}

impl Spaces<'_> {
    fn of(&mut self, id: &str) -> Result<Box<dyn Space>, TuneError> {
        let instance = self.subject.recorded(id);
        let recorded = Recorded { grid: instance.grid_dims, block: instance.block_dims, shared_mem: instance.shared_mem };
        if let Some((class, bridge)) = self.options.space_module.as_ref().zip(self.bridge) {
            let database = self.subject.database.to_string_lossy();
            let space = PythonSpace::new(bridge, class, &self.options.space_arg, &database, id)?;
            if let Some(problem) = space.endless().filter(|_| self.walks()) {
                return Err(TuneError::Setting(problem));
            }
            self.number.get_or_insert(space.number());
            return Ok(Box::new(space));
        }
        if let Some(file) = &self.options.space {
            let arguments = instance.args.iter().map(|bits| Value::from(*bits)).collect();
            let surroundings = Surroundings { recorded, arguments, device: self.limits.clone() };
            return Ok(Box::new(FileSpace::load(file, &surroundings)?));
        }
        Ok(Box::new(PresetSpace::new(&preset_options(self.options), recorded)))
    }

    fn walks(&self) -> bool {
        self.options.sampler.is_none_or(Kind::is_exhaustive)
    }

    fn endless(&self, space: &dyn Space) -> Option<String> {
        let name = &space.parameters().iter().find(|parameter| parameter.domain.size().is_none())?.name;
        self.walks().then(|| format!("the parameter '{name}' has no end of values to go through; use --sampler random or tpe"))
    }
}

/// The point that a file of results is about: `best.json`, or the first line of `trials.jsonl`.
fn start_point(path: &Path) -> Result<Point, TuneError> {
    let wrong = |problem: String| TuneError::Setting(format!("--start-from {}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let trial = serde_json::Deserializer::from_str(&text).into_iter::<results::Trial>().next();
    match trial {
        Some(Ok(trial)) if !trial.params.is_empty() => Ok(trial.params),
        Some(Err(error)) => Err(wrong(format!("it is no trial ({error}); name the best.json of a results folder"))),
        _ => Err(wrong("it has no parameters; name the best.json of a results folder".into())),
    }
}

/// The built-in space that settled options describe.
fn preset_options(options: &Options) -> PresetOptions {
    let switch = |mode: Option<Switch>| mode.unwrap_or(Switch::Fixed).values().to_vec();
    let range = |fixed: Option<u32>, range: Option<Range>, default| fixed.map(Range::one).or(range).map_or(vec![default], Range::values);
    let passes = options.fixed_passes.clone().map_or_else(|| options.passes.clone(), |only| vec![only]);
    let max_threads = match (options.max_threads_range, options.max_threads_policy) {
        (Some(range), _) => MaxThreads::OneOf(range.values()),
        (_, Some(MaxThreadsPolicy::Recorded)) => MaxThreads::Recorded,
        (_, Some(MaxThreadsPolicy::PowersOfTwo)) => MaxThreads::OneOf((0..=10).map(|exponent| 1 << exponent).collect()),
        (_, Some(MaxThreadsPolicy::Hardware)) => MaxThreads::OneOf(vec![1024]),
        (_, Some(MaxThreadsPolicy::BlockThreads) | None) => MaxThreads::Block,
    };
    PresetOptions {
        launch_dim: options.launch_dim.expect("settled"),
        launch_safety: options.launch_safety.expect("settled"),
        passes,
        codegen_opt: range(options.fixed_codegen_opt, options.codegen_opt_range, 3),
        codegen_method: options.codegen_method.clone().unwrap_or_else(|| "serial".into()),
        specialize: switch(options.specialize_space),
        specialize_dims: switch(options.specialize_dims_space),
        launch_bounds: switch(options.launch_bounds_space),
        min_blocks_per_sm: range(options.fixed_min_blocks_per_sm, options.min_blocks_per_sm_range, 1),
        max_threads,
    }
}

/// `--print-space` and `--dry-run`.
fn inspect(options: &Options, space: &dyn Space) -> Result<Outcome, TuneError> {
    let described = space.describe();
    let text = if options.dry_run {
        let baseline = serde_json::to_string_pretty(&space.baseline()).expect("plain data serialises");
        format!("Baseline configuration:\n{baseline}\nSearch space:\n{described:#}\n")
    } else {
        format!("{described:#}\n")
    };
    output::write(&text).map_err(SessionError::Output)?;
    Ok(Outcome { status: 0, finished: None })
}

/// The summary of several kernels, and one file for Proteus with all of them.
fn write_totals(folder: &Path, options: &Options, subjects: &[Subject], outcomes: &[Outcome]) -> Result<(), TuneError> {
    if options.print_space || options.dry_run {
        return Ok(());
    }
    let kernels: Vec<Value> = subjects
        .iter()
        .zip(outcomes)
        .map(|(subject, outcome)| {
            json!({
                "kernel": subject.record.kernel_name, "record_database": subject.database, "exit_status": outcome.status,
                "results_dir": folder.join(subject.record.static_hash.to_string()),
                "summary": outcome.finished.as_ref().map(|finished| &finished.summary),
            })
        })
        .collect();
    results::write_whole(&folder.join("summary.json"), &json!({"kernels": kernels}))?;
    let tuned: Vec<Value> = outcomes.iter().filter_map(|outcome| outcome.finished.as_ref()?.tuned.clone()).collect();
    if !tuned.is_empty() && options.no_proteus_output != Some(true) {
        let path = options.proteus_output.clone().unwrap_or_else(|| folder.join(session::PROTEUS));
        results::write_whole(&path, &results::merged(tuned))?;
    }
    Ok(())
}

//! Turns options into sessions: selects kernels and instances, makes their spaces and samplers.

mod error;
mod examination;
mod spaces;
mod table;

use std::path::{Path, PathBuf};

use mneme_model::configuration::Specialize;
use mneme_model::device::DeviceLimits;
use mneme_model::llvm_version;
use mneme_model::text::did_you_mean;
use mneme_recording::choice;
use mneme_recording::database::{self, InstanceRecord as Recording, KernelRecord};
use mneme_recording::moments::Moments;
use mneme_recording::{CodeKind, RecordingError};
use mneme_system::files::trust;
use mneme_system::install;
use serde_json::{Value, json};

pub use self::error::TuneError;
use self::spaces::{Spaces, limits_to_show};
use crate::archive::{Archive, ArchivedTrial};
use crate::bridge::{Bridge, OptunaSampler, StudyOptions};
use crate::cache::CachePlan;
use crate::document;
use crate::early_stop::{EarlyStop, Racing};
use crate::evaluator::Evaluator;
use crate::interrupt;
use crate::measured::{EVENTS, Measured};
use crate::objective::Objectives;
use crate::options::{
    BaselineCode, CandidateSettings, Options, ProteusOutput, Pruner, RunsKind, SearchSettings, SessionMode,
    SpaceSettings, StudySettings, TuningSettings,
};
use crate::results::{self, Results, ResultsError, SESSIONS, default_folder, proteus};
use crate::sampler::{Prior, Sampler};
use crate::search::Search;
use crate::server::ServerCommand;
use crate::session::{self, Finished, Plan, SessionError, TunedInstance};
use crate::simulate::Simulation;
use crate::space::{self, FileSpace, Point, Preset, SearchSpace};
use mneme_system::{console, exit};

/// Runs a command line, and returns the exit status.
///
/// # Errors A message for the user, with its exit status.
pub fn run(said: Options) -> Result<i32, TuneError> {
    let options = said.merged()?.with_usual_recording();
    options.check()?;
    if options.resume && !options.simulates_a_table() {
        let folder = options.results_dir.clone().unwrap_or_default();
        if options.record_database.is_empty() || !results::holds_a_session(&folder) {
            return Err(TuneError::NoSession(folder));
        }
    }
    options.refuse_another_kernel()?;
    let options = options.with_pipelines()?;
    if options.passes.iter().chain(&options.fixed_passes).any(|passes| passes.trim().is_empty()) {
        return Err(TuneError::Setting("--passes has an empty pipeline; name one, such as 'default<O3>'".into()));
    }
    if let Some(path) = &options.dump_config {
        document::write(path, options.clone().settled().written())?;
        return Ok(0);
    }
    interrupt::listen().map_err(|error| TuneError::Setting(format!("signal handlers cannot be installed: {error}")))?;
    if options.simulates_a_table() {
        return table::tune(options);
    }
    let subjects = subjects(&options)?;
    let folder = options.results_dir.clone().unwrap_or_else(|| default_folder(SESSIONS));
    let several = subjects.len() > 1;
    let mut finished = Vec::new();
    for subject in &subjects {
        let folder = if several { folder.join(subject.record.static_hash.to_string()) } else { folder.clone() };
        let settings = subject.settle(&options, &folder);
        if several && !settings.mode.inspects() {
            mneme_system::remark!(
                "mneme-tune: {} ({} of {})",
                subject.record.demangled_name,
                finished.len() + 1,
                subjects.len()
            );
        }
        match subject.tune(settings, &folder) {
            Ok(outcome) => finished.push(outcome),
            // The other kernels are tuned even if one fails.
            Err(error) if several => {
                mneme_system::remark!("mneme-tune: {}: {error}", subject.record.demangled_name);
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
    // The most important status: any other failure comes before "nothing verified".
    let statuses = finished.iter().map(|outcome| outcome.status).filter(|status| *status != 0);
    Ok(statuses.min_by_key(|status| (*status == exit::NOTHING_VERIFIED, *status)).unwrap_or(0))
}

/// A kernel and the instances to tune it for.
struct KernelToTune {
    database: PathBuf,
    record: KernelRecord,
    ids: Vec<String>,
}

/// The sampler, and the rule that gives up slow candidates.
struct Choice {
    sampler: Box<dyn Sampler>,
    early_stop: Option<Box<dyn EarlyStop>>,
}

struct Outcome {
    status: i32,
    finished: Option<Finished>,
}

fn subjects(options: &Options) -> Result<Vec<KernelToTune>, TuneError> {
    let mut subjects = Vec::new();
    for path in &options.record_database {
        for database in databases(path, options)? {
            let record = KernelRecord::load_trusted(&database)?;
            let ids = if options.all_instances == Some(true) && !record.instances.is_empty() {
                record.instances.keys().cloned().collect()
            } else if options.record_id.is_empty() {
                vec![record.instance(&database, None)?.0.to_owned()]
            } else {
                let known = |id: &String| Ok(record.instance(&database, Some(id))?.0.to_owned());
                options.record_id.iter().map(known).collect::<Result<_, RecordingError>>()?
            };
            subjects.push(KernelToTune { database, record, ids });
        }
    }
    Ok(subjects)
}

/// The kernels' files: the named file, or in a folder the selected kernel or all of them.
fn databases(path: &Path, options: &Options) -> Result<Vec<PathBuf>, TuneError> {
    if options.all_kernels == Some(true) && path.is_dir() {
        return match database::kernels(path)? {
            none if none.is_empty() => Err(RecordingError::Empty { path: path.into() }.into()),
            found => Ok(found),
        };
    }
    let id = options.record_id.first().map(String::as_str);
    match choice::choose(path, id, options.kernel.as_deref()) {
        Err(RecordingError::Choice(sentence)) => {
            Err(TuneError::Kernel(format!("{sentence}; to tune all, pass --all-kernels")))
        }
        found => Ok(vec![found?]),
    }
}

impl KernelToTune {
    /// Settles the options. Their defaults depend on the recording.
    fn settle(&self, options: &Options, folder: &Path) -> TuningSettings {
        let mut options = Options {
            record_database: vec![self.database.clone()],
            results_dir: Some(folder.into()),
            ..options.clone()
        };
        if options.all_instances != Some(true) {
            options.record_id.clone_from(&self.ids);
        }
        let kind = self.record.modules.first().map_or(CodeKind::Bitcode, |module| CodeKind::of(module));
        let from_ptx = options.from_ptx == Some(true);
        let has_ir = matches!(kind, CodeKind::Bitcode | CodeKind::Ptx) || from_ptx;
        let built_in = options.space.is_none() && options.space_module.is_none();
        if !has_ir && built_in && options.space_preset != Some(Preset::Launch) {
            options.space_preset = Some(Preset::Launch);
            mneme_system::remark!(
                "mneme-tune: the recording holds only machine code, so only launch dimensions are tuned; to tune the code too, pass --from-ptx if the program has PTX, or build \
                 with mneme-cc"
            );
        }
        if kind == CodeKind::Ptx && built_in && options.space_preset != Some(Preset::Launch) {
            mneme_system::remark!(
                "mneme-tune: the recording holds PTX; to make other code than the driver's, Mneme lifts it to LLVM IR; \
                 to tune only launch dimensions, pass --space-preset launch"
            );
        }
        let has_original = |id: &String| !self.recorded(id).ours.original.is_empty();
        if options.baseline != Some(BaselineCode::Pipeline) {
            let known = self.ids.iter().all(has_original);
            if !(known || options.print_space || options.dry_run) {
                mneme_system::remark!(
                    "mneme-tune: the recording does not contain the application's own code, so speedups are over the first \
                     pipeline; to compare with the application's own code, record it again"
                );
            }
            options.baseline = Some(if known { BaselineCode::Original } else { BaselineCode::Pipeline });
        }
        options.settled()
    }

    fn recorded(&self, id: &str) -> &Recording {
        &self.record.instances[id]
    }

    /// The arguments that all instances have in common. Structures are left out: launches that differ only in them
    /// belong to one instance.
    fn common_arguments(&self) -> Result<Specialize, TuneError> {
        let folder = self.database.parent().unwrap_or(Path::new(""));
        let arguments = |id: &String| {
            Moments::open(folder, &self.record, self.recorded(id)).map(|moments| moments.prologue.header.arguments)
        };
        let first = arguments(&self.ids[0])?;
        let tells_apart = |index: &u32| {
            let layout = self.record.ours.arguments.get(*index as usize);
            layout.is_some_and(|layout| !layout.is_structure())
        };
        let mut common: Vec<u32> = (0..first.len() as u32).filter(tells_apart).collect();
        for id in &self.ids[1..] {
            let other = arguments(id)?;
            common.retain(|index| other.get(*index as usize) == first.get(*index as usize));
        }
        Ok(if common.len() == first.len() { Specialize::All } else { Specialize::Arguments(common) })
    }

    fn tune(&self, mut settings: TuningSettings, folder: &Path) -> Result<Outcome, TuneError> {
        let inspects = settings.mode.inspects();
        // All checks come before the session starts and moves earlier results aside.
        let objectives = Objectives::read(&settings.objectives, settings.metric)?;
        if !objectives.counters().is_empty() {
            // CUPTI, the default for short kernels, cannot time kernels while it counts.
            settings.replay.timer.get_or_insert_with(|| EVENTS.into());
        }
        let others = self.others(&settings.confirmation.verify_all)?;
        if let Some(path) = &settings.search.start_from {
            start_point(path)?;
        }
        if let ProteusOutput::File(path) = &settings.proteus {
            console::check_place(path)
                .map_err(|error| TuneError::Setting(format!("--proteus-output {}: {error}", path.display())))?;
        }
        if let Some(folder) = &settings.simulate {
            Simulation::load(folder)?;
        }
        if !inspects {
            settings.set_measured(Some(Measured::of(&self.database, &self.record, &self.ids, folder)?));
        }
        if let Some(folder) = settings.simulate.as_deref().filter(|_| !inspects) {
            refuse_another_recording(folder, &settings)?;
        }
        if inspects {
            self.prepare(settings, objectives, others, folder, None)?;
            return Ok(Outcome { status: 0, finished: None });
        }
        if !settings.resume {
            results::refuse_another_kernel(folder, &self.record.kernel_name)?;
        }
        let (results, known) = Results::open(folder, settings.resume)?;
        match self.prepare(settings, objectives, others, folder, Some((&results, known.is_empty()))) {
            Ok(Some((plan, evaluator))) => {
                let finished = session::run(plan, evaluator, results, known)?;
                Ok(Outcome { status: finished.status, finished: Some(finished) })
            }
            Ok(None) => Ok(Outcome { status: 0, finished: None }),
            Err(error) => {
                if !error.is_in_log() {
                    results.withdraw()?;
                }
                Err(error)
            }
        }
    }

    /// Makes everything that a session needs before its first replay. Without `results`, shows the space instead, and
    /// returns `None`. The flag says whether the session is new.
    fn prepare(
        &self,
        mut settings: TuningSettings,
        objectives: Objectives,
        others: Vec<String>,
        folder: &Path,
        results: Option<(&Results, bool)>,
    ) -> Result<Option<(Plan, Evaluator)>, TuneError> {
        let inspects = results.is_none();
        if let Some((results, is_new)) = results {
            if settings.resume {
                let earlier = refuse_other_conditions(results, is_new, &settings)?;
                // A builder installed since then would compile with another LLVM than that of the known results.
                let llvm = earlier.map_or_else(String::new, |earlier| earlier.llvm);
                settings.set_measured(settings.measured().cloned().map(|measured| Measured { llvm, ..measured }));
            }
            if is_new {
                // Written first, so that the folder has the session's options however it ends.
                results.write(session::CONFIG, settings.written())?;
            }
        }
        let log = results.map_or_else(|| PathBuf::from("/dev/stderr"), |(results, _)| results.log_path());
        let needs_python = matches!(settings.space, SpaceSettings::Class { .. }) || settings.search.study.is_some();
        let bridge = needs_python.then(|| Bridge::start(settings.search.python.as_deref(), &log)).transpose()?;
        let instances: Vec<TunedInstance> =
            self.ids.iter().map(|id| self.instance(&settings, id, &log)).collect::<Result<_, _>>()?;
        // The server starts early only if the space depends on the device or the kernel's code.
        let (mut ready, mut limits) = (None, DeviceLimits::default());
        if settings.asks_for_grid() {
            ready = if inspects {
                // Showing a space also works without a device, and quietly.
                let mut silent = instances[..1].to_vec();
                silent[0].command.log = "/dev/null".into();
                evaluator(&settings, &silent).ok()
            } else {
                Some(evaluator(&settings, &instances)?)
            };
            let found =
                ready.as_mut().map(|ready| ready.examine(Vec::new())).transpose().map_err(SessionError::from)?;
            let found = found.unwrap_or_default();
            settings.settle_grid(found.reads_grid == Some(true));
            if found.fixes_block == Some(true) && settings.keep_block() {
                mneme_system::remark!(
                    "mneme-tune: the kernel's code demands the recorded block (.reqntid), so only its code is tuned"
                );
            }
        }
        if matches!(&settings.space, SpaceSettings::File(file) if FileSpace::asks_for_device(file)) {
            if inspects {
                limits = limits_to_show(&settings, &instances, self.record.ours.processor().as_ref());
            } else {
                limits = ready.insert(evaluator(&settings, &instances)?).greeting().limits.clone();
            }
        }
        let mut spaces =
            Spaces { settings: &settings, subject: self, bridge: bridge.as_ref(), number: None, limits, common: None };
        let space = spaces.of(&self.ids[0])?;
        if let Some(problem) = spaces.endless(&*space) {
            return Err(TuneError::Setting(problem));
        }
        if inspects {
            inspect(&settings, &*space)?;
            return Ok(None);
        }
        if matches!(settings.space, SpaceSettings::File(_)) {
            report_idle_parameters(&*space);
            report_kept_grid(&*space);
        }
        let number = spaces.number;
        let further = self.ids[1..].iter().map(|id| spaces.of(id)).collect::<Result<_, _>>()?;
        let verified_on = others.into_iter().map(|id| Ok((self.instance(&settings, &id, &log)?, spaces.of(&id)?)));
        let verified_on = verified_on.collect::<Result<_, TuneError>>()?;
        let study = settings.search.study.as_ref().zip(bridge.as_ref());
        let Choice { sampler, early_stop } = match study {
            Some((study, bridge)) => {
                let sampler = OptunaSampler::new(bridge, &self.study(study, &settings, folder), &*space, number)?;
                let prunes = study.pruner.is_some_and(|pruner| pruner != Pruner::None);
                let early_stop = prunes.then(|| Box::new(sampler.pruner()) as Box<dyn EarlyStop>);
                Choice { sampler: Box::new(sampler), early_stop }
            }
            None => choice(&settings, &*space)?,
        };
        let mut evaluator = ready.map_or_else(|| evaluator(&settings, &instances), Ok)?;
        if let Some(problem) = examination::unreadable(&mut evaluator, &*space)? {
            return Err(TuneError::Setting(problem));
        }
        let plan = Plan {
            kernel: self.record.kernel_name.clone(),
            specializable: self.record.specializations.clone(),
            instances,
            search: Search::new(space, sampler),
            further,
            verified_on,
            early_stop,
            cache: settings
                .cache
                .clone()
                .map(|path| CachePlan { path, conditions: self.conditions(&settings, &objectives) }),
            objectives,
            bridge,
            settings,
        };
        Ok(Some((plan, evaluator)))
    }

    /// The instances of `--verify-all` that are not tuned for.
    fn others(&self, wanted: &[String]) -> Result<Vec<String>, TuneError> {
        let all = wanted.iter().any(|id| id == "all");
        let named = if all { self.record.instances.keys().cloned().collect() } else { wanted.to_vec() };
        let whole = |id: &String| Ok(self.record.instance(&self.database, Some(id))?.0.to_owned());
        let named: Vec<String> = named.iter().map(whole).collect::<Result<_, RecordingError>>()?;
        Ok(named.into_iter().filter(|id| !self.ids.contains(id)).collect())
    }

    fn instance(&self, settings: &TuningSettings, id: &str, log: &Path) -> Result<TunedInstance, TuneError> {
        let command = ServerCommand {
            // A simulation replays nothing, so any path will do.
            program: install::locate(install::REPLAYER).or(settings.simulate.clone()).ok_or(TuneError::Incomplete)?,
            database: self.database.clone(),
            instance: id.into(),
            options: server_options(settings),
            accepts_unproven: settings.replay.accept_unproven,
            log: log.into(),
        };
        Ok(TunedInstance { id: id.into(), weight: self.recorded(id).occurrences.max(1) as f64, command })
    }

    fn study(&self, study: &StudySettings, settings: &TuningSettings, folder: &Path) -> StudyOptions {
        StudyOptions {
            name: study.name.clone(),
            storage: study.storage.clone(),
            sampler: settings.search.sampler.name(),
            pruner: study.pruner.map(Pruner::name),
            seed: Some(settings.search.seed),
            objectives: settings.objectives.len(),
            kernel: self.record.kernel_name.clone(),
            session: std::fs::canonicalize(folder).unwrap_or(folder.into()).to_string_lossy().into_owned(),
        }
    }

    /// Conditions that two sessions must have in common to share results.
    fn conditions(&self, settings: &TuningSettings, objectives: &Objectives) -> Value {
        let CandidateSettings { rtol, atol, dtype, tolerance, timer, iterations, warmup, runs, .. } = &settings.replay;
        let energy = objectives.need_energy();
        // A session that makes all runs does not accept results with fewer.
        let iterations = if *runs == RunsKind::Needed { json!([iterations, runs]) } else { json!(iterations) };
        let mut conditions =
            vec![json!([self.record.static_hash, rtol, atol, dtype, tolerance, timer, iterations, warmup, energy])];
        // Without counters and `--from-ptx` the key has its first form, so that older results stay valid.
        let counters = objectives.counters();
        if !counters.is_empty() {
            conditions.push(json!(counters));
        }
        if settings.replay.from_ptx {
            conditions.push(json!("from-ptx"));
        }
        if conditions.len() == 1 { conditions.remove(0) } else { json!(conditions) }
    }
}

/// Warns about parameters that make no difference, because the search takes points that differ only in them for one.
fn report_idle_parameters(space: &dyn SearchSpace) {
    let idle = space::idle_parameters(space);
    if !idle.is_empty() {
        mneme_system::remark!(
            "mneme-tune: no value of {} changes a configuration, so points that differ only in it are tried once; \
             name a field of a configuration, or use the parameter in an expression for a field (docs/reference/spaces.md){}",
            idle.join(", "),
            did_you_mean(&idle[0], space::field_names())
        );
    }
}

/// Warns if the block varies and the grid stays, because few kernels do the same work then.
fn report_kept_grid(space: &dyn SearchSpace) {
    let described = space.describe();
    let sets = |prefix: &str| {
        let names = ["parameters", "derived"].into_iter().filter_map(|key| described[key].as_object());
        names.flat_map(|names| names.keys()).find(|name| name.starts_with(prefix)).cloned()
    };
    if let (Some(block), None) = (sets("block."), sets("grid.")) {
        let axis = block.trim_start_matches("block.");
        mneme_system::remark!(
            "mneme-tune: the space sets {block}, and the grid stays as recorded; if the grid has to follow the block, add to \
             'derived': grid.{axis}: ceil(recorded.grid.{axis} * recorded.block.{axis} / block.{axis})"
        );
    }
}

/// The built-in sampler that the options name.
fn choice(settings: &TuningSettings, space: &dyn SearchSpace) -> Result<Choice, TuneError> {
    let search = &settings.search;
    let start = search.start_from.as_deref().map(|path| start_in(space, path)).transpose()?;
    let sampler = learning(search, search.sampler.build(space, &search.for_sampler(start))?)?;
    let early_stop = settings.replay.racing.map(|factor| Box::new(Racing::new(factor)) as Box<dyn EarlyStop>);
    Ok(Choice { sampler, early_stop })
}

/// A sampler that begins with the results of the sessions of `--learn-from`.
fn learning(search: &SearchSettings, own: Box<dyn Sampler>) -> Result<Box<dyn Sampler>, TuneError> {
    if search.learn_from.is_empty() {
        return Ok(own);
    }
    let mut sessions = Vec::new();
    for folder in &search.learn_from {
        let wrong =
            |what: &dyn std::fmt::Display| TuneError::Setting(format!("--learn-from {}: {what}", folder.display()));
        let archive = Archive::read(folder).map_err(TuneError::Learn)?;
        let point = |entry: &ArchivedTrial| serde_json::from_value::<Point>(entry.line["params"].clone()).ok();
        let found: Vec<(Point, f64)> = archive.trials.iter().filter_map(|it| Some((point(it)?, it.metric?))).collect();
        if found.is_empty() {
            return Err(wrong(&"none of its trials verified; name a session with verified trials"));
        }
        sessions.push(found);
    }
    Ok(Box::new(Prior::new(own, search.seed, sessions)))
}

/// The conditions of the session to resume. Refuses to resume if its baseline and trials were judged or timed
/// differently than new ones, or if this is unknown.
fn refuse_other_conditions(
    results: &Results,
    is_new: bool,
    settings: &TuningSettings,
) -> Result<Option<Measured>, TuneError> {
    let earlier = match results.read::<Options>(session::CONFIG) {
        // An earlier release may have written this file.
        Err(ResultsError::Strange { .. }) => None,
        earlier => earlier?,
    };
    if earlier.is_none() && is_new {
        return Ok(None);
    }
    let folder = results.folder().display();
    if let Some(name) = earlier.as_ref().and_then(|earlier| earlier.other_condition(settings.written())) {
        return Err(TuneError::Setting(format!(
            "the session in {folder} has another --{name}; leave that option out, or start a new session without --resume",
        )));
    }
    let Some((earlier, now)) = earlier.as_ref().and_then(|earlier| earlier.measured.as_ref()).zip(settings.measured())
    else {
        return Err(TuneError::Setting(format!(
            "the session in {folder} was written by an earlier release and does not say which recording it measured; start a new session without --resume"
        )));
    };
    match earlier.other_recording(now) {
        Some(what) => Err(TuneError::Setting(format!(
            "{folder} holds results of another recording: {what} differs; name the same recording, or start a new session without --resume"
        ))),
        None => Ok(Some(earlier.clone())),
    }
}

impl Options {
    /// Refuses to resume a session of a kernel that `--kernel` does not name.
    fn refuse_another_kernel(&self) -> Result<(), TuneError> {
        let (Some(name), Some(folder), true) = (&self.kernel, &self.results_dir, self.resume) else { return Ok(()) };
        let session = results::read_file::<Self>(&folder.join(session::CONFIG)).ok().flatten();
        let database = session.and_then(|session| session.record_database.into_iter().next());
        let Some(record) = database.and_then(|path| KernelRecord::load(&path).ok()) else { return Ok(()) };
        let tuned = record.demangled_name.clone();
        let mut fitting = vec![record];
        choice::narrow(&mut fitting, |kernel| kernel, None, Some(name));
        if !fitting.is_empty() {
            return Ok(());
        }
        Err(TuneError::Setting(format!(
            "the session in {} tunes {tuned}, and --kernel names {name}; leave --kernel out, or start a session of {name} \
             in another --results-dir without --resume",
            folder.display()
        )))
    }
}

/// Refuses to simulate with results of another recording.
fn refuse_another_recording(folder: &Path, settings: &TuningSettings) -> Result<(), TuneError> {
    let text = trust::read(&folder.join(session::CONFIG)).unwrap_or_default();
    let earlier = serde_json::from_slice::<Options>(&text).ok().and_then(|earlier| earlier.measured);
    match earlier.zip(settings.measured()).and_then(|(earlier, now)| earlier.other_recording(now)) {
        Some(what) => Err(TuneError::Setting(format!(
            "--simulate {}: its results are of another recording: {what} differs",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// Starts the evaluator, which replays candidates or answers from recorded results.
fn evaluator(settings: &TuningSettings, instances: &[TunedInstance]) -> Result<Evaluator, TuneError> {
    match &settings.simulate {
        Some(folder) => Ok(Evaluator::simulated(Simulation::load(folder)?)),
        None => {
            let commands = instances.iter().map(|instance| instance.command.clone()).collect();
            Ok(Evaluator::start(commands).map_err(SessionError::from)?)
        }
    }
}

/// Options for `mneme-replay serve`.
fn server_options(settings: &TuningSettings) -> Vec<String> {
    let mut all = Vec::new();
    let llvm = settings.measured().and_then(|measured| llvm_version::major(&measured.llvm));
    let settings = &settings.replay;
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            all.extend([name.to_owned(), value]);
        }
    };
    add("--device", settings.device.clone());
    add("--llvm", llvm.map(|version| version.to_string()));
    add("--workers", settings.workers.map(|workers| workers.to_string()));
    add("--rtol", settings.rtol.map(|bound| bound.to_string()));
    add("--atol", settings.atol.map(|bound| bound.to_string()));
    add("--dtype", settings.dtype.clone());
    add("--timer", settings.timer.clone());
    add("--timeout", settings.trial_timeout.map(|seconds| seconds.to_string()));
    for tolerance in &settings.tolerance {
        add("--tolerance", Some(tolerance.clone()));
    }
    if settings.from_ptx {
        all.push("--from-ptx".to_owned());
    }
    all
}

/// The point in a file of results: `best.json`, or the first line of `trials.jsonl`.
fn start_point(path: &Path) -> Result<Point, TuneError> {
    let wrong = |problem: String| TuneError::Setting(format!("--start-from {}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|source| TuneError::Start { path: path.into(), source })?;
    let trial = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
    if trial
        .as_ref()
        .is_some_and(|line| line.as_ref().is_ok_and(|line| line["trial"].is_null() && line["config"].is_object()))
    {
        return Err(wrong(
            "the best of that session is the recorded configuration, with which every search starts; leave the option out".into(),
        ));
    }
    match trial.map(|line| line.and_then(serde_json::from_value::<results::Trial>)) {
        Some(Ok(trial)) if !trial.params.is_empty() => Ok(trial.params),
        Some(Err(error)) => Err(wrong(format!("it is not a trial ({error}); name the best.json of a results folder"))),
        _ => Err(wrong("it has no parameters; name the best.json of a results folder".into())),
    }
}

/// The point in that file, if this space has at least one of its values.
fn start_in(space: &dyn SearchSpace, path: &Path) -> Result<Point, TuneError> {
    let point = start_point(path)?;
    if point.iter().any(|(name, value)| space::knows(space, name, value)) {
        return Ok(point);
    }
    let path = path.display();
    Err(TuneError::Setting(format!("--start-from {path}: none of its values belongs to a parameter of this space")))
}

/// `--print-space` and `--dry-run`.
fn inspect(settings: &TuningSettings, space: &dyn SearchSpace) -> Result<(), TuneError> {
    let described = settings.described(space);
    let text = if settings.mode == SessionMode::DryRun {
        let baseline = serde_json::to_string_pretty(&space.baseline()).expect("plain data serialises");
        format!("Baseline configuration:\n{baseline}\nSearch space:\n{described:#}\n")
    } else {
        format!("{described:#}\n")
    };
    Ok(console::write(&text).map_err(SessionError::Output)?)
}

/// Writes the summary of several kernels, and one file for Proteus with all of them.
fn write_totals(
    folder: &Path,
    options: &Options,
    subjects: &[KernelToTune],
    outcomes: &[Outcome],
) -> Result<(), TuneError> {
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
    let path = options.proteus_output.clone().unwrap_or_else(|| folder.join(proteus::FILE));
    if options.no_proteus_output == Some(true) {
        return Ok(());
    }
    if !tuned.is_empty() {
        results::write_whole(&path, &results::merged(tuned))?;
    } else if options.proteus_output.is_none() {
        // Otherwise a file of an earlier session would be taken for this one's.
        results::remove(&path)?;
    }
    Ok(())
}

//! Compiles code for repeated launches while the application runs: `mneme apply --specialize`.
//!
//! The application's process sends requests as files. Each build runs in a separate process of `mneme-build`, so a
//! crash is just an answer.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mneme_builds::builders::{self, Builders};
use mneme_builds::{BuildPlan, BuildSpec, RecordedKernel, Target};
use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::hash::checksum;
use mneme_system::files::trust;
use mneme_winners::{Folded, SpecialisationAnswer, SpecialisationRequest, SpecialisedLaunch, Winner, WinnerIdentity};

use super::arguments::numbers;
use super::cache::{self, CodeCache, CodeCounts, CompiledCode};
use super::recording::TunedRecording;
use super::run_folder::Answers;
use super::winner::launch_bound;
use super::{AppliedWinner, ApplyError};

/// Time between looks for requests.
const LOOK: Duration = Duration::from_millis(10);
/// Time limit for one build.
const LIMIT: Duration = Duration::from_secs(300);

/// The winners of a run: the initial ones, and those made since.
#[derive(Clone, Default)]
pub struct UsedWinners(Arc<Mutex<Vec<(AppliedWinner, Winner)>>>);

impl UsedWinners {
    pub fn new(winners: Vec<(AppliedWinner, Winner)>) -> Self {
        Self(Arc::new(Mutex::new(winners)))
    }

    /// The winner with this identity.
    pub fn of(&self, identity: &WinnerIdentity) -> Option<(AppliedWinner, Winner)> {
        self.lock().iter().find(|(_, winner)| winner.identity() == *identity).cloned()
    }

    pub fn lock(&self) -> MutexGuard<'_, Vec<(AppliedWinner, Winner)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers requests for code.
pub struct Specialiser {
    pub cache: Arc<CodeCache>,
    /// Size limit of the cache, bytes.
    pub cache_size: u64,
    pub used: UsedWinners,
    /// Counts codes from the cache, and compiled ones.
    pub counts: CodeCounts,
}

impl Specialiser {
    /// Answers the requests of a run until it is over.
    pub fn serve(&self, answers: &Answers) {
        let folder = answers.folder();
        // Requests whose answers could not be written; they are not answered again.
        let mut lost: HashSet<String> = HashSet::new();
        loop {
            let mut waiting = SpecialisationRequest::waiting(folder);
            waiting.retain(|(name, _)| !lost.contains(name));
            for (name, request) in waiting {
                let (winner, refusal) = match self.make(folder, &request) {
                    Ok(winner) => (Some(winner), String::new()),
                    Err(error) => (None, error.to_string()),
                };
                let SpecialisationRequest { launch, record, .. } = request;
                let answer = SpecialisationAnswer { launch, winner, refusal };
                let Some(given) = answers.give(|folder| answer.save(folder, &name)) else { return };
                if let Err(error) = given {
                    mneme_system::remark!(
                        "mneme: {} is not specialised: {}: {error}",
                        record.demangled_name,
                        folder.display()
                    );
                    lost.insert(name);
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Makes the requested code.
    fn make(&self, folder: &Path, request: &SpecialisationRequest) -> Result<Winner, ApplyError> {
        let SpecialisationRequest { record, launch, .. } = request;
        if (&launch.kernel, launch.static_hash) != (&record.kernel_name, record.static_hash) {
            return Err(ApplyError::TwoKernels);
        }
        let base = request.base.as_ref().and_then(|base| self.used.of(base));
        if request.base.is_some() && base.is_none() {
            return Err(ApplyError::UnknownWinner);
        }
        let configuration = configuration(request, base.as_ref().map(|(found, _)| &found.configuration));
        let architecture = &record.ours.device_arch;
        let key = cache::key(record, &launch.arguments, request.compiled.as_ref(), &configuration, architecture);
        let found = self.cache.find(&key);
        let is_new = found.is_none();
        let entry = match found {
            Some(entry) => entry,
            None => {
                let made = compile(folder, request, &configuration)?;
                let entry = self.cache.add(&key, made).map_err(ApplyError::Unstored)?;
                let used: HashSet<PathBuf> = self
                    .used
                    .lock()
                    .iter()
                    .map(|(_, winner)| winner.code.clone())
                    .chain([entry.code.clone()])
                    .collect();
                self.cache.shrink(self.cache_size, &used);
                entry
            }
        };
        self.counts.add(is_new);
        let specialises_all = configuration.specialize == Specialize::All;
        let arguments = (0..).take(launch.arguments.len()).filter(|index| configuration.specialize.selects(*index));
        let winner = Winner {
            kernel: record.kernel_name.clone(),
            static_hash: record.static_hash,
            architecture: architecture.clone(),
            checksum: entry.checksum,
            layout: record.ours.arguments.iter().map(|argument| (argument.offset, argument.size)).collect(),
            recorded: launch.recorded,
            tuned: launch.shape,
            cluster: launch.cluster,
            cooperative: false,
            arguments: launch.arguments.clone(),
            folded: Folded {
                arguments: arguments.collect(),
                dimensions: true,
                shared_size: specialises_all,
                shared_memory: entry.shared_is_static,
            },
            // Without recorded memory, all folded words are numbers; the others may be anything.
            numbers: numbers(&launch.arguments, &[]),
            keeps_dimensions: false,
            max_threads: launch_bound(&configuration),
            bears_own_dimensions: false,
            verified: Vec::new(),
            rule: None,
            image: None,
            prints: false,
            before: base.as_ref().and_then(|(found, _)| found.before),
            after: base.as_ref().and_then(|(found, _)| found.after),
            // Unique to this winner.
            source: entry.code.clone(),
            code: entry.code,
        };
        let used = AppliedWinner {
            recording: TunedRecording::named(folder.join(record.file_name())),
            id: String::new(),
            configuration,
            architecture: Some(architecture.clone()),
            rule: None,
            before: winner.before,
            after: winner.after,
            replay: base.map(|(found, _)| found.replay).unwrap_or_default(),
            source: winner.source.clone(),
        };
        self.used.lock().push((used, winner.clone()));
        Ok(winner)
    }
}

/// The configuration for specialised code: that of the winner or of the application's own code, with the launch folded
/// in.
fn configuration(request: &SpecialisationRequest, base: Option<&Configuration>) -> Configuration {
    let SpecialisedLaunch { shape, arguments, folded, .. } = &request.launch;
    let own = || {
        let launch = Configuration::recorded(shape.grid, shape.block, shape.shared_mem);
        request.compiled.as_ref().map_or_else(|| launch.clone(), |compiled| launch.clone().compiled_as(compiled))
    };
    let base = base.cloned().unwrap_or_else(own);
    let specialize = match &base.specialize {
        Specialize::All => Specialize::All,
        known => {
            let is_folded = |index: &u32| known.selects(*index) || folded.contains(index);
            Specialize::Arguments((0..arguments.len() as u32).filter(is_folded).collect())
        }
    };
    Configuration {
        // Launch bounds follow the block unless the winner sets them; the block may differ from the winner's.
        max_threads: launch_bound(&base).or(base.max_threads),
        grid: shape.grid,
        block: shape.block,
        shared_mem: shape.shared_mem,
        specialize_dims: true,
        specialize,
        ..base
    }
}

fn compile(
    folder: &Path,
    request: &SpecialisationRequest,
    configuration: &Configuration,
) -> Result<CompiledCode, ApplyError> {
    let record = &request.record;
    let mut modules = Vec::new();
    for (name, sum) in record.modules.iter().zip(&record.ours.module_checksums) {
        let path = folder.join(name);
        let module = trust::read(&path).map_err(|source| ApplyError::Unread { path: path.clone(), source })?;
        if checksum(&module) != *sum {
            return Err(ApplyError::Damaged(path));
        }
        modules.push(module);
    }
    let recorded = RecordedKernel {
        folder: folder.into(),
        name: record.kernel_name.clone(),
        arguments: request.launch.arguments.clone(),
        signature: record.ours.arguments.clone(),
        compiled: request.compiled.clone(),
        ..RecordedKernel::default()
    };
    let plan = BuildPlan { recorded, ..BuildPlan::default() };
    let target = Target::of_device(&record.ours.device_arch, &record.ours.ir_arch);
    let builders = Builders::find()?;
    let written_by = builders::written_by(modules.iter().map(Vec::as_slice));
    let builder = builders.of(builders.chosen(configuration.llvm, written_by)?)?;
    let built = builder.build(plan, &modules, BuildSpec::new(configuration.clone()), target, LIMIT);
    let (built, image) = built?.map_err(|not_built| ApplyError::NotBuilt(not_built.error))?;
    // PTX would be compiled by the driver while the application waits.
    if !image.starts_with(b"\x7fELF") {
        return Err(ApplyError::NoAssembler);
    }
    Ok(CompiledCode { image, shared_is_static: built.shared_is_static, bears_threads: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;
    use mneme_recording::database::{KernelDetails, KernelRecord};
    use mneme_recording::manifest::RecordedArgument;
    use mneme_winners::LaunchDimensions;

    fn request() -> SpecialisationRequest {
        let shape =
            |block| LaunchDimensions { grid: Dim3::new(8, 1, 1), block: Dim3::new(block, 1, 1), shared_mem: 16 };
        let record = KernelRecord {
            static_hash: 1,
            arena_address: String::new(),
            arena_size: 0,
            kernel_name: "_Z1kv".into(),
            demangled_name: "k()".into(),
            modules: Vec::new(),
            binary_blobs: Vec::new(),
            arg_names: Vec::new(),
            specializations: Vec::new(),
            instances: Default::default(),
            ours: KernelDetails::default(),
        };
        let arguments = (0..3).map(|index| RecordedArgument { offset: 8 * index, bytes: vec![0; 8] }).collect();
        let (recorded, shape) = (shape(64), shape(32));
        let launch = SpecialisedLaunch {
            kernel: record.kernel_name.clone(),
            static_hash: record.static_hash,
            recorded,
            shape,
            cluster: None,
            arguments,
            folded: vec![2],
        };
        SpecialisationRequest { launch, record, compiled: None, base: None }
    }

    #[test]
    fn the_launch_is_folded_into_what_it_got_before() {
        let request = request();
        let own = configuration(&request, None);
        assert_eq!((own.block.x, own.shared_mem, own.specialize_dims), (32, 16, true));
        assert_eq!((&own.specialize, own.set_launch_bounds), (&Specialize::Arguments(vec![2]), false));
        let base = Configuration {
            specialize: Specialize::Arguments(vec![0]),
            set_launch_bounds: true,
            passes: "default<O1>".into(),
            ..Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(128, 1, 1), 0)
        };
        let tuned = configuration(&request, Some(&base));
        assert_eq!((tuned.specialize, tuned.max_threads), (Specialize::Arguments(vec![0, 2]), Some(128)));
        assert_eq!((tuned.block.x, tuned.passes.as_str()), (32, "default<O1>"));
        let all = Configuration { specialize: Specialize::All, ..base };
        assert_eq!(configuration(&request, Some(&all)).specialize, Specialize::All);
    }
}

//! The replay context, which is the same for all configurations.

pub mod device;
pub mod settings;
pub mod timing;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use mneme_builds::builder::{Preparation, ProgramError};
use mneme_builds::builders::{Builders, newest_version, written_by};
use mneme_builds::plan::External;
use mneme_builds::probe::{Assumption, Revision};
use mneme_builds::{BuildOutcome, BuildPlan, BuildSpec, Keep, NotBuilt, Replacement};
use mneme_device::Interface;
use mneme_model::device::Timer;
use mneme_model::fresh::LOSSES;
use mneme_model::result::ReplayStatus;
use mneme_recording::choice;
use mneme_recording::poison::PoisonMap;
use mneme_system::exit;
use mneme_system::files::trust;
use mneme_system::install::{BUILDER, LLVM_VERSIONS};

use self::device::Choice;
use self::settings::{Isolation, ReplaySettings};
use crate::build::fork_server::ForkServerPlan;
use crate::build::replacement;
use crate::context::timing::Timing;
use crate::error::Fatal;
use crate::recording::instance::RecordedInstance;
use crate::recording::snapshot::{Snapshot, SnapshotLayout};
use crate::verify::tolerances::{self, Bounds};

/// A recorded instance and the devices, limits and rules of its replay.
pub struct ReplayContext {
    /// The programs that compile, one for each version of LLVM.
    pub programs: Builders,
    /// The version of LLVM that wrote the code, if the code contains it; the newest for several modules.
    pub written_by: Option<u32>,
    /// The version of LLVM for configurations that do not name one.
    pub llvm: u32,
    /// The version that is needed first.
    pub first_llvm: u32,
    /// The full version of the LLVM that wrote the code, e.g. "19.1.7".
    pub ir_version: Option<String>,
    pub recorded: RecordedInstance,
    pub modules: Vec<Vec<u8>>,
    pub snapshot: Snapshot,
    /// The accepted differences of replayed memory.
    pub bounds: Bounds,
    /// Why memory was not searched for bytes that the kernel only writes, one sentence.
    pub not_searched: String,
    /// Seeds of useful fresh inputs, for recordings that prove too little by themselves.
    pub fresh_inputs: Vec<u64>,
    /// Whether the application's own code is known to fail here.
    pub own_code_fails: Cell<bool>,
    /// Contexts lost because the application's own code failed on a fresh input.
    pub lost_on_inputs: Cell<u32>,
    /// Whether runs are a survey of their differences.
    pub survey: bool,
    /// The folder for differing memory.
    pub dump: Option<PathBuf>,
    /// The argument bytes of every launch, in order.
    pub arguments: Vec<Vec<u8>>,
    /// At least one, all of one kind.
    pub devices: Vec<Choice>,
    pub library: PathBuf,
    pub timing: Timing,
    pub isolation: Isolation,
    /// How many configurations run at a time, on all devices together.
    pub workers: usize,
    /// Whether more configurations may come, so executors have standbys.
    pub standby: bool,
    /// Whether to hide the output of device and kernels.
    pub quiet: bool,
    /// The time limit of a build, and of all runs of a configuration.
    pub limit: Duration,
    /// How many builders run at a time, and the memory limit of each, bytes.
    pub builders: usize,
    pub builder_memory: Option<u64>,
    /// Code in place of the recorded kernel's.
    pub replacement: Option<Replacement>,
    /// The program that runs pipelines.
    pub external: Option<External>,
    /// The IR that builds return.
    pub keep: Keep,
    /// Whether failed builds return the texts of their finished stages.
    pub texts: bool,
    /// The replacement source did not compile, so the replay has no code.
    pub unbuilt: Option<NotBuilt>,
}

impl ReplayContext {
    /// Opens the recording, starts the program that compiles its code, and chooses the device. Leaves no other process
    /// running. Reads memory only if the recording is the existing Mneme's.
    pub fn open(settings: ReplaySettings) -> Result<Self, Fatal> {
        let preparation = match settings.isolation {
            // No builder is forked from it, and the first build would wait.
            Isolation::None => Preparation::None,
            Isolation::Fault | Isolation::Process => Preparation::Full,
        };
        let named = settings.external.iter().flat_map(|external| external.program.iter().chain(&external.plugins));
        for file in named {
            trust::check_program(file).map_err(|error| Fatal::new(exit::BAD_USAGE, error))?;
        }
        let programs = Builders::find()?;
        let database = choice::choose(&settings.database, settings.id.as_deref(), settings.kernel.as_deref())?;
        let recorded = RecordedInstance::open(&database, settings.id.as_deref(), &programs)?;
        let (replacement, unbuilt) = given(&settings, &recorded)?;
        let modules = if replacement.is_some() { Vec::new() } else { recorded.modules()? };
        let written_by = match &replacement {
            // Code without a version was probably derived from the recorded IR.
            Some(Replacement::Ir(bytes)) => written_by([bytes.as_slice()])
                .or_else(|| written_by(recorded.modules().ok()?.iter().map(Vec::as_slice))),
            _ => written_by(modules.iter().map(Vec::as_slice)),
        };
        let llvm = match programs.chosen(settings.default_llvm, written_by) {
            // The application's own code needs no IR.
            Err(_) if settings.original => programs.newest(),
            found => found?,
        };
        let chosen = settings.llvm.or(settings.default_llvm).is_some() || settings.original;
        if let Some(found) = written_by.filter(|found| !chosen && *found < llvm && LLVM_VERSIONS.contains(found)) {
            mneme_system::remark!(
                "mneme-replay: LLVM {llvm} compiles IR of LLVM {found}, because {BUILDER}{found} is not installed"
            );
        }
        let first_llvm = programs.chosen(settings.llvm, written_by).unwrap_or(llvm);
        // If it cannot be started, builds report that.
        let _ = programs.of(first_llvm)?.start(preparation);
        let ir_version = match &replacement {
            Some(Replacement::Ir(bytes)) => newest_version([bytes.as_slice()]),
            _ => newest_version(modules.iter().map(Vec::as_slice)),
        };
        let mut devices =
            if settings.devices.is_empty() { vec![Choice::recorded(&recorded)] } else { settings.devices };
        for device in &mut devices {
            *device = device.of(&recorded.kernel.ours);
        }
        if devices.iter().any(|device| device.is_cpu() != devices[0].is_cpu()) {
            return Err(Fatal::new(
                exit::BAD_USAGE,
                "--device names the CPU device and a GPU; replay on one of them at a time",
            ));
        }
        if let Some(error) = devices.iter().find_map(|device| device.misfit(&recorded.kernel.ours)) {
            return Err(Fatal::new(exit::BAD_USAGE, error));
        }
        if let Some(error) = misfit(&settings.timing, devices[0]) {
            return Err(Fatal::new(exit::BAD_USAGE, error));
        }
        let library = devices[0].library().map_err(|error| Fatal::new(exit::NO_DEVICE, error))?;
        let layout = SnapshotLayout::of(&recorded)?;
        let bounds = Bounds::of(&recorded, &layout.regions, &settings.verification)?;
        if let Some(target) = tolerances::stray(&recorded, &layout.regions, &settings.verification) {
            let error =
                format!("--tolerance names {target}, which the recording does not have; mneme show lists its buffers");
            return Err(Fatal::new(exit::BAD_USAGE, error));
        }
        if let Some(text) = bounds.contested_text() {
            mneme_system::remark!("mneme-replay: {text}");
        }
        if let Some(text) = bounds.left_out_text() {
            if settings.standby {
                // A configuration that writes something else there would count as right, and win.
                let error =
                    format!("{text}; to accept that for many configurations, pass --tolerance BUFFER=ignore for each");
                return Err(Fatal::new(exit::BAD_USAGE, error));
            }
            mneme_system::remark!("mneme-replay: {text}");
        }
        let snapshot = reserve(layout)?;
        Ok(Self {
            programs,
            written_by,
            llvm,
            first_llvm,
            ir_version,
            arguments: recorded
                .moments
                .prologue
                .header
                .arguments
                .iter()
                .map(|argument| argument.bytes.clone())
                .collect(),
            limit: settings.limit,
            builders: settings.builders,
            replacement,
            external: settings.external,
            keep: settings.keep,
            texts: settings.texts,
            unbuilt,
            builder_memory: settings.builder_memory,
            workers: settings.workers.unwrap_or(devices.len()),
            timing: settings.timing.of_kernel(devices[0], recorded.instance.ours.gpu_time),
            isolation: settings.isolation,
            standby: settings.standby,
            recorded,
            modules,
            snapshot,
            bounds,
            not_searched: String::new(),
            fresh_inputs: Vec::new(),
            own_code_fails: Cell::new(false),
            lost_on_inputs: Cell::new(0),
            survey: settings.survey,
            quiet: settings.quiet,
            dump: settings.dump,
            devices,
            library,
        })
    }

    /// Makes runs start from memory in which the bytes of `map` are filled.
    ///
    /// # Errors
    /// The memory does not fit into this process.
    pub fn poison(&mut self, map: &PoisonMap) -> Result<(), Fatal> {
        let mut layout = SnapshotLayout::of(&self.recorded)?;
        layout.poison(map);
        self.snapshot = reserve(layout)?;
        self.not_searched.clone_from(&map.left_out);
        self.fresh_inputs.clone_from(&map.fresh_inputs);
        self.own_code_fails.set(map.own_code_fails);
        Ok(())
    }

    /// Whether inputs may be tried on which the application's own code may fail.
    pub fn may_lose_more(&self) -> bool {
        self.lost_on_inputs.get() < LOSSES
    }

    /// The builds that can compute the right results on fresh inputs, in order of preference: the application's own
    /// code, and the recorded pipeline.
    pub fn oracles(&self) -> Vec<BuildSpec> {
        let own = BuildSpec::new(self.recorded.recorded_configuration().of_original());
        let own = (!self.own_code_fails.get()).then_some(own);
        own.into_iter().chain(self.recorded_pipeline().filter(|_| self.external.is_none())).collect()
    }

    /// The recorded pipeline with and without fusing multiplications and additions. Empty if there is nothing to
    /// compile.
    pub fn pipelines(&self) -> Vec<BuildSpec> {
        let of = |(mut spec, fuses): (BuildSpec, bool)| {
            spec.probe.fuses = Some(fuses);
            if !fuses {
                // Operations may be marked, which lets them be fused in any case.
                spec.probe.revisions.push(Revision::Forget(Assumption::FastMath));
            }
            spec
        };
        self.recorded_pipeline().map_or_else(Vec::new, |spec| [(spec.clone(), true), (spec, false)].map(of).into())
    }

    /// The build of the recorded code as it was recorded, also if other code takes its place.
    fn recorded_pipeline(&self) -> Option<BuildSpec> {
        let mut spec = BuildSpec::new(self.recorded.recorded_configuration());
        if self.replacement.is_some() {
            spec.replacement = Some(Rc::new(replacement::compilable(&self.recorded)?));
        }
        Some(spec)
    }

    /// Whether builds start from PTX.
    pub fn is_ptx(&self) -> bool {
        matches!(self.replacement, Some(Replacement::Ptx(_)))
    }

    /// Whether builds start from machine code.
    pub fn is_machine_code(&self) -> bool {
        matches!(self.replacement, Some(Replacement::Cubin(_)))
    }

    /// Whether a build starts from LLVM IR.
    pub fn is_ir(&self, build: &BuildSpec) -> bool {
        let replacement = build.replacement.as_deref().or(self.replacement.as_ref());
        replacement.is_none_or(|it| matches!(it, Replacement::Ir(_)))
    }

    /// Whether LLVM took part in the outcome of a build.
    pub fn is_compiled(&self, build: &BuildSpec, outcome: &BuildOutcome) -> bool {
        match outcome {
            Ok((built, _)) => built.lifted || (self.is_ir(build) && !build.configuration.original),
            // The build never began, or the compiler is missing.
            Err(NotBuilt { status, .. }) => {
                !matches!(status, ReplayStatus::InvalidConfig | ReplayStatus::InternalError)
            }
        }
    }

    /// The full version of the LLVM that wrote the IR of a build, if the build starts from IR with a version.
    pub fn ir_version_of(&self, build: &BuildSpec) -> Option<String> {
        let own = match build.replacement.as_deref() {
            Some(Replacement::Ir(bytes)) => newest_version([bytes.as_slice()]),
            Some(_) => return None,
            None => None,
        };
        own.or_else(|| self.ir_version.clone())
    }

    pub fn is_cpu(&self) -> bool {
        self.devices[0].is_cpu()
    }

    /// The version of LLVM that makes a build.
    ///
    /// # Errors
    /// It is not installed, or does not read the code.
    pub fn llvm_of(&self, build: &BuildSpec) -> Result<u32, ProgramError> {
        if build.configuration.original && build.replacement.is_none() {
            return Ok(self.llvm);
        }
        let written_by = match build.replacement.as_deref() {
            Some(Replacement::Ir(bytes)) => written_by([bytes.as_slice()]).or(self.written_by),
            Some(_) => None,
            None => self.written_by,
        };
        self.programs.chosen(build.configuration.llvm, written_by)
    }

    /// The full version of the default LLVM. May have to ask a process.
    ///
    /// # Errors
    /// The program that compiles is unusable.
    pub fn llvm_version(&self) -> Result<&str, Fatal> {
        Ok(self.programs.of(self.llvm)?.llvm()?)
    }

    /// The plan for starting a fork server of a version of LLVM.
    ///
    /// # Errors
    /// It is not installed.
    pub fn build_plan(&self, llvm: u32) -> Result<ForkServerPlan<'_>, ProgramError> {
        let builds = BuildPlan {
            recorded: self.recorded.for_builds(),
            external: self.external.clone(),
            keep: self.keep,
            texts: self.texts,
            memory: self.builder_memory,
            in_process: self.isolation == Isolation::None,
        };
        Ok(ForkServerPlan {
            program: self.programs.of(llvm)?,
            builds,
            modules: &self.modules,
            replacement: self.replacement.as_ref(),
        })
    }
}

/// Reserves shared memory for the recorded memory.
fn reserve(layout: SnapshotLayout) -> Result<Snapshot, Fatal> {
    Snapshot::reserve(layout)
        .map_err(|error| Fatal::new(exit::INTERNAL, format!("cannot reserve memory for the recorded memory: {error}")))
}

/// Why kernels on this kind of device cannot be timed with this timer, with the remedy.
fn misfit(timing: &Timing, device: Choice) -> Option<&'static str> {
    match (timing, device.interface()) {
        (Timing::Only(Timer::Cupti), _) if device.is_cpu() => {
            Some("CUPTI times GPUs; leave --timer out on the CPU device")
        }
        (Timing::Only(Timer::Rocprofiler), _) if device.is_cpu() => {
            Some("rocprofiler-sdk times GPUs; leave --timer out on the CPU device")
        }
        (Timing::Only(Timer::Cupti), Interface::Hip) => Some("CUPTI times NVIDIA's GPUs; leave --timer out on AMD's"),
        (Timing::Only(Timer::Rocprofiler), Interface::Cuda) => {
            Some("rocprofiler-sdk times AMD's GPUs; use --timer cupti or leave it out on NVIDIA's")
        }
        _ => None,
    }
}

/// The code that replaces the recorded kernel's, or the recorded code if that is not IR; and the failed build if there
/// is one.
fn given(
    settings: &ReplaySettings,
    recorded: &RecordedInstance,
) -> Result<(Option<Replacement>, Option<NotBuilt>), Fatal> {
    if let Some(beside) = settings.beside {
        return Ok((Some(beside.read(recorded)?), None));
    }
    let read = settings.code.as_ref().map(|file| file.read(recorded, settings.limit)).transpose()?;
    Ok(match read {
        Some(Ok(given)) => (Some(given), None),
        Some(Err(unbuilt)) => (replacement::recorded(recorded)?, Some(unbuilt)),
        None => (replacement::recorded(recorded)?, None),
    })
}

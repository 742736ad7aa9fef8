//! From the command line to everything that stays the same for all configurations.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_compiler::Keep;
use mneme_core::device::Timer;
use mneme_core::exit;
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{KernelRecord, kernels};

use crate::arguments::{Arguments, CodeOptions, Common, Isolation, OneShot, Timers};
use crate::builder::{Extras, NotBuilt};
use crate::replacement::Replacement;
use crate::snapshot::{Layout, Snapshot};
use crate::subject::Subject;
use crate::supervisor::Fatal;
use crate::target::Choice;
use crate::tolerances::{self, Bounds};

/// What stays the same for all configurations.
pub struct Scene {
    pub subject: Subject,
    pub modules: Vec<Vec<u8>>,
    pub snapshot: Snapshot,
    /// What replayed memory may differ by.
    pub bounds: Bounds,
    /// Runs are a survey of how they differ from each other.
    pub survey: bool,
    /// Folder for memory that differs.
    pub dump: Option<PathBuf>,
    /// Of every launch, in order.
    pub arguments: Vec<Vec<u8>>,
    /// At least one, all of one kind.
    pub devices: Vec<Choice>,
    pub library: PathBuf,
    pub timer: Timer,
    pub isolation: Isolation,
    /// Configurations that run at a time, over all devices.
    pub workers: usize,
    /// More configurations may come: executors have others ready to take over.
    pub standby: bool,
    /// What device and kernels print is not shown.
    pub quiet: bool,
    /// For a build, and for all runs of a configuration.
    pub limit: Duration,
    /// Builders at a time, and the memory that each may take, bytes.
    pub builders: usize,
    pub builder_memory: Option<u64>,
    pub extras: Extras,
    /// The source in the recorded kernel's place did not compile: there is nothing to replay.
    pub unbuilt: Option<NotBuilt>,
}

impl Scene {
    pub fn is_cpu(&self) -> bool {
        self.devices[0].is_cpu()
    }
}

/// Opens the recording and chooses the device. No process is left running; memory is read where the recording is the existing Mneme's.
pub fn open(common: &Common, purpose: Purpose<'_>) -> Result<Scene, Fatal> {
    let database = choose(&common.database, common.id.as_deref(), common.kernel.as_deref())?;
    let subject = Subject::open(&database, common.id.as_deref()).map_err(bad_recording)?;
    let (extras, unbuilt) = extras(&purpose, &subject, common.timeout)?;
    let modules = if extras.replacement.is_some() { Vec::new() } else { subject.modules().map_err(bad_recording)? };
    let devices = if common.device.is_empty() { vec![Choice::recorded(&subject)] } else { common.device.clone() };
    if devices.iter().any(|device| device.is_cpu() != devices[0].is_cpu()) {
        return Err(Fatal::new(exit::BAD_USAGE, "--device names the CPU device and a GPU; replay on them one by one"));
    }
    if devices[0].is_cpu() && common.timer == Timers::Cupti {
        return Err(Fatal::new(exit::BAD_USAGE, "CUPTI times GPUs; leave --timer out on the CPU device"));
    }
    let library = devices[0].library().map_err(|error| Fatal::new(exit::NO_DEVICE, error))?;
    let layout = Layout::of(&subject).map_err(bad_recording)?;
    let bounds = Bounds::of(&subject, &layout.regions, &common.verification.options()).map_err(bad_recording)?;
    if let Some(target) = tolerances::stray(&subject, &layout.regions, &common.verification.options()) {
        let error = format!("--tolerance names {target}, and the recording has no such buffer; mneme show lists what it has");
        return Err(Fatal::new(exit::BAD_USAGE, error));
    }
    if let Some(text) = bounds.left_out_text() {
        if purpose.standby {
            // A configuration that writes something else there would pass for right, and win.
            let error = format!("{text}; where that is meant for many configurations, say --tolerance BUFFER=ignore of each");
            return Err(Fatal::new(exit::BAD_USAGE, error));
        }
        eprintln!("mneme-replay: {text}");
    }
    let snapshot = Snapshot::reserve(layout)
        .map_err(|error| Fatal::new(exit::INTERNAL, format!("there is no room in this process for the recorded memory: {error}")))?;
    Ok(Scene {
        arguments: subject.moments.prologue.header.arguments.iter().map(|argument| argument.bytes.clone()).collect(),
        limit: common.timeout,
        builders: builders(common),
        extras,
        unbuilt,
        builder_memory: common.memory_limit.or_else(half_of_memory),
        workers: common.workers.map_or(devices.len(), |count| count as usize),
        timer: common.timer.into(),
        isolation: common.isolation,
        standby: purpose.standby,
        subject,
        modules,
        snapshot,
        bounds,
        survey: purpose.survey,
        quiet: purpose.quiet,
        dump: purpose.dump,
        devices,
        library,
    })
}

/// Replays what the command line asks for; returns the exit status.
pub fn run(arguments: &Arguments) -> Result<i32, Fatal> {
    let scene = open(arguments.common(), Purpose::of(arguments))?;
    match arguments {
        Arguments::Serve(options) => crate::serve::run(options, &scene),
        Arguments::Sweep(options) => crate::sweep::run(options, &scene),
        Arguments::OneShot(options) => crate::one_shot::run(options, &scene),
    }
}

/// What one program asks of a scene and others do not.
#[derive(Default)]
pub struct Purpose<'a> {
    /// Code in the recorded kernel's place.
    pub code: Option<&'a CodeOptions>,
    pub keep: Keep,
    /// Texts of builds that fail are wanted too.
    pub texts: bool,
    pub standby: bool,
    pub survey: bool,
    pub dump: Option<PathBuf>,
    pub quiet: bool,
}

impl<'a> Purpose<'a> {
    fn of(arguments: &'a Arguments) -> Self {
        let Arguments::OneShot(options) = arguments else { return Self { standby: true, ..Self::default() } };
        let OneShot { code, output_dir, output_ll, output_ptx, repeat, dump_diff, .. } = &**options;
        let all = output_dir.is_some();
        let keep = Keep { before: all, after: all || output_ll.is_some(), ..Keep::default() };
        let texts = all || output_ll.is_some() || output_ptx.is_some();
        Self { code: Some(code), keep, texts, standby: false, survey: repeat.is_some(), dump: dump_diff.clone(), quiet: false }
    }
}

/// The kernel's file: as named, or the one of a folder that is meant.
fn choose(path: &Path, id: Option<&str>, name: Option<&str>) -> Result<PathBuf, Fatal> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let mut found = Vec::new();
    let mut all = Vec::new();
    let mut damaged = None;
    for file in kernels(path).map_err(bad_recording)? {
        match KernelRecord::load(&file) {
            Ok(kernel) => {
                let named = name.is_none_or(|name| kernel.kernel_name.contains(name) || kernel.demangled_name.contains(name));
                if named && id.is_none_or(|id| kernel.instances.contains_key(id)) {
                    let exactly = name.is_some_and(|name| is_name(name, &kernel));
                    found.push((exactly, file, kernel.demangled_name.clone()));
                }
                all.push(kernel.demangled_name);
            }
            Err(error) => damaged = Some(error),
        }
    }
    if found.iter().any(|(exactly, ..)| *exactly) {
        found.retain(|(exactly, ..)| *exactly);
    }
    let names: Vec<String> = found.iter().map(|(_, _, name)| name.clone()).collect();
    match (found.pop(), found.len()) {
        (Some((_, only, _)), 0) => Ok(only),
        (None, _) => match damaged {
            Some(error) => Err(bad_recording(error)),
            None if all.is_empty() => Err(Fatal::new(exit::BAD_RECORDING, format!("{} holds no recorded kernel", path.display()))),
            None => Err(Fatal::new(
                if name.is_some() { exit::BAD_USAGE } else { exit::BAD_RECORDING },
                format!("no kernel of {} {}; it holds {}", path.display(), asked(name, id), all.join(", ")),
            )),
        },
        (Some(_), others) => Err(Fatal::new(
            exit::BAD_USAGE,
            format!(
                "{} kernels of {} may be meant; name one with --kernel or -rid, or name its .json file: {}",
                others + 1,
                path.display(),
                names.join(", ")
            ),
        )),
    }
}

/// Whether a kernel's whole name is meant, rather than a part of it: mangled, demangled, or demangled without its parameters.
fn is_name(name: &str, kernel: &KernelRecord) -> bool {
    let demangled = kernel.demangled_name.as_str();
    kernel.kernel_name == name || demangled == name || demangled.split('(').next() == Some(name)
}

/// What the command line asks of every build, and why there can be none.
fn extras(purpose: &Purpose<'_>, subject: &Subject, limit: Duration) -> Result<(Extras, Option<NotBuilt>), Fatal> {
    let read = purpose.code.map_or(Ok(Ok(None)), |code| Replacement::read(code, subject, limit))?;
    let (given, unbuilt) = match read {
        Ok(given) => (given, None),
        Err(unbuilt) => (None, Some(unbuilt)),
    };
    let replacement = given.map_or_else(|| Replacement::recorded(subject).map_err(bad_recording), |given| Ok(Some(given)))?;
    let extras = Extras { replacement, external: purpose.code.and_then(CodeOptions::external), keep: purpose.keep, texts: purpose.texts };
    Ok((extras, unbuilt))
}

/// Half of the machine's memory, bytes.
fn half_of_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 512)
}

fn builders(common: &Common) -> usize {
    common.builders.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |count| count as usize)
}

/// What a kernel was to be, of those that the command line may mean.
fn asked(name: Option<&str>, id: Option<&str>) -> String {
    let named = name.map(|name| format!("is named {name}"));
    let has = id.map(|id| format!("has an instance {id} (mneme show lists them)"));
    named.into_iter().chain(has).collect::<Vec<_>>().join(" and ")
}

fn bad_recording(error: RecordingError) -> Fatal {
    let status = match error {
        RecordingError::Ambiguous { .. } => exit::BAD_USAGE,
        _ => exit::BAD_RECORDING,
    };
    Fatal::new(status, error.to_string())
}

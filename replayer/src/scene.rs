//! From the command line to everything that stays the same for all configurations.

use std::path::{Path, PathBuf};

use mneme_compiler::Keep;
use mneme_core::exit;
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{KernelRecord, kernels};

use crate::arguments::{Arguments, Common, OneShot};
use crate::builder::Extras;
use crate::replacement::Replacement;
use crate::snapshot::{Layout, Snapshot};
use crate::subject::Subject;
use crate::supervisor::{Fatal, Scene};
use crate::target::Choice;
use crate::tolerances::Bounds;

/// Opens the recording and chooses the device. No process is started and no chunk is read.
pub fn open(arguments: &Arguments) -> Result<Scene, Fatal> {
    let common = arguments.common();
    let database = choose(&common.database, common.id.as_deref(), common.kernel.as_deref())?;
    let subject = Subject::open(&database, common.id.as_deref()).map_err(bad_recording)?;
    let extras = extras(arguments, &subject)?;
    let modules = if extras.replacement.is_some() { Vec::new() } else { subject.modules().map_err(bad_recording)? };
    let choice = common.device.unwrap_or_else(|| Choice::recorded(&subject));
    let library = choice.library().map_err(|error| Fatal::new(exit::NO_DEVICE, error))?;
    let layout = Layout::of(&subject).map_err(bad_recording)?;
    let bounds = Bounds::of(&subject, &layout.regions, &common.verification.options()).map_err(bad_recording)?;
    let snapshot = Snapshot::reserve(layout)
        .map_err(|error| Fatal::new(exit::INTERNAL, format!("there is no room in this process for the recorded memory: {error}")))?;
    Ok(Scene {
        parameters: subject.prologue.parameter_buffer(),
        limit: common.timeout,
        builders: builders(common),
        extras,
        subject,
        modules,
        snapshot,
        bounds,
        survey: one_shot(arguments).is_some_and(|options| options.repeat.is_some()),
        dump: one_shot(arguments).and_then(|options| options.dump_diff.clone()),
        choice,
        library,
    })
}

/// Replays what the command line asks for; returns the exit status.
pub fn run(arguments: &Arguments) -> Result<i32, Fatal> {
    let scene = open(arguments)?;
    match arguments {
        Arguments::Serve(_) => crate::serve::run(&scene),
        Arguments::OneShot(options) => crate::one_shot::run(options, &scene),
    }
}

fn one_shot(arguments: &Arguments) -> Option<&OneShot> {
    match arguments {
        Arguments::OneShot(options) => Some(options),
        Arguments::Serve(_) => None,
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
                    found.push(file);
                }
                all.push(kernel.demangled_name);
            }
            Err(error) => damaged = Some(error),
        }
    }
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => match damaged {
            Some(error) => Err(bad_recording(error)),
            None if all.is_empty() => Err(Fatal::new(exit::BAD_RECORDING, format!("{} holds no recorded kernel", path.display()))),
            None => Err(Fatal::new(
                exit::BAD_USAGE,
                format!("no kernel of {} is meant by --kernel and -rid; it holds {}", path.display(), all.join(", ")),
            )),
        },
        (Some(_), others) => Err(Fatal::new(
            exit::BAD_USAGE,
            format!(
                "{} kernels of {} may be meant; name one with --kernel or -rid, or name its .json file: {}",
                others + 1,
                path.display(),
                all.join(", ")
            ),
        )),
    }
}

fn extras(arguments: &Arguments, subject: &Subject) -> Result<Extras, Fatal> {
    let recorded = || Replacement::recorded(subject).map_err(bad_recording);
    let Arguments::OneShot(options) = arguments else { return Ok(Extras { replacement: recorded()?, ..Extras::default() }) };
    let all = options.output_dir.is_some();
    Ok(Extras {
        replacement: Replacement::read(&options.code, subject)?.map_or_else(recorded, |given| Ok(Some(given)))?,
        external: options.code.external(),
        keep: Keep { before: all, after: all || options.output_ll.is_some() },
    })
}

fn builders(common: &Common) -> usize {
    common.builders.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |count| count as usize)
}

fn bad_recording(error: RecordingError) -> Fatal {
    Fatal::new(exit::BAD_RECORDING, error.to_string())
}

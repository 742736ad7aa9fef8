//! From the command line to everything that stays the same for all configurations.

use mneme_core::exit;
use mneme_core::recording::RecordingError;

use crate::arguments::{Arguments, Common, OneShot};
use crate::snapshot::{Layout, Snapshot};
use crate::subject::Subject;
use crate::supervisor::{Fatal, Scene};
use crate::target::Choice;
use crate::tolerances::Bounds;

/// Opens the recording and chooses the device. No process is started and no chunk is read.
pub fn open(arguments: &Arguments) -> Result<Scene, Fatal> {
    let common = arguments.common();
    let subject = Subject::open(&common.database, common.id.as_deref()).map_err(bad_recording)?;
    let modules = subject.modules().map_err(bad_recording)?;
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
        keep_ir: matches!(arguments, Arguments::OneShot(options) if options.output_ll.is_some()),
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

fn builders(common: &Common) -> usize {
    common.builders.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |count| count as usize)
}

fn bad_recording(error: RecordingError) -> Fatal {
    Fatal::new(exit::BAD_RECORDING, error.to_string())
}

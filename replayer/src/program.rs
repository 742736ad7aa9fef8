//! The main functions of this crate's programs.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};

use clap::CommandFactory;
use mneme_sandbox::interruption::on_interruption_say;
use mneme_system::console::PlainStderr;
use mneme_system::files::trust;
use mneme_system::install;

use crate::cli::{Arguments, Bisect, CommonOptions, suggest_axis};
use crate::error::Fatal;
use crate::{bisect, calibration, one_shot, serve, sweep};

/// Counts the processes that have tried the recorded addresses.
const ATTEMPT: &str = "MNEME_REPLAY_ATTEMPT";
const ATTEMPTS: u32 = 6;

/// Runs the program with the name of this process. Both programs share most of their code, so an installation has one
/// file under two names.
pub fn by_name() -> ! {
    // A parent that ignores SIGCHLD passes this on, and then this process could not wait for its children.
    // SAFETY: sets a signal's default action, before other threads exist.
    let _ =
        unsafe { nix::sys::signal::signal(nix::sys::signal::Signal::SIGCHLD, nix::sys::signal::SigHandler::SigDfl) };
    let name = std::env::args_os().next();
    let is_bisect = name.as_deref().map(Path::new).and_then(Path::file_name).is_some_and(|name| name == "mneme-bisect");
    if is_bisect { bisect() } else { replay() }
}

/// `mneme-replay`.
fn replay() -> ! {
    mneme_manual::write_if_requested(Arguments::command);
    let arguments = Arguments::read(std::env::args_os()).unwrap_or_else(|error| usage(error));
    begin("mneme-replay", arguments.common());
    exit(run(&arguments).unwrap_or_else(|fatal| {
        try_again(&fatal);
        if let Arguments::Serve(_) = arguments {
            serve::report(&fatal);
        }
        mneme_system::remark!("mneme-replay: {fatal}");
        fatal.status
    }))
}

/// Replays the configurations of the command line. Returns the exit status.
fn run(arguments: &Arguments) -> Result<i32, Fatal> {
    let kept = match arguments {
        Arguments::Serve(_) => None,
        Arguments::Sweep(_) => {
            Some("mneme-replay: interrupted; the results so far are printed, and the other configurations did not run")
        }
        Arguments::OneShot(_) => Some("mneme-replay: interrupted before the result; the recording has not changed"),
    };
    if let Some(kept) = kept {
        on_interruption_say(kept);
    }
    let context = calibration::open(arguments.settings())?;
    match arguments {
        Arguments::Serve(options) => serve::run(options, &context),
        Arguments::Sweep(options) => sweep::run(options, &context),
        Arguments::OneShot(options) => one_shot::run(options, &context),
    }
}

/// `mneme-bisect`.
fn bisect() -> ! {
    mneme_manual::write_if_requested(Bisect::command);
    let options = Bisect::read(std::env::args_os()).unwrap_or_else(|error| usage(error));
    begin("mneme-bisect", &options.common);
    on_interruption_say(
        "mneme-bisect: interrupted before it found the cause; no file was written, and the recording has not changed",
    );
    exit(bisect::run(&options).unwrap_or_else(|fatal| {
        try_again(&fatal);
        mneme_system::remark!("mneme-bisect: {fatal}");
        fatal.status
    }))
}

/// Prints help or the error in the command line, and ends.
fn usage(mut error: clap::Error) -> ! {
    suggest_axis(&mut error);
    // The only possible error is a broken pipe, which makes no difference.
    let _ = error.print();
    exit(if error.use_stderr() { mneme_system::exit::BAD_USAGE } else { mneme_system::exit::VERIFIED })
}

/// The first steps of both programs: trusted folders, and the level of messages on standard error.
fn begin(name: &str, options: &CommonOptions) {
    if let Err(wrong) = trust::add(&options.trust).and_then(|()| install::check_home()) {
        mneme_system::remark!("{name}: {wrong}");
        exit(mneme_system::exit::BAD_USAGE);
    }
    tracing_subscriber::fmt()
        .with_max_level(options.level)
        .with_writer(PlainStderr::default)
        // The writer would escape colour codes.
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
}

/// Starts the program again in a new process if that may help: addresses that are taken in this process may be free
/// there, if the system randomises the layout of memory.
fn try_again(fatal: &Fatal) {
    let attempt: u32 = std::env::var(ATTEMPT).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    if fatal.clash && attempt < ATTEMPTS {
        tracing::info!("{fatal}; trying another process");
        let mut arguments = std::env::args_os();
        let mut again = Command::new("/proc/self/exe");
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        let error = again.args(arguments).env(ATTEMPT, (attempt + 1).to_string()).exec();
        tracing::warn!("cannot start another process: {error}");
    }
}

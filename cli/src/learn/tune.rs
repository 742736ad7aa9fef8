//! The command `mneme learn`, which tunes the kernels that `mneme apply --learn` has recorded.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use mneme_model::units::counted;
use mneme_recording::RecordingError;
use mneme_system::exit;
use mneme_system::files::private;
use mneme_system::install;

use super::sessions::{SessionState, learnt};
use super::{Step, step};
use crate::application::{self, end_like};
use crate::error::CommandError;
use crate::siblings;
use mneme_sandbox::program::end_with_this_thread;

/// Locked while a folder is tuned.
const LOCK: &str = "learn.lock";
/// Files with the user's options for the tuner, in the folder.
const OPTIONS: [&str; 2] = ["tune.yml", "tune.json"];
/// The tuner's option for which arguments are folded.
const ARGUMENTS: &str = "--specialize-arguments";

#[derive(Debug, Args)]
pub struct LearnOptions {
    /// The folder of mneme apply --learn
    folder: PathBuf,
    /// Options for mneme-tune, after --; options in the folder's tune.yml or tune.json apply too
    #[arg(last = true, value_name = "TUNE OPTIONS")]
    tune: Vec<OsString>,
}

/// Locks a folder until the result is dropped.
///
/// # Errors The folder cannot be written to, or another process has locked it.
pub fn lock(folder: &Path) -> Result<File, CommandError> {
    let path = folder.join(LOCK);
    let failed = |source| CommandError::Io { path: path.clone(), source };
    let file = private::append(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(CommandError::InUse(format!("another process is tuning {}; wait until it ends", folder.display())))
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Tunes recorded kernels without results. A kernel without a faster configuration is not a failure. The status is that
/// of the first session that failed.
pub fn learn(options: &LearnOptions) -> Result<(), CommandError> {
    let (folder, name) = (&options.folder, options.folder.display());
    if let Some(refusal) = super::refusal(folder) {
        return Err(CommandError::Usage(refusal));
    }
    let program = siblings::find(install::TUNER)?;
    let file = OPTIONS.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    let with_options = |mut command: Command| {
        command.args(file.iter().flat_map(|file| ["--config".as_ref(), file.as_os_str()])).args(&options.tune);
        command
    };
    refuse_options(with_options(Command::new(&program)))?;
    let kernels = learnt(folder)?;
    if kernels.is_empty() {
        let what = match step(folder)? {
            Step::Profile => "is empty",
            Step::Record(_) => "has only the times of kernels",
            Step::Apply => "has no recorded kernel",
        };
        let sentence = format!("{name} {what}; run mneme apply --learn {name} -- APPLICATION");
        return Err(if folder.exists() { CommandError::Usage(sentence) } else { CommandError::NoInput(sentence) });
    }
    let _lock = lock(folder)?;
    let chooses_arguments = chooses_arguments(options, file.as_deref());
    let (mut tuned, mut known, mut faster, mut failed) = (0, 0, 0, None);
    for kernel in &kernels {
        let before = kernel.state();
        if before != SessionState::Open {
            known += 1;
            faster += usize::from(before == SessionState::Faster);
            continue;
        }
        if let Some(signal) = application::interruption() {
            std::process::exit(128 + signal);
        }
        mneme_system::remark!("mneme: tuning {}", kernel.name());
        if let Some(results) = kernel.session.parent() {
            private::create_folder(results).map_err(RecordingError::io(results))?;
        }
        let mut command = Command::new(&program);
        command.arg("-rdb").arg(&kernel.database).arg("--all-instances").arg("--results-dir").arg(&kernel.session);
        if kernel.is_begun() {
            command.arg("--resume");
        }
        if kernel.folds_common && !chooses_arguments {
            command.args([ARGUMENTS, "common"]);
        }
        let mut command = with_options(command);
        end_with_this_thread(&mut command);
        let status =
            application::wait_for(command).map_err(|source| CommandError::Start { path: program.clone(), source })?;
        // The kernel keeps its own code, which is not a failure.
        let has_ended = status.success() || status.code() == Some(exit::NOTHING_VERIFIED);
        if !has_ended {
            mneme_system::remark!("mneme: {} was not tuned ({status})", kernel.name());
            failed = failed.or(Some(status));
            // An interruption ends the whole command.
            if status.code().is_none_or(|code| code > 128) {
                break;
            }
            continue;
        }
        match kernel.state() {
            SessionState::Faster => faster += 1,
            SessionState::Unchanged(why) => {
                let (kernel, session) = (kernel.name(), kernel.session.display());
                mneme_system::remark!(
                    "mneme: {kernel} keeps its own code: {why}; for details, run mneme tune report {session}"
                );
            }
            // Without a result, for example because of --dry-run.
            SessionState::Open => continue,
        }
        tuned += 1;
    }
    let outcome = match (faster, kernels.len() - tuned - known) {
        (0, 0) => "no faster configuration was found".into(),
        (0, left) => format!("{left} left"),
        _ => format!("mneme apply --learn {name} uses the confirmed winners ({})", counted(faster, "kernel")),
    };
    mneme_system::remark!("mneme: {} tuned, {known} before; {outcome}", counted(tuned, "kernel"));
    match failed {
        Some(status) => end_like(status),
        None => Ok(()),
    }
}

/// Ends with the tuner's message and status if it refuses the user's options, even if no kernel is left to tune.
fn refuse_options(mut check: Command) -> Result<(), CommandError> {
    let program = PathBuf::from(check.get_program());
    check.args(["--dump-config", "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
    let status = check.status().map_err(|source| CommandError::Start { path: program, source })?;
    if status.success() { Ok(()) } else { end_like(status) }
}

/// Whether the user chooses the arguments to fold.
fn chooses_arguments(options: &LearnOptions, file: Option<&Path>) -> bool {
    let key = ARGUMENTS.trim_start_matches('-').replace('-', "_");
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    // Files may spell the option with dashes, too.
    let names_it = |line: &str| line.split('#').next().unwrap_or_default().replace('-', "_").contains(&key);
    text.lines().any(names_it) || options.tune.iter().any(|word| word.to_string_lossy().starts_with(ARGUMENTS))
}

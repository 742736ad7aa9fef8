//! The command `mneme learn`: tunes what `mneme apply --learn` has recorded.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use mneme_core::exit;
use mneme_core::files::private;
use mneme_core::install;
use mneme_core::recording::RecordingError;

use super::sessions::{SessionState, learnt};
use super::{Step, plural, step};
use crate::application::{self, end_like};
use crate::child::end_with_this_thread;
use crate::error::CommandError;
use crate::siblings;

/// Locked while a folder is tuned.
const LOCK: &str = "learn.lock";
/// Options for the tuner that the user has put into the folder.
const OPTIONS: [&str; 2] = ["tune.yml", "tune.json"];
/// The option of mneme-tune that says which arguments are folded.
const ARGUMENTS: &str = "--specialize-arguments";

#[derive(Debug, Args)]
pub struct LearnOptions {
    /// The folder that was named to mneme apply --learn
    folder: PathBuf,
    /// Options for mneme-tune, after --; those that are in the folder's tune.yml or tune.json hold too
    #[arg(last = true, value_name = "TUNE OPTIONS")]
    tune: Vec<OsString>,
}

/// Takes the lock of a folder, which goes when the result is dropped.
///
/// # Errors
/// The folder cannot be written to, or another process has it.
pub fn lock(folder: &Path) -> Result<File, CommandError> {
    let path = folder.join(LOCK);
    let failed = |source| CommandError::Io { path: path.clone(), source };
    let file = private::append(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(CommandError::InUse(format!("another process is tuning {}; it goes on alone", folder.display())))
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Tunes what was recorded and has no result yet. A kernel for which nothing better is found is no failure; the status
/// is that of the first session that failed.
pub fn learn(options: &LearnOptions) -> Result<(), CommandError> {
    let (folder, name) = (&options.folder, options.folder.display());
    if let Some(refusal) = super::refusal(folder) {
        return Err(CommandError::Usage(refusal));
    }
    let kernels = learnt(folder)?;
    if kernels.is_empty() {
        let what = match step(folder)? {
            Step::Profile => "has nothing yet",
            Step::Record(_) => "has the times of kernels alone",
            Step::Apply => "has no kernel that could be recorded",
        };
        let sentence = format!("{name} {what}; run mneme apply --learn {name} -- APPLICATION");
        return Err(if folder.exists() { CommandError::Usage(sentence) } else { CommandError::NoInput(sentence) });
    }
    let program = siblings::find(install::TUNER)?;
    let _lock = lock(folder)?;
    let file = OPTIONS.iter().map(|name| folder.join(name)).find(|path| path.is_file());
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
        mneme_core::remark!("mneme: tuning {}", kernel.name());
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
        command.args(file.iter().flat_map(|file| ["--config".as_ref(), file.as_os_str()])).args(&options.tune);
        end_with_this_thread(&mut command);
        let status =
            application::wait_for(command).map_err(|source| CommandError::Start { path: program.clone(), source })?;
        // The kernel stays as it is then, and nothing has failed.
        let has_ended = status.success() || status.code() == Some(exit::NOTHING_VERIFIED);
        if !has_ended {
            mneme_core::remark!("mneme: {} was not tuned ({status})", kernel.name());
            failed = failed.or(Some(status));
            // An interruption is one of the whole.
            if status.code().is_none_or(|code| code > 128) {
                break;
            }
            continue;
        }
        match kernel.state() {
            SessionState::Faster => faster += 1,
            SessionState::Unchanged(why) => {
                let (kernel, session) = (kernel.name(), kernel.session.display());
                mneme_core::remark!("mneme: {kernel} keeps its own code: {why}; mneme tune report {session} says more");
            }
            // Nothing is known of it: an option such as --dry-run.
            SessionState::Open => continue,
        }
        tuned += 1;
    }
    let outcome = match (faster, kernels.len() - tuned - known) {
        (0, 0) => "nothing faster was found".into(),
        (0, left) => format!("{left} left"),
        _ => format!("mneme apply --learn {name} uses what was confirmed ({})", plural(faster)),
    };
    mneme_core::remark!("mneme: {} tuned, {known} before; {outcome}", plural(tuned));
    match failed {
        Some(status) => end_like(status),
        None => Ok(()),
    }
}

/// Whether the user says which arguments are folded.
fn chooses_arguments(options: &LearnOptions, file: Option<&Path>) -> bool {
    let key = ARGUMENTS.trim_start_matches('-').replace('-', "_");
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    // Files may have dashes, too.
    let names_it = |line: &str| line.split('#').next().unwrap_or_default().replace('-', "_").contains(&key);
    text.lines().any(names_it) || options.tune.iter().any(|word| word.to_string_lossy().starts_with(ARGUMENTS))
}

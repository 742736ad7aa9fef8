//! The command `mneme learn`, and what `mneme apply --learn` does before there is anything to apply.
//!
//! A folder is learnt in steps, one a start of the application: its kernels are timed, those that matter are recorded,
//! `mneme learn` tunes these between runs, and from then on what was confirmed is used.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use mneme_core::files::{self, FileAccess};
use mneme_core::install;
use mneme_core::recording::database::{KernelRecord, kernels};
use mneme_core::recording::store::{check_writable, create_private_folder};
use mneme_core::summary::{KernelSummary, RecorderMode, merged};
use serde::{Deserialize, Serialize};

use crate::application::{Application, end_like};
use crate::child::end_with_this_thread;
use crate::error::CommandError;
use crate::report::{self, SummaryFile};
use crate::siblings;

/// Kernels that are worth it: as many as have this share of the GPU's time together, none with less than the other.
const TOGETHER: f64 = 0.9;
const EACH: f64 = 0.02;
const MOST_KERNELS: usize = 8;
/// Instances of each that are recorded.
const MOST_INSTANCES: &str = "2";

const PROFILE: &str = "profile.json";
const RECORDED: &str = "recorded.json";
const RECORDING: &str = "recording";
const RESULTS: &str = "results";
/// In the results of a session that has ended.
const BEST: &str = "best.json";

#[derive(Debug, Args)]
pub struct LearnOptions {
    /// The folder that was named to mneme apply --learn
    folder: PathBuf,
    /// Options for mneme-tune, after --
    #[arg(last = true, value_name = "TUNE OPTIONS")]
    tune: Vec<OsString>,
}

/// A kernel of the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Timed {
    /// Mangled.
    kernel: String,
    launches: u64,
    /// Of the GPU's time.
    share: f64,
}

/// What the next start of the application is for.
#[derive(Debug, PartialEq)]
enum Step {
    Profile,
    /// Kernels with these names.
    Record(Vec<String>),
    Apply,
}

fn step(folder: &Path) -> Result<Step, CommandError> {
    let path = folder.join(PROFILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Step::Profile),
        Err(source) => return Err(CommandError::Io { path, source }),
    };
    if folder.join(RECORDED).is_file() {
        return Ok(Step::Apply);
    }
    let timed: Vec<Timed> = serde_json::from_slice(&text).map_err(|error| {
        CommandError::Usage(format!(
            "{} is not what mneme apply --learn writes ({error}); remove it, and the next start times the kernels anew",
            path.display()
        ))
    })?;
    let names: Vec<String> = timed.into_iter().map(|timed| timed.kernel).collect();
    Ok(if names.is_empty() { Step::Apply } else { Step::Record(names) })
}

/// Does the next step of a folder with the application, and ends as it does; returns the results where there is nothing
/// left but to use them.
pub fn begin(folder: &Path, application: &Application, json: Option<&Path>) -> Result<Option<PathBuf>, CommandError> {
    application.check()?;
    create_private_folder(folder)?;
    check_writable(folder)?;
    let name = folder.display();
    match step(folder)? {
        Step::Apply => {
            let results = folder.join(RESULTS);
            let found = sessions(&results)?;
            if found == 0 {
                mneme_core::remark!("mneme: {name} has no results yet; run mneme learn {name}");
            }
            Ok((found > 0).then_some(results))
        }
        Step::Profile => {
            mneme_core::remark!("mneme: the kernels are timed in this run, and recorded in the next one");
            run(application, RecorderMode::Profile, &[], json, |kernels| {
                save(&folder.join(PROFILE), &that_matter(&kernels))
            })
        }
        Step::Record(names) => {
            mneme_core::remark!(
                "mneme: {} to be recorded in this run; after it, run mneme learn {name}",
                plural(names.len())
            );
            let recording = folder.join(RECORDING);
            create_private_folder(&recording)?;
            let pattern = names.iter().map(|name| regex::escape(name)).collect::<Vec<_>>().join("|");
            let recording = std::path::absolute(&recording)
                .map_err(|source| CommandError::Io { path: recording.clone(), source })?;
            let settings = [
                ("MNEME_DATA_DIR", recording.into_os_string()),
                ("MNEME_RR_KERNELS", format!("^(?:{pattern})$").into()),
                ("MNEME_MAX_RECORDINGS", MOST_INSTANCES.into()),
            ];
            run(application, RecorderMode::Record, &settings, json, |kernels| {
                let launched: Vec<&String> = kernels.iter().map(|kernel| &kernel.mangled).collect();
                save(&folder.join(RECORDED), &launched)
            })
        }
    }
}

fn plural(kernels: usize) -> String {
    if kernels == 1 { "1 kernel".into() } else { format!("{kernels} kernels") }
}

fn save(path: &Path, what: &impl Serialize) -> Result<(), CommandError> {
    let mut text = serde_json::to_vec_pretty(what).expect("plain data serialises");
    text.push(b'\n');
    files::replace(path, &text, FileAccess::Usual).map_err(|source| CommandError::Io { path: path.into(), source })
}

/// Runs the application to its end, and keeps what was found of its kernels where it has ended well.
fn run(
    application: &Application,
    mode: RecorderMode,
    settings: &[(&str, OsString)],
    json: Option<&Path>,
    keep: impl FnOnce(Vec<KernelSummary>) -> Result<(), CommandError>,
) -> Result<Option<PathBuf>, CommandError> {
    let summaries_file = SummaryFile::open()?;
    let status = application.run(mode, settings, &summaries_file)?;
    let summaries = summaries_file.read();
    let name = application.name();
    report::publish(mode, &name, status, &summaries, json);
    let kernels = merged(&summaries);
    if !status.success() || kernels.is_empty() {
        mneme_core::remark!("mneme: nothing is learnt of this run; the next one is for the same");
    } else if let Err(error) = keep(kernels) {
        // The status is the application's.
        mneme_core::remark!("mneme: nothing is learnt of this run: {error}");
    }
    end_like(status)
}

/// The kernels that take most of the GPU's time, the first of them first.
fn that_matter(kernels: &[KernelSummary]) -> Vec<Timed> {
    let total: f64 = kernels.iter().map(KernelSummary::total_gpu_time).sum();
    let mut timed: Vec<Timed> = kernels
        .iter()
        .map(|kernel| Timed {
            kernel: kernel.mangled.clone(),
            launches: kernel.launches,
            share: if total > 0.0 { kernel.total_gpu_time() / total } else { 0.0 },
        })
        .collect();
    timed.sort_by(|one, other| other.share.total_cmp(&one.share));
    let mut together = 0.0;
    let matters = |timed: &Timed| {
        let matters = together < TOGETHER && timed.share >= EACH;
        together += timed.share;
        matters
    };
    timed.into_iter().take(MOST_KERNELS).take_while(matters).collect()
}

/// Sessions in a folder of results that have found something.
fn sessions(results: &Path) -> Result<usize, CommandError> {
    match std::fs::read_dir(results) {
        Ok(entries) => Ok(entries.flatten().filter(|entry| entry.path().join(BEST).is_file()).count()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(CommandError::Io { path: results.into(), source }),
    }
}

/// Tunes what was recorded and has no result yet. The status is that of the first session that failed.
pub fn learn(options: &LearnOptions) -> Result<(), CommandError> {
    let (folder, name) = (&options.folder, options.folder.display());
    let recording = folder.join(RECORDING);
    let recorded = if recording.is_dir() { kernels(&recording)? } else { Vec::new() };
    if recorded.is_empty() {
        let what = match step(folder)? {
            Step::Profile => "has nothing yet",
            Step::Record(_) => "has the times of kernels alone",
            Step::Apply => "has no kernel that could be recorded",
        };
        return Err(CommandError::Usage(format!("{name} {what}; run mneme apply --learn {name} -- APPLICATION")));
    }
    let program = siblings::find(install::TUNER)?;
    let results = folder.join(RESULTS);
    create_private_folder(&results)?;
    let (mut tuned, mut known, mut failed) = (0, 0, None);
    for database in &recorded {
        let record = KernelRecord::load(database)?;
        let session = results.join(record.static_hash.to_string());
        if session.join(BEST).is_file() {
            known += 1;
            continue;
        }
        mneme_core::remark!("mneme: tuning {}", record.demangled_name);
        let mut command = Command::new(&program);
        command.arg("-rdb").arg(database).arg("--all-instances").arg("--results-dir").arg(&session);
        if session.join("config.json").is_file() {
            command.arg("--resume");
        }
        command.args(&options.tune);
        end_with_this_thread(&mut command);
        let status = command.status().map_err(|source| CommandError::Start { path: program.clone(), source })?;
        if status.success() {
            tuned += 1;
        } else if failed.is_none() {
            failed = Some(status);
        }
        // An interruption is one of the whole.
        if status.code().is_none_or(|code| code > 128) {
            break;
        }
    }
    mneme_core::remark!(
        "mneme: {} tuned, {known} before; mneme apply --learn {name} uses what was confirmed",
        plural(tuned)
    );
    match failed {
        Some(status) => end_like(status),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::summary::Times;

    fn kernel(name: &str, mean: u64) -> KernelSummary {
        let gpu_time = Some(Times { count: 1, total: mean, min: mean, max: mean });
        KernelSummary { mangled: name.into(), launches: 1, gpu_time, ..KernelSummary::default() }
    }

    #[test]
    fn the_kernels_that_matter_are_most_of_the_time() {
        let names =
            |kernels: &[KernelSummary]| that_matter(kernels).into_iter().map(|it| it.kernel).collect::<Vec<_>>();
        assert_eq!(names(&[kernel("a", 5), kernel("b", 60), kernel("c", 34), kernel("d", 1)]), ["b", "c"]);
        assert_eq!(names(&[kernel("a", 1)]), ["a"]);
        assert!(names(&[]).is_empty() && names(&[kernel("a", 0)]).is_empty());
        let many: Vec<KernelSummary> = (0..20).map(|number| kernel(&number.to_string(), 10)).collect();
        assert_eq!(that_matter(&many).len(), MOST_KERNELS);
    }

    #[test]
    fn a_folder_is_learnt_step_by_step() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(step(folder.path()).unwrap(), Step::Profile);
        save(&folder.path().join(PROFILE), &that_matter(&[kernel("a", 1)])).unwrap();
        assert_eq!(step(folder.path()).unwrap(), Step::Record(vec!["a".into()]));
        save(&folder.path().join(RECORDED), &["a"]).unwrap();
        assert_eq!(step(folder.path()).unwrap(), Step::Apply);
        std::fs::remove_file(folder.path().join(RECORDED)).unwrap();
        std::fs::write(folder.path().join(PROFILE), "{").unwrap();
        assert!(step(folder.path()).unwrap_err().to_string().contains("remove it"));
    }
}

//! Learns an application: the steps of `mneme apply --learn`, and the tuning between them.
//!
//! Each start of the application is a step: the first times its kernels, the second records the important ones. `mneme
//! learn` tunes these between runs, and later starts use confirmed winners.

mod sessions;
mod tune;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mneme_model::summary::{KernelSummary, RecorderMode, merged};
use mneme_model::units::counted;
use mneme_recording::RecordingError;
use mneme_recording::store::check_writable;
use mneme_system::files::{self, FileAccess, private, trust};
use serde::{Deserialize, Serialize};

pub use self::tune::{LearnOptions, learn};

use self::sessions::{LearntKernel, SessionState, learnt};
use crate::application::{Application, end_like};
use crate::error::CommandError;
use crate::parallel::in_parallel;
use crate::report::{self, SummaryFile};

/// Kernels are worth learning until they have this share of the GPU's time together. Except for the first, none may
/// have less than the other share.
const TOGETHER: f64 = 0.9;
const EACH: f64 = 0.02;
const MOST_KERNELS: usize = 8;
/// Recorded instances of each kernel.
const MOST_INSTANCES: &str = "2";
/// Share of a kernel's launches that must be like a recorded one. Below it, only arguments that all have in common are
/// folded.
const ALIKE: f64 = 0.9;

const PROFILE: &str = "profile.json";
const RECORDED: &str = "recorded.json";

/// A kernel of the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Timed {
    /// Mangled.
    kernel: String,
    launches: u64,
    /// Share of the GPU's time.
    share: f64,
}

/// A kernel in the recorded run.
#[derive(Debug, Serialize, Deserialize)]
struct Launched {
    /// Mangled.
    kernel: String,
    launches: u64,
    /// Launches with the dimensions and scalar arguments of a recorded instance, including the recorded ones.
    alike: u64,
}

impl Launched {
    fn of(kernel: &KernelSummary) -> Self {
        let alike = kernel.instances + kernel.known + kernel.repeats;
        Self { kernel: kernel.mangled.clone(), launches: kernel.launches, alike }
    }

    /// Whether code for only the recorded launches would cover few launches, for example because an argument counts
    /// them.
    fn are_few_alike(&self) -> bool {
        (self.alike as f64) < ALIKE * self.launches as f64
    }
}

/// The purpose of the next start.
#[derive(Debug, PartialEq)]
enum Step {
    Profile,
    /// Record kernels with these names.
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
            "{} is not a file of mneme apply --learn ({error}); remove it, and the next start times the kernels again",
            path.display()
        ))
    })?;
    let names: Vec<String> = timed.into_iter().map(|timed| timed.kernel).collect();
    Ok(if names.is_empty() { Step::Apply } else { Step::Record(names) })
}

/// The content of a learnt folder.
struct Learnt {
    /// Confirmed results.
    results: Vec<PathBuf>,
    /// Number of kernels that are still to be tuned.
    open: usize,
}

/// Runs the application for the next step of a folder, and ends as it does. If only using results is left, returns the
/// confirmed ones.
pub fn begin(folder: &Path, application: &Application, json: Option<&Path>) -> Result<Vec<PathBuf>, CommandError> {
    application.check()?;
    create(folder)?;
    if let Some(refusal) = refusal(folder) {
        mneme_system::remark!("mneme: the folder is neither learnt nor used: {refusal}");
        return Ok(Vec::new());
    }
    let name = folder.display();
    let step = step(folder)?;
    // Results can also be used from a full or read-only folder.
    if step != Step::Apply {
        check_writable(folder)?;
    }
    match step {
        Step::Apply => {
            let found = found(folder)?;
            if found.open > 0 {
                mneme_system::remark!("mneme: {} not tuned yet; run mneme learn {name}", are(found.open));
            } else if found.open == 0 && found.results.is_empty() {
                mneme_system::remark!("mneme: no faster configuration was found for the kernels in {name}");
            }
            Ok(found.results)
        }
        Step::Profile => {
            mneme_system::remark!("mneme: the kernels are timed in this run, and recorded in the next one");
            run(application, RecorderMode::Profile, &[], json, |kernels| {
                let timed = that_matter(&kernels);
                if timed.is_empty() {
                    return Err(CommandError::Usage("the GPU times of the kernels are unknown".into()));
                }
                save(&folder.join(PROFILE), &timed)
            })
        }
        Step::Record(names) => {
            mneme_system::remark!(
                "mneme: {} to be recorded in this run; after it, run mneme learn {name}",
                counted(names.len(), "kernel")
            );
            let recording = sessions::recording(folder);
            create(&recording)?;
            let pattern = names.iter().map(|name| regex_lite::escape(name)).collect::<Vec<_>>().join("|");
            let recording = std::path::absolute(&recording)
                .map_err(|source| CommandError::Io { path: recording.clone(), source })?;
            let settings = [
                ("MNEME_DATA_DIR", recording.into_os_string()),
                ("MNEME_RR_KERNELS", format!("^(?:{pattern})$").into()),
                ("MNEME_MAX_RECORDINGS", MOST_INSTANCES.into()),
            ];
            run(application, RecorderMode::Record, &settings, json, |kernels| {
                let launched: Vec<Launched> = kernels.iter().map(Launched::of).collect();
                save(&folder.join(RECORDED), &launched)
            })
        }
    }
}

fn create(folder: &Path) -> Result<(), RecordingError> {
    private::create_folder_quietly(folder).map_err(RecordingError::io(folder))
}

/// Why a folder is not used: its recording and results become code, but a stranger can change them.
fn refusal(folder: &Path) -> Option<String> {
    trust::check(folder).err().filter(trust::is_refusal).map(|error| error.to_string())
}

fn found(folder: &Path) -> Result<Learnt, CommandError> {
    let mut found = Learnt { results: Vec::new(), open: 0 };
    let kernels = learnt(folder)?;
    let states = in_parallel(&kernels, LearntKernel::state);
    for (kernel, state) in kernels.into_iter().zip(states) {
        match state {
            SessionState::Open => found.open += 1,
            SessionState::Faster => found.results.push(kernel.session),
            SessionState::Unchanged(_) => {}
        }
    }
    Ok(found)
}

fn are(kernels: usize) -> String {
    format!("{} {}", counted(kernels, "kernel"), if kernels == 1 { "is" } else { "are" })
}

fn save(path: &Path, what: &impl Serialize) -> Result<(), CommandError> {
    let mut text = serde_json::to_vec_pretty(what).expect("plain data serialises");
    text.push(b'\n');
    files::replace(path, &text, FileAccess::Private).map_err(|source| CommandError::Io { path: path.into(), source })
}

/// Runs the application, and keeps the findings on its kernels if it ended well.
fn run(
    application: &Application,
    mode: RecorderMode,
    settings: &[(&str, OsString)],
    json: Option<&Path>,
    keep: impl FnOnce(Vec<KernelSummary>) -> Result<(), CommandError>,
) -> Result<Vec<PathBuf>, CommandError> {
    let summaries_file = SummaryFile::open()?;
    let status = application.run(mode, settings, &summaries_file)?;
    let summaries = summaries_file.read();
    let name = application.name();
    report::publish(mode, &name, status, &summaries, json, true);
    let kernels = merged(&summaries);
    if !status.success() || kernels.is_empty() {
        mneme_system::remark!("mneme: this run was not learnt from; the next start repeats the step");
    } else if let Err(error) = keep(kernels) {
        // The exit status stays the application's.
        mneme_system::remark!("mneme: this run was not learnt from: {error}");
    }
    end_like(status)
}

/// The kernels that take most of the GPU's time, longest first.
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
        let matters = timed.share > 0.0 && (together == 0.0 || (together < TOGETHER && timed.share >= EACH));
        together += timed.share;
        matters
    };
    timed.into_iter().take(MOST_KERNELS).take_while(matters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::summary::Times;

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
        let small: Vec<KernelSummary> = (0..100).map(|number| kernel(&number.to_string(), 10)).collect();
        assert_eq!(that_matter(&small).len(), 1, "of kernels that are all alike and small, one");
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

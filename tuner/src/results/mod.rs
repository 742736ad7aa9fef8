//! The results folder of a session.
//!
//! Names and keys are upstream's. A session may be killed at any moment, so files are replaced whole, and each trial is
//! a line that is written at once. The next session cuts off a partial line. The folder is therefore always consistent,
//! and a resumed session loses and repeats nothing.

mod lines;
pub mod proteus;
mod trial;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use mneme_model::result::ReplayStatus;
use mneme_system::console::is_full;
use mneme_system::files::{FileAccess, private, trust};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::lines::JsonLines;
pub use self::proteus::{merged, proteus_tuned_kernels};
pub use self::trial::{Baseline, InstanceTrial, Look, References, SessionSummary, Trial};

pub const TRIALS: &str = "trials.jsonl";
pub const BASELINE: &str = "baseline.json";
/// The folder of sessions without `--results-dir`.
pub const SESSIONS: &str = "mneme-tune-results";

/// A folder to which a session writes its results.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    /// The folder to which earlier results were moved.
    aside: Option<PathBuf>,
    /// The folders that the session created, innermost first; empty if its folder was there before.
    created: Vec<PathBuf>,
    trials: JsonLines,
    log: File,
}

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} cannot be written: {source}{remedy}", path = path.display(), remedy = remedy(source))]
    Write { path: PathBuf, source: std::io::Error },
    #[error(
        "{folder} holds times of {found}, which cannot be compared with times of {here}; resume with the same device, compilers, timer and release, or start a new session without --resume", folder = folder.display()
    )]
    Elsewhere { folder: PathBuf, found: String, here: String },
    #[error("{folder} holds the results of another session and cannot be moved aside ({source}); choose another --results-dir, or pass --resume", folder = folder.display())]
    Taken { folder: PathBuf, source: std::io::Error },
    #[error("{folder} holds a recording, which must not be mixed with results; choose another --results-dir", folder = folder.display())]
    Recording { folder: PathBuf },
    #[error("{folder} holds the results for another kernel, {kernel}; choose another --results-dir", folder = folder.display())]
    OtherKernel { folder: PathBuf, kernel: String },
    #[error("another session is writing to {folder}; wait for its end, or choose another --results-dir", folder = folder.display())]
    InUse { folder: PathBuf },
    #[error("{path} is not a valid file of a session ({problem}); was it edited?", path = path.display())]
    Strange { path: PathBuf, problem: String },
    #[error("{path}, line {line}, is invalid ({problem}); was it edited?", path = path.display())]
    Damaged { path: PathBuf, line: usize, problem: String },
    #[error("{folder} holds the results of another recording ({found}); name that one, or start a new session without --resume", folder = folder.display())]
    Foreign { folder: PathBuf, found: String },
}

impl Results {
    /// Opens the folder, creating it if needed, and returns the trials of the session to resume. Never overwrites
    /// results: without `resume`, moves them to `FOLDER.1`, or the first such name that is free.
    ///
    /// # Errors The folder cannot be written, is in use, is a recording, or contains invalid results.
    pub fn open(folder: &Path, resume: bool) -> Result<(Self, Vec<Trial>), ResultsError> {
        refuse_recording(folder)?;
        let (results, known) = Self::enter(folder)?;
        if resume && !known.is_empty() {
            let path = folder.join(TRIALS);
            trust::check(&path).map_err(|source| ResultsError::Io { path, source })?;
        }
        if known.is_empty() || resume {
            return Ok((results, known));
        }
        let aside = free_name(folder);
        std::fs::rename(folder, &aside).map_err(|source| ResultsError::Taken { folder: folder.into(), source })?;
        mneme_system::remark!("mneme-tune: moved the results of the earlier session to {}", aside.display());
        let (results, known) = Self::enter(folder)?;
        Ok((Self { aside: Some(aside), ..results }, known))
    }

    fn enter(folder: &Path) -> Result<(Self, Vec<Trial>), ResultsError> {
        let is_named = |path: &&Path| !path.as_os_str().is_empty();
        let missing = folder.ancestors().filter(is_named).take_while(|path| !path.exists());
        let created = missing.map(Path::to_path_buf).collect();
        private::create_folder(folder).map_err(io(folder))?;
        private::create_folder_quietly(&folder.join("logs")).map_err(io(folder))?;
        let path = folder.join("logs/tune.log");
        let log = private::append(&path).map_err(io(&path))?;
        let (trials, known) = JsonLines::open(&folder.join(TRIALS))?;
        Ok((Self { folder: folder.into(), aside: None, created, trials, log }, last_of_each(known)))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder to which earlier results were moved.
    pub fn aside(&self) -> Option<&Path> {
        self.aside.as_deref()
    }

    /// Notes that the folder was renamed.
    pub fn moved_to(&mut self, folder: PathBuf) {
        self.folder = folder;
    }

    /// Removes the folder of a session that has not begun, if it was new, and moves earlier results back.
    ///
    /// # Errors The folders cannot be exchanged.
    pub fn withdraw(self) -> Result<(), ResultsError> {
        let Self { folder, aside, created, .. } = self;
        let Some(aside) = aside else {
            if let Some(own) = created.first() {
                // An empty folder that stays is no reason for another error.
                let _ = std::fs::remove_dir_all(own);
                created[1..].iter().for_each(|above| drop(std::fs::remove_dir(above)));
            }
            return Ok(());
        };
        std::fs::remove_dir_all(&folder)
            .and_then(|()| std::fs::rename(&aside, &folder))
            .map_err(|source| ResultsError::Io { path: folder.clone(), source })?;
        mneme_system::remark!("mneme-tune: moved the earlier results back to {}", folder.display());
        Ok(())
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.join("logs/tune.log")
    }

    /// Writes a JSON file of the folder.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<(), ResultsError> {
        write_whole(&self.folder.join(name), value)
    }

    /// Removes a file of the folder, if it exists.
    pub fn remove(&self, name: &str) -> Result<(), ResultsError> {
        remove(&self.folder.join(name))
    }

    /// Reads a JSON file of the folder; `None` if it does not exist.
    ///
    /// # Errors The file cannot be read or is invalid. A session must not continue as if the file did not exist.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ResultsError> {
        read_file(&self.folder.join(name))
    }

    /// Appends to `trials.jsonl`: the whole line, or nothing.
    pub fn add_trial(&mut self, trial: &Trial) -> Result<(), ResultsError> {
        self.trials.append(&TrialLine { status: trial.result.status, trial })
    }

    /// Waits until `trials.jsonl` is on the disk: some file systems only notice then that they are full.
    pub fn sync(&self) -> Result<(), ResultsError> {
        self.trials.sync()
    }

    /// Adds a line to `logs/tune.log`. Ignores failures.
    pub fn log(&mut self, text: &str) {
        let _ = writeln!(self.log, "{:.3} {text}", jiff::Timestamp::now());
    }
}

/// A trial with its status, which the existing Mneme has outside the result.
#[derive(Serialize)]
struct TrialLine<'a> {
    status: ReplayStatus,
    #[serde(flatten)]
    trial: &'a Trial,
}

/// The error of an operation on a file.
fn io(path: &Path) -> impl Fn(std::io::Error) -> ResultsError {
    let path = path.to_path_buf();
    move |source| {
        let path = path.clone();
        if is_full(&source) { ResultsError::Write { path, source } } else { ResultsError::Io { path, source } }
    }
}

/// Reads a JSON file; `None` if it does not exist.
///
/// # Errors See [`Results::read`].
pub fn read_file<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ResultsError> {
    let path = path.to_path_buf();
    match trust::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| ResultsError::Strange { path, problem: error.to_string() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ResultsError::Io { path, source }),
    }
}

/// Whether the folder holds a session, or a folder for each kernel of one.
pub fn holds_a_session(folder: &Path) -> bool {
    let holds_one = |folder: &Path| ["config.json", TRIALS].iter().any(|name| folder.join(name).is_file());
    let mut inner = std::fs::read_dir(folder).into_iter().flatten().flatten();
    holds_one(folder) || inner.any(|entry| holds_one(&entry.path()))
}

/// Refuses results for another kernel: moved aside, its winner would be lost to `mneme apply`.
pub fn refuse_another_kernel(folder: &Path, kernel: &str) -> Result<(), ResultsError> {
    let earlier = read_file::<Baseline>(&folder.join(BASELINE)).ok().flatten();
    match earlier.filter(|earlier| !["", kernel].contains(&earlier.kernel.as_str())) {
        Some(earlier) => Err(ResultsError::OtherKernel { folder: folder.into(), kernel: demangled(&earlier.kernel) }),
        None => Ok(()),
    }
}

/// A kernel's demangled name.
pub fn demangled(kernel: &str) -> String {
    let readable = cpp_demangle::Symbol::new(kernel).ok().and_then(|symbol| symbol.demangle().ok());
    readable.unwrap_or_else(|| kernel.into())
}

/// Refuses the folder of a recording, which must not be mixed with results.
pub fn refuse_recording(folder: &Path) -> Result<(), ResultsError> {
    if holds_a_recording(folder)? { Err(ResultsError::Recording { folder: folder.into() }) } else { Ok(()) }
}

/// Whether the folder has databases, which are named by static hashes.
fn holds_a_recording(folder: &Path) -> Result<bool, ResultsError> {
    let is_database = |path: &Path| {
        path.extension().is_some_and(|extension| extension == "json")
            && path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.parse::<u64>().is_ok())
    };
    let failed = |source| ResultsError::Io { path: folder.into(), source };
    let entries = loop {
        match std::fs::read_dir(folder) {
            // If a file is in the way, the error is that no folder can be created.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(false),
            // The standard library repeats interrupted calls for files, but not for folders.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            entries => break entries.map_err(failed)?,
        }
    };
    for entry in entries {
        if is_database(&entry.map_err(failed)?.path()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A free name beside a folder: the folder's, with a number.
pub fn free_name(folder: &Path) -> PathBuf {
    // Without the end of `results/` and `results/.`.
    let plain: PathBuf = folder.components().collect();
    let numbered = |number: u32| PathBuf::from(format!("{}.{number}", plain.display()));
    (1..).map(numbered).find(|path| !path.exists()).expect("a folder has fewer neighbours than there are numbers")
}

/// Writes a JSON file so that readers, and sessions after a crash, find it whole or not at all.
pub fn write_whole(path: &Path, value: &impl Serialize) -> Result<(), ResultsError> {
    let mut text = serde_json::to_string_pretty(value).expect("plain data serialises");
    text.push('\n');
    replace(path, text.as_bytes()).map_err(|source| ResultsError::Write { path: path.into(), source })
}

/// Writes any file in the same way. If writing fails, the earlier file stays, and no other.
pub fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        // Pipes and devices such as /dev/stdout cannot be replaced.
        return private::write(path, bytes);
    }
    mneme_system::files::replace(path, bytes, FileAccess::Private)
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> Result<(), ResultsError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(ResultsError::Write { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

fn remedy(error: &std::io::Error) -> &'static str {
    if is_full(error) { "; make room" } else { "" }
}

/// The last line of each trial.
fn last_of_each(trials: Vec<Trial>) -> Vec<Trial> {
    let mut last: Vec<Trial> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for trial in trials {
        match places.entry(trial.trial) {
            Entry::Occupied(place) => last[*place.get()] = trial,
            Entry::Vacant(free) => {
                free.insert(last.len());
                last.push(trial);
            }
        }
    }
    last
}

/// A new results folder in the folder `parent`, named after the time.
pub fn default_folder(parent: &str) -> PathBuf {
    // SAFETY: zero is a valid value of this plain structure.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer is allowed and means that only the return value is wanted.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: both pointers are to live values of the right type.
    unsafe { libc::localtime_r(&now, &mut parts) };
    let date = format!("{:04}{:02}{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
    let time = format!("{:02}{:02}{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
    // Sessions in containers that share the folder may begin in the same second.
    let random = mneme_system::random::number().unwrap_or_else(|_| u64::from(std::process::id()));
    Path::new(parent).join(format!("{date}-{time}-{:08x}", random as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::configuration::Configuration;
    use mneme_model::launch::Dim3;
    use mneme_model::result::ReplayResult;

    fn trial(trial: u64) -> Trial {
        let config = Configuration {
            passes: "default<O1>".into(),
            ..Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0)
        };
        Trial {
            trial,
            config_hash: config.hash(),
            params: [("passes".to_owned(), "default<O1>".into())].into(),
            config,
            metric: Some(1.5),
            speedup: None,
            objectives: vec![1.5],
            result: ReplayResult::default(),
            instances: Vec::new(),
            cached: false,
            stopped: None,
            repeated: None,
        }
    }

    #[test]
    fn trials_are_lines_and_another_sessions_results_stay() {
        let folder = tempfile::tempdir().unwrap();
        let results_folder = folder.path().join("results");
        let (mut results, known) = Results::open(&results_folder, false).unwrap();
        assert!(known.is_empty());
        (0..2).for_each(|number| results.add_trial(&trial(number)).unwrap());
        let error = Results::open(&results_folder, true).unwrap_err().to_string();
        assert!(error.contains("another session is writing"), "{error}");
        drop(results);
        assert_eq!(std::fs::read_to_string(results_folder.join(TRIALS)).unwrap().lines().count(), 2);
        assert_eq!(Results::open(&results_folder, true).unwrap().1, [trial(0), trial(1)]);
        for name in ["results.1", "results.2"] {
            let (mut results, known) = Results::open(&results_folder, false).unwrap();
            assert!(known.is_empty());
            results.add_trial(&trial(7)).unwrap();
            assert!(folder.path().join(name).is_dir());
        }
        assert_eq!(Results::open(&folder.path().join("results.1"), true).unwrap().1, [trial(0), trial(1)]);
    }

    #[test]
    fn a_session_that_has_not_begun_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("results");
        Results::open(&place, false).unwrap().0.add_trial(&trial(3)).unwrap();
        let (results, known) = Results::open(&place, false).unwrap();
        assert!(known.is_empty() && results.aside().is_some());
        results.withdraw().unwrap();
        assert_eq!(Results::open(&place, true).unwrap().1, [trial(3)]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        Results::open(&place, true).unwrap().0.withdraw().unwrap();
        Results::open(&folder.path().join("a/b"), false).unwrap().0.withdraw().unwrap();
        assert!(place.join(TRIALS).is_file());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "new folders are gone");
    }

    #[test]
    fn a_part_of_a_line_is_cut_off_and_a_strange_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(TRIALS);
        let whole = serde_json::to_string(&trial(0)).unwrap() + "\n";
        for cut in 0..whole.len() {
            std::fs::write(&path, format!("{whole}{}", &whole[..cut])).unwrap();
            let (mut results, known) = Results::open(folder.path(), true).unwrap();
            assert_eq!(known, [trial(0)], "{cut}");
            results.add_trial(&trial(1)).unwrap();
            drop(results);
            assert_eq!(Results::open(folder.path(), true).unwrap().1.len(), 2, "{cut}");
        }
        std::fs::write(&path, format!("{whole}nonsense\n{whole}")).unwrap();
        assert!(Results::open(folder.path(), true).unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn the_last_measurement_of_a_trial_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (mut results, _) = Results::open(folder.path(), false).unwrap();
        let again = Trial { metric: Some(1.25), repeated: Some(1.5), ..trial(0) };
        [trial(0), trial(1), again.clone()].iter().for_each(|it| results.add_trial(it).unwrap());
        drop(results);
        assert_eq!(Results::open(folder.path(), true).unwrap().1, [again, trial(1)]);
    }

    #[test]
    fn files_are_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (results, _) = Results::open(folder.path(), false).unwrap();
        results.write("summary.json", &"first").unwrap();
        let mut reader = File::open(folder.path().join("summary.json")).unwrap();
        results.write("summary.json", &"second").unwrap();
        assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "\"first\"\n");
        assert_eq!(results.read::<String>("summary.json").unwrap().as_deref(), Some("second"));
        assert!(!folder.path().join(".summary.json.tmp").exists());
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (results, _) = Results::open(folder.path(), false).unwrap();
        assert_eq!(results.read::<u64>("none.json").unwrap(), None);
        std::fs::create_dir(folder.path().join("folder.json")).unwrap();
        assert!(matches!(results.read::<u64>("folder.json"), Err(ResultsError::Io { .. })));
        std::fs::write(folder.path().join("cut.json"), "{").unwrap();
        let error = results.read::<u64>("cut.json").unwrap_err().to_string();
        assert!(error.contains("cut.json is not a valid file"), "{error}");
    }
}

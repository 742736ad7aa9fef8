//! The recording that a session measured, and the device.
//!
//! Results stand for others, in a cache or a session that goes on, only if these are the same.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use mneme_core::recording::database::KernelRecord;
use mneme_core::recording::{RecordingError, RecordingSums};
use serde::{Deserialize, Serialize};

use crate::server::ServerGreeting;

/// Sums of a recording, where it is, and where it was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    #[serde(flatten)]
    pub recording: RecordingSums,
    /// The kernel's file, absolute, and as it lies from the results folder: one of them holds if the other is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_from_results: Option<PathBuf>,
    /// As the server says; empty before it was asked.
    pub device: String,
    pub driver: String,
    /// Of `mneme-replay`.
    pub version: String,
    /// What made machine code: an assembler, or LLVM for the CPU device; "" in a session of before that was noted.
    pub assembler: String,
    /// The whole version of the LLVM that compiles where a configuration names none; "" where none does.
    pub llvm: String,
    /// What timed kernels; "" in a session of before that was noted, when events did unless `--timer` said otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timer: String,
}

/// Whether that is what times kernels where nothing else is said.
pub fn is_events(timer: &str) -> bool {
    matches!(timer, "" | "events")
}

impl Measured {
    /// Sums up a recording and the rules beside it, for results in this folder, which need not exist yet.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn of(database: &Path, record: &KernelRecord, ids: &[String], results: &Path) -> Result<Self, RecordingError> {
        let (database, results) = (resolved(database), resolved(results));
        Ok(Self {
            recording: RecordingSums::of(&database, record, ids)?,
            database_from_results: Some(relative(&results, &database)),
            database: Some(database),
            ..Self::default()
        })
    }

    /// The same on this device.
    #[must_use]
    pub fn on(self, greeting: &ServerGreeting) -> Self {
        let ServerGreeting { device, driver, version, assembler, llvm, timer, .. } = greeting.clone();
        Self { device, driver, version, assembler, llvm, timer, ..self }
    }

    /// An instance with all that its results depend on in the recording, as a cache names it.
    pub fn name_of(&self, instance: &str) -> String {
        let RecordingSums { code, instances, tolerances } = &self.recording;
        let sum = instances.get(instance).map_or("", String::as_str);
        format!("{instance}:{code}:{sum}:{tolerances}")
    }

    /// What of a recording is another than it was; `None` where results go together.
    pub fn other_recording(&self, now: &Self) -> Option<&'static str> {
        self.recording.other_recording(&now.recording)
    }

    /// Where it was replayed, for people; `None` before that is known.
    pub fn place(&self) -> Option<String> {
        let Self { device, driver, version, assembler, llvm, timer, .. } = self;
        let assembled = if assembler.is_empty() { String::new() } else { format!(", {assembler}") };
        // On the CPU device LLVM is the assembler, and named so.
        let is_named = llvm.is_empty() || assembler.contains(llvm);
        let compiled = if is_named { String::new() } else { format!(", LLVM {llvm}") };
        let timed = if is_events(timer) { String::new() } else { format!(", timed by {timer}") };
        (!device.is_empty())
            .then(|| format!("{device} (driver {driver}, mneme-replay {version}{assembled}{compiled}{timed})"))
    }
}

/// A path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let (mut there, mut rest) = (absolute.as_path(), Vec::<OsString>::new());
    loop {
        match (there.canonicalize(), there.parent(), there.file_name()) {
            (Ok(found), ..) => return found.join(rest.iter().rev().collect::<PathBuf>()),
            (Err(_), Some(above), Some(name)) => {
                rest.push(name.into());
                there = above;
            }
            _ => return absolute,
        }
    }
}

/// The way from a folder to a file, both without links.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = from[common..].iter().map(|_| Component::ParentDir);
    up.chain(to[common..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_by_what_makes_the_code_and_what_times_it() {
        let greeting = |assembler: &str, timer: &str| ServerGreeting {
            device: "GPU".into(),
            driver: "13.0".into(),
            assembler: assembler.into(),
            timer: timer.into(),
            ..ServerGreeting::default()
        };
        let place = |assembler, timer| Measured::default().on(&greeting(assembler, timer)).place().unwrap();
        assert_eq!(place("ptxas 13.0", "events"), "GPU (driver 13.0, mneme-replay , ptxas 13.0)");
        assert_ne!(place("ptxas 13.0", "events"), place("nvPTXCompiler 13.0", "events"));
        assert_eq!(place("lld", "rocprofiler"), "GPU (driver 13.0, mneme-replay , lld, timed by rocprofiler)");
        assert_eq!(place("lld", "events"), place("lld", ""), "a session of before goes on");
    }

    #[test]
    fn a_recording_is_found_from_its_results() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("rec")).unwrap();
        std::os::unix::fs::symlink("rec", root.join("link")).unwrap();
        let results = resolved(&root.join("link/../results/7"));
        assert_eq!(results, root.join("results/7"));
        let way = relative(&results, &resolved(&root.join("link/7.json")));
        assert_eq!(way, Path::new("../../rec/7.json"));
        assert_eq!(relative(Path::new("/a"), Path::new("/a/b")), Path::new("b"));
        assert_eq!(relative(Path::new("/a"), Path::new("/b")), Path::new("../b"));
        let measured = Measured { database: Some("/x/7.json".into()), ..Measured::default() };
        let text = serde_json::to_value(&measured).unwrap();
        assert_eq!((&text["database"], &text["code"]), (&"/x/7.json".into(), &"".into()), "the sums stand beside");
        assert_eq!(serde_json::from_value::<Measured>(text).unwrap(), measured);
    }
}

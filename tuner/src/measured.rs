//! The recording and the device that a session measured.
//!
//! A cache or a resumed session may only reuse results if these are the same.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use mneme_recording::database::KernelRecord;
use mneme_recording::{RecordingError, RecordingSums};
use serde::{Deserialize, Serialize};

use crate::server::ServerGreeting;

/// Checksums and place of a recording, and the device that replayed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    #[serde(flatten)]
    pub recording: RecordingSums,
    /// The kernel's file, as an absolute path and relative to the results folder: one of them stays valid if either is
    /// moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_from_results: Option<PathBuf>,
    /// As reported by the server; empty before it answers.
    pub device: String,
    pub driver: String,
    /// Version of `mneme-replay`.
    pub version: String,
    /// The assembler that made machine code, or LLVM for the CPU device; "" in sessions of earlier releases.
    pub assembler: String,
    /// The full version of the LLVM that compiles by default; "" if no LLVM does.
    pub llvm: String,
    /// The timer; "" in sessions of earlier releases, which used events unless `--timer` named another.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timer: String,
}

/// The timer that every device has.
pub const EVENTS: &str = "events";

/// Whether events timed a session's kernels.
pub fn is_events(timer: &str) -> bool {
    matches!(timer, "" | EVENTS)
}

impl Measured {
    /// Sums up a recording and the tolerances beside it, for results in this folder, which need not exist yet.
    ///
    /// # Errors A file exists but cannot be read.
    pub fn of(database: &Path, record: &KernelRecord, ids: &[String], results: &Path) -> Result<Self, RecordingError> {
        let (database, results) = (resolved(database), resolved(results));
        Ok(Self {
            recording: RecordingSums::of(&database, record, ids)?,
            database_from_results: Some(relative(&results, &database)),
            database: Some(database),
            ..Self::default()
        })
    }

    /// The same recording, on this device.
    #[must_use]
    pub fn on(self, greeting: &ServerGreeting) -> Self {
        let ServerGreeting { device, driver, version, assembler, llvm, timer, .. } = greeting.clone();
        Self { device, driver, version, assembler, llvm, timer, ..self }
    }

    /// The cache's name for an instance, with everything in the recording that its results depend on.
    pub fn name_of(&self, instance: &str) -> String {
        let RecordingSums { code, instances, tolerances } = &self.recording;
        let sum = instances.get(instance).map_or("", String::as_str);
        format!("{instance}:{code}:{sum}:{tolerances}")
    }

    /// The part of the recording that differs; `None` if results can be combined.
    pub fn other_recording(&self, now: &Self) -> Option<&'static str> {
        self.recording.other_recording(&now.recording)
    }

    /// The device, driver and versions, for people; `None` before they are known.
    pub fn place(&self) -> Option<String> {
        let Self { device, driver, version, assembler, llvm, timer, .. } = self;
        let assembled = if assembler.is_empty() { String::new() } else { format!(", {assembler}") };
        // On the CPU device, LLVM is the assembler and has its name.
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

/// The path from a folder to a file, both without links.
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
        assert_eq!(place("lld", "events"), place("lld", ""), "sessions of earlier releases can be resumed");
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

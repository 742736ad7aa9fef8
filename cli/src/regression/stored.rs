//! The results file of `mneme test --save`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use mneme_model::result::{Environment, ReplayStatus};
use mneme_system::files::{self, FileAccess, Temporary};
use serde::{Deserialize, Serialize};

use crate::error::CommandError;

/// Version of the file's format.
const FORMAT: u32 = 1;

/// The results of replays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultsFile {
    /// [`FORMAT`].
    pub format: u32,
    /// The environment of the first verified replay.
    pub environment: Environment,
    pub results: Vec<CaseResult>,
}

/// The result of one launch under one pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    #[serde(flatten)]
    pub case: CaseName,
    pub status: ReplayStatus,
    /// Empty, or one sentence.
    pub error: String,
    /// Times of the measured runs in ns, start after start.
    pub times: Vec<u64>,
    /// Number of the replayer's starts among the times; 1 in earlier files.
    #[serde(default = "one_start")]
    pub starts: usize,
    /// The timer: "events", "cupti" or "rocprofiler". Empty if the launch did not run; in earlier files also empty, and
    /// the environment's timer applies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timer: String,
    /// The full version of the LLVM that compiled the launch. Empty if none did, and in earlier files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub llvm: String,
    /// Registers of a thread; -1 if the device does not report them.
    pub registers: i64,
}

fn one_start() -> usize {
    1
}

impl CaseResult {
    /// The times of each start that has any.
    pub fn by_start(&self) -> impl Iterator<Item = &[u64]> {
        let place = |start: usize| start * self.times.len() / self.starts.max(1);
        let starts = (0..self.starts.max(1)).map(move |start| &self.times[place(start)..place(start + 1)]);
        starts.filter(|times| !times.is_empty())
    }
}

/// Identifies a launch under a pipeline, independent of the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CaseName {
    /// Demangled name.
    pub kernel: String,
    /// In decimal.
    pub static_hash: String,
    /// Dynamic hash, in decimal.
    pub instance: String,
    /// "" for as recorded, "original" for the application's own code.
    pub passes: String,
}

impl CaseName {
    /// The pipeline for people.
    pub fn pipeline(&self) -> &str {
        if self.passes.is_empty() { "as recorded" } else { &self.passes }
    }
}

impl fmt::Display for CaseName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {} {}", self.kernel, self.instance, self.pipeline())
    }
}

/// Why a text is not a results file. The subject of a message is the file.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("is not a file of mneme test --save: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("has format {0}, but this program reads format {FORMAT}")]
    Format(u32),
    #[error("has two results of {0}; it is damaged, or was edited")]
    Twice(CaseName),
}

impl ResultsFile {
    /// The versions of LLVM that compiled, separated by commas. Earlier files have only one of them.
    pub fn compilers(&self) -> String {
        let each: BTreeSet<&str> =
            self.results.iter().map(|result| &*result.llvm).filter(|llvm| !llvm.is_empty()).collect();
        if each.is_empty() {
            return self.environment.versions.get("llvm").cloned().unwrap_or_default();
        }
        each.into_iter().collect::<Vec<_>>().join(", ")
    }

    pub fn new(results: Vec<CaseResult>, environment: Environment) -> Self {
        Self { format: FORMAT, environment, results }
    }

    pub fn load(path: &Path) -> Result<Self, CommandError> {
        let text = std::fs::read(path).map_err(CommandError::unread(path))?;
        Self::parse(&text).map_err(|error| CommandError::Usage(format!("{} {error}", path.display())))
    }

    fn parse(text: &[u8]) -> Result<Self, FileError> {
        let mut file: Self = serde_json::from_slice(text)?;
        if file.format != FORMAT {
            return Err(FileError::Format(file.format));
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = file.results.iter().find(|result| !known.insert(&result.case)) {
            return Err(FileError::Twice(twice.case.clone()));
        }
        for result in file.results.iter_mut().filter(|result| result.timer.is_empty()) {
            result.timer.clone_from(&file.environment.timer);
        }
        Ok(file)
    }

    /// Fails early if results cannot be saved to a path.
    pub fn probe(path: &Path) -> Result<(), CommandError> {
        let failed = |source| CommandError::Io { path: path.into(), source };
        if path.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        Temporary::write(path, FileAccess::Private, failed, |_| Ok(())).map(drop)
    }

    pub fn save(&self, path: &Path) -> Result<(), CommandError> {
        let mut text = serde_json::to_vec_pretty(self).expect("plain data serialises");
        text.push(b'\n');
        files::replace(path, &text, FileAccess::Private)
            .map_err(|source| CommandError::Io { path: path.into(), source })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(results: &serde_json::Value) -> Result<ResultsFile, FileError> {
        let document = json!({ "format": FORMAT, "environment": { "timer": "events" }, "results": results });
        ResultsFile::parse(document.to_string().as_bytes())
    }

    fn result(instance: &str) -> serde_json::Value {
        json!({
            "kernel": "k(int)", "static_hash": "1", "instance": instance, "passes": "", "status": "verified",
            "error": "", "times": [1], "registers": 8,
        })
    }

    #[test]
    fn a_timer_that_a_case_lacks_is_the_environments() {
        let mut own = result("3");
        own["timer"] = json!("cupti");
        let timers = file(&json!([result("2"), own])).unwrap().results.into_iter().map(|result| result.timer);
        assert_eq!(timers.collect::<Vec<_>>(), ["events", "cupti"]);
    }

    #[test]
    fn where_results_can_be_saved_is_told_before() {
        let folder = tempfile::tempdir().unwrap();
        ResultsFile::probe(&folder.path().join("results.json")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for bad in [folder.path(), &folder.path().join("none/results.json")] {
            assert!(matches!(ResultsFile::probe(bad), Err(CommandError::Io { .. })));
        }
    }

    #[test]
    fn a_file_with_a_launch_twice_is_refused() {
        let refused = file(&json!([result("2"), result("3"), result("2")]));
        assert!(matches!(refused, Err(FileError::Twice(case)) if case.instance == "2"));
    }
}

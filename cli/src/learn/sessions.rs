//! The tuning sessions of a learnt folder, one per kernel: their states and results.

use std::path::{Path, PathBuf};

use mneme_recording::database::{ArgumentLayout, KernelRecord, kernels};
use mneme_system::files::trust;
use serde_json::Value;

use super::{Launched, RECORDED};
use crate::error::CommandError;
use crate::parallel::in_parallel;

const RECORDING: &str = "recording";
const RESULTS: &str = "results";
const BEST: &str = "best.json";
const SUMMARY: &str = "summary.json";
/// Statuses of sessions that are over. Others are resumed or repeated.
const OVER: [&str; 5] = ["completed", "timeout", "baseline_only", "no_verified_configuration", "stopped_at_failure"];
/// The status of a session that was refused because its recording cannot show whether candidates are right.
const UNPROVEN: &str = "unproven";
/// Counts of failed candidates in a summary, and how they failed.
const FAILURES: [(&str, &str); 6] = [
    ("num_failed_verification", "computed different results"),
    ("num_unproven", "were not shown to be right"),
    ("num_compile_error", "could not be built"),
    ("num_invalid_launch", "could not be launched"),
    ("num_runtime_error", "failed while they ran or took too long"),
    ("num_invalid_config", "were invalid"),
];

pub fn recording(folder: &Path) -> PathBuf {
    folder.join(RECORDING)
}

/// A recorded kernel and its session.
pub struct LearntKernel {
    /// The kernel's file in the recording.
    pub database: PathBuf,
    pub record: KernelRecord,
    /// The folder of its results, which may not exist yet.
    pub session: PathBuf,
    /// Whether only arguments that all recorded launches have in common are folded.
    pub folds_common: bool,
}

/// The state of a session.
#[derive(Debug, PartialEq)]
pub enum SessionState {
    /// It has not begun, did not finish, failed, or could not try everything.
    Open,
    /// Its best was confirmed to be faster than the application's own code.
    Faster,
    /// It is over without a winner; why, as the end of a sentence.
    Unchanged(String),
}

/// Everything that was recorded in a folder.
///
/// # Errors A recording cannot be read.
pub fn learnt(folder: &Path) -> Result<Vec<LearntKernel>, CommandError> {
    let recording = recording(folder);
    let databases = if recording.is_dir() { kernels(&recording)? } else { Vec::new() };
    // Earlier releases wrote only names.
    let launched: Vec<Launched> =
        json(&folder.join(RECORDED)).and_then(|known| serde_json::from_value(known).ok()).unwrap_or_default();
    let kernel = |database: &PathBuf| {
        let database = database.clone();
        let record = KernelRecord::load_trusted(&database)?;
        let session = folder.join(RESULTS).join(record.static_hash.to_string());
        let has_few_alike = launched.iter().any(|it| it.kernel == record.kernel_name && it.are_few_alike());
        // Launches that differ only in a structure count as alike.
        let has_structures = record.ours.arguments.iter().any(ArgumentLayout::is_structure);
        let folds_common = has_few_alike || has_structures;
        Ok(LearntKernel { database, record, session, folds_common })
    };
    in_parallel(&databases, kernel).into_iter().collect()
}

impl LearntKernel {
    pub fn name(&self) -> &str {
        &self.record.demangled_name
    }

    pub fn state(&self) -> SessionState {
        let file = |name: &str| json(&self.session.join(name));
        file(SUMMARY).map_or(SessionState::Open, |summary| state(&summary, file(BEST).as_ref()))
    }

    /// Whether a session can be resumed.
    pub fn is_begun(&self) -> bool {
        self.session.join("config.json").is_file()
    }
}

/// Files that are incomplete or damaged count as missing: the session is repeated.
fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&trust::read(path).ok()?).ok()
}

fn state(summary: &Value, best: Option<&Value>) -> SessionState {
    if summary["status"] == UNPROVEN {
        return SessionState::Unchanged("its recording shows too little to tell right code from wrong".into());
    }
    if !OVER.contains(&summary["status"].as_str().unwrap_or_default()) {
        return SessionState::Open;
    }
    let is_candidate = best.is_some_and(|best| !best["trial"].is_null());
    let is_faster = match summary["confirmation"]["significant"].as_bool() {
        Some(is_confirmed) => is_confirmed,
        // With --finalists 0, the first measurement decides.
        None => best.and_then(|best| best["speedup"].as_f64()).is_some_and(|speedup| speedup > 1.0),
    };
    if is_candidate && is_faster {
        return SessionState::Faster;
    }
    let count = |name: &str| summary[name].as_u64().unwrap_or_default();
    // Candidates that could not be tried are tried again.
    if count("num_internal_error") > 0 {
        return SessionState::Open;
    }
    SessionState::Unchanged(match (count("num_trials_completed"), count("num_verified")) {
        (0, _) => "no configuration could be tried".into(),
        (tried, 0) => {
            let failed = FAILURES.iter().map(|(name, what)| (count(name), what)).filter(|(failed, _)| *failed > 0);
            let failed: Vec<String> = failed.map(|(failed, what)| format!("{failed} {what}")).collect();
            format!("none of {tried} configurations verified ({})", failed.join(", "))
        }
        (tried, verified) => {
            format!("{tried} configurations were tried, {verified} verified, and none was confirmed to be faster")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_over_and_confirmed_is_faster() {
        let best = json!({"trial": 3, "speedup": 1.2});
        let of = |status: &str, significant: bool| {
            json!({"status": status, "confirmation": {"significant": significant}, "num_trials_completed": 9,
                   "num_verified": 7})
        };
        assert_eq!(state(&of("completed", true), Some(&best)), SessionState::Faster);
        assert_eq!(state(&of("interrupted", true), Some(&best)), SessionState::Open);
        assert_eq!(state(&of("not_written", true), Some(&best)), SessionState::Open);
        let mut untried = of("completed", false);
        untried["num_internal_error"] = json!(2);
        assert_eq!(state(&untried, Some(&best)), SessionState::Open, "a builder is missing");
        let SessionState::Unchanged(why) = state(&of("timeout", false), Some(&best)) else { panic!() };
        assert_eq!(why, "9 configurations were tried, 7 verified, and none was confirmed to be faster");
        let recorded = json!({"trial": null, "speedup": 1.0});
        assert!(matches!(state(&of("completed", true), Some(&recorded)), SessionState::Unchanged(_)));
        let unconfirmed = json!({"status": "completed"});
        assert_eq!(state(&unconfirmed, Some(&best)), SessionState::Faster, "--finalists 0");
    }

    #[test]
    fn a_session_that_was_refused_is_over() {
        assert!(matches!(state(&json!({"status": "unproven"}), None), SessionState::Unchanged(_)));
    }

    #[test]
    fn a_session_in_which_nothing_verified_says_what_was_tried() {
        let summary = json!({"status": "no_verified_configuration", "num_trials_completed": 5, "num_verified": 0,
                             "num_failed_verification": 3, "num_compile_error": 2});
        let SessionState::Unchanged(why) = state(&summary, None) else { panic!() };
        assert_eq!(why, "none of 5 configurations verified (3 computed different results, 2 could not be built)");
        let nothing = json!({"status": "no_verified_configuration"});
        assert_eq!(state(&nothing, None), SessionState::Unchanged("no configuration could be tried".into()));
    }
}

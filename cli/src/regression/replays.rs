//! Replays of recorded launches, one process of `mneme-replay` each.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use mneme_core::install;
use mneme_core::result::{Environment, ReplayResult, Status};

use crate::error::CommandError;
use crate::selection::Selection;
use crate::siblings;

use super::stored::{CaseName, CaseResult, ResultsFile};

/// The pipeline that stands for the application's own code.
const ORIGINAL: &str = "original";

/// A launch to be replayed under a pipeline.
pub struct Case {
    name: CaseName,
    database: PathBuf,
}

/// Every launch of the recordings under every pipeline.
pub fn find(recordings: &[PathBuf], pipelines: &[String]) -> Result<Vec<Case>, CommandError> {
    let as_recorded = [String::new()];
    let pipelines = if pipelines.is_empty() { &as_recorded } else { pipelines };
    if let Some((_, twice)) = pipelines.iter().enumerate().find(|(index, it)| pipelines[..*index].contains(it)) {
        return Err(CommandError::Usage(format!("--passes names '{twice}' twice")));
    }
    let mut cases: Vec<Case> = Vec::new();
    for path in recordings {
        let selected = Selection::new(path.clone(), None).kernels()?;
        for kernel in &selected.kernels {
            for instance in kernel.record.instances.keys() {
                for passes in pipelines {
                    let name = CaseName {
                        kernel: kernel.record.demangled_name.clone(),
                        static_hash: kernel.record.static_hash.to_string(),
                        instance: instance.clone(),
                        passes: passes.clone(),
                    };
                    if let Some(earlier) = cases.iter().find(|case| case.name == name) {
                        let (first, second) = (earlier.database.display(), kernel.path.display());
                        return Err(CommandError::Usage(format!(
                            "{first} and {second} have the same launch {instance}"
                        )));
                    }
                    cases.push(Case { name, database: kernel.path.clone() });
                }
            }
        }
        // A suite that lacks a test is no suite.
        selected.complete()?;
    }
    if cases.is_empty() {
        return Err(CommandError::Usage("no recorded launch is there to be tested".into()));
    }
    Ok(cases)
}

/// Replays them one after the other: they are timed.
pub fn run(cases: &[Case], iterations: u32, device: Option<&str>) -> Result<ResultsFile, CommandError> {
    let replayer = siblings::find(install::REPLAYER)?;
    let progress = if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{pos} of {len} [{elapsed}] {wide_msg}").expect("a template");
        ProgressBar::new(cases.len() as u64).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let (mut results, mut environment) = (Vec::new(), Environment::default());
    for case in cases {
        progress.set_message(case.name.kernel.clone());
        let mut replay = Command::new(&replayer);
        replay.arg("-rdb").arg(&case.database).args(["-rid", &case.name.instance]);
        replay.args(["--iterations", &iterations.to_string()]);
        replay.args(device.iter().flat_map(|device| ["--device", device]));
        match case.name.passes.as_str() {
            "" => {}
            ORIGINAL => drop(replay.arg("--original")),
            passes => drop(replay.args(["--", passes])),
        }
        let output = replay
            .stdin(Stdio::null())
            .output()
            .map_err(|source| CommandError::Start { path: replayer.clone(), source })?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        let result = result(&output.stdout).unwrap_or_else(|| refused(&complaint));
        if result.status == Status::InternalError && output.status.code() == Some(mneme_core::exit::NO_DEVICE) {
            return Err(CommandError::NoDevice(result.error));
        }
        if result.status == Status::Verified && environment.device.is_empty() {
            // The code is another for each.
            environment = Environment { code: String::new(), ..result.environment.clone() };
        }
        results.push(CaseResult {
            case: case.name.clone(),
            status: result.status,
            error: result.error.clone(),
            times: result.exec_time.get(result.warmup..).unwrap_or_default().to_vec(),
            timer: result.environment.timer.clone(),
            registers: result.reg_usage,
        });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(ResultsFile::new(results, environment))
}

/// What a replay has printed.
fn result(output: &[u8]) -> Option<ReplayResult> {
    let document: serde_json::Value = serde_json::from_slice(output).ok()?;
    serde_json::from_value(document.get("Result")?.clone()).ok()
}

/// Of a replay that ended before there was one.
fn refused(complaint: &str) -> ReplayResult {
    ReplayResult { status: Status::InternalError, error: reason(complaint), ..ReplayResult::default() }
}

/// The sentence of what a replay has said. A refused command line comes with its usage, and with advice at the end.
fn reason(complaint: &str) -> String {
    let lines = || complaint.lines().filter(|line| !line.trim().is_empty());
    let refused = lines().find_map(|line| line.strip_prefix("error: "));
    let said = refused.or(lines().next_back()).unwrap_or("it ended without a word");
    said.trim_start_matches("mneme-replay: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_sentence_that_says_what_is_wrong() {
        let refused = "error: unexpected argument '--bogus' found\n\nUsage: mneme-replay -rdb FILE\n\n\
                       For more information, try '--help'.\n";
        assert_eq!(reason(refused), "unexpected argument '--bogus' found");
        assert_eq!(reason("mneme: a remark\nmneme-replay: a.bc is damaged\n\n"), "a.bc is damaged");
        assert_eq!(reason(" \n"), "it ended without a word");
    }
}

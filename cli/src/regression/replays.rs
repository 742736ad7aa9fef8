//! Replays of recorded launches, one process of `mneme-replay` each.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Command;

use indicatif::{ProgressBar, ProgressStyle};
use mneme_core::result::{Environment, ReplayStatus};
use mneme_core::{console, install};

use crate::error::CommandError;
use crate::replay;
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
        progress.set_message(console::plain(&case.name.kernel).into_owned());
        let mut replay = Command::new(&replayer);
        replay.arg("-rdb").arg(&case.database).args(["-rid", &case.name.instance]);
        replay.args(["--iterations", &iterations.to_string()]);
        replay.args(device.iter().flat_map(|device| ["--device", device]));
        match case.name.passes.as_str() {
            "" => {}
            ORIGINAL => drop(replay.arg("--original")),
            passes => drop(replay.args(["--", passes])),
        }
        let result = replay::run(&mut replay)?;
        if result.status == ReplayStatus::Verified && environment.device.is_empty() {
            // The code is another for each, and may be of another LLVM.
            environment = Environment { code: String::new(), ..result.environment.clone() };
            environment.versions.retain(|name, _| !["llvm", "ir"].contains(&name.as_str()));
        }
        results.push(CaseResult {
            case: case.name.clone(),
            status: result.status,
            error: result.error.clone(),
            times: result.exec_time.get(result.warmup..).unwrap_or_default().to_vec(),
            timer: result.environment.timer.clone(),
            llvm: result.environment.versions.get("llvm").cloned().unwrap_or_default(),
            registers: result.reg_usage,
        });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(ResultsFile::new(results, environment))
}

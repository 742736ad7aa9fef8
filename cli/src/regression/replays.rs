//! Replays recorded launches, each in several processes of `mneme-replay`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use indicatif::{ProgressBar, ProgressStyle};
use mneme_model::result::{Environment, ReplayResult, ReplayStatus};
use mneme_recording::USUAL;
use mneme_sandbox::interruption::on_interruption_say;
use mneme_system::{console, install};

use super::TestOptions;
use super::stored::{CaseName, CaseResult, ResultsFile};
use crate::error::CommandError;
use crate::replay;
use crate::selection::Selection;
use crate::siblings;

/// The pipeline that means the application's own code.
const ORIGINAL: &str = "original";

/// A launch to replay under a pipeline.
pub struct Case {
    name: CaseName,
    database: PathBuf,
}

/// All selected launches, under all pipelines.
pub fn find(options: &TestOptions) -> Result<Vec<Case>, CommandError> {
    let as_recorded = [String::new()];
    let pipelines = if options.pipelines.is_empty() { &as_recorded[..] } else { &options.pipelines };
    let mut recordings: Vec<PathBuf> = options.recordings.iter().chain(&options.record_database).cloned().collect();
    if recordings.is_empty() {
        recordings.push(USUAL.into());
    }
    if let Some((_, twice)) = pipelines.iter().enumerate().find(|(index, it)| pipelines[..*index].contains(it)) {
        return Err(CommandError::Usage(format!("--passes names '{twice}' twice")));
    }
    let mut cases: Vec<Case> = Vec::new();
    for path in recordings {
        let selected = Selection::new(path.clone(), None).named(options.kernel.clone()).some_kernels()?;
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
        // An incomplete suite is an error.
        selected.complete()?;
    }
    if cases.is_empty() {
        return Err(CommandError::Usage("the recordings contain no launch to test".into()));
    }
    Ok(cases)
}

/// Replays the cases one after the other, because they are timed. Each case has its first start before any has its
/// second, so the starts of a case are spread over the suite's run.
pub fn run(cases: &[Case], options: &TestOptions) -> Result<ResultsFile, CommandError> {
    let replayer = siblings::find(install::REPLAYER)?;
    let progress = if std::io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{pos} of {len} [{elapsed}] {wide_msg}").expect("a template");
        ProgressBar::new(cases.len() as u64 * u64::from(options.starts)).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let (mut results, mut environment) = (Vec::<CaseResult>::new(), Environment::default());
    for start in 0..options.starts {
        for (place, case) in cases.iter().enumerate() {
            on_interruption_say(&format!(
                "mneme: interrupted after {} of {} replays; results were not saved, because mneme test saves them after the last replay",
                start as usize * cases.len() + place,
                options.starts as usize * cases.len()
            ));
            progress.set_message(console::plain(&case.name.kernel).into_owned());
            let is_over = results.get(place).is_some_and(|result| result.status != ReplayStatus::Verified);
            if !is_over {
                let result = replay::run(&mut case.command(&replayer, options))?;
                if result.status == ReplayStatus::Verified && environment.device.is_empty() {
                    // The code differs between cases, and different LLVMs may have compiled it.
                    environment = Environment { code: String::new(), ..result.environment.clone() };
                    environment.versions.retain(|name, _| !["llvm", "ir"].contains(&name.as_str()));
                }
                let found = case.result(&result);
                match results.get_mut(place) {
                    Some(earlier) if found.status == ReplayStatus::Verified => {
                        earlier.times.extend(found.times);
                        earlier.starts = start as usize + 1;
                    }
                    // A single wrong result is enough.
                    Some(earlier) => *earlier = found,
                    None => results.push(found),
                }
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(ResultsFile::new(results, environment))
}

impl Case {
    fn command(&self, replayer: &Path, options: &TestOptions) -> Command {
        let mut replay = Command::new(replayer);
        replay.arg("-rdb").arg(&self.database).args(["-rid", &self.name.instance]);
        replay.args(["--iterations", &options.iterations.to_string()]);
        replay.args(options.device.iter().flat_map(|device| ["--device", device]));
        match self.name.passes.as_str() {
            "" => {}
            ORIGINAL => drop(replay.arg("--original")),
            passes => drop(replay.args(["--", passes])),
        }
        replay
    }

    fn result(&self, result: &ReplayResult) -> CaseResult {
        CaseResult {
            case: self.name.clone(),
            status: result.status,
            error: [Some(result.error.clone()), result.hint_at_check()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("; "),
            times: result.measured().to_vec(),
            starts: 1,
            timer: result.environment.timer.clone(),
            llvm: result.environment.versions.get("llvm").cloned().unwrap_or_default(),
            registers: result.reg_usage,
        }
    }
}

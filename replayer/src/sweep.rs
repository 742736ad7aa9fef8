//! The command `mneme-replay sweep`, for shell scripts and pipes.
//!
//! It reads one configuration a line and writes one result a line.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use mneme_model::configuration::{Changes, Configuration, ConfigurationError};
use mneme_model::protocol::Statistics;
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_model::units::counted;
use mneme_system::exit;
use mneme_system::files::trust;
use serde::Serialize;

use crate::cli::Sweep;
use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::fresh_inputs;
use crate::job::Job;
use crate::process::lines::{self, Line, LineReader, TooLong};
use crate::process::stdout;
use crate::report::result;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// How many configurations are read ahead of their results.
const AHEAD: usize = 4096;

/// A line of the output.
#[derive(Serialize)]
struct Printed<'a> {
    /// The number of the input's line.
    id: u64,
    /// `None` if the line could not be parsed.
    #[serde(rename = "Replay-config", skip_serializing_if = "Option::is_none")]
    configuration: Option<&'a Configuration>,
    #[serde(rename = "Result")]
    result: &'a ReplayResult,
}

/// Replays all configurations. Returns the exit status.
pub fn run(options: &Sweep, context: &ReplayContext) -> Result<i32, Fatal> {
    let recorded = context.recorded.recorded_configuration();
    let source = open(&options.configurations)?;
    let mut engine = Engine::start(context)?;
    let inputs = fresh_inputs::screen(&mut engine, context, options.fresh_seed, options.fresh, context.limit)?;
    let mut lines = LineReader::default();
    let mut open = true;
    let mut configurations: HashMap<u64, Configuration> = HashMap::new();
    let mut statuses: Statistics = Statistics::default();
    while open || engine.outstanding() > 0 {
        let wanted = open && engine.outstanding() < AHEAD;
        let client = Client { input: wanted.then(|| source.as_fd()), output: Some(stdout::descriptor()), alarm: None };
        match engine.next(client)? {
            SupervisorEvent::Ready(_) | SupervisorEvent::Cancelled(_) | SupervisorEvent::Tick => {}
            SupervisorEvent::ReaderGone => return Err(stdout::reader_gone()),
            SupervisorEvent::Finished { id, mut result, .. } => {
                let configuration = configurations.remove(&id);
                inputs.complete(&mut result);
                say(&Printed { id, configuration: configuration.as_ref(), result: &result }, &mut statuses)?;
            }
            SupervisorEvent::Input => {
                open = lines.fill(&source).map_err(|error| Fatal::unread(&options.configurations, &error))?;
                for line in lines.by_ref().filter(|line| !line.is_blank()) {
                    match parse(&line, &recorded) {
                        Ok(configuration) => {
                            configurations.insert(line.number, configuration.clone());
                            let mut job =
                                Job::new(line.number, configuration, options.runs.iterations, options.runs.warmup);
                            job.schedule.fresh = options.no_reuse;
                            job.run.fresh_inputs.clone_from(&inputs.seeds);
                            engine.submit(job);
                        }
                        Err(error) => {
                            let result = result::refused(error.to_string(), &recorded, engine.device());
                            say(&Printed { id: line.number, configuration: None, result: &result }, &mut statuses)?;
                        }
                    }
                }
            }
        }
    }
    // The events of configurations that could not be started are still queued.
    while let Some(event) = engine.pending_event() {
        if let SupervisorEvent::Finished { id, mut result, .. } = event {
            let configuration = configurations.remove(&id);
            inputs.complete(&mut result);
            say(&Printed { id, configuration: configuration.as_ref(), result: &result }, &mut statuses)?;
        }
    }
    let statistics = Statistics { finished: statuses.finished, ..engine.statistics() };
    mneme_system::remark!("mneme-replay: {}", summary(&statistics));
    engine.leave();
    let has = |status: ReplayStatus| statistics.finished.contains_key(status.name());
    // Invalid configurations are not tried either.
    let untried = [ReplayStatus::InternalError, ReplayStatus::InvalidConfig].map(ReplayStatus::name);
    Ok(if has(ReplayStatus::Verified) {
        exit::VERIFIED
    } else if has(ReplayStatus::Unproven) {
        exit::UNPROVEN
    } else if has(ReplayStatus::InternalError) && statistics.finished.keys().all(|it| untried.contains(&it.as_str())) {
        exit::INTERNAL
    } else {
        exit::NOT_VERIFIED
    })
}

fn open(path: &Path) -> Result<File, Fatal> {
    let opened = if path == Path::new("-") {
        std::io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        trust::open(path)
    };
    opened.map_err(|error| Fatal::unread(path, &error))
}

/// Why a line is not a configuration.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error("line {line}, column {}, is not a JSON object: {}", error.column(), lines::reason(error))]
    NoObject { line: u64, error: serde_json::Error },
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

fn parse(line: &Line, recorded: &Configuration) -> Result<Configuration, LineError> {
    let text = line.text.as_ref().ok_or(TooLong)?;
    let changes: Changes = serde_json::from_slice(text.trim_ascii_end())
        .map_err(|error| LineError::NoObject { line: line.number, error })?;
    Ok(changes.apply(recorded)?)
}

fn say(printed: &Printed<'_>, statuses: &mut Statistics) -> Result<(), Fatal> {
    *statuses.finished.entry(printed.result.status.name().into()).or_default() += 1;
    let mut line = serde_json::to_vec(printed).expect("plain data serialises");
    line.push(b'\n');
    stdout::write(&line)
}

/// The summary for the end.
fn summary(statistics: &Statistics) -> String {
    let total: u64 = statistics.finished.values().sum();
    if total == 0 {
        return "the input had no configuration".into();
    }
    let counts: Vec<String> = statistics.finished.iter().map(|(status, count)| format!("{count} {status}")).collect();
    format!(
        "{} in {:.2} s: {}; {}, {} assembled, {} shared, {} replaced",
        counted(total as usize, "configuration"),
        statistics.uptime_s,
        counts.join(", "),
        counted(statistics.built as usize, "build"),
        statistics.assembled,
        counted(statistics.shared as usize, "result"),
        counted(statistics.executors_replaced as usize, "executor")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    fn parsed(text: &str) -> Result<Configuration, LineError> {
        let recorded = Configuration::recorded(Dim3::new(7, 1, 1), Dim3::new(32, 1, 1), 0);
        parse(&Line { number: 3, text: Some(text.into()) }, &recorded)
    }

    #[test]
    fn a_line_says_what_differs() {
        let found = parsed(r#"{"block":{"x":64},"specialize":true}"#).unwrap();
        assert_eq!((found.grid.x, found.block.x, found.specialize.any()), (7, 64, true));
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let cut = parsed("{\"block\":\n");
        assert!(matches!(cut, Err(LineError::NoObject { line: 3, error }) if error.is_eof() && error.column() == 9));
        assert!(matches!(parsed("[1]"), Err(LineError::NoObject { .. })));
        let unknown = ConfigurationError::UnknownField("threads".into());
        assert!(matches!(parsed(r#"{"threads":64}"#), Err(LineError::Configuration(error)) if error == unknown));
        let recorded = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(1, 1, 1), 0);
        assert!(matches!(parse(&Line { number: 1, text: None }, &recorded), Err(LineError::TooLong(_))));
    }
}

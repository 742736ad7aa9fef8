//! A tuning session: the baseline, then every candidate, then the best.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use mneme_core::configuration::Configuration;
use mneme_core::exit;
use mneme_core::result::{ReplayResult, Status};
use serde_json::json;

use crate::live::Live;
use crate::metric::Metric;
use crate::output::Lines;
use crate::results::{Results, Summary, Trial, proteus_tuned_kernels};
use crate::sampler::walk;
use crate::server::{Server, ServerCommand, ServerError};
use crate::space::{Point, PresetSpace, Space};
use crate::text::shorten;

/// Exit statuses of `mneme-tune` beyond those of [`mneme_core::exit`]; 1 and 3 to 5 are upstream's.
pub mod status {
    pub const BASELINE_FAILED: i32 = 1;
    pub const NOTHING_VERIFIED: i32 = 2;
    pub const INVALID_CONFIGURATION: i32 = 3;
    pub const BAD_RECORD: i32 = 4;
    pub const INTERNAL: i32 = 5;
}

/// Submitted at a time, so that the server can build configurations on all cores while another runs.
const WINDOW: usize = 32;
/// Servers that may end in a row without settling a single configuration.
const RESTARTS: u32 = 3;

/// Width of an error in a candidate's line, characters.
const ERROR_WIDTH: usize = 80;

/// What a session needs to know.
pub struct Plan {
    pub space: PresetSpace,
    /// Mangled.
    pub kernel: String,
    pub command: ServerCommand,
    pub iterations: u32,
    pub warmup: u32,
    pub metric: Metric,
    pub results: PathBuf,
    /// `config.json`.
    pub settings: serde_json::Value,
    pub quiet: bool,
}

/// Why a session ended early.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("{0}")]
    Results(std::io::Error),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("the baseline did not verify, so nothing can be compared with it: {0}")]
    Baseline(String),
    /// The session itself is complete.
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
}

impl SessionError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Results(_) => status::INVALID_CONFIGURATION,
            Self::Baseline(_) => status::BASELINE_FAILED,
            Self::Output(_) => exit::INTERNAL,
            Self::Server(ServerError::Fatal { status: exit::BAD_RECORDING, .. }) => status::BAD_RECORD,
            Self::Server(ServerError::Fatal { status: exit::NO_DEVICE, .. }) => exit::NO_DEVICE,
            Self::Server(_) => status::INTERNAL,
        }
    }
}

struct Session {
    plan: Plan,
    server: Server,
    results: Results,
    summary: Summary,
    live: Live,
    lines: Lines,
    baseline: f64,
    best: Option<Trial>,
}

/// Runs a session and gives the exit status.
pub fn run(plan: Plan) -> Result<i32, SessionError> {
    let mut results = Results::create(&plan.results).map_err(SessionError::Results)?;
    results.write("config.json", &plan.settings).map_err(SessionError::Results)?;
    results.write("search_space.json", &plan.space.describe()).map_err(SessionError::Results)?;
    let server = plan.command.start()?;
    results.log(&format!("tuning {} on {} (driver {})", plan.kernel, server.device(), server.driver()));
    let total = plan.space.size();
    let summary = Summary { num_trials_requested: total.map_or(0, |size| size as usize), ..Summary::default() };
    let live = Live::new(total, plan.quiet);
    let mut session = Session { plan, server, results, summary, live, lines: Lines::default(), baseline: 0.0, best: None };
    let outcome = session.baseline().and_then(|()| session.walk());
    session.finish(outcome)
}

impl Session {
    fn baseline(&mut self) -> Result<(), SessionError> {
        let config = self.plan.space.baseline();
        self.lines.say("Baseline configuration:");
        self.lines.say(&serde_json::to_string_pretty(&config).expect("plain data serialises"));
        self.server.submit(0, config.clone(), self.plan.iterations, self.plan.warmup)?;
        let result = match self.server.next_result() {
            Ok((_, result)) => result,
            Err(error @ ServerError::Died { .. }) => failed(&error),
            Err(error) => return Err(error.into()),
        };
        let metric = self.plan.metric.of(result.measured()).filter(|_| result.verified);
        let record = json!({"config_hash": config.hash(), "config": config, "metric": metric, "result": result});
        self.results.write("baseline.json", &record).map_err(SessionError::Results)?;
        self.summary.baseline_metric = metric;
        let Some(metric) = metric else { return Err(SessionError::Baseline(what_went_wrong(&result))) };
        self.baseline = metric;
        self.live.baseline(metric);
        let (warmup, measured) = result.exec_time.split_at(result.exec_time.len() - result.measured().len());
        let warmup = if warmup.is_empty() { String::new() } else { format!(", warm-up = {warmup:?}") };
        let line = format!("Baseline {} exec_time = {metric} (samples = {measured:?}{warmup})", self.plan.metric.name());
        self.live.above(|| self.lines.say(&line));
        Ok(())
    }

    /// Evaluates every configuration, a few in flight. When the server dies, those in flight are tried again one at a
    /// time, so that exactly the one that kills it is counted as failed.
    fn walk(&mut self) -> Result<(), SessionError> {
        let start = Instant::now();
        let mut waiting: VecDeque<(u64, Configuration)> =
            (0..).zip(walk(&self.plan.space).filter_map(|point| self.plan.space.ground(&point).ok())).collect();
        self.live.set_total(waiting.len() as u64);
        let mut flying: BTreeMap<u64, Configuration> = BTreeMap::new();
        let mut printer = InOrder::default();
        let mut suspects = 0usize;
        let mut deaths = 0u32;
        loop {
            let submitted = self.fill(&mut waiting, &mut flying, if suspects > 0 { 1 } else { WINDOW });
            if submitted.is_ok() && flying.is_empty() {
                break;
            }
            match submitted.and_then(|()| self.server.next_result()) {
                Ok((id, result)) => {
                    let Some(config) = flying.remove(&id) else {
                        return Err(ServerError::Garbled { line: format!("a result for {id}, which was not submitted") }.into());
                    };
                    (deaths, suspects) = (0, suspects.saturating_sub(1));
                    printer.add(id, self.judge(id, config, result)?, |line| self.print(line));
                }
                Err(error) => {
                    self.results.log(&format!("{error}; in flight: {:?}", flying.keys()));
                    if flying.len() == 1 {
                        for (id, config) in std::mem::take(&mut flying) {
                            printer.add(id, self.judge(id, config, failed(&error))?, |line| self.print(line));
                        }
                        (deaths, suspects) = (0, suspects.saturating_sub(1));
                    } else {
                        deaths += 1;
                        suspects = flying.len();
                        for lost in std::mem::take(&mut flying).into_iter().rev() {
                            waiting.push_front(lost);
                        }
                    }
                    if deaths > RESTARTS {
                        return Err(error.into());
                    }
                    self.server = self.plan.command.start()?;
                }
            }
        }
        self.live.finish();
        self.lines.say(&format!("Total tuning time: {:.2}s", start.elapsed().as_secs_f64()));
        Ok(())
    }

    fn fill(
        &mut self,
        waiting: &mut VecDeque<(u64, Configuration)>,
        flying: &mut BTreeMap<u64, Configuration>,
        window: usize,
    ) -> Result<(), ServerError> {
        while flying.len() < window
            && let Some((id, config)) = waiting.front()
        {
            self.server.submit(*id, config.clone(), self.plan.iterations, self.plan.warmup)?;
            flying.extend(waiting.pop_front());
        }
        Ok(())
    }

    /// Records a result and gives its line.
    fn judge(&mut self, id: u64, config: Configuration, result: ReplayResult) -> Result<String, SessionError> {
        let metric = self.plan.metric.of(result.measured()).filter(|_| result.verified);
        let speedup = metric.map(|metric| self.baseline / metric);
        let label = self.plan.space.label(&Point::new(), &config);
        let line = match (metric, speedup) {
            (Some(metric), Some(speedup)) => {
                let line = format!("[{id}] {label} {}={metric} speedup={speedup}", self.plan.metric.name());
                self.results.log(&line);
                line
            }
            _ => {
                let error = what_went_wrong(&result);
                self.results.log(&format!("[{id}] {label} FAILED error={error}"));
                format!("[{id}] {label} FAILED error={}", first_clause(&error))
            }
        };
        self.summary.count(&result);
        self.live.trial(result.status);
        let trial = Trial { trial: id, config_hash: config.hash(), config, metric, speedup, result };
        self.results.add_trial(&trial).map_err(SessionError::Results)?;
        if trial.metric.is_some() && self.best.as_ref().is_none_or(|best| (trial.metric, trial.trial) < (best.metric, best.trial)) {
            self.live.best(trial.metric.unwrap_or_default(), &label);
            self.best = Some(trial);
        }
        Ok(line)
    }

    fn print(&self, line: &str) {
        if !self.plan.quiet {
            self.live.above(|| self.lines.say(line));
        }
    }

    /// Writes what the session found, whatever ended it.
    fn finish(&mut self, outcome: Result<(), SessionError>) -> Result<i32, SessionError> {
        self.live.finish();
        self.summary.status = match (&outcome, &self.best) {
            (Ok(()), Some(_)) => "completed",
            (Ok(()), None) => "no_verified_configuration",
            (Err(SessionError::Baseline(_)), _) => "baseline_failed",
            (Err(_), _) => "internal_error",
        };
        if let Some(best) = &self.best {
            self.summary.best_metric = best.metric;
            self.summary.best_speedup = best.speedup;
            self.summary.best_trial = Some(best.trial);
            let tuned = proteus_tuned_kernels(&self.plan.kernel, &best.config);
            self.results.write("best.json", best).map_err(SessionError::Results)?;
            self.results.write("proteus_tuned_kernels.json", &tuned).map_err(SessionError::Results)?;
        }
        self.results.write("summary.json", &self.summary).map_err(SessionError::Results)?;
        if let Err(error) = &outcome {
            self.results.log(&error.to_string());
        }
        outcome?;
        if !self.plan.quiet {
            eprintln!("Results are in {}", self.results.folder().display());
        }
        let Some((best, metric, speedup)) = self.best.as_ref().and_then(|best| Some((best, best.metric?, best.speedup?))) else {
            self.lines.say("No configuration verified.");
            self.tally();
            return Ok(status::NOTHING_VERIFIED);
        };
        self.lines.say(&format!(
            "BEST: {} {}={metric} speedup={speedup}",
            self.plan.space.label(&Point::new(), &best.config),
            self.plan.metric.name()
        ));
        if metric >= self.baseline {
            eprintln!("mneme-tune: no configuration is faster than the recorded one");
        }
        self.tally();
        self.lines.complete().map_err(SessionError::Output)?;
        Ok(0)
    }

    fn tally(&self) {
        if !self.plan.quiet {
            eprintln!("{} of {} configurations verified", self.summary.num_verified, self.summary.num_trials_completed);
        }
    }
}

/// What one line has room for; the log and `trials.jsonl` have all of it.
fn first_clause(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    shorten(line.split("; ").next().unwrap_or_default().trim_end(), ERROR_WIDTH)
}

/// The result of a configuration whose server ended.
fn failed(error: &ServerError) -> ReplayResult {
    ReplayResult { failed: true, error: error.to_string(), status: Status::InternalError, ..ReplayResult::default() }
}

fn what_went_wrong(result: &ReplayResult) -> String {
    if !result.error.is_empty() {
        return result.error.clone();
    }
    match &result.mismatch {
        Some(mismatch) => format!("memory differs from the recording in {} elements", mismatch.differing),
        None if result.verified => "nothing was measured".into(),
        None => "memory differs from the recording".into(),
    }
}

/// Holds lines back until those before them have come: results arrive in the order of completion.
#[derive(Debug, Default)]
struct InOrder {
    next: u64,
    held: BTreeMap<u64, String>,
}

impl InOrder {
    fn add(&mut self, id: u64, line: String, mut print: impl FnMut(&str)) {
        self.held.insert(id, line);
        while let Some(line) = self.held.remove(&self.next) {
            print(&line);
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_to_what_it_is_about() {
        assert_eq!(first_clause("unknown pass 'x'; see opt --print-passes\nat 1"), "unknown pass 'x'");
        assert_eq!(first_clause("LLVM crashed\nStack dump:"), "LLVM crashed");
        assert_eq!(first_clause(&"x".repeat(500)).chars().count(), ERROR_WIDTH);
        assert_eq!(first_clause(""), "");
    }

    #[test]
    fn lines_come_out_in_order() {
        let mut order = InOrder::default();
        let mut printed = Vec::new();
        for id in [1, 2, 0, 4, 3] {
            order.add(id, id.to_string(), |line| printed.push(line.to_owned()));
        }
        assert_eq!(printed, ["0", "1", "2", "3", "4"]);
    }
}

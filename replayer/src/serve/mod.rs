//! The command `mneme-replay serve`, which answers requests in lines of JSON.
//!
//! The protocol is [`mneme_model::protocol`].

mod data;
mod submission;

use std::collections::HashMap;
use std::fmt::Display;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mneme_builds::builder::AskError;
use mneme_builds::protocol::{CodeParts, Question};
use mneme_builds::{Refusal, Replacement, Target};
use mneme_model::configuration::Configuration;
use mneme_model::protocol::{self, Examination, Hello, Outputs, Reply, Request, Statistics, Submission};
use mneme_model::result::ReplayStatus;
use mneme_system::exit;
use serde_json::Value;

use self::data::Data;
use crate::cli::Serve;
use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::process::lines::{self, Line, LineReader};
use crate::process::stdout;
use crate::report::result;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// Serves until the end of input. Returns the exit status.
pub fn run(options: &Serve, context: &ReplayContext) -> Result<i32, Fatal> {
    let mut engine = Engine::start(context)?;
    let stdin = std::io::stdin();
    let output = Some(stdout::descriptor());
    let device = loop {
        match engine.next(Client { output, ..Client::default() })? {
            SupervisorEvent::Ready(device) => break device,
            SupervisorEvent::ReaderGone => return Err(stdout::reader_gone()),
            _ => {}
        }
    };
    let recorded = context.recorded.recorded_configuration();
    let hello = Hello {
        protocol: protocol::VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        kernel: context.recorded.kernel.kernel_name.clone(),
        grid: recorded.grid,
        block: recorded.block,
        shared_mem: recorded.shared_mem,
        recorded: recorded.clone(),
        device: device.name,
        driver: device.driver,
        assembler: assembler(context)?,
        llvm: if context.is_machine_code() { String::new() } else { context.llvm_version()?.into() },
        compilers: context.programs.whole_versions(),
        timer: device.timer.name().into(),
        // With fewer workers than devices, the last devices are idle.
        devices: context.devices.iter().take(context.workers).map(|device| device.ordinal()).collect(),
        limits: device.limits,
        builders: u32::try_from(context.builders).unwrap_or(u32::MAX),
    };
    let mut server = Server {
        options,
        context,
        engine,
        hello,
        recorded,
        outputs: HashMap::new(),
        data: Data::default(),
        refused: 0,
        progress: None,
    };
    server.greet()?;
    let mut lines = LineReader::default();
    let mut open = true;
    while open || server.engine.outstanding() > 0 {
        let alarm = server.progress.filter(|_| server.engine.outstanding() > 0).map(|progress| progress.next);
        match server.engine.next(Client { input: open.then(|| stdin.as_fd()), output, alarm })? {
            // Otherwise the server would work for a killed client until the next result.
            SupervisorEvent::ReaderGone => return Err(stdout::reader_gone()),
            SupervisorEvent::Input => {
                let failed = |error| Fatal::new(exit::INTERNAL, format!("cannot read standard input: {error}"));
                open = lines.fill(&stdin).map_err(failed)?;
                for line in lines.by_ref().filter(|line| !line.is_blank()) {
                    let goes_on = server.take(&line)?;
                    // Answers come in the order of the requests, however the lines were split on their way.
                    server.write_pending()?;
                    // Requests behind a shutdown are dropped.
                    if !goes_on {
                        open = false;
                        break;
                    }
                }
            }
            event => server.write_event(event)?,
        }
    }
    // The events of configurations that ended without being started are still queued.
    server.write_pending()?;
    server.engine.leave();
    Ok(exit::VERIFIED)
}

/// Tells the client why the server ends.
pub fn report(fatal: &Fatal) {
    // The client may be gone already; the exit status carries the same reason.
    let _ = say(&Reply::Fatal { status: fatal.status, error: fatal.error.clone() });
}

fn say(reply: &Reply) -> Result<(), Fatal> {
    let mut line = serde_json::to_vec(reply).expect("plain data serialises");
    line.push(b'\n');
    stdout::write(&line)
}

/// The state of [`Request::Progress`].
#[derive(Clone, Copy)]
struct Progress {
    interval: Duration,
    next: Instant,
}

struct Server<'a> {
    options: &'a Serve,
    context: &'a ReplayContext,
    engine: Engine<'a>,
    hello: Hello,
    recorded: Configuration,
    /// Requested files of configurations without a result.
    outputs: HashMap<u64, Outputs>,
    data: Data,
    /// How many submissions were invalid.
    refused: u64,
    progress: Option<Progress>,
}

impl Server<'_> {
    fn greet(&self) -> Result<(), Fatal> {
        say(&Reply::Hello(Box::new(self.hello.clone())))
    }

    /// Handles a request. Returns false after the last one.
    fn take(&mut self, line: &Line) -> Result<bool, Fatal> {
        let request = match &line.text {
            None => Err(lines::TooLong.to_string()),
            Some(text) => serde_json::from_slice(text).map_err(|error| lines::reason(&error)),
        };
        let request = match request {
            Ok(request) => request,
            Err(why) => return self.refuse_line(line, &why).map(|()| true),
        };
        match request {
            Request::Hello { protocol } if protocol > protocol::VERSION => {
                let error = format!(
                    "this server speaks protocol {}, not {protocol}; install both from one release",
                    protocol::VERSION
                );
                say(&Reply::Error { id: None, error })?;
            }
            Request::Hello { .. } => self.greet()?,
            Request::Submit(submission) => self.submit(*submission)?,
            Request::Cancel { id } => {
                if !self.engine.cancel(id) {
                    let error = format!("cannot cancel {id}: it is not a configuration without a result");
                    say(&Reply::Error { id: Some(id), error })?;
                }
            }
            Request::Statistics {} => say(&Reply::Statistics(self.statistics()))?,
            Request::Progress { interval_s } => {
                let interval = Duration::try_from_secs_f64(interval_s).ok().filter(|interval| !interval.is_zero());
                // More frequent reports are useless.
                let interval =
                    interval.map(|interval| interval.clamp(Duration::from_millis(10), Duration::from_secs(86400)));
                self.progress = interval.map(|interval| Progress { interval, next: Instant::now() + interval });
            }
            Request::Ir {} => say(&self.data.ir(self.context))?,
            Request::Memory { moment, region } => say(&data::memory(self.context, moment, region.as_deref()))?,
            Request::Examine { passes } => say(&Reply::Examined(examined(self.context, passes)))?,
            Request::Shutdown {} => {
                self.engine.cancel_all();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Answers a line that is not a request. A submission still gets a result, because its client waits for one with
    /// this id.
    fn refuse_line(&mut self, line: &Line, why: &str) -> Result<(), Fatal> {
        let value = line.text.as_ref().and_then(|text| serde_json::from_slice::<Value>(text).ok()).unwrap_or_default();
        let id = value.get("id").and_then(Value::as_u64);
        match id {
            Some(id) if value["type"] == "submit" && !self.engine.is_outstanding(id) => {
                self.refuse(id, format!("cannot parse the submission: {why}"))
            }
            _ => say(&Reply::Error { id, error: format!("line {} is not a request: {why}", line.number) }),
        }
    }

    /// Sends the result of an invalid submission.
    fn refuse(&mut self, id: u64, error: String) -> Result<(), Fatal> {
        self.refused += 1;
        let result = result::refused(error, &self.recorded, self.engine.device());
        say(&Reply::Result { id, result: Box::new(result) })
    }

    fn submit(&mut self, submission: Submission) -> Result<(), Fatal> {
        let id = submission.id;
        if self.engine.is_outstanding(id) {
            let error = format!("the configuration {id} has no result yet; another one needs another id");
            return say(&Reply::Error { id: Some(id), error });
        }
        let (outputs, runs) = (submission.outputs.clone(), &self.options.runs);
        match submission::job(submission, &self.recorded, (runs.iterations, runs.warmup), &self.hello.devices) {
            Ok(job) => {
                if !outputs.is_empty() {
                    self.outputs.insert(id, outputs);
                }
                self.engine.submit(job);
                Ok(())
            }
            Err(error) => self.refuse(id, error.to_string()),
        }
    }

    /// The engine's statistics, including submissions that never reached it.
    fn statistics(&self) -> Statistics {
        let mut statistics = self.engine.statistics();
        if self.refused > 0 {
            statistics.submitted += self.refused;
            *statistics.finished.entry(ReplayStatus::InvalidConfig.name().into()).or_default() += self.refused;
        }
        statistics
    }

    fn write_pending(&mut self) -> Result<(), Fatal> {
        while let Some(event) = self.engine.pending_event() {
            self.write_event(event)?;
        }
        Ok(())
    }

    fn write_event(&mut self, event: SupervisorEvent) -> Result<(), Fatal> {
        match event {
            SupervisorEvent::Finished { id, result, outcome, unwritten, .. } => {
                if let Some(error) = unwritten {
                    say(&Reply::Error { id: Some(id), error })?;
                }
                if let Some(outputs) = self.outputs.remove(&id)
                    && let Err(error) = submission::write(&outputs, outcome.as_deref())
                {
                    say(&Reply::Error { id: Some(id), error: error.to_string() })?;
                }
                say(&Reply::Result { id, result })
            }
            SupervisorEvent::Cancelled(id) => {
                self.outputs.remove(&id);
                say(&Reply::Cancelled { id })
            }
            SupervisorEvent::Tick => {
                if let Some(progress) = &mut self.progress {
                    progress.next = Instant::now() + progress.interval;
                    say(&Reply::Progress(self.statistics()))?;
                }
                Ok(())
            }
            SupervisorEvent::Ready(_) | SupervisorEvent::Input | SupervisorEvent::ReaderGone => Ok(()),
        }
    }
}

/// Loading a library takes seconds at most.
const ASSEMBLER_LIMIT: Duration = Duration::from_secs(120);

/// The name of the assembler that makes machine code here.
///
/// # Errors
/// The process ends without an answer. The session then does not start: times are only comparable with those of the
/// same assembler, and an empty name would count as another one.
fn assembler(context: &ReplayContext) -> Result<String, Fatal> {
    // The name depends only on the kind of target.
    let target = context.devices[0].expected_target(&context.recorded.kernel.ours);
    let target = target.unwrap_or_else(|| Target::gpu(""));
    let program = context.programs.of(context.llvm)?;
    match program.ask(Question::Maker { target }, &[], ASSEMBLER_LIMIT) {
        Ok((name, _)) => Ok(name),
        Err(error) => Err(Fatal::new(exit::INTERNAL, format!("cannot determine the assembler: {error}"))),
    }
}

/// Reading the IR of a large program takes seconds.
const READING_LIMIT: Duration = Duration::from_secs(60);

/// The register with the grid's dimensions in PTX.
const GRID: &str = "%nctaid";
/// The directive for the block's dimensions in PTX.
const BLOCK: &str = ".reqntid";

/// Examines a kernel and pipelines, before anything is built. A separate process reads the IR, because LLVM may crash on
/// it. If that fails, the answer is unknown; builds then report the problem.
fn examined(context: &ReplayContext, passes: Vec<String>) -> Examination {
    let nothing = Examination { problems: vec![None; passes.len()], ..Examination::default() };
    let details = &context.recorded.kernel.ours;
    let target = context.devices[0].expected_target(details).unwrap_or_else(|| Target::gpu(&details.ir_arch));
    let (parts, blob) = CodeParts::join(&context.modules, None);
    let kernel = context.recorded.kernel.kernel_name.clone();
    let question = Question::Examine { kernel, parts, target, passes };
    let program = context.programs.of(context.llvm).map_err(AskError::from);
    let answer =
        program.and_then(|program| program.ask::<Result<Examination, Refusal>>(question, &blob, READING_LIMIT));
    let unknown = |error: &dyn Display| tracing::warn!("cannot examine the kernel: {error}");
    let found = match answer {
        Ok((found, _)) => found.inspect_err(|error| unknown(error)).unwrap_or(nothing),
        Err(error) => {
            unknown(&error);
            nothing
        }
    };
    match &context.replacement {
        // Recorded PTX consists of the kernel and everything that it reaches.
        Some(Replacement::Ptx(text)) => {
            Examination { reads_grid: Some(text.contains(GRID)), fixes_block: Some(text.contains(BLOCK)), ..found }
        }
        _ => found,
    }
}

//! `mneme-tune evaluate`: judges candidates that people and models propose for a recorded kernel.
//!
//! `input` reads candidates, `code` makes their code, [`judge`] replays and compares them, and `verdicts` keeps what was
//! found. Candidates are taken in batches: they compile at the same time and are then measured one after the other, so
//! that no compiler disturbs a measurement. A verdict is on the disk before anybody reads it, so that an evaluation
//! that is killed loses and repeats none.

mod code;
mod error;
mod feedback;
mod floor;
mod input;
pub mod judge;
mod options;
mod patch;
mod readable;
mod verdicts;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mneme_model::evaluation::{CandidateId, Judgement};
use mneme_recording::RecordingError;
use mneme_recording::choice;
use mneme_recording::database::KernelRecord;
use mneme_system::files::trust;
use mneme_system::{console, exit, install};

use self::code::Workshop;
pub use self::error::EvaluateError;
use self::input::{Input, Malformed, Request};
use self::judge::{Judge, Prepared};
pub use self::options::EvaluateOptions;
use self::verdicts::Verdicts;
use crate::interrupt;
use crate::measured::EVENTS;
use crate::results::default_folder;
use crate::server::ServerCommand;
use crate::session::SessionError;

/// Runs the command, and returns the exit status.
pub fn run(options: &EvaluateOptions) -> i32 {
    let done = trust::add(&options.trust).map_err(|error| EvaluateError::Usage(error.to_string()));
    done.and_then(|()| evaluate(options)).unwrap_or_else(|error| {
        mneme_system::remark!("mneme-tune: {error}");
        error.exit_status()
    })
}

/// A recorded kernel, and the instances on which candidates are judged.
struct Subject {
    database: PathBuf,
    record: KernelRecord,
    ids: Vec<String>,
}

impl Subject {
    fn choose(options: &EvaluateOptions) -> Result<Self, EvaluateError> {
        let first = options.record_id.first().map(String::as_str);
        let database = choice::choose(&options.record_database, first, options.kernel.as_deref())?;
        let record = KernelRecord::load_trusted(&database)?;
        let known = |id: Option<&String>| -> Result<String, RecordingError> {
            Ok(record.instance(&database, id.map(String::as_str))?.0.to_owned())
        };
        let ids = match &options.record_id[..] {
            _ if options.all_instances => record.instances.keys().cloned().collect(),
            [] => vec![known(None)?],
            ids => ids.iter().map(|id| known(Some(id))).collect::<Result<_, _>>()?,
        };
        Ok(Self { database, record, ids })
    }

    fn commands(&self, options: &EvaluateOptions, results: &Path) -> Result<Vec<ServerCommand>, EvaluateError> {
        let program = install::locate(install::REPLAYER).ok_or(EvaluateError::Incomplete)?;
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        add("--device", options.device.clone());
        // CUPTI, the default for short kernels, cannot time kernels while it counts.
        add("--timer", (!options.counters.is_empty()).then(|| EVENTS.to_owned()));
        add("--rtol", options.rtol.map(|bound| bound.to_string()));
        add("--atol", options.atol.map(|bound| bound.to_string()));
        options.tolerance.iter().for_each(|tolerance| add("--tolerance", Some(tolerance.clone())));
        let of = |id: &String| ServerCommand {
            program: program.clone(),
            database: self.database.clone(),
            instance: id.clone(),
            options: arguments.clone(),
            accepts_unproven: false,
            log: results.join("replay.log"),
        };
        Ok(self.ids.iter().map(of).collect())
    }
}

fn evaluate(options: &EvaluateOptions) -> Result<i32, EvaluateError> {
    let unheard = |error| EvaluateError::Usage(format!("signal handlers cannot be installed: {error}"));
    interrupt::listen().map_err(unheard)?;
    let begin = Instant::now();
    let limit = options.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let end = limit.and_then(|limit| begin.checked_add(limit));
    let subject = Subject::choose(options)?;
    let mut input = Input::open(options)?;
    let folder = options.results_dir.clone().unwrap_or_else(|| default_folder("mneme-evaluations"));
    let mut verdicts = Verdicts::open(&folder, options.resume, &subject.database, &subject.record, &subject.ids)?;
    let workshop = Workshop::open(options, &subject.database, &subject.record, &folder)?;
    let conditions = [("Mneme's version", env!("CARGO_PKG_VERSION").to_owned()), ("the compiler", workshop.compiler())];
    let conditions = conditions.into_iter().chain(options.judging());
    verdicts.depend_on(conditions.map(|(what, value)| (what.to_owned(), value)).collect())?;
    let mut evaluation = Evaluation { options, subject, verdicts, workshop, judge: None, end, counts: BTreeMap::new() };
    // Compilers run at the same time.
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut is_clean, mut left) = (true, options.max_candidates.unwrap_or(u64::MAX));
    while left > 0 && !evaluation.is_over() {
        let lines = input.next(most.min(usize::try_from(left).unwrap_or(most)), end)?;
        if lines.is_empty() {
            break;
        }
        let before = evaluation.verdicts.count();
        is_clean &= evaluation.take(lines)?;
        left -= evaluation.verdicts.count() - before;
    }
    if evaluation.is_over() {
        mneme_system::remark!("mneme-tune: the time is up; --resume judges the candidates that have no verdict");
    }
    let counts: Vec<String> = evaluation.counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
    if !counts.is_empty() {
        mneme_system::remark!("mneme-tune: {}; verdicts are in {}", counts.join(", "), folder.display());
    }
    Ok(if is_clean { 0 } else { exit::BAD_USAGE })
}

struct Evaluation<'a> {
    options: &'a EvaluateOptions,
    subject: Subject,
    verdicts: Verdicts,
    workshop: Workshop,
    /// Started for the first candidate.
    judge: Option<Judge>,
    end: Option<Instant>,
    counts: BTreeMap<String, usize>,
}

impl Evaluation<'_> {
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Answers lines of input. Returns whether all of them are candidates with ids of their own.
    fn take(&mut self, lines: Vec<Result<Request, Malformed>>) -> Result<bool, EvaluateError> {
        let (mut new, mut ids, mut later) = (Vec::new(), HashSet::new(), Vec::new());
        let mut is_clean = true;
        for line in lines {
            match line {
                Err(Malformed { id, reason }) => {
                    is_clean = false;
                    print(&judge::unread(id.as_ref(), &reason))?;
                }
                Ok(request) if !ids.insert(request.id.to_string()) => later.push(Ok(request)),
                Ok(request) => {
                    let digest = self.workshop.digest(&request);
                    match self.verdicts.of(&request.id) {
                        None => new.push((request, digest)),
                        Some(known) if known.candidate == digest => print(known)?,
                        Some(_) => {
                            is_clean = false;
                            print(&taken(&request.id))?;
                        }
                    }
                }
            }
        }
        if !new.is_empty() {
            self.judge(new)?;
        }
        // A second candidate with an id of this batch: by now, the first one has its verdict.
        if !later.is_empty() && !self.is_over() {
            is_clean &= self.take(later)?;
        }
        Ok(is_clean)
    }

    fn judge(&mut self, new: Vec<(Request, String)>) -> Result<(), EvaluateError> {
        let Self { options, subject, verdicts, workshop, judge, end, counts } = self;
        let judge = match judge {
            Some(judge) => judge,
            None => {
                let commands = subject.commands(options, verdicts.folder())?;
                let started = Judge::start(options, &subject.record, &subject.ids, commands, verdicts.folder())?;
                verdicts.depend_on([("the device".to_owned(), started.place())].into())?;
                judge.insert(started)
            }
        };
        workshop.limit(judge.compile_limit());
        let workshop = &*workshop;
        let prepare = |(request, digest): (Request, String)| -> Result<Prepared, EvaluateError> {
            let begin = Instant::now();
            let code = workshop.code(&request, &digest)?;
            Ok(Prepared { request, digest, begin, code })
        };
        let prepared: Result<Vec<Prepared>, EvaluateError> = std::thread::scope(|scope| {
            let compilers: Vec<_> = new.into_iter().map(|it| scope.spawn(move || prepare(it))).collect();
            compilers.into_iter().map(|compiler| compiler.join().expect("a compiler's thread ends")).collect()
        });
        interrupt::check()?;
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        judge.judge(prepared?, is_over, |judgement| {
            verdicts.add(&judgement)?;
            *counts.entry(format!("{:?}", judgement.verdict).to_lowercase()).or_default() += 1;
            print(&judgement)
        })
    }
}

fn taken(id: &CandidateId) -> Judgement {
    judge::unread(
        Some(id),
        &format!("Invalid: the id {id} has a verdict for another candidate; give this one another id."),
    )
}

fn print(judgement: &Judgement) -> Result<(), EvaluateError> {
    let line = serde_json::to_string(judgement).expect("plain data serialises");
    console::write(&format!("{line}\n")).map_err(|error| SessionError::Output(error).into())
}

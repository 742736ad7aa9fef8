//! The supervisor: starts decoder, builders and executor, and turns whatever becomes of them into results.
//!
//! It has one thread, so that forking is safe, and neither runs LLVM nor opens a device, so that nothing a child does can damage it.
//! The parts run at once: while the device starts, the snapshot is decoded and the first configurations are compiled.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_compiler::Target;
use mneme_core::configuration::Configuration;
use mneme_core::device::Description;
use mneme_core::exit;
use mneme_core::result::{ReplayResult, Status};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::builder::nursery::{self, Nursery};
use crate::builder::{self, Extras, NotBuilt, Outcome};
use crate::decoder::Decoder;
use crate::executor::Plan;
use crate::executor::handle::{Executor, News};
use crate::executor::message::{Done, Report, Run, Unfit};
use crate::snapshot::Snapshot;
use crate::subject::Subject;
use crate::target::Choice;
use crate::tolerances::Bounds;

/// Executors that may die in a row without having run anything.
const START_ATTEMPTS: u32 = 3;
/// Code objects that are kept for configurations that differ in their launch only.
const CACHE_ENTRIES: usize = 256;

/// What stays the same for all configurations.
pub struct Scene {
    pub subject: Subject,
    pub modules: Vec<Vec<u8>>,
    pub snapshot: Snapshot,
    /// What replayed memory may differ by.
    pub bounds: Bounds,
    /// Runs are a survey of how they differ from each other.
    pub survey: bool,
    /// Folder for memory that differs.
    pub dump: Option<PathBuf>,
    pub parameters: Vec<u8>,
    pub choice: Choice,
    pub library: PathBuf,
    /// For a build, and for all runs of a configuration.
    pub limit: Duration,
    /// Builders at a time.
    pub builders: usize,
    pub extras: Extras,
}

/// A configuration to replay.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: u64,
    pub configuration: Configuration,
    pub iterations: u32,
    pub warmup: u32,
}

/// What the supervisor has to tell.
pub enum Event {
    /// The device works and the recording is resident.
    Ready(Description),
    Finished {
        id: u64,
        result: Box<ReplayResult>,
        outcome: Option<Rc<Outcome>>,
    },
    /// The client's requests can be read.
    Input,
    /// Nobody reads the results any more.
    Unheard,
}

/// Descriptors of a client that are watched besides.
#[derive(Clone, Copy, Default)]
pub struct Client<'a> {
    /// Where its requests come from.
    pub input: Option<BorrowedFd<'a>>,
    /// Where its results go; what becomes of it shows here even while there is nothing to write.
    pub output: Option<BorrowedFd<'a>>,
}

/// Why the supervisor cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Fatal {
    pub status: i32,
    pub error: String,
    /// Another process, with another address space, may succeed.
    pub clash: bool,
}

impl Fatal {
    pub fn new(status: i32, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), clash: false }
    }
}

impl From<std::io::Error> for Fatal {
    fn from(error: std::io::Error) -> Self {
        Self::new(exit::INTERNAL, format!("a process or a pipe of ours failed: {error}"))
    }
}

struct Pending {
    job: Job,
    key: String,
    start: jiff::Timestamp,
}

pub struct Supervisor<'a> {
    scene: &'a Scene,
    birth: Instant,
    /// `None` until the device has told its architecture, where the recording does not.
    target: Option<Target>,
    decoder: Option<Decoder>,
    executor: Option<Executor>,
    description: Option<Description>,
    failed_starts: u32,
    waiting: VecDeque<Pending>,
    nursery: Option<Nursery>,
    /// Builds at work: their numbers and keys.
    builds: Vec<(u64, String)>,
    outcomes: HashMap<String, Rc<Outcome>>,
    /// Keys of `outcomes`, oldest first.
    ages: VecDeque<String>,
    running: Option<(Pending, Rc<Outcome>)>,
    events: VecDeque<Event>,
}

impl<'a> Supervisor<'a> {
    pub fn start(scene: &'a Scene) -> Result<Self, Fatal> {
        let mut supervisor = Self {
            scene,
            birth: Instant::now(),
            target: scene.choice.expected_target(&scene.subject.kernel.ours),
            decoder: None,
            executor: None,
            description: None,
            failed_starts: 0,
            waiting: VecDeque::new(),
            nursery: None,
            builds: Vec::new(),
            outcomes: HashMap::new(),
            ages: VecDeque::new(),
            running: None,
            events: VecDeque::new(),
        };
        supervisor.start_executor()?;
        let plan = nursery::Plan { subject: &scene.subject, modules: &scene.modules, extras: &scene.extras, limit: scene.limit };
        supervisor.nursery = Some(Nursery::start(&plan)?);
        supervisor.decoder = Some(Decoder::start(&scene.subject, &scene.snapshot)?);
        Ok(supervisor)
    }

    /// Takes a configuration; its result comes as an event.
    pub fn submit(&mut self, job: Job) {
        let start = jiff::Timestamp::now();
        if let Err(error) = job.configuration.check() {
            let pending = Pending { key: String::new(), start, job };
            self.finish(pending, None, &Done { status: Status::InvalidConfig, error, ..Done::default() });
            return;
        }
        let key = builder::key(&job.configuration);
        self.waiting.push_back(Pending { job, key, start });
    }

    /// Configurations without a result yet.
    pub fn outstanding(&self) -> usize {
        self.waiting.len() + usize::from(self.running.is_some())
    }

    /// Waits for something to happen and returns one event.
    pub fn next(&mut self, client: Client<'_>) -> Result<Event, Fatal> {
        loop {
            self.start_work()?;
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            if let Some(event) = self.wait(client)? {
                return Ok(event);
            }
        }
    }

    /// Ends all work without waiting for the device to let go, for a process that is about to end.
    pub fn leave(mut self) {
        if let Some(executor) = self.executor.take() {
            executor.abandon();
        }
        if let Some(nursery) = self.nursery.take() {
            nursery.abandon();
        }
    }

    /// An event that is known already.
    pub fn pending_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Starts whatever can be started.
    fn start_work(&mut self) -> Result<(), Fatal> {
        if self.executor.is_none() {
            self.start_executor()?;
        }
        self.start_builders()?;
        self.start_run()
    }

    fn start_executor(&mut self) -> Result<(), Fatal> {
        let scene = self.scene;
        let plan = Plan {
            library: scene.library.clone(),
            ordinal: scene.choice.ordinal(),
            absolute_constants: scene.choice.is_cpu(),
            snapshot: &scene.snapshot,
            bounds: &scene.bounds,
            parameters: &scene.parameters,
        };
        let mut executor = Executor::start(&plan)?;
        // Before the first decoder was started there is nothing to load; afterwards only while it is at work.
        if self.description.is_some() && self.decoder.is_none() {
            // A failure shows when the executor is heard next.
            let _ = executor.load();
        }
        self.executor = Some(executor);
        Ok(())
    }

    fn start_builders(&mut self) -> Result<(), Fatal> {
        let Some(target) = &self.target else { return Ok(()) };
        let Some(nursery) = &mut self.nursery else { return Ok(()) };
        // On the CPU device kernels and compilers would share the cores, and times would tell of both.
        if self.scene.choice.is_cpu() && self.running.is_some() {
            return Ok(());
        }
        // Builders keep ahead of the executor, but not so far that finished code objects are forgotten before they run.
        let horizon = (2 * self.scene.builders).max(2);
        for pending in self.waiting.iter().take(horizon) {
            if self.builds.len() >= self.scene.builders {
                break;
            }
            let known = self.outcomes.contains_key(&pending.key) || self.builds.iter().any(|(_, key)| *key == pending.key);
            if !known {
                let number = nursery.build(&pending.job.configuration, target)?;
                self.builds.push((number, pending.key.clone()));
            }
        }
        Ok(())
    }

    /// Gives the executor the first configuration that is built; those that could not be built are results already.
    fn start_run(&mut self) -> Result<(), Fatal> {
        while self.running.is_none() && (self.builds.is_empty() || !self.scene.choice.is_cpu()) {
            let Some(position) = self.waiting.iter().position(|pending| self.outcomes.contains_key(&pending.key)) else { break };
            let outcome = self.outcomes[&self.waiting[position].key].clone();
            match &*outcome {
                Err(NotBuilt { status, error }) => {
                    let pending = self.waiting.remove(position).expect("a position in the queue");
                    let done = Done { status: *status, error: error.clone(), ..Done::default() };
                    self.finish(pending, Some(outcome.clone()), &done);
                }
                Ok((built, image)) => {
                    let Some(executor) = self.executor.as_mut().filter(|executor| executor.ready) else { break };
                    let pending = self.waiting.remove(position).expect("a position in the queue");
                    let configuration = &pending.job.configuration;
                    let run = Run {
                        entry: built.entry.clone(),
                        grid: configuration.grid,
                        block: configuration.block,
                        shared_mem: if built.shared_is_static { 0 } else { configuration.shared_mem },
                        attributes: self.scene.subject.attributes(),
                        iterations: pending.job.iterations,
                        warmup: pending.job.warmup,
                        cache: configuration.cache,
                        survey: self.scene.survey,
                        dump: self.scene.dump.clone(),
                        ..Run::default()
                    };
                    if executor.run(run, image, self.scene.limit).is_err() {
                        // It ended while it was idle, which says nothing about this configuration. Its end is heard next.
                        executor.ready = false;
                        self.waiting.push_front(pending);
                        break;
                    }
                    self.running = Some((pending, outcome));
                }
            }
        }
        Ok(())
    }

    /// Waits for descriptors and deadlines, and deals with one round of them; what the client does is an event.
    fn wait(&mut self, client: Client<'_>) -> Result<Option<Event>, Fatal> {
        let [decoder, executor, nursery, input, output] = {
            let sources = [
                (self.decoder.as_ref().map(Decoder::fd), PollFlags::POLLIN),
                (self.executor.as_ref().map(Executor::fd), PollFlags::POLLIN),
                (self.nursery.as_ref().map(Nursery::fd), PollFlags::POLLIN),
                (client.input, PollFlags::POLLIN),
                // Errors are reported unasked, and a pipe without a reader is one.
                (client.output, PollFlags::empty()),
            ];
            let mut fds: Vec<PollFd<'_>> = sources.iter().filter_map(|(fd, events)| fd.map(|fd| PollFd::new(fd, *events))).collect();
            match poll(&mut fds, self.patience()) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
            let mut polled = fds.iter();
            sources.map(|(source, _)| source.and_then(|_| polled.next()).is_some_and(|fd| fd.any().unwrap_or(false)))
        };
        if decoder {
            self.hear_decoder()?;
        }
        if executor {
            self.hear_executor()?;
        }
        if nursery {
            self.hear_nursery()?;
        }
        self.enforce_limits()?;
        Ok(if output { Some(Event::Unheard) } else { input.then_some(Event::Input) })
    }

    /// Time until the next deadline.
    fn patience(&self) -> PollTimeout {
        let Some(next) = self.executor.as_ref().and_then(Executor::deadline) else { return PollTimeout::NONE };
        let left = next.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    fn enforce_limits(&mut self) -> Result<(), Fatal> {
        if self.executor.as_ref().and_then(Executor::deadline).is_some_and(|deadline| deadline <= Instant::now()) {
            // Dropping it kills it.
            self.executor = None;
            let seconds = self.scene.limit.as_secs_f64();
            match self.running.take() {
                Some((pending, outcome)) => {
                    let error = format!("the kernel's runs took longer than {seconds} s and were stopped; --timeout raises the limit");
                    self.finish(pending, Some(outcome), &Done { status: Status::Timeout, error, ..Done::default() });
                }
                None => return Err(Fatal::new(exit::NO_DEVICE, "the device does not start: its driver has not answered for minutes")),
            }
        }
        Ok(())
    }

    fn hear_decoder(&mut self) -> Result<(), Fatal> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        match decoder.progress() {
            None => Ok(()),
            Some(Ok(())) => {
                self.note("the snapshot is decoded");
                self.decoder = None;
                // An executor that is gone already says why when it is heard next.
                let _ = self.executor.as_mut().map_or(Ok(()), Executor::load);
                Ok(())
            }
            Some(Err(error)) => Err(Fatal::new(exit::BAD_RECORDING, error)),
        }
    }

    fn hear_nursery(&mut self) -> Result<(), Fatal> {
        let Some(nursery) = &mut self.nursery else { return Ok(()) };
        for (number, outcome) in nursery.progress()? {
            if let Some(at) = self.builds.iter().position(|(known, _)| *known == number) {
                let (_, key) = self.builds.swap_remove(at);
                self.note("a build is done");
                self.keep(key, outcome);
            }
        }
        Ok(())
    }

    fn hear_executor(&mut self) -> Result<(), Fatal> {
        let Some(executor) = &mut self.executor else { return Ok(()) };
        match executor.progress() {
            News::Gone(end) => {
                self.executor = None;
                let how = end.map_or_else(|| "does not answer".into(), |end| end.to_string());
                if let Some((pending, outcome)) = self.running.take() {
                    let error = format!("the kernel took its process with it, which {how}");
                    self.finish(pending, Some(outcome), &Done { status: Status::RuntimeError, executed: true, error, ..Done::default() });
                } else {
                    self.failed_starts += 1;
                    if self.failed_starts >= START_ATTEMPTS {
                        return Err(Fatal::new(exit::NO_DEVICE, format!("the device cannot be used: the process that opens it {how}")));
                    }
                }
            }
            News::Reports(reports) => reports.into_iter().try_for_each(|report| self.take_report(report))?,
        }
        Ok(())
    }

    fn take_report(&mut self, report: Report) -> Result<(), Fatal> {
        match report {
            Report::Device(description) => {
                self.note("the device is open");
                self.meet(&description);
            }
            Report::Ready => {
                self.note("the snapshot is resident");
                self.failed_starts = 0;
                if self.description.is_none()
                    && let Some(description) = self.executor.as_ref().and_then(|executor| executor.description.clone())
                {
                    self.description = Some(description.clone());
                    self.events.push_back(Event::Ready(description));
                }
            }
            Report::Done(done) => {
                self.note("a run is done");
                if done.broken {
                    self.executor = None;
                }
                if let Some((pending, outcome)) = self.running.take() {
                    self.finish(pending, Some(outcome), &done);
                }
            }
            Report::Unfit(Unfit::Clash(error)) => {
                // Once a client has been greeted, another process could not go on where this one stopped.
                return Err(Fatal {
                    clash: self.description.is_none(),
                    ..Fatal::new(exit::NO_DEVICE, format!("the recording cannot be placed: {error}"))
                });
            }
            Report::Unfit(Unfit::Device(error)) => {
                return Err(Fatal::new(exit::NO_DEVICE, self.scene.choice.explain(&error, &self.scene.subject)));
            }
        }
        Ok(())
    }

    /// The device says who it is: builds for another architecture start again.
    fn meet(&mut self, description: &Description) {
        let target = self.scene.choice.target(description, &self.scene.subject.kernel.ours);
        if self.target.as_ref() != Some(&target) {
            self.target = Some(target);
            // Builds at work are for nothing: their answers will not be known any more.
            self.builds.clear();
            self.outcomes.clear();
            self.ages.clear();
        }
        // Once loading is possible it is ordered; the snapshot may have been decoded before.
        if self.decoder.is_none()
            && let Some(executor) = &mut self.executor
        {
            // A failure shows when the executor is heard next.
            let _ = executor.load();
        }
    }

    fn note(&self, what: &str) {
        tracing::debug!("{what} after {:.1} ms", self.birth.elapsed().as_secs_f64() * 1e3);
    }

    fn keep(&mut self, key: String, outcome: Outcome) {
        if self.ages.len() >= CACHE_ENTRIES
            && let Some(oldest) = self.ages.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
        self.ages.push_back(key.clone());
        self.outcomes.insert(key, Rc::new(outcome));
    }

    fn finish(&mut self, pending: Pending, outcome: Option<Rc<Outcome>>, done: &Done) {
        let description = self.description.clone().or_else(|| self.executor.as_ref().and_then(|it| it.description.clone()));
        let job = &pending.job;
        let result = crate::output::result(&pending.start, job, outcome.as_deref(), done, description.as_ref());
        self.events.push_back(Event::Finished { id: job.id, result: Box::new(result), outcome });
    }
}

//! Replays in one process, for profilers and debuggers.
//!
//! One process of each required `mneme-build-NN` makes the code.
//!
//! Failures are not isolated: a crash of the compiler or the driver ends the session, a kernel that faults makes the
//! context unusable, and time limits do not apply.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_builds::builder::Preparation;
use mneme_builds::{BuildOutcome, NotBuilt, Target};
use mneme_model::device::Description;
use mneme_model::protocol::Statistics;
use mneme_model::result::ReplayStatus;
use mneme_recording::store::Store;
use mneme_sandbox::readiness::Waiting;
use mneme_system::exit;
use nix::poll::PollFlags;

use crate::build::fork_server::ForkServer;
use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::execute::message::{RunOutcome, StartError};
use crate::execute::{ExecutorPlan, InProcessExecutor};
use crate::job::Job;
use crate::process::stdout;
use crate::supervise::queue::{PendingJob, Queue};
use crate::supervise::supervisor::{Judges, more_runs};
use crate::supervise::{Client, SupervisorEvent};

/// How often to check on a builder that is ending.
const LOOK: Duration = Duration::from_millis(10);

pub struct SingleProcess<'a> {
    context: &'a ReplayContext,
    birth: Instant,
    resident: InProcessExecutor<'a>,
    /// The builders, each a separate process, by the version of LLVM.
    servers: BTreeMap<u32, ForkServer<'a>>,
    target: Target,
    queue: Queue,
    events: VecDeque<SupervisorEvent>,
    statistics: Statistics,
    /// The context is lost.
    broken: bool,
}

impl<'a> SingleProcess<'a> {
    pub fn start(context: &'a ReplayContext) -> Result<Self, Fatal> {
        let birth = Instant::now();
        stdout::keep_apart()?;
        let decoded = Store::open(&context.recorded.folder).and_then(|store| context.snapshot.decode(&store));
        decoded.map_err(|error| Fatal::new(exit::BAD_RECORDING, error))?;
        let choice = context.devices[0];
        let plan = ExecutorPlan {
            interface: choice.interface(),
            library: context.library.clone(),
            ordinal: choice.ordinal(),
            timing: context.timing.clone(),
            is_cpu: choice.is_cpu(),
            processor: context.recorded.kernel.ours.processor(),
            snapshot: &context.snapshot,
            bounds: &context.bounds,
            not_searched: &context.not_searched,
            arguments: &context.arguments,
            dump: context.dump.as_deref(),
            quiet: context.quiet,
        };
        let resident = InProcessExecutor::open(plan).map_err(|unfit| match unfit {
            StartError::Clash(error) => Fatal {
                clash: true,
                ..Fatal::new(exit::NO_DEVICE, format!("cannot place the recording in memory: {error}"))
            },
            StartError::Device(error) => Fatal::new(exit::NO_DEVICE, choice.explain(&error, &context.recorded)),
        })?;
        let target = choice.target(resident.description(), &context.recorded.kernel.ours);
        let events = VecDeque::from([SupervisorEvent::Ready(resident.description().clone())]);
        Ok(Self {
            context,
            birth,
            resident,
            servers: BTreeMap::new(),
            target,
            queue: Queue::default(),
            events,
            statistics: Statistics::default(),
            broken: false,
        })
    }

    fn version(&mut self, llvm: u32) -> Result<&'a str, Fatal> {
        Ok(self.server(llvm)?.llvm()?)
    }

    fn server(&mut self, llvm: u32) -> Result<&mut ForkServer<'a>, Fatal> {
        Ok(match self.servers.entry(llvm) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(ForkServer::start(&self.context.build_plan(llvm)?, Preparation::Full)?),
        })
    }

    pub fn device(&self) -> &Description {
        self.resident.description()
    }

    pub fn submit(&mut self, job: Job) {
        self.statistics.submitted += 1;
        let (job, llvm) = job.with_llvm(self.context);
        // An invalid job is reported when its turn comes.
        self.queue.push(job, llvm, jiff::Timestamp::now());
    }

    pub fn is_outstanding(&self, id: u64) -> bool {
        self.queue.contains(id)
    }

    pub fn outstanding(&self) -> usize {
        self.queue.len()
    }

    pub fn cancel(&mut self, id: u64) -> bool {
        let known = self.queue.take(id).is_some();
        if known {
            self.cancelled(id);
        }
        known
    }

    pub fn cancel_all(&mut self) {
        let ids: Vec<u64> = self.queue.drain().map(|pending| pending.job.schedule.id).collect();
        ids.into_iter().for_each(|id| self.cancelled(id));
    }

    fn cancelled(&mut self, id: u64) {
        self.statistics.cancelled += 1;
        self.events.push_back(SupervisorEvent::Cancelled(id));
    }

    pub fn statistics(&self) -> Statistics {
        let seconds = self.birth.elapsed().as_secs_f64();
        let finished: u64 = self.statistics.finished.values().sum();
        let outstanding = self.queue.len() as u64;
        Statistics { outstanding, uptime_s: seconds, rate: finished as f64 / seconds, ..self.statistics.clone() }
    }

    pub fn pending_event(&mut self) -> Option<SupervisorEvent> {
        self.events.pop_front()
    }

    /// Replays the next configuration, or waits for the client if the queue is empty.
    pub fn next(&mut self, client: Client<'_>) -> Result<SupervisorEvent, Fatal> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let idle = self.queue.is_empty();
            if let Some(event) = watch(client, idle)? {
                return Ok(event);
            }
            let next = self.queue.iter().next().map(|pending| pending.job.schedule.id);
            if let Some(pending) = next.and_then(|id| self.queue.take(id)) {
                self.replay(pending)?;
            }
        }
    }

    fn replay(&mut self, mut pending: PendingJob) -> Result<(), Fatal> {
        if self.broken {
            let error = "the previous configuration broke the device's context; to continue after that, use another --isolation";
            return Err(Fatal::new(exit::LAUNCH_FAILED, error));
        }
        let job = &pending.job;
        let llvm = pending.llvm;
        let outcome = match job.check(self.context) {
            Ok(()) => self.build(job, llvm)?,
            Err(error) => Err(error),
        };
        let version = if self.context.is_compiled(&job.build, &outcome) { self.version(llvm)? } else { "" };
        self.statistics.built += 1;
        let mut done = self.run(job, &outcome)?;
        while let Some(more) = more_runs(self.context, &pending.job, &done) {
            pending.job.run = more;
            done = self.run(&pending.job, &outcome)?;
        }
        let job = &pending.job;
        self.broken = done.broken;
        let mut result = crate::report::result::result(
            &pending.start,
            job,
            Some(&outcome),
            &done,
            Some(self.resident.description()),
            &self.context.snapshot.layout.regions,
            version,
        );
        if let Some(version) = self.context.ir_version_of(&job.build) {
            result.environment.versions.insert("ir".into(), version);
        }
        *self.statistics.finished.entry(result.status.name().into()).or_default() += 1;
        self.events.push_back(SupervisorEvent::Finished {
            id: job.schedule.id,
            result: Box::new(result),
            outcome: Some(Rc::new(outcome)),
            digest: done.digest,
            unwritten: done.unwritten,
            calibrated: done.calibrated,
            took: done.took,
        });
        Ok(())
    }

    fn run(&mut self, job: &Job, outcome: &BuildOutcome) -> Result<RunOutcome, Fatal> {
        let (built, image) = match outcome {
            Ok(built) => built,
            Err(NotBuilt { status, error, .. }) => {
                return Ok(RunOutcome { status: *status, error: error.clone(), ..RunOutcome::default() });
            }
        };
        let mut run = job.run(built, self.context);
        let judges = Judges::of(self.context, job, |spec| {
            let job = Job { build: spec.clone(), ..job.clone() };
            self.build(&job, self.context.llvm).map(Rc::new)
        })?;
        let others = judges.add_to(&mut run, image);
        Ok(self.resident.run(&run, &[&image[..], &others].concat()))
    }

    /// Waits for the outcome of a build, which has no time limit here.
    fn build(&mut self, job: &Job, llvm: u32) -> Result<BuildOutcome, Fatal> {
        let target = self.target.clone();
        let builder = self.server(llvm)?;
        let number = builder.build(&job.build, &target, Duration::MAX)?;
        loop {
            let mut waiting = Waiting::default();
            waiting.on(builder.fd(), builder.interest());
            waiting.until(builder.is_closed().then(|| Instant::now() + LOOK));
            waiting.wait()?;
            let answers = builder.progress().map_err(|error| {
                let error = format!("the compiler has ended: {error}; to continue after that, use another --isolation");
                Fatal::new(exit::INTERNAL, error)
            })?;
            if let Some(answer) = answers.into_iter().find(|answer| answer.number == number) {
                let nothing = || Err(NotBuilt::new(ReplayStatus::InternalError, "a build has no outcome"));
                return Ok(answer.outcome.unwrap_or_else(nothing));
            }
        }
    }
}

/// Checks for the client's input, or waits for it.
fn watch(client: Client<'_>, wait: bool) -> Result<Option<SupervisorEvent>, Fatal> {
    let mut waiting = Waiting::default();
    let input = waiting.on(client.input, PollFlags::POLLIN);
    let output = waiting.on(client.output, PollFlags::empty());
    waiting.until(client.alarm.into_iter().chain((!wait).then(Instant::now)));
    let ready = waiting.wait()?;
    let [input, output] = [input, output].map(|source| ready.is(source));
    let alarm = client.alarm.is_some_and(|alarm| alarm <= Instant::now());
    Ok(match () {
        () if output => Some(SupervisorEvent::ReaderGone),
        () if input => Some(SupervisorEvent::Input),
        () if alarm => Some(SupervisorEvent::Tick),
        () => None,
    })
}

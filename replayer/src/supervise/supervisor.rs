//! The supervisor: starts decoder, builders and executors, and turns their outcomes into results.
//!
//! It has one thread, which makes forking safe. It neither runs LLVM nor opens a device, so a child cannot damage it.
//! The parts work at the same time: while the device starts, the snapshot is decoded and the first configurations are
//! compiled.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use mneme_builds::{BuildOutcome, BuildSpec, NotBuilt};
use mneme_model::device::Description;
use mneme_model::protocol::Statistics;
use mneme_model::result::{ReplayStatus, SharedWith};
use mneme_sandbox::readiness::{Waiting, WatchedSource};
use mneme_system::exit;
use nix::poll::PollFlags;

use super::alone::AloneRuns;
use super::architecture::TargetArchitecture;
use super::builds::Builds;
use super::identity::Identity;
use super::pool::{ExecutorPool, PoolEvent, RunningJob};
use super::queue::{PendingJob, Queue};
use super::shared::{Follower, SettledRun, Shared};
use super::{Client, SupervisorEvent};
use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::execute::kept::Habits;
use crate::execute::message::{Oracle, RunOutcome, RunRequest, RunSpec};
use crate::job::Job;
use crate::recording::decoder::Decoder;

/// A possible cause of a failure, if the recorded code has such calls.
const CALLS_POINTERS: &str = "; the recorded code calls through pointers, and only functions whose addresses initialise a variable of its module are \
                              known by these: if memory holds the address of another function, initialise a __device__ variable with that function";

/// The builds that judge a job on fresh inputs: one that computes the right results, and pipelines that round
/// otherwise.
#[derive(Default)]
pub struct Judges(Vec<(BuildSpec, Rc<BuildOutcome>)>);

impl Judges {
    /// Finds the builds that a job needs. Of the oracles one is enough. `outcome` returns the outcome of a build.
    ///
    /// # Errors
    /// The error of `outcome`.
    pub fn of<E>(
        context: &ReplayContext,
        job: &Job,
        mut outcome: impl FnMut(&BuildSpec) -> Result<Rc<BuildOutcome>, E>,
    ) -> Result<Self, E> {
        let mut found = Vec::new();
        if job.run.fresh_inputs.is_empty() {
            return Ok(Self(found));
        }
        for spec in context.oracles() {
            let made = outcome(&spec)?;
            if made.is_ok() {
                found.push((spec, made));
                break;
            }
        }
        if job.run.pipelines && !found.is_empty() {
            for spec in context.pipelines() {
                let made = outcome(&spec)?;
                found.push((spec, made));
            }
        }
        Ok(Self(found))
    }

    /// Adds them to a request to run a code object. Returns their code, which follows the code object in the blob.
    pub fn add_to(&self, run: &mut RunRequest, image: &[u8]) -> Vec<u8> {
        let mut codes = Vec::new();
        for (spec, outcome) in &self.0 {
            let Ok((built, code)) = &**outcome else { continue };
            let configuration = &spec.configuration;
            let shared_mem = if built.shared_is_static { 0 } else { configuration.shared_mem };
            let start = image.len() + codes.len();
            let other = Oracle {
                bytes: start..start + code.len(),
                entry: built.entry.clone(),
                grid: configuration.grid,
                block: configuration.block,
                shared_mem,
                is_own: configuration.original,
                is_same: code == image
                    && (run.grid, run.block, run.shared_mem) == (configuration.grid, configuration.block, shared_mem),
            };
            codes.extend_from_slice(code);
            match run.oracle {
                None => run.oracle = Some(other),
                Some(_) => run.pipelines.push(other),
            }
        }
        codes
    }
}

/// The runs that a job needs after these: on fresh inputs, or judged by pipelines, too.
pub fn more_runs(context: &ReplayContext, job: &Job, done: &RunOutcome) -> Option<RunSpec> {
    let run = &job.run;
    if done.wants_pipelines && !done.broken && !run.pipelines {
        return Some(RunSpec { pipelines: true, ..run.for_evidence() });
    }
    let is_unproven = done.status == ReplayStatus::Unproven && !context.fresh_inputs.is_empty();
    (is_unproven && job.may_have_fresh_inputs())
        .then(|| RunSpec { fresh_inputs: context.fresh_inputs.clone(), ..run.for_evidence() })
}

pub struct Supervisor<'a> {
    context: &'a ReplayContext,
    birth: Instant,
    first_submission: Option<Instant>,
    architecture: TargetArchitecture,
    decoder: Option<Decoder>,
    pool: ExecutorPool<'a>,
    builds: Builds<'a>,
    queue: Queue,
    shared: Shared,
    greeted: bool,
    /// The recorded input proves too little, so configurations also run on fresh ones.
    wants_fresh_inputs: bool,
    events: VecDeque<SupervisorEvent>,
    statistics: Statistics,
}

impl<'a> Supervisor<'a> {
    pub fn start(context: &'a ReplayContext) -> Result<Self, Fatal> {
        let pool = ExecutorPool::start(context)?;
        let builds = Builds::start(context, context.first_llvm);
        let decoder = Some(Decoder::start(&context.recorded, &context.snapshot)?);
        Ok(Self {
            context,
            birth: Instant::now(),
            first_submission: None,
            architecture: TargetArchitecture::expected(
                context.devices[0].expected_target(&context.recorded.kernel.ours),
            ),
            decoder,
            pool,
            builds,
            queue: Queue::default(),
            shared: Shared::default(),
            greeted: false,
            wants_fresh_inputs: false,
            events: VecDeque::new(),
            statistics: Statistics::default(),
        })
    }

    /// The first known device.
    pub fn device(&self) -> Option<&Description> {
        self.pool.description()
    }

    /// Takes a configuration. Its result comes as an event.
    pub fn submit(&mut self, mut job: Job) {
        if (self.wants_fresh_inputs || job.run.needs_fresh_input) && job.may_have_fresh_inputs() {
            job.run.fresh_inputs.clone_from(&self.context.fresh_inputs);
        }
        let start = jiff::Timestamp::now();
        self.first_submission.get_or_insert_with(Instant::now);
        self.statistics.submitted += 1;
        let (job, llvm) = job.with_llvm(self.context);
        let key = job.build.key();
        let checked = job.check(self.context);
        let id = job.schedule.id;
        // Configurations that wait for the present outcome get it.
        if self.builds.may_differ(key, job.schedule.fresh) && !self.queue.iter().any(|pending| pending.key == key) {
            self.builds.forget_one(key);
        }
        self.queue.push(job, llvm, start);
        if let Err(NotBuilt { status, error, .. }) = checked
            && let Some(pending) = self.queue.take(id)
        {
            self.finish(pending, None, &RunOutcome { status, error, ..RunOutcome::default() }, None, None);
        }
    }

    /// Whether a configuration with this id has no result yet.
    pub fn is_outstanding(&self, id: u64) -> bool {
        self.queue.contains(id) || self.pool.runs_id(id) || self.shared.follows(id)
    }

    /// Forgets a waiting configuration; a running one continues. Returns false if the id is unknown.
    pub fn cancel(&mut self, id: u64) -> bool {
        if self.queue.take(id).is_some() {
            self.cancelled(id);
            return true;
        }
        self.is_outstanding(id)
    }

    /// Forgets all configurations, including running ones.
    pub fn cancel_all(&mut self) {
        let waiting = self.queue.drain().chain(self.shared.drain().map(|follower| follower.pending));
        let running = self.pool.drain().into_iter().map(|running| running.pending);
        let ids: Vec<u64> = waiting.chain(running).map(|pending| pending.job.schedule.id).collect();
        ids.into_iter().for_each(|id| self.cancelled(id));
    }

    fn cancelled(&mut self, id: u64) {
        self.statistics.cancelled += 1;
        self.events.push_back(SupervisorEvent::Cancelled(id));
    }

    /// How many configurations have no result yet.
    pub fn outstanding(&self) -> usize {
        self.queue.len() + self.pool.running() + self.shared.waiting()
    }

    pub fn statistics(&self) -> Statistics {
        let finished: u64 = self.statistics.finished.values().sum();
        let seconds = self.first_submission.map_or(0.0, |start| start.elapsed().as_secs_f64());
        Statistics {
            outstanding: self.outstanding() as u64,
            running: self.pool.running() as u64,
            building: self.builds.at_work() as u64,
            built: self.builds.built,
            assembled: self.builds.assembled,
            executors_replaced: self.pool.replaced,
            uptime_s: self.birth.elapsed().as_secs_f64(),
            rate: if seconds > 0.0 { finished as f64 / seconds } else { 0.0 },
            ..self.statistics.clone()
        }
    }

    /// Waits for the next event.
    pub fn next(&mut self, client: Client<'_>) -> Result<SupervisorEvent, Fatal> {
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

    /// Ends all work without waiting for the device, for a process that is about to end.
    pub fn leave(mut self) {
        self.pool.abandon();
        self.builds.abandon();
    }

    /// The next event that is known already.
    pub fn pending_event(&mut self) -> Option<SupervisorEvent> {
        self.events.pop_front()
    }

    /// Starts all possible work.
    fn start_work(&mut self) -> Result<(), Fatal> {
        self.pool.fill()?;
        self.start_builders();
        self.start_runs();
        // A run may have made room; on the CPU device it ends the time for builds.
        self.start_builders();
        Ok(())
    }

    /// How many entries of the queue are considered: builders keep ahead of the executors, but not so far that finished
    /// code is forgotten before it runs.
    fn horizon(&self) -> usize {
        4 * self.context.builders.max(8)
    }

    fn start_builders(&mut self) {
        let Some(target) = self.architecture.target() else { return };
        // On the CPU device kernels and compilers would share the cores, which would distort the times.
        if self.context.is_cpu() && self.pool.running() > 0 {
            return;
        }
        for pending in self.queue.iter().take(self.horizon()) {
            if !self.builds.has_room() {
                break;
            }
            let limit = pending.job.limit(self.context);
            if !self.builds.knows(pending.key) {
                self.builds.order(pending.llvm, &pending.job.build, pending.key, target, limit);
            }
            if let Err(wanted) = self.judges(&pending.job)
                && !self.builds.knows(wanted.key())
            {
                self.builds.order(self.context.llvm, &wanted, wanted.key(), target, limit);
            }
        }
    }

    /// The builds that judge a job on fresh inputs, or the next that has to be made.
    fn judges(&self, job: &Job) -> Result<Judges, Box<BuildSpec>> {
        Judges::of(self.context, job, |spec| self.builds.outcome(spec.key()).ok_or_else(|| Box::new(spec.clone())))
    }

    /// Passes built configurations to the executors. A failed build is a result already, and configurations that equal
    /// others share their result.
    fn start_runs(&mut self) {
        loop {
            let ready = |pending: &PendingJob| {
                let outcome = self.builds.outcome(pending.key)?;
                if outcome.is_ok() && self.judges(&pending.job).is_err() {
                    return None;
                }
                // Configurations behind one that waits for its device may run on another.
                let waits = outcome.is_ok()
                    && pending.job.schedule.device.is_some()
                    && self.pool.free_place(pending.job.schedule.device).is_none();
                (!waits).then_some((pending.job.schedule.id, outcome))
            };
            let Some((id, outcome)) = self.queue.iter().take(self.horizon()).find_map(ready) else { return };
            let Some(pending) = self.queue.take(id) else { return };
            let (built, image) = match &*outcome {
                Err(NotBuilt { status, error, .. }) => {
                    let done = RunOutcome { status: *status, error: error.clone(), ..RunOutcome::default() };
                    self.finish(pending, Some(outcome), &done, None, None);
                    continue;
                }
                Ok(_) if pending.job.build.probe.until.is_some() => {
                    let done = RunOutcome {
                        status: ReplayStatus::CompileError,
                        error: "the build was stopped before it made code".into(),
                        ..RunOutcome::default()
                    };
                    self.finish(pending, Some(outcome), &done, None, None);
                    continue;
                }
                Ok(built) => built,
            };
            let mut run = pending.job.run(built, self.context);
            let others = self.judges(&pending.job).unwrap_or_default().add_to(&mut run, image);
            // The heap outlasts runs; only code that may keep something on purpose is examined.
            run.own_process = run.spec.thorough && {
                let habits = Habits::of_both(&run, &[image, &others[..]].concat());
                habits.iter().any(|code| code.uses_heap)
            };
            let limit = pending.job.run_limit(self.context);
            let identity = Identity::of(&run, image, limit, pending.job.schedule.device);
            // Runs in processes of their own are part of one result.
            if !pending.job.schedule.fresh && pending.alone.is_none() {
                if let Some(settled) = self.shared.settled(&identity) {
                    self.share(Follower { pending, outcome }, &settled);
                    continue;
                }
                if self.pool.runs(&identity) {
                    self.shared.follow(identity, Follower { pending, outcome });
                    continue;
                }
            }
            let quiet = !self.context.is_cpu() || self.builds.at_work() == 0;
            let Some(place) = self.pool.free_place(pending.job.schedule.device).filter(|_| quiet) else {
                self.queue.put_back(pending);
                return;
            };
            if run.own_process && self.pool.renew(place) {
                self.queue.put_back(pending);
                return;
            }
            let running = RunningJob { pending, outcome, identity, own_process: run.own_process };
            if let Some(running) = self.pool.run(place, run, &others, limit, running) {
                self.queue.put_back(running.pending);
            }
        }
    }

    /// Waits for descriptors and deadlines, and handles one round of them. Input of the client is returned as an event.
    fn wait(&mut self, client: Client<'_>) -> Result<Option<SupervisorEvent>, Fatal> {
        let mut waiting = Waiting::default();
        let input = waiting.on(client.input, PollFlags::POLLIN);
        // A pipe without a reader reports an error.
        let output = waiting.on(client.output, PollFlags::empty());
        let decoder = waiting.on(self.decoder.as_ref().map(Decoder::fd), PollFlags::POLLIN);
        let fork_servers: Vec<WatchedSource> =
            self.builds.fork_servers().map(|server| waiting.on(server.fd(), server.interest())).collect();
        let executors: Vec<WatchedSource> = self.pool.fds().map(|fd| waiting.on(Some(fd), PollFlags::POLLIN)).collect();
        waiting.until(self.pool.deadline().into_iter().chain(self.builds.deadline()).chain(client.alarm));
        let ready = waiting.wait()?;
        let [input, output, decoder] = [input, output, decoder].map(|source| ready.is(source));
        let fork_server = fork_servers.into_iter().any(|source| ready.is(source));
        let executors: Vec<bool> = executors.into_iter().map(|source| ready.is(source)).collect();
        if decoder {
            self.read_decoder()?;
        }
        for event in self.pool.read_events(&executors)? {
            self.take(event)?;
        }
        if fork_server && self.builds.read_events() > 0 {
            self.note("a build is done");
        }
        self.builds.watch();
        Ok(match client.alarm {
            _ if output => Some(SupervisorEvent::ReaderGone),
            _ if input => Some(SupervisorEvent::Input),
            // Results of this round come first: otherwise a configuration would be neither outstanding nor have a
            // result.
            Some(alarm) if alarm <= Instant::now() && self.events.is_empty() => Some(SupervisorEvent::Tick),
            _ => None,
        })
    }

    fn read_decoder(&mut self) -> Result<(), Fatal> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        match decoder.progress() {
            None => Ok(()),
            Some(Ok(())) => {
                self.note("the snapshot is decoded");
                self.decoder = None;
                self.pool.load();
                Ok(())
            }
            Some(Err(error)) => Err(Fatal::new(exit::BAD_RECORDING, error)),
        }
    }

    fn take(&mut self, event: PoolEvent) -> Result<(), Fatal> {
        match event {
            PoolEvent::Opened(description) => {
                self.note("a device is open");
                self.confirm_target(&description)?;
            }
            PoolEvent::Ready(description) => {
                self.note("the snapshot is resident");
                if !self.greeted {
                    self.greeted = true;
                    self.events.push_back(SupervisorEvent::Ready(description));
                }
            }
            PoolEvent::Unbegun(running) => {
                // Configurations that share its result return to the queue too, because it may be cancelled.
                let followers = self.shared.unfollow(&running.identity).into_iter().map(|follower| follower.pending);
                followers.chain([running.pending]).for_each(|pending| self.queue.put_back(pending));
            }
            PoolEvent::Done(done) => {
                let (RunningJob { mut pending, outcome, identity, own_process }, done, device) = *done;
                self.note("a run is done");
                let lost = &self.context.lost_on_inputs;
                lost.set(lost.get() + done.fresh_inputs.lost);
                let done = match pending.earlier.take() {
                    Some(earlier) => earlier.with_evidence_of(done),
                    None => done,
                };
                let more = more_runs(self.context, &pending.job, &done);
                if let Some(more) = more {
                    self.wants_fresh_inputs |= !more.pipelines;
                    let followers = self.shared.unfollow(&identity).into_iter().map(|follower| follower.pending);
                    for mut pending in followers.chain([pending]) {
                        let warmup = done.warmup.or(Some(pending.job.run.warmup));
                        pending.earlier = Some(Box::new(RunOutcome { warmup, ..done.clone() }));
                        pending.job.run = more.clone();
                        self.queue.put_back(pending);
                    }
                    return Ok(());
                }
                let alone = self.run_alone(pending, identity, done, own_process);
                let Some((pending, identity, done)) = alone else { return Ok(()) };
                let settled = Rc::new(SettledRun { id: pending.job.schedule.id, done, device });
                let followers = self.shared.settle(identity, &settled);
                self.finish(pending, Some(outcome), &settled.done, settled.device.as_ref(), None);
                for follower in followers {
                    self.share(follower, &settled);
                }
            }
        }
        Ok(())
    }

    /// Queues the next of a configuration's runs in processes of their own. Returns the outcome of all if none is left.
    fn run_alone(
        &mut self,
        mut pending: PendingJob,
        identity: Identity,
        done: RunOutcome,
        own_process: bool,
    ) -> Option<(PendingJob, Identity, RunOutcome)> {
        let mut runs = match pending.alone.take() {
            Some(mut runs) => {
                runs.note(done);
                runs
            }
            None if own_process && done.status == ReplayStatus::Verified => {
                Box::new(AloneRuns::after(&pending.job.run, identity, done))
            }
            None => return Some((pending, identity, done)),
        };
        if let Some(next) = runs.next_run() {
            (pending.job.run, pending.alone) = (next, Some(runs));
            self.queue.put_back(pending);
            return None;
        }
        pending.job.run = runs.usual;
        Some((pending, runs.identity, runs.outcome))
    }

    /// Handles the report of a device: builds for another architecture start again.
    fn confirm_target(&mut self, description: &Description) -> Result<(), Fatal> {
        let target = self.context.devices[0].target(description, &self.context.recorded.kernel.ours);
        if self.architecture.confirm(target, &description.name)? {
            self.builds.forget();
        }
        Ok(())
    }

    fn note(&self, what: &str) {
        tracing::debug!("{what} after {:.1} ms", self.birth.elapsed().as_secs_f64() * 1e3);
    }

    fn share(&mut self, follower: Follower, settled: &SettledRun) {
        self.statistics.shared += 1;
        self.finish(follower.pending, Some(follower.outcome), &settled.done, settled.device.as_ref(), Some(settled.id));
    }

    fn finish(
        &mut self,
        pending: PendingJob,
        outcome: Option<Rc<BuildOutcome>>,
        done: &RunOutcome,
        device: Option<&Description>,
        shared_with: Option<u64>,
    ) {
        let job = &pending.job;
        // A result without a run also names the device, as soon as that is known.
        let device = device.or(self.pool.description());
        // If it is unusable, the next event reports that.
        let is_compiled = outcome.as_deref().is_some_and(|outcome| self.context.is_compiled(&job.build, outcome));
        let llvm = if is_compiled { self.builds.llvm(pending.llvm).unwrap_or_default() } else { "" };
        let mut result = crate::report::result::result(
            &pending.start,
            job,
            outcome.as_deref(),
            done,
            device,
            &self.context.snapshot.layout.regions,
            llvm,
        );
        result.shared_with = shared_with.map(SharedWith::Number);
        if let Some(version) = self.context.ir_version_of(&job.build) {
            result.environment.versions.insert("ir".into(), version);
        }
        let failed = matches!(
            result.status,
            ReplayStatus::RuntimeError | ReplayStatus::FailedVerification | ReplayStatus::Timeout
        );
        if failed && self.context.recorded.kernel.ours.calls_pointers && job.build.replacement.is_none() {
            result.error += CALLS_POINTERS;
        }
        if failed && !done.missing.is_empty() {
            let names = done.missing.join(", ");
            result.error +=
                &format!("; the replayed code lacks {names}, so recorded pointers lead to no function of it");
        }
        *self.statistics.finished.entry(result.status.name().into()).or_default() += 1;
        let (digest, unwritten, calibrated) = (done.digest.clone(), done.unwritten.clone(), done.calibrated.clone());
        self.events.push_back(SupervisorEvent::Finished {
            id: job.schedule.id,
            result: Box::new(result),
            outcome,
            digest,
            unwritten,
            calibrated,
            took: done.took,
        });
    }
}

//! The replays of a bisection, many at a time.
//!
//! Each one answers one question.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::rc::Rc;
use std::time::Instant;

use mneme_builds::Replacement;
use mneme_builds::{BuildOutcome, BuildSpec, NotBuilt, Probe, ProbeResult};
use mneme_model::configuration::Configuration;
use mneme_model::observation::Observe;
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::exit;

use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::execute::message::{RunSpec, VARIES};
use crate::job::{Job, JobSchedule};
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// One replay.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub configuration: Configuration,
    pub probe: Probe,
    /// IR that replaces the kernel's.
    pub replacement: Option<Rc<Replacement>>,
    pub runs: u32,
    pub warmup: u32,
    /// Report how the runs differ from each other.
    pub survey: bool,
    /// Hash the memory that the run leaves instead of comparing it.
    pub digest: bool,
    /// Return the IR that the pipeline produces.
    pub keep_ir: bool,
    /// Run the code even if equal code has run before.
    pub fresh: bool,
    /// Instrument the code and report what it does.
    pub observe: Option<Observe>,
}

impl Experiment {
    pub fn of(configuration: &Configuration) -> Self {
        let (configuration, probe) = (configuration.clone(), Probe::default());
        Self {
            configuration,
            probe,
            replacement: None,
            runs: 1,
            warmup: 0,
            survey: false,
            digest: false,
            keep_ir: false,
            fresh: false,
            observe: None,
        }
    }
}

/// The result of an [`Experiment`].
#[derive(Clone, Debug)]
pub struct ExperimentOutcome {
    pub result: ReplayResult,
    pub outcome: Option<Rc<BuildOutcome>>,
    pub digest: String,
}

impl ExperimentOutcome {
    pub fn probed(&self) -> Option<&ProbeResult> {
        self.outcome.as_ref()?.as_ref().as_ref().ok().map(|(built, _)| &built.looked)
    }

    /// Why the build produced no code.
    pub fn not_built(&self) -> Option<&NotBuilt> {
        self.outcome.as_ref()?.as_ref().as_ref().err()
    }

    pub fn built(&self) -> Option<&mneme_builds::Built> {
        self.outcome.as_ref()?.as_ref().as_ref().ok().map(|(built, _)| built)
    }

    /// Whether runs of the same code left different memory.
    pub fn varies(&self) -> bool {
        self.digest == VARIES
    }

    /// Whether the kernel ran but did not finish.
    pub fn has_failed(&self) -> bool {
        self.built().is_some() && matches!(self.result.status, ReplayStatus::RuntimeError | ReplayStatus::Timeout)
    }

    /// Whether the kernel finished, with any result.
    pub fn has_run(&self) -> bool {
        self.result.executed && !matches!(self.result.status, ReplayStatus::RuntimeError | ReplayStatus::Timeout)
    }
}

/// Carries out experiments. Tests replace the replays by models.
pub trait RunExperiments {
    /// The number of experiments to run at a time.
    fn width(&self) -> usize;

    /// Whether builds use an assembler.
    fn assembles(&self) -> bool;

    /// Shows the current step on a terminal.
    fn say(&self, what: &str);

    /// Carries out experiments, and returns their outcomes in the same order.
    fn observe(&mut self, experiments: Vec<Experiment>) -> Result<Vec<ExperimentOutcome>, Fatal>;

    fn observe_one(&mut self, experiment: Experiment) -> Result<ExperimentOutcome, Fatal> {
        let mut seen = self.observe(vec![experiment])?;
        seen.pop().ok_or_else(|| Fatal::new(exit::INTERNAL, "a replay has no result"))
    }
}

pub struct ExperimentRunner<'a> {
    pub context: &'a ReplayContext,
    engine: Engine<'a>,
    next: u64,
    start: Instant,
    status_line: bool,
}

impl<'a> ExperimentRunner<'a> {
    pub fn open(context: &'a ReplayContext) -> Result<Self, Fatal> {
        let engine = Engine::start(context)?;
        Ok(Self { context, engine, next: 0, start: Instant::now(), status_line: std::io::stderr().is_terminal() })
    }

    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Builds and configurations so far.
    pub fn effort(&self) -> (u64, u64) {
        let statistics = self.engine.statistics();
        (statistics.built, statistics.submitted)
    }

    /// Clears the line that [`RunExperiments::say`] wrote.
    pub fn hush(&self) {
        self.say("");
    }

    /// Ends all work.
    pub fn close(self) {
        self.engine.leave();
    }
}

impl RunExperiments for ExperimentRunner<'_> {
    fn width(&self) -> usize {
        self.context.builders.clamp(1, 64)
    }

    fn assembles(&self) -> bool {
        !self.context.is_cpu()
    }

    fn say(&self, what: &str) {
        if self.status_line {
            mneme_system::console::status_line(what);
        }
    }

    fn observe(&mut self, experiments: Vec<Experiment>) -> Result<Vec<ExperimentOutcome>, Fatal> {
        let first = self.next;
        let count = experiments.len();
        for experiment in experiments {
            let job = Job::new(self.next, experiment.configuration, experiment.runs, experiment.warmup);
            let Experiment { replacement, keep_ir, probe, survey, digest, fresh, .. } = experiment;
            let job = Job {
                schedule: JobSchedule { fresh, ..job.schedule },
                build: BuildSpec { replacement, keep_ir, probe, ..job.build },
                run: RunSpec { survey, digest, ..job.run },
            };
            self.engine.submit(job.observing(experiment.observe));
            self.next += 1;
        }
        let mut seen: HashMap<u64, ExperimentOutcome> = HashMap::new();
        while seen.len() < count {
            if let SupervisorEvent::Finished { id, result, outcome, digest, .. } = self.engine.next(Client::default())?
            {
                // An experiment that could not run says nothing about the code, so it must not count as bad.
                if result.status == ReplayStatus::InternalError {
                    return Err(Fatal::new(exit::INTERNAL, result.error));
                }
                seen.insert(id, ExperimentOutcome { result: *result, outcome, digest });
            }
        }
        Ok((first..self.next).filter_map(|id| seen.remove(&id)).collect())
    }
}

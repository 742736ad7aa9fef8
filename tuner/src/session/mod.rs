//! A tuning session: the baseline, then candidate after candidate, then the best.
//!
//! The session asks its search for candidates, has them replayed, and writes down what came of each before it asks
//! again. All that it knows is in the results folder: a session that was killed is resumed from there.

mod ban;
mod baseline;
mod confirm;
mod early;
mod finish;
mod lines;
mod walk;

use std::collections::HashMap;
use std::time::Instant;

use mneme_core::configuration::Configuration;
use mneme_core::exit;
use mneme_core::result::ReplayResult;

use self::ban::Bans;
use self::lines::InOrder;
use crate::bridge::{Bridge, BridgeError};
use crate::cache::{Cache, CacheError, CachePlan};
use crate::early_stop::EarlyStop;
use crate::evaluator::Evaluator;
use crate::failure::Rounding;
use crate::interrupt::Interrupted;
use crate::live::Live;
use crate::measured::Measured;
use crate::metric::Metric;
use crate::objective::{Measurement, ObjectiveError, Objectives};
use crate::options::Options;
use crate::results::{Baseline, InstanceTrial, Results, ResultsError, Summary, Trial};
use crate::search::Search;
use crate::server::{Greeting, Runs, ServerCommand, ServerError};
use crate::space::{Point, Rejection, Space};
use crate::status;
use mneme_core::console::OutputLines;

/// What a session was told, in its results folder.
pub const CONFIG: &str = "config.json";

/// How it went.
const SUMMARY: &str = "summary.json";

/// A recorded instance and how to replay it.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Dynamic hash.
    pub id: String,
    /// How often it was launched.
    pub weight: f64,
    pub command: ServerCommand,
}

/// What a session needs to know.
pub struct Plan {
    /// Mangled.
    pub kernel: String,
    /// What is tuned for; the search's space is the first one's.
    pub instances: Vec<Instance>,
    pub search: Search,
    /// The spaces of the instances after the first: what a point means there.
    pub further: Vec<Box<dyn Space>>,
    /// Instances on which the best is verified before it is reported, with what a point means there.
    pub verified_on: Vec<(Instance, Box<dyn Space>)>,
    /// Gives up candidates after their first runs.
    pub early_stop: Option<Box<dyn EarlyStop>>,
    pub objectives: Objectives,
    /// The helper process, where Python has a part in the search.
    pub bridge: Option<Bridge>,
    pub cache: Option<CachePlan>,
    /// Settled.
    pub options: Options,
}

/// Why a session ended early.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Server(ServerError),
    /// The results folder has everything that was found.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("the baseline failed, so that nothing can be compared with it: {0}")]
    Baseline(String),
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// The session itself is complete.
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
}

impl From<ServerError> for SessionError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Interrupted(interrupted) => Self::Interrupted(interrupted),
            error => Self::Server(error),
        }
    }
}

impl SessionError {
    /// Whether results could not be written, on a disk that is full for one: what was written before stands, and a
    /// session can go on.
    pub fn is_unwritten(&self) -> bool {
        matches!(self, Self::Results(ResultsError::Write { .. }))
    }

    pub fn exit_status(&self) -> i32 {
        match self {
            error if error.is_unwritten() => exit::INTERNAL,
            Self::Cache(error) if error.is_full() => exit::INTERNAL,
            Self::Results(_) | Self::Cache(_) => status::INVALID_CONFIGURATION,
            Self::Bridge(BridgeError::Died { .. }) => status::INTERNAL,
            Self::Bridge(_) => status::INVALID_CONFIGURATION,
            Self::Objective(_) => status::INVALID_CONFIGURATION,
            Self::Baseline(_) => status::BASELINE_FAILED,
            Self::Output(_) => exit::INTERNAL,
            Self::Interrupted(interrupted) => interrupted.exit_status(),
            Self::Server(ServerError::Fatal { status: exit::BAD_RECORDING, .. }) => status::BAD_RECORD,
            Self::Server(ServerError::Fatal { status: exit::NO_DEVICE, .. }) => exit::NO_DEVICE,
            Self::Server(ServerError::Fatal { status: exit::BAD_USAGE, .. }) => status::INVALID_CONFIGURATION,
            Self::Server(_) => status::INTERNAL,
        }
    }
}

/// Why no more candidates are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// All that was asked for, or all that there is.
    Complete,
    Timeout,
    /// `--fail-fast`.
    Failure,
}

struct Session {
    plan: Plan,
    runs: Runs,
    metric: Metric,
    evaluator: Evaluator,
    results: Results,
    cache: Option<Cache>,
    summary: Summary,
    bans: Bans,
    rounding: Rounding,
    live: Live,
    lines: OutputLines,
    in_order: InOrder,
    start: Instant,
    /// By trial as the search counts them: the number in the results, and what is being replayed.
    numbers: Numbers,
    flying: HashMap<u64, Flying>,
    /// By configuration hash: trials of the session before that are no points of this space. They win nothing in it,
    /// unless it comes to their configuration.
    foreign: HashMap<String, Trial>,
    /// Metric of the baseline, ns.
    baseline: f64,
    baseline_trial: Option<Baseline>,
    stop: Stop,
    /// Metric of the fastest so far, ns.
    fastest: f64,
    /// Everything that verified, of this session's space.
    ranking: Vec<Trial>,
    /// The first of what could not be written, where the session goes on without it.
    unwritten: Option<SessionError>,
}

/// A candidate that is being replayed.
#[derive(Clone, Debug)]
struct Flying {
    /// In the results.
    trial: u64,
    point: Point,
    hash: String,
    configurations: Vec<Configuration>,
    /// These are its first runs, after which it may be given up.
    first: bool,
    /// It was given up when its metric was this, ns.
    stopped: Option<f64>,
}

/// Numbers for new trials: those that trials of an interrupted session had which never ended, then those after the
/// greatest.
#[derive(Debug, Default)]
struct Numbers {
    free: std::collections::VecDeque<u64>,
    next: u64,
}

impl Numbers {
    fn after(known: &[Trial]) -> Self {
        let taken: std::collections::BTreeSet<u64> = known.iter().map(|trial| trial.trial).collect();
        let next = taken.last().map_or(0, |last| last + 1);
        Self { free: (0..next).filter(|number| !taken.contains(number)).collect(), next }
    }

    fn take(&mut self) -> u64 {
        self.free.pop_front().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// What of a session is left when it is over.
#[derive(Clone, Debug)]
pub struct Finished {
    pub status: i32,
    pub summary: Summary,
    /// For Proteus, if anything verified.
    pub tuned: Option<serde_json::Value>,
}

/// What two sessions must have in common of their devices to share results: code of another assembler is other code.
fn device_of(greeting: &Greeting) -> [&str; 4] {
    [&greeting.device, &greeting.driver, &greeting.version, &greeting.assembler]
}

/// Runs a session on an evaluator of the plan's instances. `results` and `known` are what [`Results::open`] gives.
///
/// # Errors
/// What keeps it from its end; the results folder says how far it came.
pub fn run(
    plan: Plan,
    evaluator: Evaluator,
    results: Results,
    mut known: Vec<Trial>,
) -> Result<Finished, SessionError> {
    let start = Instant::now();
    let greeting = evaluator.greeting().clone();
    let plan = Plan { options: on_this_device(&plan.options, &results, &greeting)?, ..plan };
    let open = |cache: &CachePlan| {
        Cache::open(&cache.path, serde_json::json!([cache.conditions, device_of(&greeting)]).to_string())
    };
    let cache = plan.cache.as_ref().map(open).transpose()?;
    if let Some((cache, plan)) = cache.as_ref().zip(plan.cache.as_ref()).filter(|(cache, _)| cache.outdated() > 0) {
        mneme_core::remark!(
            "mneme-tune: {} results in {} are not used, because the release that remembered them did not note of which recording they are",
            cache.outdated(),
            plan.path.display()
        );
    }
    let options = &plan.options;
    let (iterations, warmup) = (options.iterations.unwrap_or(5), options.warmup.unwrap_or(2));
    let runs = Runs { iterations, warmup, energy: plan.objectives.need_energy(), ..Runs::default() };
    let requested = options.trials.or_else(|| plan.search.space().size()).unwrap_or(0);
    known.sort_by_key(|trial| trial.trial);
    let earlier = if options.resume { results.read::<Summary>(SUMMARY)? } else { None };
    let refuted = earlier.map(|summary| summary.refuted).unwrap_or_default();
    let is_new = known.is_empty();
    let mut session = Session {
        runs,
        metric: options.metric.unwrap_or(Metric::Mean),
        evaluator,
        results,
        cache,
        summary: Summary { num_trials_requested: requested, refuted, ..Summary::default() },
        bans: Bans::new(options.adaptive_invalid_ban != Some(false)),
        rounding: Rounding::default(),
        live: Live::new((requested > 0).then_some(requested), options.quiet == Some(true)),
        lines: OutputLines::default(),
        in_order: InOrder::default(),
        start,
        numbers: Numbers::after(&known),
        flying: HashMap::new(),
        foreign: HashMap::new(),
        baseline: 0.0,
        baseline_trial: None,
        stop: Stop::Complete,
        fastest: f64::INFINITY,
        ranking: Vec::new(),
        unwritten: None,
        plan,
    };
    session.results.log(&format!("tuning {} on {} (driver {})", session.plan.kernel, greeting.device, greeting.driver));
    if is_new {
        session.declare()?;
    }
    // A session that cannot go on leaves what there is as it was.
    let outcome = session.measure_baseline().and_then(|()| session.declare());
    let outcome = outcome.and_then(|()| session.resume(known)).and_then(|()| session.walk());
    session.finish(outcome)
}

/// The options with the device that replays, which has to be the one of the session that is resumed.
fn on_this_device(options: &Options, results: &Results, greeting: &Greeting) -> Result<Options, ResultsError> {
    let measured = options.measured.clone().map(|measured| measured.on(greeting));
    let earlier = if options.resume { results.read::<Options>(CONFIG)? } else { None };
    let earlier = earlier.and_then(|earlier| earlier.measured?.place());
    let here = measured.as_ref().and_then(Measured::place);
    match earlier.zip(here).filter(|(earlier, here)| earlier != here) {
        Some((found, here)) => Err(ResultsError::Elsewhere { folder: results.folder().into(), found, here }),
        None => Ok(Options { measured, ..options.clone() }),
    }
}

impl Session {
    /// Says in the folder what is wanted.
    fn declare(&self) -> Result<(), SessionError> {
        self.results.write(CONFIG, &self.plan.options)?;
        Ok(self.results.write("search_space.json", &self.plan.search.space().describe())?)
    }

    fn quiet(&self) -> bool {
        self.plan.options.quiet == Some(true)
    }

    /// A candidate's configurations, one for each instance.
    fn ground(&self, point: &Point, first: Configuration) -> Result<Vec<Configuration>, Rejection> {
        let further = self.plan.further.iter().map(|space| space.ground(point));
        std::iter::once(Ok(first)).chain(further).collect()
    }

    /// The session's metric, ns: over all instances, each weighing as often as it was launched; `None` unless all
    /// verified.
    fn condense(&self, results: &[ReplayResult]) -> Option<f64> {
        if results.len() < self.plan.instances.len() {
            return None;
        }
        let mut sum = 0.0;
        for (instance, result) in self.plan.instances.iter().zip(results) {
            sum += instance.weight * self.metric.of(result.measured()).filter(|_| result.verified)?;
        }
        Some(sum / self.plan.instances.iter().map(|instance| instance.weight).sum::<f64>())
    }

    /// The objectives, of which smaller is better: over all instances, each weighing as often as it was launched. Empty
    /// unless all verified.
    fn costs(
        &self,
        configurations: &[&Configuration],
        results: &[ReplayResult],
        baseline: Option<f64>,
    ) -> Result<Vec<f64>, ObjectiveError> {
        if results.len() < self.plan.instances.len() || results.iter().any(|result| !result.verified) {
            return Ok(Vec::new());
        }
        let all: f64 = self.plan.instances.iter().map(|instance| instance.weight).sum();
        let mut sums = vec![0.0; self.plan.objectives.names().len()];
        for ((instance, configuration), result) in self.plan.instances.iter().zip(configurations).zip(results) {
            let values = self.plan.objectives.evaluate(&Measurement { result, configuration, baseline })?;
            for (sum, cost) in sums.iter_mut().zip(self.plan.objectives.costs(&values)) {
                *sum += instance.weight * cost / all;
            }
        }
        Ok(sums)
    }

    /// What is told of each instance, where there are several.
    fn by_instance(&self, configurations: &[Configuration], results: &[ReplayResult]) -> Vec<InstanceTrial> {
        if self.plan.instances.len() == 1 {
            return Vec::new();
        }
        let replayed = self.plan.instances.iter().zip(configurations).zip(results);
        replayed
            .map(|((instance, config), result)| InstanceTrial {
                record_id: instance.id.clone(),
                config: config.clone(),
                metric: self.metric.of(result.measured()).filter(|_| result.verified),
                result: result.clone(),
            })
            .collect()
    }

    fn record_ids(&self) -> Vec<String> {
        self.plan.instances.iter().map(|instance| instance.id.clone()).collect()
    }
}

/// The result that speaks for a candidate: of the first instance that did not verify, else of the first.
fn spokesman(results: &[ReplayResult]) -> ReplayResult {
    results.iter().find(|result| !result.verified).or(results.first()).cloned().unwrap_or_default()
}

/// The same as a baseline's record.
fn baseline_results(baseline: &Baseline) -> Vec<ReplayResult> {
    if baseline.instances.is_empty() {
        vec![baseline.result.clone()]
    } else {
        baseline.instances.iter().map(|instance| instance.result.clone()).collect()
    }
}

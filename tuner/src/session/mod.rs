//! A tuning session: measures the baseline, then candidates, then picks the best.
//!
//! The session asks its search for candidates, replays them, and writes each result before it asks for the next. All of
//! its state is in the results folder, so a killed session can be resumed from there.
//!
//! Each part has one job: `Criteria` measure, `Proposals` choose candidates and turn them into configurations,
//! `Standings` rank and count, `Records` write files, `Progress` shows the session to the user. The session's own steps
//! are modules, in this order: `resume`, `baseline`, `trials` with `reference` and `repeats`, `choice` with `looks` and
//! `confirm`, `ending` with `announcement`.

mod announcement;
mod bans;
mod baseline;
mod choice;
mod confirm;
mod criteria;
mod disturbance;
mod ending;
mod error;
mod looks;
mod progress;
pub mod proof;
mod proposals;
mod records;
mod reference;
mod repeats;
mod resume;
mod standings;
mod trials;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mneme_model::protocol::StoppingRule;
use mneme_model::result::ReplayResult;

use self::bans::Bans;
use self::criteria::Criteria;
pub use self::criteria::spokesman;
use self::disturbance::Disturbances;
use self::progress::Progress;
use self::proposals::Proposals;
use self::records::Records;
use self::reference::ReferenceSchedule;
use self::resume::Numbers;
use self::standings::Standings;
use self::trials::InFlight;
use crate::bridge::Bridge;
use crate::cache::CachePlan;
use crate::candidate::CandidateNumber;
use crate::early_stop::EarlyStop;
use crate::evaluator::Evaluator;
use crate::interrupt;
use crate::measured::is_events;
use crate::objective::Objectives;
use crate::options::{RunsKind, SessionMode, TuningSettings};
use crate::results::{Results, SessionSummary, Trial};
use crate::search::Search;
use crate::sequential::{LONG, LONG_RUNS, SequentialTest};
use crate::server::{Runs, ServerCommand};
use crate::space::SearchSpace;

pub use self::error::SessionError;

/// The options of a session, in its results folder.
pub const CONFIG: &str = "config.json";

/// The outcome of a session, in its results folder.
const SUMMARY: &str = "summary.json";

/// A recorded instance and how to replay it.
#[derive(Clone, Debug)]
pub struct TunedInstance {
    /// Dynamic hash.
    pub id: String,
    /// Number of recorded launches.
    pub weight: f64,
    pub command: ServerCommand,
}

/// The input of a session.
pub struct Plan {
    /// Mangled name.
    pub kernel: String,
    /// For each argument of the kernel, whether its value may be folded into the code.
    pub specializable: Vec<bool>,
    /// The instances that the session tunes for. The search uses the space of the first one.
    pub instances: Vec<TunedInstance>,
    pub search: Search,
    /// The spaces of the instances after the first, which ground a point for those instances.
    pub further: Vec<Box<dyn SearchSpace>>,
    /// Instances on which the best is verified before it is reported, each with the space that grounds its points.
    pub verified_on: Vec<(TunedInstance, Box<dyn SearchSpace>)>,
    /// Gives up candidates after their first runs.
    pub early_stop: Option<Box<dyn EarlyStop>>,
    pub objectives: Objectives,
    /// The helper process, if the space or the sampler is in Python.
    pub bridge: Option<Bridge>,
    pub cache: Option<CachePlan>,
    pub settings: TuningSettings,
}

/// Why the session proposes no more candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// All requested trials are done, or the space is exhausted.
    Complete,
    Timeout,
    /// `--fail-fast`.
    Failure,
}

struct Session {
    /// Mangled name.
    kernel: String,
    specializable: Vec<bool>,
    settings: TuningSettings,
    criteria: Criteria,
    proposals: Proposals,
    evaluator: Evaluator,
    early_stop: Option<Box<dyn EarlyStop>>,
    verified_on: Vec<(TunedInstance, Box<dyn SearchSpace>)>,
    records: Records,
    standings: Standings,
    progress: Progress,
    start: Instant,
    /// Numbers of new trials.
    numbers: Numbers,
    in_flight: HashMap<CandidateNumber, InFlight>,
    /// The trial of each candidate.
    numbered: HashMap<CandidateNumber, u64>,
    /// The candidate of each trial that has ended.
    ended: HashMap<u64, CandidateNumber>,
    /// Trials that are being measured again.
    repeats: HashMap<CandidateNumber, Trial>,
    stop: Stop,
    schedule: ReferenceSchedule,
    disturbances: Disturbances,
    /// Time that builds and runs take.
    pace: Pace,
    /// Decides how many runs a candidate needs. Only set if times of one instance decide.
    test: Option<SequentialTest>,
}

/// The outcome of a session that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    pub status: i32,
    pub summary: SessionSummary,
    /// Winners for Proteus, if a candidate verified.
    pub tuned: Option<serde_json::Value>,
}

/// Runs a session on an evaluator of the plan's instances. `results` and `known` come from [`Results::open`].
///
/// # Errors The session ends early. The results folder holds everything measured so far.
pub fn run(
    plan: Plan,
    evaluator: Evaluator,
    results: Results,
    mut known: Vec<Trial>,
) -> Result<Finished, SessionError> {
    known.sort_by_key(|trial| trial.trial);
    let is_new = known.is_empty();
    let mut session = Session::new(plan, evaluator, results, &known)?;
    known.retain(|trial| !resume::is_untried(trial));
    let greeting = session.evaluator.greeting();
    session.records.log(&format!("tuning {} on {} (driver {})", session.kernel, greeting.device, greeting.driver));
    if is_new {
        session.declare()?;
    }
    // If the session cannot continue, the folder keeps its files.
    let outcome = session.measure_baseline().and_then(|()| session.declare());
    let outcome = outcome.and_then(|()| session.resume(known)).and_then(|()| session.evaluate());
    session.finish(outcome)
}

impl Session {
    fn new(plan: Plan, evaluator: Evaluator, results: Results, known: &[Trial]) -> Result<Self, SessionError> {
        let start = Instant::now();
        let limit = plan.settings.search.timeout.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
        interrupt::end_at(limit.and_then(|limit| start.checked_add(limit)));
        let Plan { kernel, specializable, instances, search, further, verified_on, early_stop, objectives, .. } = plan;
        let mut settings = plan.settings;
        resume::note_device(&mut settings, &results, evaluator.greeting(), known)?;
        let cache = plan.cache.as_ref().map(|cache| records::open_cache(cache, evaluator.greeting())).transpose()?;
        // The sequential test compares times, and times of one instance only: each instance has its own scale.
        let needed = settings.replay.runs == RunsKind::Needed;
        let stopping =
            needed.then_some(StoppingRule { long_ns: LONG, long_runs: LONG_RUNS, near: None, hopeless_ns: None });
        // Only event times arrive while runs go on, as the stopping rule needs them. Other timers are read after the
        // last run.
        let compares = instances.len() == 1 && objectives.is_time() && is_events(&evaluator.greeting().timer);
        let test = compares.then(|| SequentialTest::new(settings.replay.iterations, settings.confirmation.finalists));
        let runs = Runs {
            stopping,
            iterations: settings.replay.iterations,
            warmup: settings.replay.warmup,
            energy: objectives.need_energy(),
            counters: objectives.counters(),
            ..Runs::default()
        };
        let requested = settings.search.trials.or_else(|| search.space().size()).unwrap_or(0);
        let summary = resume::summary(&settings, &results, requested)?;
        Ok(Self {
            records: Records::new(results, cache, &instances, settings.measured()),
            criteria: Criteria { instances, objectives, metric: settings.metric, runs },
            proposals: Proposals {
                search,
                further,
                bridge: plan.bridge,
                bans: Bans::new(settings.ban_refused_blocks),
                foreign: HashMap::new(),
            },
            standings: Standings::new(summary),
            progress: Progress::new((requested > 0).then_some(requested), settings.quiet),
            numbers: Numbers::after(known),
            in_flight: HashMap::new(),
            numbered: HashMap::new(),
            ended: HashMap::new(),
            repeats: HashMap::new(),
            disturbances: Disturbances::default(),
            stop: Stop::Complete,
            test,
            pace: Pace::default(),
            schedule: ReferenceSchedule::new(),
            kernel,
            specializable,
            settings,
            evaluator,
            early_stop,
            verified_on,
            start,
        })
    }

    /// Writes the session's options and its space to the folder.
    fn declare(&self) -> Result<(), SessionError> {
        self.records.results.write(CONFIG, self.settings.written())?;
        Ok(self.records.results.write("search_space.json", &self.settings.described(self.proposals.space()))?)
    }

    fn is_baseline_only(&self) -> bool {
        self.settings.mode == SessionMode::BaselineOnly
    }
}

/// Seconds per build from which it pays to choose candidates with fewer outcomes known. Shorter builds are hidden
/// anyway.
const LARGE: f64 = 0.1;
/// How many times as long as the mean a long build takes.
const LONG_BUILD: f64 = 1.5;

/// Totals of the candidates so far.
#[derive(Clone, Debug, Default)]
struct Pace {
    candidates: u32,
    /// Seconds in all.
    building: f64,
    running: f64,
}

impl Pace {
    /// Learns from a candidate that was built and run for itself.
    fn note(&mut self, result: &ReplayResult) {
        self.candidates += 1;
        self.building += result.preprocess_ir_time + result.opt_time + result.codegen_time;
        self.running += result.exec_time.iter().sum::<u64>() as f64 * 1e-9;
    }

    /// Candidates to keep in flight besides the one that runs: as many as the `builders` finish, or the device runs,
    /// during one long build. Half the number of known candidates limits it, because a search that knows little chooses
    /// badly.
    fn ahead(&self, builders: u32) -> usize {
        let count = f64::from(self.candidates.max(1));
        let (build, run) = (self.building / count, self.running / count);
        if build < LARGE {
            return 0;
        }
        let hidden = (LONG_BUILD * build / run.max(1e-9)).ceil().min(f64::from(builders)) as usize;
        hidden.min(2 + self.candidates as usize / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(candidates: u32, build: f64, run: u64) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..candidates {
            pace.note(&ReplayResult { opt_time: build, exec_time: vec![run; 2], ..ReplayResult::default() });
        }
        pace
    }

    #[test]
    fn builders_have_work_where_builds_are_what_a_session_waits_for() {
        assert_eq!(after(100, 0.4, 1_000_000).ahead(16), 16, "a build takes as long as 200 candidates run");
        assert_eq!(after(100, 0.4, 260_000_000).ahead(16), 2);
        assert_eq!(after(100, 0.4, 50_000_000).ahead(16), 6);
        assert_eq!(after(100, 0.03, 60_000).ahead(16), 0, "short builds");
        assert_eq!(after(100, 0.4, 1_000_000).ahead(0), 0, "a server that does not say");
        assert_eq!([0, 1, 8, 40].map(|known| after(known, 0.4, 1_000_000).ahead(16)), [0, 2, 6, 16]);
    }
}

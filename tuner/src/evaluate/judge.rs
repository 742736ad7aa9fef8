//! Judges candidates: replays them, and compares them with the application's own code.
//!
//! A candidate is faster only if two separate comparisons by turns say so: a search tries many candidates, and of many
//! equal ones some would be lucky once.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::slice;
use std::time::{Duration, Instant};

use mneme_model::configuration::Configuration;
use mneme_model::evaluation::{CandidateId, Counted, Judgement, Speedup, Spilled, VERSION, Verdict, WrongElement};
use mneme_model::protocol::Code;
use mneme_model::result::{Doubt, Mismatch, ReplayResult, ReplayStatus};
use mneme_recording::database::KernelRecord;

use super::code::{self, Refusal};
use super::error::EvaluateError;
use super::feedback;
use super::floor::Work;
use super::input::Request;
use super::options::EvaluateOptions;
use crate::candidate::CandidateNumber;
use crate::confirm::{self, Confirmation, FinalistOutcome, RoundSettings};
use crate::evaluator::Evaluator;
use crate::failure;
use crate::measured::Measured;
use crate::metric::{self, Metric, weighted_mean};
use crate::server::{Runs, ServerCommand};
use crate::session::proof;
use crate::session::{SessionError, spokesman};

/// Measured runs of a candidate before it is compared, and warm-up runs before them.
const RUNS: (u32, u32) = (5, 2);
/// The default time limit of a candidate: so many seconds, and so many runs of the application's own code.
const LIMIT: f64 = 20.0;
const LIMIT_RUNS: f64 = 200.0;
/// The default time limit of its compiler, s. It is long, because it includes waiting for a processor.
const COMPILE_LIMIT: f64 = 120.0;

/// A candidate, and its code if that could be made.
pub struct Prepared {
    pub request: Request,
    pub digest: String,
    pub begin: Instant,
    pub code: Result<Option<Code>, Refusal>,
}

/// What is replayed: a configuration for each instance, and code in place of the recorded code.
#[derive(Clone, Debug, PartialEq)]
struct Contestant {
    configurations: Vec<Configuration>,
    code: Option<Code>,
}

pub struct Judge {
    evaluator: Evaluator,
    /// Numbers of launches by instance.
    weights: Vec<f64>,
    recorded: Vec<Configuration>,
    /// The application's own code, and its results.
    baseline: Contestant,
    own: Vec<ReplayResult>,
    /// Fresh inputs.
    seeds: Vec<u64>,
    /// The time limit of a candidate's build, and of its runs together, s.
    limit: f64,
    compile_limit: f64,
    confirm_time: Duration,
    /// Hardware counters to count.
    counters: Vec<String>,
    /// The results folder.
    folder: PathBuf,
    /// Found for the first candidate that is compared.
    work: Option<Option<Work>>,
    /// Seed of the next comparison.
    seed: u64,
    submitted: u64,
}

impl Judge {
    /// Starts the servers and replays the application's own code.
    pub fn start(
        options: &EvaluateOptions,
        record: &KernelRecord,
        ids: &[String],
        commands: Vec<ServerCommand>,
        folder: &Path,
    ) -> Result<Self, EvaluateError> {
        let mut evaluator = Evaluator::start(commands)?;
        let instances: Vec<_> = ids.iter().map(|id| &record.instances[id]).collect();
        let recorded: Vec<Configuration> = instances.iter().map(|it| it.recorded_configuration()).collect();
        let original: Vec<Configuration> = recorded.iter().map(Configuration::of_original).collect();
        let counters = options.counters.clone();
        let runs = Runs { iterations: RUNS.0, warmup: RUNS.1, counters, ..Runs::default() };
        let is_good = |results: &[ReplayResult]| {
            results.len() == ids.len() && results.iter().all(|result| result.status.is_as_recorded())
        };
        let mut baseline = original;
        let mut own = replay(&mut evaluator, &baseline, &runs)?;
        if !is_good(&own) {
            mneme_system::remark!(
                "mneme-tune: speedups are over the recorded pipeline, because the application's own code cannot be replayed ({})",
                failure::in_short(&spokesman(&own))
            );
            baseline.clone_from(&recorded);
            own = replay(&mut evaluator, &baseline, &runs)?;
        }
        if !is_good(&own) {
            return Err(SessionError::Baseline(failure::in_full(&spokesman(&own))).into());
        }
        if let Some(result) = own.iter().find(|result| !result.counters_reason.is_empty()) {
            let reason = result.counters_reason.clone();
            return Err(EvaluateError::Uncounted { names: runs.counters, reason });
        }
        let longest = own.iter().filter_map(|result| result.exec_time.iter().max()).max().copied().unwrap_or(0);
        let mut limited = baseline.clone();
        for (configuration, result) in limited.iter_mut().zip(&own) {
            configuration.timeout_s = proof::input_limit(result);
        }
        let seeds = proof::useful_inputs(&mut evaluator, &limited, &own[0])?.seeds;
        Ok(Self {
            evaluator,
            weights: instances.iter().map(|instance| instance.occurrences.max(1) as f64).collect(),
            recorded,
            baseline: Contestant { configurations: baseline, code: None },
            own,
            seeds,
            compile_limit: options.trial_timeout.unwrap_or(COMPILE_LIMIT),
            limit: options.trial_timeout.unwrap_or(LIMIT + LIMIT_RUNS * longest as f64 * 1e-9),
            counters: runs.counters,
            folder: folder.into(),
            work: None,
            confirm_time: Duration::try_from_secs_f64(options.confirm_time).unwrap_or(Duration::MAX),
            seed: options.seed.or_else(|| mneme_system::random::number().ok()).unwrap_or(0),
            submitted: 0,
        })
    }

    /// The device, its driver, and the versions of what compiles for it.
    pub fn place(&self) -> String {
        Measured::default().on(self.evaluator.greeting()).place().unwrap_or_default()
    }

    /// The time limit for compiling a source.
    pub fn compile_limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.compile_limit).unwrap_or(Duration::MAX)
    }

    /// Judges candidates, and tells each verdict as soon as it is known. Candidates that are not compared yet when the
    /// time is over have none.
    pub fn judge(
        &mut self,
        candidates: Vec<Prepared>,
        is_over: impl Fn() -> bool,
        mut tell: impl FnMut(Judgement) -> Result<(), EvaluateError>,
    ) -> Result<(), EvaluateError> {
        let mut running = HashMap::new();
        for candidate in candidates {
            let contestant = match self.contestant(&candidate) {
                Ok(contestant) => contestant,
                Err(refusal) => {
                    tell(Self::refused(&candidate, refusal))?;
                    continue;
                }
            };
            let runs = Runs {
                iterations: RUNS.0,
                warmup: RUNS.1,
                fresh_inputs: self.seeds.clone(),
                counters: self.counters.clone(),
                thorough: true,
                code: contestant.code.clone(),
                ..Runs::default()
            };
            let number = CandidateNumber(self.submitted);
            self.submitted += 1;
            self.evaluator.submit(number, contestant.configurations.clone(), runs);
            running.insert(number, (candidate, contestant));
        }
        let mut standing = Vec::new();
        while let Some(evaluated) = self.evaluator.wait()? {
            for incident in self.evaluator.incidents() {
                mneme_system::remark!("mneme-tune: {incident}");
            }
            let (candidate, contestant) = running.remove(&evaluated.id).expect("what was evaluated was submitted");
            let mut results = evaluated.results;
            self.doubt_untested(&contestant, &mut results);
            match self.verdict(&contestant, &results) {
                None => standing.push((candidate, contestant, results)),
                Some(verdict) => tell(self.finished(&candidate, verdict, &results, None))?,
            }
        }
        for (candidate, contestant, results) in standing {
            if is_over() {
                break;
            }
            tell(self.compare(&candidate, &contestant, &results)?)?;
        }
        Ok(())
    }

    fn contestant(&self, candidate: &Prepared) -> Result<Contestant, Refusal> {
        let code = candidate.code.clone()?;
        let mut configurations = Vec::new();
        for recorded in &self.recorded {
            let configuration = code::configuration(&candidate.request.config, recorded)?;
            configurations.push(Configuration { timeout_s: Some(self.limit), ..configuration });
        }
        Ok(Contestant { configurations, code })
    }

    /// Notes a doubt about code that ran on none of the fresh inputs because it is compiled for the recorded arguments.
    fn doubt_untested(&self, contestant: &Contestant, results: &mut [ReplayResult]) {
        if contestant.code.is_none() || self.seeds.is_empty() {
            return;
        }
        for result in results.iter_mut().filter(|result| result.status == ReplayStatus::Verified) {
            let Some(evidence) = result.evidence.as_mut().filter(|it| it.fresh_inputs.tried == 0) else { continue };
            evidence.doubts.push(Doubt::NoFreshInput);
            (result.status, result.verified) = (ReplayStatus::Unproven, false);
        }
    }

    /// The verdict of a candidate that need not be compared.
    fn verdict(&self, contestant: &Contestant, results: &[ReplayResult]) -> Option<Verdict> {
        let result = spokesman(results);
        match result.status {
            ReplayStatus::Verified => {}
            ReplayStatus::Unproven => return Some(Verdict::Unproven),
            ReplayStatus::FailedVerification | ReplayStatus::RuntimeError => return Some(Verdict::Incorrect),
            ReplayStatus::CompileError
            | ReplayStatus::InvalidConfig
            | ReplayStatus::InvalidLaunch
            | ReplayStatus::Timeout
            | ReplayStatus::InternalError => return Some(Verdict::Invalid),
        }
        if results.iter().any(|result| !proof::is_proven(result, !self.seeds.is_empty())) {
            return Some(Verdict::Unproven);
        }
        let launch = |it: &Configuration| (it.grid, it.block, it.shared_mem);
        let is_own = results.iter().zip(&self.own).all(|(one, own)| one.environment.code == own.environment.code)
            && contestant.configurations.iter().map(launch).eq(self.recorded.iter().map(launch));
        is_own.then_some(Verdict::Inconclusive)
    }

    /// Compares a candidate that verified with the application's own code.
    fn compare(
        &mut self,
        candidate: &Prepared,
        contestant: &Contestant,
        results: &[ReplayResult],
    ) -> Result<Judgement, EvaluateError> {
        let mut rounds = self.rounds(contestant)?;
        if rounds.0.winner.is_some() {
            rounds = self.rounds(contestant)?;
        }
        if self.work.is_none() {
            let Self { evaluator, recorded, weights, folder, .. } = &mut *self;
            self.work = Some(Work::find(evaluator, recorded, weights, folder)?);
        }
        let (confirmation, failed) = rounds;
        let verdict = match confirmation.finalists[0].outcome {
            FinalistOutcome::Faster => Verdict::Faster,
            FinalistOutcome::Slower => Verdict::Slower,
            FinalistOutcome::Undecided | FinalistOutcome::Outrun | FinalistOutcome::Unproven => Verdict::Inconclusive,
            FinalistOutcome::Failed => {
                let results = failed.map_or_else(|| results.to_vec(), |failed| vec![failed]);
                let verdict = self.verdict(contestant, &results).unwrap_or(Verdict::Incorrect);
                return Ok(self.finished(candidate, verdict, &results, None));
            }
        };
        Ok(self.finished(candidate, verdict, results, Some(&confirmation)))
    }

    /// Measures a candidate and the application's own code by turns. Also returns a result that did not verify.
    fn rounds(&mut self, contestant: &Contestant) -> Result<(Confirmation, Option<ReplayResult>), EvaluateError> {
        let Self { evaluator, weights, baseline, own, .. } = self;
        let end = Instant::now().checked_add(self.confirm_time);
        let mut settings = RoundSettings { end, seed: self.seed, ..RoundSettings::default() };
        self.seed = self.seed.wrapping_add(1);
        let time = metric::weighted_times(weights, own).and_then(|times| times.into_iter().min()).unwrap_or(0);
        let (iterations, warmup) = settings.fit(time as f64, false);
        let device = evaluator.greeting().devices.first().copied();
        let mut failed = None;
        let measure = |order: &[&Contestant]| -> Result<Vec<Option<Vec<u64>>>, EvaluateError> {
            let mut found = Vec::new();
            for it in order {
                let code = it.code.clone();
                let runs = Runs { iterations, warmup, fresh: true, device, proven: true, code, ..Runs::default() };
                let results = evaluator.run(it.configurations.clone(), runs)?;
                let times = metric::weighted_times(weights, &results);
                if times.is_none() && **it == *contestant {
                    failed = Some(spokesman(&results));
                }
                found.push(times);
            }
            Ok(found)
        };
        let confirmation = confirm::confirm(baseline, slice::from_ref(contestant), &settings, measure)?;
        Ok((confirmation, failed))
    }

    /// The hardware counters of a candidate with these results.
    fn counted(&self, results: &[ReplayResult]) -> BTreeMap<String, Counted> {
        let mean = |results: &[ReplayResult], name: &String| {
            weighted_mean(&self.weights, results.iter().filter_map(|result| result.counters.get(name).copied()))
        };
        let of = |name: &String| {
            let (candidate, baseline) = mean(results, name).zip(mean(&self.own, name))?;
            Some((name.clone(), Counted { candidate, baseline }))
        };
        self.counters.iter().filter_map(of).collect()
    }

    fn refused(candidate: &Prepared, refusal: Refusal) -> Judgement {
        let Refusal { status, reason, time_limit } = refusal;
        let compiler = (status == ReplayStatus::CompileError).then(|| code::message(&reason));
        let judgement = Judgement { status: status.name().into(), compiler, time_limit, ..draft(candidate) };
        feedback::complete(judgement, &reason)
    }

    /// The judgement on replays with these results, and on a comparison if there was one.
    fn finished(
        &self,
        candidate: &Prepared,
        verdict: Verdict,
        results: &[ReplayResult],
        confirmation: Option<&Confirmation>,
    ) -> Judgement {
        let result = spokesman(results);
        let known = |value: i64| u64::try_from(value).ok();
        let metrics = &result.metrics;
        let finalist = confirmation.and_then(|confirmation| confirmation.finalists.first());
        let compared = finalist.zip(confirmation).and_then(|(finalist, confirmation)| {
            let interval = finalist.speedup?;
            let (estimate, low, high) = (interval.estimate, interval.low, interval.high);
            Some(Speedup { estimate, low, high, confidence: confirmation.confidence, rounds: finalist.rounds })
        });
        let is_own = verdict == Verdict::Inconclusive && confirmation.is_none();
        let same = Speedup { estimate: 1.0, low: 1.0, high: 1.0, confidence: 1.0, rounds: 0 };
        let time = || metric::weighted_times(&self.weights, results).and_then(|times| Metric::Median.of(&times));
        let compared_time = finalist.and_then(|finalist| finalist.time);
        let judgement = Judgement {
            verdict,
            status: result.status.name().into(),
            speedup: compared.or(is_own.then_some(same)),
            exec_time: compared_time.or_else(time),
            floor: self.work.flatten().zip(compared_time).map(|(work, time)| work.floor(time)),
            counters: self.counted(results),
            baseline_time: confirmation.and_then(|confirmation| confirmation.baseline),
            registers: known(metrics.registers),
            spills: known(metrics.spill_stores)
                .zip(known(metrics.spill_loads))
                .map(|(stores, loads)| Spilled { stores, loads }),
            occupancy: metrics.occupancy,
            evidence: result.evidence.clone(),
            first_wrong: result.mismatch.as_ref().map(first_wrong),
            compiler: (result.status == ReplayStatus::CompileError).then(|| code::message(&result.error)),
            time_limit: (result.status == ReplayStatus::Timeout).then_some(self.limit),
            ..draft(candidate)
        };
        let shortage = result.evidence.as_ref().filter(|_| verdict == Verdict::Unproven && result.error.is_empty());
        let reason = shortage.map_or_else(|| failure::in_full(&result), |evidence| evidence.shortage());
        feedback::complete(judgement, &reason)
    }
}

fn replay(
    evaluator: &mut Evaluator,
    configurations: &[Configuration],
    runs: &Runs,
) -> Result<Vec<ReplayResult>, EvaluateError> {
    Ok(evaluator.run(configurations.to_vec(), runs.clone())?)
}

fn draft(candidate: &Prepared) -> Judgement {
    let code = match &candidate.code {
        Ok(Some(Code::IrFile(path) | Code::PtxFile(path))) => path.file_name(),
        _ => None,
    };
    Judgement {
        candidate: candidate.digest.clone(),
        code: code.map(|name| format!("candidates/{}/{}", candidate.digest, name.display())),
        elapsed: candidate.begin.elapsed().as_secs_f64(),
        ..unread(Some(&candidate.request.id), "")
    }
}

/// The judgement on a line that names no new candidate.
pub fn unread(id: Option<&CandidateId>, reason: &str) -> Judgement {
    let judgement = Judgement {
        schema: VERSION,
        id: id.cloned(),
        verdict: Verdict::Invalid,
        feedback: String::new(),
        candidate: String::new(),
        status: String::new(),
        speedup: None,
        exec_time: None,
        baseline_time: None,
        floor: None,
        counters: BTreeMap::new(),
        registers: None,
        spills: None,
        occupancy: None,
        evidence: None,
        first_wrong: None,
        compiler: None,
        time_limit: None,
        code: None,
        elapsed: 0.0,
    };
    feedback::with(judgement, reason)
}

fn first_wrong(mismatch: &Mismatch) -> WrongElement {
    let bytes = u64::from(mismatch.element_size.max(1));
    let buffer = match (mismatch.region.as_str(), mismatch.tag.as_str()) {
        ("allocation", "") => format!("the allocation at {}", mismatch.address),
        ("allocation", tag) => tag.into(),
        ("outside", _) => "the memory between buffers".into(),
        (variable, _) => variable.into(),
    };
    WrongElement {
        buffer,
        dtype: mismatch.dtype.clone(),
        index: mismatch.offset / bytes,
        elements: mismatch.size / bytes,
        expected: mismatch.recorded.clone(),
        got: mismatch.replayed.clone(),
        differing: mismatch.differing,
    }
}

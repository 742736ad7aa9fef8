//! Runs the trials of a session: proposes candidates, replays them, and judges the results.
//!
//! The session keeps as many candidates in flight as the devices can take.

use mneme_model::configuration::Configuration;
use mneme_model::result::{NamedRuns, ReplayResult, ReplayStatus, SharedWith};
use mneme_model::text::ratio;

use super::criteria::{results_of, spokesman};
use super::progress::TrialLine;
use super::reference::REFERENCE;
use super::{Session, SessionError, Stop};
use crate::candidate::CandidateNumber;
use crate::failure;
use crate::interrupt;
use crate::options::RunsKind;
use crate::results::Trial;
use crate::sampler::{Ahead, TrialOutcome};
use crate::search::{Candidate, End, Next};
use crate::server::Runs;
use crate::space::Point;

/// Limit on candidates that are built while others run.
const MOST_AHEAD: usize = 31;

/// A candidate that is being replayed.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// Number in the results.
    trial: u64,
    point: Point,
    hash: String,
    configurations: Vec<Configuration>,
    /// Whether these are its first runs, after which it may be given up.
    first: bool,
    /// The metric at which it was given up, ns.
    stopped: Option<f64>,
}

impl Session {
    /// Evaluates candidates until the trials are done, the space is exhausted or the time is up.
    pub(super) fn evaluate(&mut self) -> Result<(), SessionError> {
        let mut stop = self.is_baseline_only().then_some(Stop::Complete);
        loop {
            while self.under_way() < self.window() && self.repeat(stop.as_ref()) {}
            while stop.is_none() && self.under_way() < self.window() {
                interrupt::check()?;
                stop = self.time_is_up().or_else(|| self.enough());
                if stop.is_none() {
                    self.refer();
                    match self.proposals.search.propose() {
                        Next::Try(candidate) => stop = self.consider(*candidate)?,
                        Next::Wait => break,
                        // The next turn of the loop reports why.
                        Next::Interrupted => {}
                        Next::End(end) => {
                            self.proposals.check_bridge()?;
                            self.report_end(end);
                            stop = Some(Stop::Complete);
                        }
                    }
                }
            }
            let evaluated = self.evaluator.wait();
            for incident in self.evaluator.incidents() {
                self.records.log(&incident);
            }
            let Some(mut evaluated) = evaluated? else {
                if self.refer_at_end(stop.as_ref()) {
                    continue;
                }
                break;
            };
            self.name_shared(&mut evaluated.results);
            if evaluated.id == REFERENCE {
                self.compare_reference(&evaluated);
                continue;
            }
            if let Some(trial) = self.repeats.remove(&evaluated.id) {
                self.end_repeat(evaluated.id, &trial, &evaluated.results)?;
                continue;
            }
            let candidate = self.in_flight.remove(&evaluated.id).expect("what was evaluated was submitted");
            let Some(candidate) = self.go_on(evaluated.id, candidate, &evaluated.results) else { continue };
            let whole = candidate.stopped.is_none().then(|| candidate.configurations.clone());
            let ended = self.end_trial(evaluated.id, candidate, &evaluated.results, false)?;
            if let Some(configurations) = whole {
                self.records.remember(&configurations, &evaluated.results);
            }
            stop = stop.or(ended);
        }
        self.progress.finish();
        self.stop = stop.unwrap_or(Stop::Complete);
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.in_flight.len() + self.repeats.len()
    }

    /// Number of candidates in flight: those that run and those that are built meanwhile.
    fn window(&self) -> usize {
        let chosen = self.settings.replay.workers.map(|workers| workers as usize);
        let at_a_time = chosen.unwrap_or(self.evaluator.greeting().devices.len().max(1));
        // With one worker, each choice knows the outcomes of all earlier candidates.
        if self.settings.replay.fail_fast || chosen == Some(1) {
            return at_a_time;
        }
        at_a_time
            + match self.proposals.search.ahead() {
                Ahead::All => MOST_AHEAD,
                // If the user sets the number of workers, a session whose sampler learns must be repeatable.
                Ahead::Some(_) if chosen.is_some() => 1,
                Ahead::Some(ahead) => ahead.max(self.pace.ahead(self.evaluator.greeting().builders)).min(MOST_AHEAD),
            }
    }

    pub(super) fn time_is_up(&self) -> Option<Stop> {
        let limit = self.settings.search.timeout?;
        (self.start.elapsed().as_secs_f64() >= limit).then_some(Stop::Timeout)
    }

    fn enough(&self) -> Option<Stop> {
        let trials = self.standings.summary.num_trials_completed + self.in_flight.len() as u64;
        self.settings.search.trials.filter(|limit| trials >= *limit).map(|_| Stop::Complete)
    }

    /// Submits a candidate, or ends its trial at once if the result is known.
    fn consider(&mut self, candidate: Candidate) -> Result<Option<Stop>, SessionError> {
        let Candidate { number: id, point, configuration, hash } = candidate;
        if let Some(earlier) = self.proposals.take_foreign(&hash, &point) {
            let trial = Trial { params: point, ..earlier };
            self.proposals.search.tell(id, self.standings.outcome(&trial));
            self.standings.rank(trial);
            return Ok(None);
        }
        if self.proposals.bans.has(configuration.block) {
            self.standings.summary.num_banned += 1;
            self.records
                .log(&format!("not tried, because the device refused its block shape before: {}", configuration.block));
            self.proposals.search.tell(id, TrialOutcome::Failed(ReplayStatus::InvalidLaunch));
            return Ok(None);
        }
        let configurations = match self.proposals.ground(&point, configuration) {
            Ok(configurations) => configurations,
            Err(rejection) => {
                self.records.log(&format!("rejected for another instance: {rejection}"));
                self.proposals.search.tell(id, TrialOutcome::Rejected);
                return Ok(None);
            }
        };
        let known = self.records.known(&configurations);
        let first = self.first_runs();
        let candidate =
            InFlight { trial: self.numbers.take(), point, hash, configurations, first: first.is_some(), stopped: None };
        self.numbered.insert(id, candidate.trial);
        self.progress.begin(candidate.trial);
        if let Some(results) = known {
            return self.end_trial(id, candidate, &results, true);
        }
        self.evaluator.submit(id, candidate.configurations.clone(), first.unwrap_or_else(|| self.runs()));
        self.in_flight.insert(id, candidate);
        Ok(None)
    }

    /// Replaces the submission numbers in `shared_with` by the numbers in the results.
    pub(super) fn name_shared(&self, results: &mut [ReplayResult]) {
        for result in results {
            if let Some(SharedWith::Number(id)) = result.shared_with {
                let number = self.numbered.get(&CandidateNumber(id)).copied().map(SharedWith::Number);
                result.shared_with = number.or(Some(SharedWith::Named(NamedRuns::Baseline)));
            }
        }
    }

    /// The runs of the next candidate.
    pub(super) fn runs(&self) -> Runs {
        let baseline = self.standings.baseline.as_ref();
        let baseline = baseline.map(|it| (self.standings.baseline_metric, it.result.measured().len() as u32));
        let test = self.test.as_ref().filter(|_| self.settings.replay.runs == RunsKind::Needed);
        let stopping = test.map(|test| test.rule(baseline)).or(self.criteria.runs.stopping);
        Runs { stopping, ..self.criteria.runs.clone() }
    }

    /// The first runs of a candidate; `None` if no early-stopping rule is set or there are no runs to save.
    fn first_runs(&self) -> Option<Runs> {
        let runs = &self.criteria.runs;
        let first = Runs { iterations: 1, warmup: runs.warmup.min(1), stopping: None, ..runs.clone() }.of_time();
        (self.early_stop.is_some() && runs.iterations > first.iterations).then_some(first)
    }

    /// Submits the remaining runs of a candidate after its first ones. Returns the candidate if it has ended.
    fn go_on(&mut self, id: CandidateNumber, mut candidate: InFlight, results: &[ReplayResult]) -> Option<InFlight> {
        if !std::mem::take(&mut candidate.first) {
            return Some(candidate);
        }
        let (Some(metric), Some(rule)) = (self.criteria.condense(results), &mut self.early_stop) else {
            return Some(candidate);
        };
        if rule.hopeless(&candidate.point, metric) {
            candidate.stopped = Some(metric);
            return Some(candidate);
        }
        self.evaluator.submit(id, candidate.configurations.clone(), self.criteria.runs.clone());
        self.in_flight.insert(id, candidate);
        None
    }

    /// Writes the outcome of a candidate, then reports it to the search.
    fn end_trial(
        &mut self,
        id: CandidateNumber,
        candidate: InFlight,
        results: &[ReplayResult],
        cached: bool,
    ) -> Result<Option<Stop>, SessionError> {
        let InFlight { trial, point, hash, configurations, stopped, .. } = candidate;
        let label = self.proposals.space().label(&point, &configurations[0]);
        let mut trial = Trial {
            trial,
            config_hash: hash,
            params: point,
            metric: None,
            speedup: None,
            objectives: Vec::new(),
            result: spokesman(results),
            instances: self.criteria.by_instance(&configurations, results),
            config: configurations.into_iter().next().expect("there is an instance"),
            cached,
            stopped,
            repeated: None,
        };
        let problem = self.judge(&mut trial, results);
        // The search learns the outcome even if writing fails.
        let written = self.records.results.add_trial(&trial);
        self.proposals.search.tell(id, self.standings.outcome(&trial));
        let number = trial.trial;
        let same = trial.result.shared_with.filter(|_| trial.speedup.is_some() && problem.is_none());
        let (line, logged) = match (trial.metric, trial.speedup) {
            _ if trial.stopped.is_some() => (format!("[{number}] {label} given up after its first run"), None),
            (Some(metric), Some(_)) if problem.is_some() => {
                let problem = problem.unwrap_or_default();
                let time = self.criteria.timed(metric);
                (format!("[{number}] {label} {time} no candidate: {problem}"), None)
            }
            (Some(metric), Some(speedup)) => {
                (format!("[{number}] {label} {} speedup={}", self.criteria.timed(metric), ratio(speedup)), None)
            }
            _ => {
                let failed = |reason: String| format!("[{number}] {label} FAILED error={reason}");
                let grid = self.standings.failed_under_another_grid(&trial);
                let failed = |reason: String| match &grid {
                    Some(grid) => failed(format!("{reason}; {grid}")),
                    None => failed(reason),
                };
                (failed(failure::in_short(&trial.result)), Some(failed(failure::in_full(&trial.result))))
            }
        };
        self.records.log(logged.as_ref().unwrap_or(&line));
        let line = match same {
            Some(earlier) => TrialLine::Same(earlier),
            None => TrialLine::Whole(line),
        };
        self.progress.end(number, line, trial.result.status);
        let counts = trial.metric.filter(|_| !trial.objectives.is_empty());
        if let Some(metric) = counts.filter(|metric| *metric < self.standings.fastest) {
            self.progress.best(metric, &label);
        }
        let failed = self.settings.replay.fail_fast && trial.objectives.is_empty();
        self.count(&trial);
        self.ended.insert(number, id);
        self.note_measured(&trial);
        self.standings.rank(trial);
        written?;
        self.proposals.check_bridge()?;
        Ok(failed.then_some(Stop::Failure))
    }

    /// Fills in the metric and objectives of a trial. Returns the reason if an objective has no value.
    pub(super) fn judge(&mut self, trial: &mut Trial, results: &[ReplayResult]) -> Option<String> {
        let error = self.criteria.judge(trial, results, self.standings.baseline_metric).err()?.to_string();
        self.records.log(&format!("[{}] {error}", trial.trial));
        Some(error)
    }

    /// Counts a trial.
    pub(super) fn count(&mut self, trial: &Trial) {
        self.standings.count(trial);
        self.learn_noise(trial);
        self.proposals.bans.note(trial.config.block, trial.result.status);
    }

    /// Counts a trial's runs and learns from them how many runs others need. Skips runs that were made for another
    /// session or candidate.
    fn learn_noise(&mut self, trial: &Trial) {
        let Runs { iterations, warmup, .. } = self.criteria.runs;
        let made: Vec<_> = results_of(trial).into_iter().filter(|it| it.verified && it.shared_with.is_none()).collect();
        if trial.cached || made.is_empty() {
            return;
        }
        made.iter().for_each(|result| self.pace.note(result));
        let runs: u64 = made.iter().map(|result| result.exec_time.len() as u64).sum();
        let all = made.len() as u64 * (u64::from(iterations) + u64::from(warmup));
        self.standings.summary.num_runs += runs;
        // A simulation makes no runs.
        if self.settings.replay.runs == RunsKind::Needed && !self.evaluator.is_simulated() {
            self.standings.summary.num_runs_saved += all.saturating_sub(runs);
        }
        if let Some((test, metric)) = self.test.as_mut().zip(trial.metric) {
            test.note(made[0].measured(), metric);
            test.note_first(&made[0]);
        }
    }

    fn report_end(&mut self, end: End) {
        if end == End::Fruitless {
            let reason = self.proposals.search.last_rejection();
            let reason = reason.map(|reason| format!("; the last rejection: {reason}")).unwrap_or_default();
            let sentence = format!("{end}{reason}");
            self.records.log(&sentence);
            mneme_system::remark!("mneme-tune: {sentence}");
        }
    }
}

//! The loop: ask, replay, tell.

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, Status};

use super::{Flying, Session, SessionError, Stop, spokesman};
use crate::cache::Cache;
use crate::failure;
use crate::interrupt;
use crate::results::Trial;
use crate::sampler::{Ahead, Outcome};
use crate::search::{Candidate, End, Next};
use crate::space::{Point, holds};

/// Candidates that are built while others run.
const MOST_AHEAD: usize = 31;

impl Session {
    /// Tells the search what the session before found, in the order of the trials.
    pub(super) fn resume(&mut self, known: Vec<Trial>) -> Result<(), SessionError> {
        self.summary.num_resumed = known.len() as u64;
        for trial in known {
            let results = results_of(&trial);
            let trial = self.judge(trial, &results);
            self.note(&trial);
            if self.summary.refuted.contains_key(&trial.trial) {
                self.summary.count_refuted();
            }
            if self.is_of_this_space(&trial) {
                self.plan.search.resume(trial.params.clone(), trial.config_hash.clone(), self.outcome(&trial));
                self.rank(trial);
            } else {
                self.foreign.insert(trial.config_hash.clone(), trial);
            }
        }
        self.live.skip(self.summary.num_resumed);
        if let Some(bridge) =
            self.plan.bridge.as_ref().filter(|_| self.plan.options.resume && self.plan.options.uses_optuna())
        {
            bridge.abandon()?;
        }
        self.check_bridge()
    }

    /// Evaluates candidates until there are enough of them, or no more, or no more time.
    pub(super) fn walk(&mut self) -> Result<(), SessionError> {
        let mut stop = self.plan.options.baseline_only.then_some(Stop::Complete);
        loop {
            while stop.is_none() && self.flying.len() < self.window() {
                interrupt::check()?;
                stop = self.time_is_up().or_else(|| self.enough());
                if stop.is_none() {
                    match self.plan.search.propose() {
                        Next::Try(candidate) => stop = self.consider(*candidate)?,
                        Next::Wait => break,
                        Next::End(end) => {
                            self.check_bridge()?;
                            self.tell_end(end);
                            stop = Some(Stop::Complete);
                        }
                    }
                }
            }
            let evaluated = self.evaluator.wait();
            for incident in self.evaluator.incidents() {
                self.results.log(&incident);
            }
            let Some(evaluated) = evaluated? else { break };
            let candidate = self.flying.remove(&evaluated.id).expect("what was evaluated was submitted");
            let Some(candidate) = self.go_on(evaluated.id, candidate, &evaluated.results) else { continue };
            let whole = candidate.stopped.is_none().then(|| candidate.configurations.clone());
            let ended = self.end_trial(evaluated.id, candidate, &evaluated.results, false)?;
            if let Some(configurations) = whole {
                self.remember(&configurations, &evaluated.results, Cache::lasts);
            }
            stop = stop.or(ended);
        }
        self.live.finish();
        self.stop = stop.unwrap_or(Stop::Complete);
        Ok(())
    }

    /// Candidates under way at a time: those that run, and those that are built meanwhile.
    fn window(&self) -> usize {
        let chosen = self.plan.options.workers.map(|workers| workers as usize);
        let at_a_time = chosen.unwrap_or(self.evaluator.greeting().devices.len().max(1));
        // One worker has one candidate: each choice knows all outcomes before it.
        if self.plan.options.fail_fast == Some(true) || chosen == Some(1) {
            return at_a_time;
        }
        at_a_time
            + match self.plan.search.ahead() {
                Ahead::All => MOST_AHEAD,
                // A number of workers makes a session that learns repeatable.
                Ahead::Some(_) if chosen.is_some() => 1,
                Ahead::Some(ahead) => ahead.min(MOST_AHEAD),
            }
    }

    fn time_is_up(&self) -> Option<Stop> {
        let limit = self.plan.options.timeout?;
        (self.start.elapsed().as_secs_f64() >= limit).then_some(Stop::Timeout)
    }

    fn enough(&self) -> Option<Stop> {
        let trials = self.summary.num_trials_completed + self.flying.len() as u64;
        self.plan.options.trials.filter(|limit| trials >= *limit).map(|_| Stop::Complete)
    }

    /// Submits a candidate, or ends it at once where its result is known.
    fn consider(&mut self, candidate: Candidate) -> Result<Option<Stop>, SessionError> {
        let Candidate { trial: id, point, configuration, hash } = candidate;
        if self.foreign.get(&hash).is_some_and(|trial| self.is_same_everywhere(trial, &point)) {
            let trial = Trial { params: point, ..self.foreign.remove(&hash).expect("just found") };
            self.plan.search.tell(id, self.outcome(&trial));
            self.rank(trial);
            return Ok(None);
        }
        if self.bans.has(configuration.block) {
            self.summary.num_banned += 1;
            self.results
                .log(&format!("not tried, because its block shape was refused before: {}", configuration.block));
            self.plan.search.tell(id, Outcome::Failed(Status::InvalidLaunch));
            return Ok(None);
        }
        let configurations = match self.ground(&point, configuration) {
            Ok(configurations) => configurations,
            Err(rejection) => {
                self.results.log(&format!("rejected for another instance: {rejection}"));
                self.plan.search.tell(id, Outcome::Rejected);
                return Ok(None);
            }
        };
        let known = self.known(&configurations);
        let first = self.first_runs();
        let candidate =
            Flying { trial: self.numbers.take(), point, hash, configurations, first: first.is_some(), stopped: None };
        self.in_order.expect(candidate.trial);
        if let Some(results) = known {
            return self.end_trial(id, candidate, &results, true);
        }
        self.evaluator.submit(id, candidate.configurations.clone(), first.unwrap_or(self.runs));
        self.flying.insert(id, candidate);
        Ok(None)
    }

    /// What the cache has of a candidate, if that is all of it.
    fn known(&mut self, configurations: &[Configuration]) -> Option<Vec<ReplayResult>> {
        let cache = self.cache.as_mut()?;
        let mut results = Vec::new();
        for (instance, configuration) in self.plan.instances.iter().zip(configurations) {
            let name =
                self.plan.options.measured.as_ref().map_or_else(|| instance.id.clone(), |it| it.name_of(&instance.id));
            let result = cache.get(&name, configuration)?.clone();
            let goes_on = result.verified;
            results.push(result);
            if !goes_on {
                break;
            }
        }
        Some(results)
    }

    /// Tells other sessions; one whose disk is full goes on without.
    fn remember(
        &mut self,
        configurations: &[Configuration],
        results: &[ReplayResult],
        which: fn(&ReplayResult) -> bool,
    ) {
        for ((instance, configuration), result) in self.plan.instances.iter().zip(configurations).zip(results) {
            let Some(cache) = self.cache.as_mut().filter(|_| which(result)) else { continue };
            let name =
                self.plan.options.measured.as_ref().map_or_else(|| instance.id.clone(), |it| it.name_of(&instance.id));
            if let Err(error) = cache.add(&name, configuration, result) {
                self.results.log(&error.to_string());
                self.unwritten.get_or_insert(error.into());
                self.cache = None;
            }
        }
    }

    /// Tells other sessions what did not verify another time: the last word counts.
    pub(super) fn forget(&mut self, configurations: &[Configuration], results: &[ReplayResult]) {
        self.remember(configurations, results, |result| result.status == Status::FailedVerification);
    }

    /// Writes down what became of a candidate, then tells the search.
    fn end_trial(
        &mut self,
        id: u64,
        candidate: Flying,
        results: &[ReplayResult],
        cached: bool,
    ) -> Result<Option<Stop>, SessionError> {
        let Flying { trial, point, hash, configurations, stopped, .. } = candidate;
        let label = self.plan.search.space().label(&point, &configurations[0]);
        let trial = Trial {
            trial,
            config_hash: hash,
            params: point,
            metric: None,
            speedup: None,
            objectives: Vec::new(),
            result: spokesman(results),
            instances: self.by_instance(&configurations, results),
            config: configurations.into_iter().next().expect("there is an instance"),
            cached,
            stopped,
        };
        let trial = self.judge(trial, results);
        // One that cannot be written is still told.
        let written = self.results.add_trial(&trial);
        self.plan.search.tell(id, self.outcome(&trial));
        let line = match (trial.metric, trial.speedup) {
            _ if stopped.is_some() => {
                let line = format!("[{}] {label} given up after its first run", trial.trial);
                self.results.log(&line);
                line
            }
            (Some(metric), Some(speedup)) => {
                let line = format!("[{}] {label} {}={metric} speedup={speedup}", trial.trial, self.metric.name());
                self.results.log(&line);
                line
            }
            _ => {
                self.results.log(&format!(
                    "[{}] {label} FAILED error={}",
                    trial.trial,
                    failure::in_full(&trial.result)
                ));
                format!("[{}] {label} FAILED error={}", trial.trial, failure::in_short(&trial.result))
            }
        };
        let (quiet, Self { in_order, live, lines, .. }) = (self.quiet(), &mut *self);
        in_order.add(trial.trial, line, |line| {
            if !quiet {
                live.above(|| lines.say(line));
            }
        });
        self.live.trial(trial.result.status);
        if let Some(metric) = trial.metric.filter(|metric| *metric < self.fastest) {
            self.live.best(metric, &label);
        }
        let failed = self.plan.options.fail_fast == Some(true) && trial.objectives.is_empty();
        self.note(&trial);
        self.rank(trial);
        written?;
        self.check_bridge()?;
        Ok(failed.then_some(Stop::Failure))
    }

    /// Fills in what a trial's results come to.
    fn judge(&mut self, mut trial: Trial, results: &[ReplayResult]) -> Trial {
        trial.metric = self.condense(results).filter(|_| trial.stopped.is_none());
        trial.speedup = trial.metric.map(|metric| self.baseline / metric);
        let configurations: Vec<&Configuration> = if trial.instances.is_empty() {
            vec![&trial.config]
        } else {
            trial.instances.iter().map(|instance| &instance.config).collect()
        };
        match self.costs(&configurations, results, Some(self.baseline)) {
            Ok(costs) => trial.objectives = costs,
            Err(error) => {
                self.results.log(&format!("[{}] {error}", trial.trial));
                trial.objectives = Vec::new();
            }
        }
        trial
    }

    /// Counts a trial.
    fn note(&mut self, trial: &Trial) {
        self.summary.count(&trial.result);
        self.summary.num_stopped += u64::from(trial.stopped.is_some());
        self.summary.num_cached += u64::from(trial.cached);
        self.bans.note(trial.config.block, trial.result.status);
        self.rounding.note(&trial.result);
    }

    /// A trial of this session's space may be its best.
    fn rank(&mut self, trial: Trial) {
        if let Some(metric) = trial.metric {
            self.fastest = self.fastest.min(metric);
            self.ranking.push(trial);
        }
    }

    /// Whether a trial of the session before is a point of this space, and means the same in it.
    fn is_of_this_space(&self, trial: &Trial) -> bool {
        let space = self.plan.search.space();
        let same = || space.ground(&trial.params).is_ok_and(|configuration| configuration.hash() == trial.config_hash);
        holds(space, &trial.params) && same() && self.is_same_everywhere(trial, &trial.params)
    }

    /// Whether a point comes to a trial's configurations for the instances after the first.
    fn is_same_everywhere(&self, trial: &Trial, point: &Point) -> bool {
        let known = trial.instances.iter().skip(1).map(|instance| &instance.config);
        self.plan
            .further
            .iter()
            .zip(known)
            .all(|(space, known)| space.ground(point).is_ok_and(|it| it.hash() == known.hash()))
    }

    /// What the search is told of a trial.
    fn outcome(&self, trial: &Trial) -> Outcome {
        if self.summary.refuted.contains_key(&trial.trial) {
            Outcome::Failed(Status::FailedVerification)
        } else if trial.objectives.is_empty() {
            Outcome::Failed(trial.result.status)
        } else {
            Outcome::Measured(trial.objectives.clone())
        }
    }

    /// A helper process that ended has no further answers, and a search without them would look finished.
    fn check_bridge(&self) -> Result<(), SessionError> {
        let Some(failure) = self.plan.bridge.as_ref().and_then(crate::bridge::Bridge::failure) else { return Ok(()) };
        // What ends this session may have ended the process, too.
        interrupt::check()?;
        Err(failure.into())
    }

    fn tell_end(&mut self, end: End) {
        if end == End::Fruitless {
            let reason = self
                .plan
                .search
                .last_rejection()
                .map(|reason| format!("; the last rejection: {reason}"))
                .unwrap_or_default();
            let sentence = format!("{end}{reason}");
            self.results.log(&sentence);
            mneme_core::remark!("mneme-tune: {sentence}");
        }
    }
}

fn results_of(trial: &Trial) -> Vec<ReplayResult> {
    if trial.instances.is_empty() {
        vec![trial.result.clone()]
    } else {
        trial.instances.iter().map(|instance| instance.result.clone()).collect()
    }
}

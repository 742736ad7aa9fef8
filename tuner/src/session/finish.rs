//! The end of a session: the best, and what is written of it.

use serde_json::{Value, json};

use super::{Finished, Session, SessionError, Stop, status};
use crate::evaluator::Evaluator;
use crate::failure;
use crate::report;
use crate::results::{Trial, proteus_tuned_kernels, write_whole};
use crate::sampler::{fronts, passes};
use crate::server::Runs;
use crate::text::ratio;
use crate::winner;

impl Session {
    /// Writes what the session found, whatever ended it.
    pub(super) fn finish(mut self, outcome: Result<(), SessionError>) -> Result<Finished, SessionError> {
        self.live.finish();
        let (outcome, best) = match outcome.and_then(|()| self.best()) {
            Ok(best) => (Ok(()), best),
            Err(error) => (Err(error), self.ranked().into_iter().next()),
        };
        let is_slower = |best: &Trial| self.summary.confirmation.as_ref().is_some_and(|rounds| rounds.fate(best.trial) == Some(crate::confirm::Fate::Slower));
        // Nobody wants an application that is slower.
        let deployed = best.as_ref().filter(|best| !is_slower(best));
        let tuned = deployed.map(|best| proteus_tuned_kernels(&self.plan.kernel, &best.config));
        self.summarise(&outcome, best.as_ref());
        if !self.plan.objectives.is_single() {
            let front = self.front();
            self.summary.pareto_front = front.iter().map(|trial| trial.trial).collect();
            self.results.write("pareto.json", &json!({"objectives": self.plan.objectives.names(), "trials": front}))?;
        }
        if let Some(best) = &best {
            self.results.write("best.json", best)?;
            self.export(tuned.as_ref())?;
        }
        self.results.write("summary.json", &self.summary)?;
        // The results are complete without it.
        if let Err(error) = report::write(self.results.folder(), None) {
            self.results.log(&format!("no report: {error}"));
        }
        if let Err(error) = &outcome {
            self.results.log(&error.to_string());
            if matches!(error, SessionError::Interrupted(_)) {
                let folder = winner::quoted(&self.results.folder().display().to_string());
                crate::remark!("Results so far are in {folder}; to go on:\n  mneme tune --resume --results-dir {folder}");
            }
        }
        outcome?;
        let status = self.tell(best.as_ref());
        self.lines.complete().map_err(SessionError::Output)?;
        Ok(Finished { status, summary: self.summary, tuned })
    }

    /// Everything that verified, the best by the first objective first; of sequences of passes that come to the same code, and so to
    /// the same measurement, the shortest.
    fn ranked(&self) -> Vec<Trial> {
        let space = self.plan.search.space();
        let mut ranked: Vec<Trial> = self.ranking.iter().filter(|trial| !trial.objectives.is_empty()).cloned().collect();
        ranked.sort_by(|one, other| {
            let simpler = || (passes(space, &one.params), one.trial).cmp(&(passes(space, &other.params), other.trial));
            one.objectives[0].total_cmp(&other.objectives[0]).then_with(simpler)
        });
        ranked
    }

    /// Trials that no other is better than in every objective, the best by the first one first.
    fn front(&self) -> Vec<Trial> {
        let ranked = self.ranked();
        let costs: Vec<&[f64]> = ranked.iter().map(|trial| trial.objectives.as_slice()).collect();
        let fronts = fronts(&costs);
        ranked.iter().zip(fronts).filter(|(_, front)| *front == 0).map(|(trial, _)| trial.clone()).collect()
    }

    /// The trials in the order in which they are to be reported: what was confirmed to be the best goes first.
    fn confirmed(&mut self) -> Result<Vec<Trial>, SessionError> {
        let mut ranked = self.ranked();
        // A winner by time is all that rounds of times can confirm.
        if !self.plan.objectives.is_time() {
            return Ok(ranked);
        }
        if let Some(confirmation) = self.confirm(&ranked)? {
            let measured_again: Vec<u64> =
                confirmation.finalists.iter().filter(|finalist| finalist.speedup.is_some()).map(|finalist| finalist.trial).collect();
            ranked.sort_by_key(|trial| measured_again.iter().position(|known| *known == trial.trial).unwrap_or(usize::MAX));
            // The baseline by another name is better than what is slower.
            if confirmation.finalists.first().and_then(|best| best.speedup).is_some_and(|speedup| speedup.estimate < 1.0) {
                ranked.sort_by_key(|trial| !self.is_baselines(trial));
            }
            self.summary.verdict = confirmation.sentence();
            self.summary.confirmation = Some(confirmation);
        }
        Ok(ranked)
    }

    /// The fastest that also verifies on the instances of `--verify-all`.
    fn best(&mut self) -> Result<Option<Trial>, SessionError> {
        let ranked = self.confirmed()?;
        if self.plan.verified_on.is_empty() || ranked.is_empty() {
            return Ok(ranked.into_iter().next());
        }
        let mut evaluator = Evaluator::start(self.plan.verified_on.iter().map(|(instance, _)| instance.command.clone()).collect())?;
        for trial in ranked {
            let grounded: Result<Vec<_>, _> = self.plan.verified_on.iter().map(|(_, space)| space.ground(&trial.params)).collect();
            let problem = match grounded {
                Err(rejection) => Some(rejection.to_string()),
                Ok(configurations) => {
                    let results = evaluator.run(configurations, Runs { iterations: 1, ..Runs::default() })?;
                    let failed = results.iter().zip(&self.plan.verified_on).find(|(result, _)| !result.verified);
                    failed.map(|(result, (instance, _))| format!("{}: {}", instance.id, failure::in_short(result)))
                }
            };
            let Some(problem) = problem else {
                self.summary.verified_on = self.plan.verified_on.iter().map(|(instance, _)| instance.id.clone()).collect();
                return Ok(Some(trial));
            };
            let sentence = format!("trial {} does not verify on every recorded instance ({problem})", trial.trial);
            self.results.log(&sentence);
            crate::remark!("mneme-tune: {sentence}");
            if let Some(confirmation) = &mut self.summary.confirmation {
                confirmation.reject(trial.trial);
                self.summary.verdict = confirmation.sentence();
            }
        }
        Ok(None)
    }

    fn summarise(&mut self, outcome: &Result<(), SessionError>, best: Option<&Trial>) {
        let status = match (outcome, &self.stop, best) {
            (Err(SessionError::Baseline(_)), ..) => "baseline_failed",
            (Err(SessionError::Interrupted(_)), ..) => "interrupted",
            (Err(SessionError::Objective(_)), ..) => "invalid_configuration",
            (Err(_), ..) => "internal_error",
            (Ok(()), ..) if self.plan.options.baseline_only => "baseline_only",
            (Ok(()), Stop::Failure, _) => "stopped_at_failure",
            (Ok(()), _, None) => "no_verified_configuration",
            (Ok(()), Stop::Timeout, _) => "timeout",
            (Ok(()), Stop::Complete, _) => "completed",
        };
        let search = &self.plan.search;
        let summary = &mut self.summary;
        summary.status = status.into();
        summary.elapsed_s = self.start.elapsed().as_secs_f64();
        (summary.num_rejected, summary.num_repeated) = (search.rejected(), search.repeated());
        if let Some(best) = best {
            summary.best_metric = best.metric;
            summary.best_speedup = best.speedup;
            summary.best_trial = Some(best.trial);
        }
    }

    fn export(&self, tuned: Option<&Value>) -> Result<(), SessionError> {
        let options = &self.plan.options;
        let Some(tuned) = tuned.filter(|_| options.no_proteus_output != Some(true)) else { return Ok(()) };
        match &options.proteus_output {
            Some(path) => write_whole(path, tuned)?,
            None => self.results.write(PROTEUS, tuned)?,
        }
        Ok(())
    }

    /// Says how an application takes the best over.
    fn tell_proteus(&self, best: &Trial) {
        let file = self.plan.options.proteus_output.clone().unwrap_or_else(|| self.results.folder().join(PROTEUS));
        let usage = winner::proteus_usage(&file, Some(&self.plan.search.space().baseline()), &best.config);
        crate::remark!("An application built with Proteus uses it by\n  {}", usage.command);
        if let Some(remark) = usage.remark {
            crate::remark!("{remark}.");
        }
    }

    /// Prints the end of it, and gives the exit status.
    fn tell(&self, best: Option<&Trial>) -> i32 {
        self.lines.say(&format!("Total tuning time: {:.2}s", self.summary.elapsed_s));
        if !self.quiet() {
            crate::remark!("Results are in {}", self.results.folder().display());
        }
        if self.plan.options.baseline_only {
            return 0;
        }
        let found = best.and_then(|best| Some((best, best.metric?, best.speedup?)));
        if let Some((best, metric, speedup)) = found {
            let label = self.plan.search.space().label(&best.params, &best.config);
            // The first measurement alone would promise what the rounds may not have confirmed.
            let finalists = self.summary.confirmation.iter().flat_map(|confirmation| &confirmation.finalists);
            let confirmed = finalists.filter(|finalist| finalist.trial == best.trial).find_map(|finalist| finalist.speedup);
            let confirmed = confirmed.map_or(String::new(), |it| {
                format!(" confirmed_speedup={} confirmed_interval={}..{}", ratio(it.estimate), ratio(it.low), ratio(it.high))
            });
            self.lines.say(&format!("BEST: {label} {}={metric} speedup={speedup}{confirmed}", self.metric.name()));
            let is_faster = self.summary.confirmation.as_ref().map_or(metric < self.baseline, |rounds| rounds.significant);
            if !self.summary.verdict.is_empty() {
                crate::remark!("mneme-tune: {}", self.summary.verdict);
            } else if !is_faster {
                crate::remark!("mneme-tune: no configuration is faster than the recorded one");
            }
            if is_faster && !self.quiet() && self.plan.options.no_proteus_output != Some(true) {
                self.tell_proteus(best);
            }
        } else {
            self.lines.say("No configuration verified.");
            if self.summary.num_trials_completed == 0 && self.summary.num_rejected > 0 {
                let reason = self.plan.search.last_rejection().map_or(String::new(), |reason| format!(", the last one because {reason}"));
                crate::remark!("mneme-tune: no point was replayed: the space rejected all {}{reason}", self.summary.num_rejected);
            }
        }
        if !self.quiet() {
            crate::remark!("{} of {} configurations verified", self.summary.num_verified, self.summary.num_trials_completed);
            if let Some(advice) = self.rounding.advice() {
                crate::remark!("{advice}");
            }
        }
        if found.is_none() || self.stop == Stop::Failure { status::NOTHING_VERIFIED } else { 0 }
    }
}

/// What Proteus reads, in the results folder.
pub const PROTEUS: &str = "proteus_tuned_kernels.json";

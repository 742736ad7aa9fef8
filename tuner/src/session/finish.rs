//! The end of a session: the best, and what is written of it.

use std::collections::BTreeSet;
use std::path::Path;

use mneme_core::exit;
use serde_json::{Value, json};

use super::{Finished, SUMMARY, Session, SessionError, Stop};
use crate::archive::ArchiveError;
use crate::confirm::{Fate, Finalist};
use crate::evaluator::Evaluator;
use crate::failure;
use crate::report;
use crate::results::proteus;
use crate::results::{ResultsError, TRIALS, Trial, proteus_tuned_kernels, remove, write_whole};
use crate::sampler::{fronts, passes};
use crate::server::Runs;
use crate::space::Point;
use crate::status;
use crate::text::ratio;
use crate::winner;

/// What a session comes to.
#[derive(Clone, Debug)]
pub(super) enum Best {
    /// A candidate.
    Candidate(Box<Trial>),
    /// Candidates verified, and none of them may take the place of what was recorded: it was refuted, or is slower.
    Recorded,
    /// No candidate verified.
    Nothing,
}

impl Session {
    /// Writes what the session found, whatever ended it. What cannot be written keeps nothing else from being written
    /// and told.
    pub(super) fn finish(mut self, outcome: Result<(), SessionError>) -> Result<Finished, SessionError> {
        self.live.finish();
        let (outcome, best) = match outcome.and_then(|()| self.best()) {
            Ok(best) => (Ok(()), best),
            Err(error) => (Err(error), self.first_of(self.ranked())),
        };
        let tuned = match &best {
            Best::Candidate(best) if self.is_fit(best) => Some(proteus_tuned_kernels(&self.plan.kernel, &best.config)),
            _ => None,
        };
        self.summarise(&outcome, &best);
        let pareto = (!self.plan.objectives.is_single()).then(|| {
            let front = self.front();
            self.summary.pareto_front = front.iter().map(|trial| trial.trial).collect();
            json!({"objectives": self.plan.objectives.names(), "trials": front})
        });
        // A session that could not go on leaves what there is as it was.
        let came_to_something = outcome.is_ok() || !matches!(best, Best::Nothing);
        for (name, written) in [
            ("pareto.json", self.put("pareto.json", pareto, came_to_something)),
            ("best.json", self.put("best.json", self.best_line(&best), came_to_something)),
            (proteus::FILE, self.export(tuned.as_ref(), came_to_something)),
            (SUMMARY, self.results.write(SUMMARY, &self.summary)),
            (report::FILE, self.report()),
            (TRIALS, self.results.sync()),
        ] {
            if let Err(error) = written {
                self.results.log(&format!("{name}: {error}"));
                self.unwritten.get_or_insert(error.into());
            }
        }
        if let Err(error) = outcome {
            self.results.log(&error.to_string());
            if let Some(unwritten) = self.unwritten.as_ref().filter(|_| !error.is_unwritten()) {
                mneme_core::remark!("mneme-tune: {unwritten}");
            }
            let goes_on = error.is_unwritten() || matches!(error, SessionError::Interrupted(_));
            if error.is_unwritten() && !matches!(best, Best::Nothing) {
                // Nothing else may have it.
                self.tell(&best);
            }
            if goes_on {
                let folder = winner::quoted(&self.results.folder().display().to_string());
                mneme_core::remark!(
                    "Results so far are in {folder}; to go on:\n  mneme tune --resume --results-dir {folder}"
                );
            }
            return Err(error);
        }
        let mut status = self.tell(&best);
        if let Some(error) = &self.unwritten {
            mneme_core::remark!("mneme-tune: {error}");
            status = exit::INTERNAL;
        }
        self.lines.complete().map_err(SessionError::Output)?;
        Ok(Finished { status, summary: self.summary, tuned })
    }

    /// Writes a file of the folder; where there is nothing to write, one of a session before would pass for this one's.
    fn put(&self, name: &str, value: Option<Value>, replaces: bool) -> Result<(), ResultsError> {
        match value {
            Some(value) => self.results.write(name, &value),
            None if replaces => self.results.remove(name),
            None => Ok(()),
        }
    }

    fn report(&self) -> Result<(), ResultsError> {
        match report::write(self.results.folder(), None) {
            Err(report::ReportError::Write { path, source }) => Err(ResultsError::Write { path, source }),
            Err(report::ReportError::Archive(ArchiveError::Unread { path, source })) => {
                Err(ResultsError::Io { path, source })
            }
            // There is nothing to report on.
            Err(report::ReportError::Archive(_)) | Ok(_) => Ok(()),
        }
    }

    /// What `best.json` has: the line of the best, or what was recorded as if it were one, without the number of a
    /// trial.
    fn best_line(&self, best: &Best) -> Option<Value> {
        match (best, &self.baseline_trial) {
            (Best::Candidate(best), _) => serde_json::to_value(best).ok(),
            (Best::Recorded, Some(baseline)) => {
                let mut line = serde_json::to_value(baseline).ok()?;
                line["speedup"] = json!(1.0);
                Some(line)
            }
            (Best::Recorded | Best::Nothing, _) => None,
        }
    }

    /// Whether an application may be given it: nobody wants one that is slower. A single measurement is enough to leave
    /// one alone.
    fn is_fit(&self, best: &Trial) -> bool {
        let confirmed = self.summary.confirmation.as_ref().and_then(|confirmation| confirmation.fate(best.trial));
        let not_slower = best.metric.is_some_and(|metric| metric <= self.baseline);
        confirmed.is_some() || !self.plan.objectives.is_time() || not_slower || self.is_baselines(best)
    }

    fn first_of(&self, trials: Vec<Trial>) -> Best {
        match trials.into_iter().next() {
            Some(first) => Best::Candidate(Box::new(first)),
            None if self.summary.refuted.is_empty() => Best::Nothing,
            None => Best::Recorded,
        }
    }

    /// Everything that verified and was not refuted, the best by the first objective first; of sequences of passes that
    /// come to the same code, and so to the same measurement, the shortest.
    pub(super) fn ranked(&self) -> Vec<Trial> {
        let space = self.plan.search.space();
        let stands = |trial: &&Trial| !trial.objectives.is_empty() && !self.summary.refuted.contains_key(&trial.trial);
        let mut ranked: Vec<Trial> = self.ranking.iter().filter(stands).cloned().collect();
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

    /// What may be the best, the best first. Where finalists were measured again they alone: those that are neither
    /// refuted nor slower; not what only seems slower either, but for the baseline by another name. Everything, where
    /// nothing was measured again.
    fn eligible(&self) -> Vec<Trial> {
        let ranked = self.ranked();
        let Some(confirmation) = self.summary.confirmation.as_ref().filter(|it| !it.finalists.is_empty()) else {
            return ranked;
        };
        let standing =
            confirmation.finalists.iter().filter(|finalist| !matches!(finalist.fate, Fate::Failed | Fate::Slower));
        let seem_faster = standing.filter(|finalist| finalist.speedup.is_none_or(|speedup| speedup.estimate >= 1.0));
        let of = |finalist: &Finalist| ranked.iter().find(|trial| trial.trial == finalist.trial).cloned();
        let baselines = ranked.iter().filter(|trial| self.is_baselines(trial)).cloned();
        seem_faster.filter_map(of).chain(baselines).collect()
    }

    /// The fastest that also verifies on the instances of `--verify-all`, once the finalists were measured again.
    fn best(&mut self) -> Result<Best, SessionError> {
        let mut elsewhere = match self.plan.verified_on.is_empty() || self.ranking.is_empty() {
            true => None,
            false => Some(Evaluator::start(
                self.plan.verified_on.iter().map(|(instance, _)| instance.command.clone()).collect(),
            )?),
        };
        let mut verified = BTreeSet::new();
        while let Some(finalists) = self.finalists() {
            // Only what verifies everywhere takes part.
            let next = elsewhere
                .as_mut()
                .and_then(|others| Some((others, finalists.iter().find(|it| !verified.contains(&it.trial))?)));
            let Some((others, trial)) = next else {
                self.summary.confirmation = self.confirm(&finalists)?;
                break;
            };
            if self.verifies_elsewhere(others, trial)? {
                verified.insert(trial.trial);
            }
        }
        let best = loop {
            let Best::Candidate(best) = self.first_of(self.eligible()) else { break self.first_of(Vec::new()) };
            let Some(others) = elsewhere.as_mut().filter(|_| !verified.contains(&best.trial)) else {
                break Best::Candidate(best);
            };
            if self.verifies_elsewhere(others, &best)? {
                verified.insert(best.trial);
            }
        };
        if let Some(confirmation) = &self.summary.confirmation {
            self.summary.verdict = confirmation.sentence();
        }
        let best = match best {
            // They verified, and are slower.
            Best::Nothing if !self.ranked().is_empty() => Best::Recorded,
            best => best,
        };
        if matches!(best, Best::Candidate(_)) {
            self.summary.verified_on = self.plan.verified_on.iter().map(|(instance, _)| instance.id.clone()).collect();
        }
        if matches!(best, Best::Recorded) {
            let before = std::mem::take(&mut self.summary.verdict);
            let refuted =
                || format!("no improvement: {} verified, and did not again", candidates(self.summary.refuted.len()));
            let verdict = if before.is_empty() { refuted() } else { before };
            self.summary.verdict = format!("{verdict}; the recorded configuration is the best");
        }
        Ok(best)
    }

    fn verifies_elsewhere(&mut self, others: &mut Evaluator, trial: &Trial) -> Result<bool, SessionError> {
        let grounded: Result<Vec<_>, _> =
            self.plan.verified_on.iter().map(|(_, space)| space.ground(&trial.params)).collect();
        let problem = match grounded {
            Err(rejection) => Some(rejection.to_string()),
            Ok(configurations) => {
                let results = others.run(configurations, Runs { iterations: 1, ..Runs::default() })?;
                let failed = results.iter().zip(&self.plan.verified_on).find(|(result, _)| !result.verified);
                failed.map(|(result, (instance, _))| format!("{}: {}", instance.id, failure::in_short(result)))
            }
        };
        if let Some(problem) = &problem {
            self.refute(trial.trial, format!("it does not verify on every recorded instance ({problem})"));
        }
        Ok(problem.is_none())
    }

    /// A trial that verified is none: it wins nothing, and nobody is told that it verified.
    pub(super) fn refute(&mut self, trial: u64, reason: String) {
        let sentence = format!("trial {trial}: {reason}");
        self.results.log(&sentence);
        self.live.above(|| mneme_core::remark!("mneme-tune: {sentence}"));
        if self.summary.refuted.insert(trial, reason).is_none() {
            self.summary.count_refuted();
        }
        if let Some(confirmation) = &mut self.summary.confirmation {
            confirmation.reject(trial);
        }
    }

    fn summarise(&mut self, outcome: &Result<(), SessionError>, best: &Best) {
        let stands = !self.ranked().is_empty();
        let status = match (outcome, &self.stop, best) {
            (Err(SessionError::Baseline(_)), ..) => "baseline_failed",
            (Err(SessionError::Interrupted(_)), ..) => "interrupted",
            (Err(SessionError::Objective(_)), ..) => "invalid_configuration",
            (Err(error), ..) if error.is_unwritten() => "not_written",
            (Err(_), ..) => "internal_error",
            (Ok(()), ..) if self.plan.options.baseline_only => "baseline_only",
            (Ok(()), Stop::Failure, _) => "stopped_at_failure",
            (Ok(()), _, Best::Nothing) => "no_verified_configuration",
            (Ok(()), _, Best::Recorded) if !stands => "no_verified_configuration",
            (Ok(()), Stop::Timeout, _) => "timeout",
            (Ok(()), Stop::Complete, _) => "completed",
        };
        let search = &self.plan.search;
        let summary = &mut self.summary;
        summary.status = status.into();
        summary.elapsed_s = self.start.elapsed().as_secs_f64();
        (summary.num_rejected, summary.num_repeated) = (search.rejected(), search.repeated());
        match best {
            Best::Candidate(best) => {
                summary.best_metric = best.metric;
                summary.best_speedup = best.speedup;
                summary.best_trial = Some(best.trial);
            }
            Best::Recorded => (summary.best_metric, summary.best_speedup) = (summary.baseline_metric, Some(1.0)),
            Best::Nothing => {}
        }
    }

    fn export(&self, tuned: Option<&Value>, replaces: bool) -> Result<(), ResultsError> {
        let options = &self.plan.options;
        let tuned = tuned.filter(|_| options.no_proteus_output != Some(true));
        match (&options.proteus_output, tuned) {
            (Some(path), Some(tuned)) => write_whole(path, tuned),
            (Some(path), None) if replaces && self.is_ours_alone(path) => {
                mneme_core::remark!(
                    "mneme-tune: {} had an earlier result for this kernel and was removed",
                    path.display()
                );
                remove(path)
            }
            (Some(_), None) => Ok(()),
            (None, tuned) => self.put(proteus::FILE, tuned.cloned(), replaces),
        }
    }

    /// Whether a file that Proteus may read is about this kernel and no other.
    fn is_ours_alone(&self, path: &Path) -> bool {
        let file = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        file.and_then(|file| Some(file.as_object()?.keys().eq([&self.plan.kernel]))).unwrap_or(false)
    }

    /// Says how an application takes the best over.
    fn tell_proteus(&self, best: &Trial) {
        let file =
            self.plan.options.proteus_output.clone().unwrap_or_else(|| self.results.folder().join(proteus::FILE));
        let usage = winner::proteus_usage(&file, Some(&self.plan.search.space().baseline()), &best.config);
        mneme_core::remark!("An application built with Proteus uses it by\n  {}", usage.command);
        if let Some(remark) = usage.remark {
            mneme_core::remark!("{remark}.");
        }
    }

    /// Prints the end of it, and gives the exit status.
    fn tell(&self, best: &Best) -> i32 {
        self.lines.say(&format!("Total tuning time: {:.2}s", self.summary.elapsed_s));
        if !self.quiet() {
            mneme_core::remark!("Results are in {}", self.results.folder().display());
        }
        if self.plan.options.baseline_only {
            return 0;
        }
        match best {
            Best::Candidate(best) => self.tell_candidate(best),
            Best::Recorded => {
                let space = self.plan.search.space();
                let label = space.label(&Point::new(), &space.baseline());
                let said = if label.is_empty() { "as recorded".into() } else { format!("as recorded {label}") };
                self.lines.say(&format!("BEST: {said} {}={} speedup=1", self.metric.name(), self.baseline));
                if !self.summary.verdict.is_empty() {
                    mneme_core::remark!("mneme-tune: {}", self.summary.verdict);
                }
            }
            Best::Nothing => {
                self.lines.say("No configuration verified.");
                if self.summary.num_trials_completed == 0 && self.summary.num_rejected > 0 {
                    let reason = self
                        .plan
                        .search
                        .last_rejection()
                        .map_or(String::new(), |it| format!(", the last one because {it}"));
                    mneme_core::remark!(
                        "mneme-tune: no point was replayed: the space rejected all {}{reason}",
                        self.summary.num_rejected
                    );
                } else if self.summary.num_trials_completed == 0
                    && self.stop == Stop::Complete
                    && !self.plan.options.baseline_only
                {
                    mneme_core::remark!("mneme-tune: no point was replayed: none satisfies the space's constraints");
                }
            }
        }
        if !self.quiet() {
            mneme_core::remark!(
                "{} of {} configurations verified",
                self.summary.num_verified,
                self.summary.num_trials_completed
            );
            if let Some(advice) = self.rounding.advice() {
                mneme_core::remark!("{advice}");
            }
        }
        if self.ranked().is_empty() || self.stop == Stop::Failure { status::NOTHING_VERIFIED } else { 0 }
    }

    fn tell_candidate(&self, best: &Trial) {
        let (Some(metric), Some(speedup)) = (best.metric, best.speedup) else { return };
        let label = self.plan.search.space().label(&best.params, &best.config);
        // The first measurement alone would promise what the rounds may not have confirmed.
        let finalists = self.summary.confirmation.iter().flat_map(|confirmation| &confirmation.finalists);
        let confirmed = finalists.filter(|finalist| finalist.trial == best.trial).find_map(|finalist| finalist.speedup);
        let confirmed = confirmed.map_or(String::new(), |it| {
            format!(
                " confirmed_speedup={} confirmed_interval={}..{}",
                ratio(it.estimate),
                ratio(it.low),
                ratio(it.high)
            )
        });
        self.lines.say(&format!("BEST: {label} {}={metric} speedup={speedup}{confirmed}", self.metric.name()));
        let is_faster = self.summary.confirmation.as_ref().map_or(metric < self.baseline, |rounds| rounds.significant);
        if !self.summary.verdict.is_empty() {
            mneme_core::remark!("mneme-tune: {}", self.summary.verdict);
        } else if !is_faster {
            mneme_core::remark!("mneme-tune: no configuration is faster than the recorded one");
        }
        if is_faster && !self.quiet() && self.plan.options.no_proteus_output != Some(true) {
            self.tell_proteus(best);
        }
    }
}

fn candidates(count: usize) -> String {
    if count == 1 { "1 candidate".into() } else { format!("{count} candidates") }
}

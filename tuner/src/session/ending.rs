//! The end of a session: writes its files and summary, even if the session failed.

use std::path::Path;

use mneme_model::text::ratio;
use mneme_model::units;
use mneme_system::exit;
use serde_json::{Value, json};

use super::standings::{Best, Standings};
use super::{Finished, SUMMARY, Session, SessionError, Stop};
use crate::results::{TRIALS, Trial, proteus, proteus_tuned_kernels};
use crate::winner;
use crate::{kept, report};

impl Session {
    /// Writes the findings of the session, however it ended. A file that cannot be written does not stop the others,
    /// nor the report to the user.
    pub(super) fn finish(mut self, outcome: Result<(), SessionError>) -> Result<Finished, SessionError> {
        self.progress.finish();
        let (outcome, best) = match outcome.and_then(|()| self.choose()) {
            Ok(best) => (Ok(()), best),
            Err(error) => (Err(error), self.unconfirmed()),
        };
        let by_time = self.criteria.objectives.is_time();
        let tuned = match &best {
            Best::Candidate(best) if self.standings.is_fit(best, by_time) => {
                // Launches of several instances have dimensions of their own.
                let recorded = (self.criteria.instances.len() == 1).then(|| self.proposals.space().baseline());
                Some(proteus_tuned_kernels(&self.kernel, &best.config, recorded.as_ref()))
            }
            _ => None,
        };
        self.count_in_doubt();
        self.summarise(&outcome, &best);
        self.write(&best, tuned.as_ref(), outcome.is_ok());
        if let Err(error) = outcome {
            self.report_failure(&error, &best);
            return Err(error);
        }
        self.give_way_to_better()?;
        let mut status = self.announce(&best);
        if let Some(error) = self.records.unwritten() {
            mneme_system::remark!("mneme-tune: {error}");
            status = exit::INTERNAL;
        }
        self.progress.complete().map_err(SessionError::Output)?;
        Ok(Finished { status, summary: self.standings.summary, tuned })
    }

    /// Gives the folder back to the earlier session if that has the better winner. Later messages name the folder that
    /// holds this session.
    fn give_way_to_better(&mut self) -> Result<(), SessionError> {
        let results = &mut self.records.results;
        let Some(aside) = results.aside().map(Path::to_owned) else { return Ok(()) };
        let Some(kept) = kept::keep_better(results.folder(), &aside)? else { return Ok(()) };
        mneme_system::remark!("mneme-tune: {kept}");
        if kept.is_earlier {
            results.moved_to(aside);
            let written = self.records.report();
            self.records.note(report::FILE, written);
        }
        Ok(())
    }

    fn write(&mut self, best: &Best, tuned: Option<&Value>, complete: bool) {
        let pareto = (!self.criteria.objectives.is_single()).then(|| {
            let front = self.standings.front(self.proposals.space());
            self.standings.summary.pareto_front = front.iter().map(|trial| trial.trial).collect();
            json!({"objectives": self.criteria.objectives.names(), "trials": front})
        });
        // A session that failed, or could not try its candidates, leaves earlier results in place.
        let is_told = complete && !self.standings.is_untold(best);
        let is_new = matches!(best, Best::Candidate(_)) || !self.records.has_winner();
        let replaces = is_told || (is_new && !matches!(best, Best::Nothing));
        let line = best_line(best, &self.standings).filter(|_| replaces).map(|line| self.with_context(line));
        let records = &mut self.records;
        let proteus = &self.settings.proteus;
        let usage = |file: &Path| winner::proteus_instructions(file, &self.kernel, &self.specializable);
        for (name, written) in [
            ("pareto.json", records.put("pareto.json", pareto.as_ref(), replaces)),
            ("best.json", records.put("best.json", line.as_ref(), replaces)),
            (proteus::FILE, records.export(proteus, &self.kernel, tuned, replaces)),
            (proteus::USAGE, records.explain(proteus, tuned.map(|_| usage), replaces)),
            (SUMMARY, records.results.write(SUMMARY, &self.standings.summary)),
            (report::FILE, records.report()),
            (TRIALS, records.results.sync()),
        ] {
            records.note(name, written);
        }
    }

    /// The best with what the existing Mneme says beside it.
    fn with_context(&self, mut line: Value) -> Value {
        let instances = &self.criteria.instances;
        let ids: Vec<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
        line["status"] = json!("success");
        line["best_metric"] = line["metric"].clone();
        line["baseline_metric"] = json!(self.standings.summary.baseline_metric);
        line["record"] = json!({
            "record_database": instances.first().map(|instance| instance.command.database.display().to_string()),
            "record_id": if let [id] = ids[..] { json!(id) } else { json!(ids) },
            "kernel_name": self.kernel,
        });
        line
    }

    /// The best of a session that ended early. Nothing was confirmed, so this is the recorded configuration if winners
    /// have to be confirmed.
    fn unconfirmed(&self) -> Best {
        match self.standings.first_of(self.standings.ranked(self.proposals.space())) {
            Best::Candidate(_) if self.confirms() => Best::Recorded,
            best => best,
        }
    }

    fn report_failure(&mut self, error: &SessionError, best: &Best) {
        self.records.log(&error.to_string());
        // If the results folder fails, one message is enough.
        let is_said = error.is_unwritten() || matches!(error, SessionError::Results(_));
        if let Some(unwritten) = self.records.unwritten().filter(|_| !is_said) {
            mneme_system::remark!("mneme-tune: {unwritten}");
        }
        let goes_on = error.is_unwritten() || matches!(error, SessionError::Interrupted(_));
        if error.is_unwritten() && !matches!(best, Best::Nothing) {
            // The user gets the best on the terminal, since no file may hold it.
            self.announce(best);
        }
        if matches!(error, SessionError::Interrupted(_)) {
            mneme_system::remark!("mneme-tune: {}", self.best_so_far());
        }
        if goes_on {
            let folder = winner::quoted(&self.records.results.folder().display().to_string());
            mneme_system::remark!(
                "Results so far are in {folder}; to continue:\n  mneme tune --resume --results-dir {folder}"
            );
        }
    }

    /// The fastest candidate of a session that was interrupted before its end.
    fn best_so_far(&self) -> String {
        let space = self.proposals.space();
        let Some(Trial { trial, metric: Some(metric), speedup: Some(speedup), params, config, .. }) =
            self.standings.ranked(space).into_iter().next()
        else {
            return match self.standings.summary.baseline_metric {
                Some(baseline) => {
                    format!(
                        "the session ended before it measured a candidate; the baseline takes {}",
                        units::time(baseline)
                    )
                }
                None => "the session ended before its first measurement".into(),
            };
        };
        format!(
            "the best so far is trial {trial} ({}): {}, {}x as fast as the baseline in its first measurement, not confirmed",
            space.label(&params, &config),
            units::time(metric),
            ratio(speedup)
        )
    }

    fn summarise(&mut self, outcome: &Result<(), SessionError>, best: &Best) {
        let stands = self.standings.summary.num_verified > 0;
        let status = match (outcome, &self.stop, best) {
            (Err(SessionError::Baseline(_)), ..) => "baseline_failed",
            (Err(SessionError::Unproven(_)), ..) => "unproven",
            (Err(SessionError::Interrupted(_)), ..) => "interrupted",
            (Err(SessionError::Objective(_)), ..) => "invalid_configuration",
            (Err(error), ..) if error.is_unwritten() => "not_written",
            (Err(_), ..) => "internal_error",
            (Ok(()), ..) if self.is_baseline_only() => "baseline_only",
            (Ok(()), ..) if self.standings.is_untold(best) => "internal_error",
            (Ok(()), Stop::Failure, _) => "stopped_at_failure",
            (Ok(()), _, Best::Nothing) => "no_verified_configuration",
            (Ok(()), _, Best::Recorded) if !stands => "no_verified_configuration",
            (Ok(()), Stop::Timeout, _) => "timeout",
            (Ok(()), Stop::Complete, _) => "completed",
        };
        let search = &self.proposals.search;
        let looks = self.standings.looks.summary();
        let summary = &mut self.standings.summary;
        summary.looks = looks;
        summary.status = status.into();
        summary.elapsed_s = self.start.elapsed().as_secs_f64();
        (summary.num_rejected, summary.num_repeated) = (search.rejected(), search.repeated());
        match best {
            Best::Candidate(best) => {
                summary.best_metric = best.metric;
                summary.best_speedup = best.speedup;
                summary.best_trial = Some(best.trial);
                summary.edges = self.proposals.space().edges(&best.params, &best.config);
            }
            Best::Recorded => (summary.best_metric, summary.best_speedup) = (summary.baseline_metric, Some(1.0)),
            Best::Nothing => {}
        }
    }
}

/// The content of `best.json`: the best trial with its confirmed figures, or the baseline in the same form without a
/// trial number.
fn best_line(best: &Best, standings: &Standings) -> Option<Value> {
    match (best, &standings.baseline) {
        (Best::Candidate(best), _) => {
            let mut line = serde_json::to_value(best).ok()?;
            line["confirmed"] = json!(standings.confirmed_speedup(best.trial));
            Some(line)
        }
        (Best::Recorded, Some(baseline)) => {
            let mut line = serde_json::to_value(baseline).ok()?;
            line["speedup"] = json!(1.0);
            Some(line)
        }
        (Best::Recorded | Best::Nothing, _) => None,
    }
}

//! The announcement at the end of a session: the best, how to use it, and the exit status.

use mneme_model::text::ratio;
use mneme_model::units::counted;
use mneme_system::exit;

use super::standings::Best;
use super::{Session, Stop};
use crate::confirm::FirstRunGap;
use crate::options::{ProteusOutput, SpaceSettings};
use crate::results::{References, Trial, proteus};
use crate::space::Point;
use crate::winner;

impl Session {
    /// Prints the end of the session, and returns the exit status.
    pub(super) fn announce(&self, best: &Best) -> i32 {
        let summary = &self.standings.summary;
        self.progress.say(&format!("Total tuning time: {:.2}s", summary.elapsed_s));
        let quiet = self.progress.is_quiet();
        if !quiet {
            mneme_system::remark!("Results are in {}", self.records.results.folder().display());
        }
        if self.is_baseline_only() {
            return 0;
        }
        match best {
            Best::Candidate(best) => self.report_candidate(best),
            Best::Recorded => self.report_recorded(),
            Best::Nothing => self.report_nothing(),
        }
        if let Some(reason) = &self.standings.untried {
            let (untried, all) = (summary.num_internal_error, summary.num_trials_completed);
            mneme_system::remark!("mneme-tune: {untried} of {all} configurations could not be tried: {reason}");
        }
        for finalist in summary.confirmation.iter().flat_map(|confirmation| &confirmation.finalists) {
            if let Some(FirstRunGap { ratio: slower, baseline }) = finalist.first_run_gap {
                mneme_system::remark!(
                    "mneme-tune: trial {}: the first run after loading the code takes {}x as long as later runs (baseline: {}x); \
                     code that reuses results of earlier launches behaves like this, so your application may gain less than measured",
                    finalist.trial,
                    ratio(slower),
                    ratio(baseline)
                );
            }
        }
        let left = self.numbers.untried();
        if left > 0 {
            mneme_system::remark!(
                "mneme-tune: {} could not be tried before, and not now either; the counts leave them out",
                counted(left, "configuration")
            );
        }
        if summary.num_without_objective > 0 {
            mneme_system::remark!(
                "mneme-tune: {} of {} verified configurations cannot win, because an objective has no value for them; see logs/tune.log",
                summary.num_without_objective,
                summary.num_verified
            );
        }
        if !quiet {
            mneme_system::remark!(
                "{} of {} configurations verified", summary.num_verified, summary.num_trials_completed
            );
            if let Some(sentence) = summary.references.as_ref().and_then(References::sentence) {
                mneme_system::remark!("{sentence}");
            }
            if summary.num_runs_saved > 0 {
                let (saved, all) = (summary.num_runs_saved, summary.num_runs + summary.num_runs_saved);
                mneme_system::remark!("Skipped {saved} of {all} runs: those candidates were already clearly slower.");
            }
            if summary.num_other_grid > 0 && self.may_keep_grid() {
                mneme_system::remark!(
                    "{} failed verification with a grid that differs from the recorded one, because the grid follows the block; \
                     if the kernel relies on its grid, pass --keep-grid",
                    counted(summary.num_other_grid as usize, "candidate")
                );
            }
            let advice = [self.standings.rounding.advice(), self.standings.invalid_accesses.advice()];
            for advice in advice.into_iter().flatten() {
                mneme_system::remark!("{advice}");
            }
        }
        if self.standings.is_untold(best) {
            return exit::INTERNAL;
        }
        // Candidates that were given up are not ranked, and accepted ones that show too little did not verify.
        let nothing = summary.num_verified == 0 && self.standings.ranked(self.proposals.space()).is_empty();
        if nothing || self.stop == Stop::Failure { exit::NOTHING_VERIFIED } else { 0 }
    }

    /// Whether the grid follows the block in all candidates, and the user could choose otherwise.
    fn may_keep_grid(&self) -> bool {
        matches!(&self.settings.space, SpaceSettings::BuiltIn(preset) if preset.keep_grid == [false])
    }

    fn report_candidate(&self, best: &Trial) {
        let (Some(metric), Some(speedup)) = (best.metric, best.speedup) else { return };
        let summary = &self.standings.summary;
        let label = self.proposals.space().label(&best.params, &best.config);
        let confirmed = self.standings.confirmed_speedup(best.trial);
        let evidence = match confirmed {
            Some(speedup) => format!("interval={}..{}", ratio(speedup.low), ratio(speedup.high)),
            None => "unconfirmed".into(),
        };
        let time = self.criteria.timed(metric);
        self.progress.say(&format!("BEST: {label} {time} speedup={} {evidence}", ratio(speedup)));
        let is_faster = confirmed.is_some() || metric < self.standings.baseline_metric;
        if !summary.verdict.is_empty() {
            mneme_system::remark!("mneme-tune: {}", summary.verdict);
        } else if !is_faster {
            mneme_system::remark!("mneme-tune: no configuration was faster than the baseline");
        }
        if let Some(first) = self.fastest_at_first().filter(|first| *first != best.trial && !self.progress.is_quiet()) {
            mneme_system::remark!(
                "Trial {first} was fastest in its first measurement; the finalists are those with the lowest mean of all looks ({})",
                self.finalists_in_words()
            );
        }
        for edge in &summary.edges {
            mneme_system::remark!(
                "mneme-tune: the best lies on an edge of the space, so a better one may lie outside: {edge}"
            );
        }
        if is_faster && !self.progress.is_quiet() {
            self.report_usage(best);
        }
    }

    /// The trial with the lowest first measurement, if candidates were visited several times.
    fn fastest_at_first(&self) -> Option<u64> {
        let is_looked_at = !self.standings.summary.looks.is_empty();
        self.standings.ranked(self.proposals.space()).first().map(|trial| trial.trial).filter(|_| is_looked_at)
    }

    fn finalists_in_words(&self) -> String {
        let finalists = self.standings.summary.confirmation.iter().flat_map(|confirmation| &confirmation.finalists);
        let numbers: Vec<String> = finalists.map(|finalist| finalist.trial.to_string()).collect();
        format!("trials {}", numbers.join(", "))
    }

    fn report_recorded(&self) {
        let space = self.proposals.space();
        let label = space.label(&Point::new(), &space.baseline());
        let said = if label.is_empty() { "as recorded".into() } else { format!("as recorded {label}") };
        let time = self.criteria.timed(self.standings.baseline_metric);
        self.progress.say(&format!("BEST: {said} {time} speedup=1"));
        if !self.standings.summary.verdict.is_empty() {
            mneme_system::remark!("mneme-tune: {}", self.standings.summary.verdict);
        }
    }

    fn report_nothing(&self) {
        let summary = &self.standings.summary;
        if !summary.verdict.is_empty() {
            mneme_system::remark!("mneme-tune: {}", summary.verdict);
            return;
        }
        self.progress.say("No configuration verified.");
        if summary.num_trials_completed > 0 {
            return;
        }
        if summary.num_rejected > 0 {
            let reason = self.proposals.search.last_rejection();
            let reason = reason.map_or(String::new(), |it| format!(", the last one because {it}"));
            mneme_system::remark!(
                "mneme-tune: no point was replayed, because the space rejected all {}{reason}",
                summary.num_rejected
            );
        } else if self.stop == Stop::Complete {
            mneme_system::remark!(
                "mneme-tune: no point was replayed, because no point satisfies the space's constraints"
            );
        }
    }

    /// Prints how to use the best: with `mneme apply`, in the source, and with Proteus.
    fn report_usage(&self, best: &Trial) {
        let folder = self.records.results.folder();
        mneme_system::remark!(
            "To run your application with it, without a rebuild:\n  {}",
            winner::apply_command(folder)
        );
        if let Some(source) = winner::source(&self.proposals.space().baseline(), &best.config) {
            mneme_system::remark!("To change the launch in its source:\n  {source}");
        }
        self.report_proteus(best);
    }

    fn report_proteus(&self, best: &Trial) {
        let file = match &self.settings.proteus {
            ProteusOutput::Nowhere => return,
            ProteusOutput::Results => self.records.results.folder().join(proteus::FILE),
            ProteusOutput::File(path) => path.clone(),
        };
        let usage = winner::proteus_usage(&file, Some(&self.proposals.space().baseline()), &best.config);
        mneme_system::remark!("If your application is built with Proteus:\n  {}", usage.command);
        if let Some(remark) = usage.remark {
            mneme_system::remark!("{remark}.");
        }
    }
}

//! The live table on a terminal: progress of the session, the best so far, and failures.
//!
//! It is not drawn into a pipe or with `--quiet`.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mneme_model::result::ReplayStatus;
use mneme_model::text::{ratio, shorten};
use mneme_model::units;
use mneme_system::console;

/// Width of a candidate's label, characters.
const LABEL_WIDTH: usize = 60;

/// The table, redrawn by its changes, at most a few times a second.
#[derive(Debug)]
pub struct Live {
    table: MultiProgress,
    progress: ProgressBar,
    best: ProgressBar,
    failures: ProgressBar,
    baseline: Option<f64>,
    verified: u64,
    failed: BTreeMap<&'static str, u64>,
}

impl Live {
    /// A table for `total` trials, if known. Hidden with `--quiet` or without a terminal.
    pub fn new(total: Option<u64>, quiet: bool) -> Self {
        let seen = !quiet && std::io::stderr().is_terminal();
        Self::on(if seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }, total)
    }

    fn on(target: ProgressDrawTarget, total: Option<u64>) -> Self {
        let table = MultiProgress::with_draw_target(target);
        let style = |template| ProgressStyle::with_template(template).expect("the template is constant");
        let row = |bar: ProgressBar, template| table.add(bar.with_style(style(template)));
        let progress = match total {
            Some(total) => row(ProgressBar::new(total), "trials    {pos}/{len} {wide_bar} {per_sec}, {eta} left"),
            None => row(ProgressBar::no_length(), "trials    {pos} {spinner} {per_sec}, for {elapsed}"),
        };
        let best = row(ProgressBar::no_length(), "best      {msg}");
        let failures = row(ProgressBar::no_length(), "verified  {msg}");
        Self { table, progress, best, failures, baseline: None, verified: 0, failed: BTreeMap::new() }
    }

    /// Sets the number of trials once it is known.
    pub fn set_total(&self, total: u64) {
        self.progress.set_length(total);
    }

    /// Shows the baseline's metric, ns.
    pub fn baseline(&mut self, metric: f64) {
        self.baseline = Some(metric);
        self.best.set_message(format!("none yet; the baseline takes {}", units::time(metric)));
    }

    /// Counts trials that are done already: those of an earlier session, or from a cache.
    pub fn skip(&self, trials: u64) {
        self.progress.inc(trials);
        // They would distort the rate.
        self.progress.reset_eta();
    }

    /// Counts a trial by its status.
    pub fn trial(&mut self, status: ReplayStatus) {
        self.progress.inc(1);
        match status {
            ReplayStatus::Verified => self.verified += 1,
            other => *self.failed.entry(reading(other)).or_default() += 1,
        }
        let failed: u64 = self.failed.values().sum();
        let mut text = self.verified.to_string();
        if failed > 0 {
            let by_class: Vec<_> = self.failed.iter().map(|(class, count)| format!("{count} {class}")).collect();
            text.push_str(&format!(", failed {failed}: {}", by_class.join(", ")));
        }
        self.failures.set_message(text);
    }

    /// Shows a new best: its metric in ns and its label.
    pub fn best(&self, metric: f64, label: &str) {
        let speedup = self
            .baseline
            .map_or(String::new(), |baseline| format!(", {}x as fast as the baseline", ratio(baseline / metric)));
        self.best.set_message(format!(
            "{}{speedup}: {}",
            units::time(metric),
            shorten(&console::plain(label), LABEL_WIDTH)
        ));
    }

    /// Runs a function that writes to the terminal, above the table.
    pub fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        self.table.suspend(write)
    }

    /// Takes the table off the terminal.
    pub fn finish(&self) {
        for bar in [&self.progress, &self.best, &self.failures] {
            bar.finish_and_clear();
        }
        // Fails only if the terminal is gone.
        let _ = self.table.clear();
    }
}

/// A class of failure, for people.
pub fn reading(status: ReplayStatus) -> &'static str {
    match status {
        ReplayStatus::Verified => "verified",
        ReplayStatus::FailedVerification => "not verified",
        ReplayStatus::Unproven => "unproven",
        ReplayStatus::CompileError => "not built",
        ReplayStatus::InvalidConfig => "invalid",
        ReplayStatus::InvalidLaunch => "launch refused",
        ReplayStatus::RuntimeError => "failed while running",
        ReplayStatus::Timeout => "out of time",
        ReplayStatus::InternalError => "our fault",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    fn on(terminal: &InMemoryTerm, total: Option<u64>) -> Live {
        Live::on(ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255), total)
    }

    /// Redraws at once, despite the rate limit.
    fn screen(live: &Live, terminal: &InMemoryTerm) -> String {
        for bar in [&live.progress, &live.best, &live.failures] {
            bar.force_draw();
        }
        terminal.contents()
    }

    #[test]
    fn rows_follow_the_trials() {
        let terminal = InMemoryTerm::new(10, 120);
        let mut live = on(&terminal, Some(4));
        live.baseline(2000.0);
        assert!(screen(&live, &terminal).contains("the baseline takes 2.0 µs"), "{}", terminal.contents());
        for status in [
            ReplayStatus::Verified,
            ReplayStatus::CompileError,
            ReplayStatus::FailedVerification,
            ReplayStatus::CompileError,
        ] {
            live.trial(status);
        }
        live.best(1000.0, "passes=default<O1> blockDim.x=64");
        let seen = screen(&live, &terminal);
        for part in [
            "4/4",
            "1.0 µs, 2.00x as fast as the baseline: passes=default<O1>",
            "1, failed 3: 2 not built, 1 not verified",
        ] {
            assert!(seen.contains(part), "{part} is missing from\n{seen}");
        }
        live.above(|| ());
        live.finish();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn a_session_without_an_end_has_no_time_left() {
        let terminal = InMemoryTerm::new(10, 120);
        let mut live = on(&terminal, None);
        live.trial(ReplayStatus::Timeout);
        let seen = screen(&live, &terminal);
        assert!(seen.contains("1 ") && !seen.contains("left"), "{seen}");
        assert!(seen.contains("0, failed 1: 1 out of time"), "{seen}");
        live.set_total(7);
        live.skip(2);
        assert_eq!((live.progress.length(), live.progress.position()), (Some(7), 3));
    }

    #[test]
    fn nothing_is_drawn_for_nobody() {
        let mut live = Live::new(Some(1), true);
        live.trial(ReplayStatus::Verified);
        assert!(live.progress.is_hidden());
    }
}

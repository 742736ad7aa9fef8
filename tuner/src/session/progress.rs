//! Shows the progress of a session: lines on standard output, remarks, and the live table.

use std::collections::VecDeque;

use mneme_model::result::ReplayStatus;
use mneme_system::console::OutputLines;

use crate::live::Live;

/// The display of a running session.
pub struct Progress {
    live: Live,
    lines: OutputLines,
    in_order: InOrder,
    quiet: bool,
}

impl Progress {
    /// `total` is the number of trials, if known.
    pub fn new(total: Option<u64>, quiet: bool) -> Self {
        Self { live: Live::new(total, quiet), lines: OutputLines::default(), in_order: InOrder::default(), quiet }
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a line.
    pub fn say(&self, line: &str) {
        self.live.above(|| self.lines.say(line));
    }

    /// Prints a remark on standard error.
    pub fn remark(&self, sentence: &str) {
        self.live.above(|| mneme_system::remark!("mneme-tune: {sentence}"));
    }

    /// Takes the table off the terminal for now, because the next line may take long to come.
    pub fn pause(&self) {
        self.live.above(|| {});
    }

    pub fn baseline(&mut self, metric: f64) {
        self.live.baseline(metric);
    }

    /// Counts trials of the resumed session.
    pub fn skip(&self, trials: u64) {
        self.live.skip(trials);
    }

    /// Notes that a trial has begun. Its line comes before those of later trials.
    pub fn begin(&mut self, trial: u64) {
        self.in_order.expect(trial);
    }

    /// Notes that a trial has ended, and prints its line in turn.
    pub fn end(&mut self, trial: u64, line: String, status: ReplayStatus) {
        let Self { live, lines, in_order, quiet } = self;
        in_order.add(trial, line, |line| {
            if !*quiet {
                live.above(|| lines.say(line));
            }
        });
        live.trial(status);
    }

    /// Shows a new best: its metric in ns and its label.
    pub fn best(&self, metric: f64, label: &str) {
        self.live.best(metric, label);
    }

    /// Takes the table off the terminal.
    pub fn finish(&self) {
        self.live.finish();
    }

    /// Checks that standard output received every line.
    ///
    /// # Errors Writing failed.
    pub fn complete(&self) -> std::io::Result<()> {
        self.lines.complete()
    }
}

/// Holds lines back until all earlier ones have arrived, because results arrive in the order of completion.
#[derive(Debug, Default)]
struct InOrder(VecDeque<(u64, Option<String>)>);

impl InOrder {
    /// Reserves the place of a line.
    fn expect(&mut self, id: u64) {
        self.0.push_back((id, None));
    }

    fn add(&mut self, id: u64, line: String, mut print: impl FnMut(&str)) {
        if let Some((_, place)) = self.0.iter_mut().find(|(expected, _)| *expected == id) {
            *place = Some(line);
        }
        while let Some((_, Some(_))) = self.0.front() {
            if let Some((_, Some(line))) = self.0.pop_front() {
                print(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_in_order() {
        let mut order = InOrder::default();
        let mut printed = Vec::new();
        [7, 2, 9, 4, 3].iter().for_each(|id| order.expect(*id));
        for id in [2, 9, 7, 3, 4] {
            order.add(id, id.to_string(), |line| printed.push(line.to_owned()));
        }
        assert_eq!(printed, ["7", "2", "9", "4", "3"]);
    }
}

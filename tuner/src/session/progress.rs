//! The progress of a session as users see it: lines on standard output, remarks, and the live table.

use std::collections::VecDeque;

use mneme_core::console::OutputLines;
use mneme_core::result::ReplayStatus;

use crate::live::Live;

/// What is shown while a session runs.
pub struct Progress {
    live: Live,
    lines: OutputLines,
    in_order: InOrder,
    quiet: bool,
}

impl Progress {
    /// For so many trials, where that many are known of.
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

    /// Remarks on something, on standard error.
    pub fn remark(&self, sentence: &str) {
        self.live.above(|| mneme_core::remark!("mneme-tune: {sentence}"));
    }

    /// Takes the table off the terminal for a moment, which what is printed next may take long to come to.
    pub fn pause(&self) {
        self.live.above(|| {});
    }

    pub fn baseline(&mut self, metric: f64) {
        self.live.baseline(metric);
    }

    /// Trials of the session before.
    pub fn skip(&self, trials: u64) {
        self.live.skip(trials);
    }

    /// A trial has begun: its line comes before those of trials after it.
    pub fn begin(&mut self, trial: u64) {
        self.in_order.expect(trial);
    }

    /// A trial has ended so, and its line is this.
    pub fn end(&mut self, trial: u64, line: String, status: ReplayStatus) {
        let Self { live, lines, in_order, quiet } = self;
        in_order.add(trial, line, |line| {
            if !*quiet {
                live.above(|| lines.say(line));
            }
        });
        live.trial(status);
    }

    /// A new best: its metric, ns, and what it is called.
    pub fn best(&self, metric: f64, label: &str) {
        self.live.best(metric, label);
    }

    /// Takes the table off the terminal.
    pub fn finish(&self) {
        self.live.finish();
    }

    /// Makes sure that standard output has every line.
    ///
    /// # Errors
    /// It could not be written.
    pub fn complete(&self) -> std::io::Result<()> {
        self.lines.complete()
    }
}

/// Holds lines back until those of candidates before them have come: results arrive in the order of completion.
#[derive(Debug, Default)]
struct InOrder(VecDeque<(u64, Option<String>)>);

impl InOrder {
    /// A line will come.
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

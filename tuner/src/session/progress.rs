//! Shows the progress of a session: lines on standard output, remarks, and the live table.

use std::collections::VecDeque;

use mneme_model::result::{ReplayStatus, SharedWith};
use mneme_system::console::OutputLines;

use crate::live::Live;

/// The display of a running session.
pub struct Progress {
    live: Live,
    lines: OutputLines,
    in_order: InOrder,
    quiet: bool,
}

/// A trial's line on standard output.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialLine {
    Whole(String),
    /// Its code and launch are those of an earlier trial, or of the baseline, and so is its time.
    Same(SharedWith),
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
    pub fn end(&mut self, trial: u64, line: TrialLine, status: ReplayStatus) {
        self.in_order.add(trial, line);
        self.print();
        self.live.trial(status);
    }

    fn print(&mut self) {
        for line in self.in_order.ready.drain(..).filter(|_| !self.quiet) {
            self.live.above(|| self.lines.say(&line));
        }
    }

    /// Shows a new best: its metric in ns and its label.
    pub fn best(&self, metric: f64, label: &str) {
        self.live.best(metric, label);
    }

    /// Takes the table off the terminal.
    pub fn finish(&mut self) {
        self.in_order.flush();
        self.print();
        self.live.finish();
    }

    /// Checks that standard output received every line.
    ///
    /// # Errors Writing failed.
    pub fn complete(&self) -> std::io::Result<()> {
        self.lines.complete()
    }
}

/// Holds lines back until all earlier ones have arrived, because results arrive in the order of completion. Consecutive
/// trials with the same code as one earlier trial get one line.
#[derive(Debug, Default)]
struct InOrder {
    waiting: VecDeque<(u64, Option<TrialLine>)>,
    /// The first and the last of such trials, and the earlier trial.
    same: Option<(u64, u64, SharedWith)>,
    ready: Vec<String>,
}

impl InOrder {
    /// Reserves the place of a line.
    fn expect(&mut self, id: u64) {
        self.waiting.push_back((id, None));
    }

    fn add(&mut self, id: u64, line: TrialLine) {
        if let Some((_, place)) = self.waiting.iter_mut().find(|(expected, _)| *expected == id) {
            *place = Some(line);
        }
        while let Some((_, Some(_))) = self.waiting.front() {
            match self.waiting.pop_front() {
                Some((id, Some(TrialLine::Same(earlier)))) => match &mut self.same {
                    Some((_, last, of)) if *of == earlier && *last + 1 == id => *last = id,
                    _ => {
                        self.flush();
                        self.same = Some((id, id, earlier));
                    }
                },
                Some((_, Some(TrialLine::Whole(line)))) => {
                    self.flush();
                    self.ready.push(line);
                }
                _ => {}
            }
        }
    }

    /// Ends the line of trials with the same code.
    fn flush(&mut self) {
        let Some((first, last, earlier)) = self.same.take() else { return };
        let numbers = if first == last { first.to_string() } else { format!("{first}..{last}") };
        let of = match earlier {
            SharedWith::Number(trial) => format!("[{trial}]"),
            SharedWith::Named(_) => "the baseline".to_owned(),
        };
        self.ready.push(format!("[{numbers}] the same code as {of}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_in_order() {
        let mut order = InOrder::default();
        [7, 2, 9, 4, 3].iter().for_each(|id| order.expect(*id));
        for id in [2, 9, 7, 3, 4] {
            order.add(id, TrialLine::Whole(id.to_string()));
        }
        assert_eq!(order.ready, ["7", "2", "9", "4", "3"]);
    }

    #[test]
    fn trials_with_the_same_code_get_one_line() {
        let mut order = InOrder::default();
        (0..7).for_each(|id| order.expect(id));
        for id in [0, 3, 1, 2, 4, 5, 6] {
            let of = SharedWith::Number(if id < 4 { 0 } else { 5 });
            let line = if [0, 5].contains(&id) { TrialLine::Whole(id.to_string()) } else { TrialLine::Same(of) };
            order.add(id, line);
        }
        order.flush();
        let texts = ["0", "[1..3] the same code as [0]", "[4] the same code as [5]", "5", "[6] the same code as [5]"];
        assert_eq!(order.ready, texts);
    }
}

//! Repeats: measures trials again that were measured while the device was disturbed.

use mneme_model::protocol::StoppingRule;
use mneme_model::result::{ReplayResult, SharedWith};

use super::confirm::AGAIN;
use super::criteria::spokesman;
use super::{Session, SessionError, Stop};
use crate::candidate::CandidateNumber;
use crate::results::Trial;
use crate::server::Runs;

impl Session {
    /// Submits the next trial to measure again, unless the session is about to end. Returns whether it did.
    pub(super) fn repeat(&mut self, stop: Option<&Stop>) -> bool {
        if !matches!(stop, None | Some(Stop::Complete)) || self.time_is_up().is_some() {
            return false;
        }
        let Some(number) = self.disturbances.next() else { return false };
        let trial = self.standings.trial(number).expect("what was measured is ranked").clone();
        let id = self.ended[&number];
        // The repeat is measured even if its first run looks slow.
        let runs = self.runs();
        let stopping = runs.stopping.map(|rule| StoppingRule { hopeless_ns: None, ..rule });
        self.evaluator.submit(id, vec![trial.config.clone()], Runs { fresh: true, stopping, ..runs });
        self.repeats.insert(id, trial);
        true
    }

    /// Corrects a trial that was measured again, and the trials that share its runs.
    pub(super) fn end_repeat(
        &mut self,
        id: CandidateNumber,
        before: &Trial,
        results: &[ReplayResult],
    ) -> Result<(), SessionError> {
        self.standings.summary.num_runs += results.iter().map(|result| result.exec_time.len() as u64).sum::<u64>();
        // Trials that were not run, because they have the same code and launch.
        let shared = Some(SharedWith::Number(before.trial));
        let shares =
            |other: &&Trial| other.result.shared_with == shared && other.result.exec_time == before.result.exec_time;
        let sharing: Vec<Trial> = self.standings.all_ranked().iter().filter(shares).cloned().collect();
        self.correct(id, before, results, None)?;
        for trial in sharing {
            // A trial of the resumed session may share with another one.
            if let Some(follower) = self.ended.get(&trial.trial) {
                self.correct(*follower, &trial, results, shared)?;
            }
        }
        Ok(())
    }

    /// Replaces a trial's results.
    fn correct(
        &mut self,
        id: CandidateNumber,
        before: &Trial,
        results: &[ReplayResult],
        shared_with: Option<SharedWith>,
    ) -> Result<(), SessionError> {
        let result = ReplayResult { shared_with, ..spokesman(results) };
        let mut trial = Trial { result, repeated: before.metric, ..before.clone() };
        self.judge(&mut trial, results);
        let configuration = std::slice::from_ref(&before.config);
        let Some((metric, earlier)) = trial.metric.zip(before.metric) else {
            self.refute_again(before.trial, configuration, results, AGAIN);
            self.proposals.search.tell(id, self.standings.outcome(before));
            return self.proposals.check_bridge();
        };
        if let (Some(test), None) = (&mut self.test, shared_with) {
            test.forget(earlier);
            test.note(trial.result.measured(), metric);
        }
        self.records.log(&format!("[{}] measured again: {metric} ns in place of {earlier} ns", trial.trial));
        let written = self.records.results.add_trial(&trial);
        self.records.remember(configuration, results);
        self.proposals.search.tell(id, self.standings.outcome(&trial));
        if metric < self.standings.fastest {
            self.progress.best(metric, &self.proposals.space().label(&trial.params, &trial.config));
        }
        self.note_measured(&trial);
        self.standings.summary.references.get_or_insert_default().repeated += 1;
        self.standings.replace(trial);
        written?;
        self.proposals.check_bridge()
    }
}

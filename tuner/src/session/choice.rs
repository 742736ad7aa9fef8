//! Chooses the best: confirms finalists, and verifies them on every instance that the user names.

use std::collections::BTreeSet;

use mneme_model::result::ReplayStatus;
use mneme_model::units::counted;

use super::proof::Proof;
use super::standings::Best;
use super::{Session, SessionError};
use crate::evaluator::Evaluator;
use crate::failure;
use crate::results::Trial;
use crate::sequential::EXPENSIVE;
use crate::server::Runs;

impl Session {
    /// The fastest candidate that also verifies on the instances of `--verify-all`, after the finalists were measured
    /// again.
    pub(super) fn choose(&mut self) -> Result<Best, SessionError> {
        self.look_again()?;
        let mut elsewhere = match self.verified_on.is_empty() || self.standings.is_empty() {
            true => None,
            false => {
                Some(Evaluator::start(self.verified_on.iter().map(|(instance, _)| instance.command.clone()).collect())?)
            }
        };
        let mut verified = BTreeSet::new();
        let mut proof = Proof::default();
        while let Some(finalists) = self.finalists() {
            // Only candidates that verify on all instances take part.
            let next = elsewhere
                .as_mut()
                .and_then(|others| Some((others, finalists.iter().find(|it| !verified.contains(&it.trial))?)));
            let Some((others, trial)) = next else {
                // Otherwise only the winner is proven.
                let is_long = finalists.iter().all(|trial| trial.metric.is_some_and(|time| time >= EXPENSIVE));
                // The next candidates replace those that were refuted.
                if !is_long && !self.are_proven(&mut proof, &finalists)? {
                    continue;
                }
                let untested = self.standings.summary.untested.len();
                self.standings.summary.confirmation = self.confirm(&finalists)?;
                // The next candidates replace those that could not be measured.
                if self.standings.summary.untested.len() > untested {
                    continue;
                }
                if self.has_proven_winner(&mut proof)? {
                    break;
                }
                continue;
            };
            if self.verifies_elsewhere(others, trial)? {
                verified.insert(trial.trial);
            }
        }
        let best = loop {
            let best = match self.standings.first_of(self.eligible()) {
                Best::Candidate(best) => best,
                other => break other,
            };
            let Some(others) = elsewhere.as_mut().filter(|_| !verified.contains(&best.trial)) else {
                break Best::Candidate(best);
            };
            if self.verifies_elsewhere(others, &best)? {
                verified.insert(best.trial);
            }
        };
        Ok(self.judged(best))
    }

    /// Proves the winner, or the next one if it is refuted. Returns false if all winners are refuted.
    fn has_proven_winner(&mut self, proof: &mut Proof) -> Result<bool, SessionError> {
        let mut is_refuted = false;
        while let Some(winner) = self.standings.winners().into_iter().next() {
            if self.are_proven(proof, &[winner])? {
                let confirmation = self.standings.summary.confirmation.as_mut().expect("it has a winner");
                confirmation.keep_proven(&proof.proven);
                return Ok(true);
            }
            is_refuted = true;
        }
        Ok(!is_refuted)
    }

    /// The best, with a verdict in the summary.
    fn judged(&mut self, best: Best) -> Best {
        let best = match best {
            // Candidates verified, but they are slower.
            Best::Nothing if self.standings.summary.num_verified > 0 => Best::Recorded,
            best => best,
        };
        let summary = &mut self.standings.summary;
        if let Some(confirmation) = &summary.confirmation {
            summary.verdict = confirmation.sentence();
        }
        if matches!(best, Best::Candidate(_)) {
            summary.verified_on = self.verified_on.iter().map(|(instance, _)| instance.id.clone()).collect();
        }
        if !matches!(best, Best::Recorded) {
            return best;
        }
        let untested = summary.untested.len();
        if untested > 0 {
            // One of the untested candidates may be faster than the recorded configuration.
            summary.verdict =
                format!("no best was found, because {} could not be measured again", counted(untested, "candidate"));
            return Best::Nothing;
        }
        let before = std::mem::take(&mut summary.verdict);
        let unconfirmed = || match summary.refuted.len() {
            0 => "no candidate was confirmed to be faster".into(),
            refuted => format!(
                "no candidate was confirmed to be faster: {} did not verify again",
                counted(refuted, "candidate")
            ),
        };
        let verdict = if before.is_empty() { unconfirmed() } else { before };
        summary.verdict = format!("{verdict}; the recorded configuration is the best");
        best
    }

    /// Trials that may become the session's best, best first: the confirmed ones, or every verified trial if the
    /// session confirms nothing.
    pub(super) fn eligible(&self) -> Vec<Trial> {
        if self.confirms() { self.standings.winners() } else { self.standings.ranked(self.proposals.space()) }
    }

    fn verifies_elsewhere(&mut self, others: &mut Evaluator, trial: &Trial) -> Result<bool, SessionError> {
        let grounded: Result<Vec<_>, _> =
            self.verified_on.iter().map(|(_, space)| space.ground(&trial.params)).collect();
        let mut untested = None;
        let problem = match grounded {
            Err(rejection) => Some(rejection.to_string()),
            Ok(configurations) => {
                let results = others.run(configurations, Runs { iterations: 1, ..Runs::default() })?;
                let failed = results.iter().zip(&self.verified_on).find(|(result, _)| !result.verified);
                untested = failed
                    .filter(|(result, _)| result.status == ReplayStatus::InternalError)
                    .map(|(result, _)| failure::in_full(result));
                failed.map(|(result, (instance, _))| format!("{}: {}", instance.id, failure::in_short(result)))
            }
        };
        if let Some(reason) = untested {
            self.leave_untested(trial.trial, reason);
        } else if let Some(problem) = &problem {
            self.refute(trial.trial, format!("it does not verify on every recorded instance ({problem})"));
        }
        Ok(problem.is_none())
    }
}

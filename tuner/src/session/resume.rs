//! Resumption: takes over the trials of the session that wrote the results folder.

use std::collections::{BTreeSet, VecDeque};

use mneme_model::llvm_version;
use mneme_model::result::{ReplayResult, ReplayStatus};

use super::criteria::results_of;
use super::{CONFIG, SUMMARY, Session, SessionError};
use crate::measured::Measured;
use crate::options::{Options, TuningSettings};
use crate::results::{Results, ResultsError, SessionSummary, Trial};
use crate::server::{ServerGreeting, compiler};

/// Whether to try a trial again: Mneme failed or lacked something, which the user may have fixed since, or the result
/// has no evidence.
pub fn is_untried(trial: &Trial) -> bool {
    trial.result.status == ReplayStatus::InternalError || !has_evidence(&trial.result)
}

/// Whether a verified result comes with its evidence. Results of earlier releases lack it, so they are measured again.
pub fn has_evidence(result: &ReplayResult) -> bool {
    result.evidence.is_some() || result.status != ReplayStatus::Verified
}

/// Numbers for new trials: first those of trials that never ended or could not be tried, then those after the greatest.
#[derive(Debug, Default)]
pub struct Numbers {
    free: VecDeque<u64>,
    next: u64,
    /// Numbers of trials that could not be tried.
    untried: BTreeSet<u64>,
}

impl Numbers {
    pub fn after(known: &[Trial]) -> Self {
        let (untried, tried): (Vec<&Trial>, Vec<&Trial>) = known.iter().partition(|trial| is_untried(trial));
        let numbers = |trials: Vec<&Trial>| trials.into_iter().map(|trial| trial.trial).collect::<BTreeSet<u64>>();
        let (untried, taken) = (numbers(untried), numbers(tried));
        let next = untried.last().max(taken.last()).map_or(0, |last| last + 1);
        Self { free: (0..next).filter(|number| !taken.contains(number)).collect(), next, untried }
    }

    /// Number of trials that could not be tried before and were not tried again.
    pub fn untried(&self) -> usize {
        self.free.iter().filter(|number| self.untried.contains(number)).count()
    }

    pub fn take(&mut self) -> u64 {
        self.free.pop_front().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// Notes the device that replays. It must be the device of the resumed session, with the compilers of its trials.
pub fn note_device(
    settings: &mut TuningSettings,
    results: &Results,
    greeting: &ServerGreeting,
    known: &[Trial],
) -> Result<(), ResultsError> {
    let measured = settings.measured().cloned().map(|measured| measured.on(greeting));
    let earlier = if settings.resume { results.read::<Options>(CONFIG)? } else { None };
    let earlier = earlier.and_then(|earlier| earlier.measured?.place());
    let here = measured.as_ref().and_then(Measured::place);
    let elsewhere = earlier.zip(here).filter(|(earlier, here)| earlier != here);
    match elsewhere.or_else(|| known.iter().find_map(|trial| other_compiler(trial, greeting))) {
        Some((found, here)) => Err(ResultsError::Elsewhere { folder: results.folder().into(), found, here }),
        None => {
            settings.set_measured(measured);
            Ok(())
        }
    }
}

/// The LLVM that compiled a trial and the one that would compile it now, if they are different releases of one version.
fn other_compiler(trial: &Trial, greeting: &ServerGreeting) -> Option<(String, String)> {
    let found = trial.result.environment.versions.get("llvm")?;
    let here = compiler(&greeting.compilers, llvm_version::major(found)?).filter(|here| here != found)?;
    Some((format!("LLVM {found}"), format!("LLVM {here}")))
}

/// The initial summary. Refuted candidates stay refuted, except those that could not be measured again.
pub fn summary(settings: &TuningSettings, results: &Results, requested: u64) -> Result<SessionSummary, ResultsError> {
    let earlier = if settings.resume { results.read::<SessionSummary>(SUMMARY)? } else { None };
    let SessionSummary { mut refuted, untested, .. } = earlier.unwrap_or_default();
    refuted.retain(|trial, _| !untested.contains(trial));
    Ok(SessionSummary { num_trials_requested: requested, refuted, ..SessionSummary::default() })
}

impl Session {
    /// Reports the trials of the resumed session to the search, in their order.
    pub(super) fn resume(&mut self, known: Vec<Trial>) -> Result<(), SessionError> {
        let count = known.len() as u64;
        self.standings.summary.num_resumed = count;
        for mut trial in known {
            let results = results_of(&trial);
            self.judge(&mut trial, &results);
            self.count(&trial);
            if self.standings.summary.refuted.contains_key(&trial.trial) {
                self.standings.summary.count_refuted(false);
            }
            if self.proposals.is_of_this_space(&trial) {
                let outcome = self.standings.outcome(&trial);
                self.proposals.search.resume(trial.params.clone(), trial.config_hash.clone(), outcome);
                self.standings.rank(trial);
            } else {
                self.proposals.foreign.insert(trial.config_hash.clone(), trial);
            }
        }
        self.progress.skip(count);
        let asks_optuna = self.settings.resume && self.settings.search.study.is_some();
        if let Some(bridge) = self.proposals.bridge.as_ref().filter(|_| asks_optuna) {
            bridge.abandon()?;
        }
        self.proposals.check_bridge()
    }
}

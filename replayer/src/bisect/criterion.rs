//! The criterion by which a replay is good or bad.

use mneme_model::result::{ReplayResult, ReplayStatus};

use super::experiments::ExperimentOutcome;
use super::search::Judgement;
use crate::cli::FailureKind;

/// What is looked for, and the figure that it is measured by.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    pub failing: FailureKind,
    /// The largest figure that is good.
    pub bound: f64,
}

impl Criterion {
    /// Whether a build ends without code.
    pub fn crash() -> Self {
        Self { failing: FailureKind::Crash, bound: f64::INFINITY }
    }

    pub fn judge(&self, observation: &ExperimentOutcome) -> Judgement {
        let built = observation.outcome.as_ref().is_some_and(|outcome| outcome.is_ok());
        let status = observation.result.status;
        match self.failing {
            FailureKind::Crash => match status {
                ReplayStatus::InvalidConfig => Judgement::Unclear,
                _ if built => Judgement::Good,
                _ => Judgement::Bad,
            },
            FailureKind::Wrong => match status {
                // What a faulty pass breaks differs, whatever it shows that the others' memory does not.
                ReplayStatus::Verified | ReplayStatus::Unproven => Judgement::Good,
                ReplayStatus::FailedVerification | ReplayStatus::RuntimeError => Judgement::Bad,
                ReplayStatus::Timeout if built => Judgement::Bad,
                _ => Judgement::Unclear,
            },
            FailureKind::Slow | FailureKind::Regs => match self.figure(&observation.result) {
                Some(figure) if status.is_as_recorded() => {
                    if figure > self.bound {
                        Judgement::Bad
                    } else {
                        Judgement::Good
                    }
                }
                _ => Judgement::Unclear,
            },
        }
    }

    /// What is measured, where something is: the least time in ns, which other work on the machine disturbs least, or
    /// registers.
    pub fn figure(&self, result: &ReplayResult) -> Option<f64> {
        match self.failing {
            FailureKind::Slow => result.measured().iter().min().map(|time| *time as f64),
            FailureKind::Regs => (result.reg_usage >= 0).then_some(result.reg_usage as f64),
            FailureKind::Wrong | FailureKind::Crash => None,
        }
    }

    /// Whether something is measured at all.
    pub fn measures(&self) -> bool {
        matches!(self.failing, FailureKind::Slow | FailureKind::Regs)
    }
}

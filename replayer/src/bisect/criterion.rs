//! The criterion that separates good replays from bad ones.

use mneme_model::result::{ReplayResult, ReplayStatus};

use super::experiments::ExperimentOutcome;
use super::search::Judgement;
use crate::cli::FailureKind;

/// The failure that the bisection searches for, and the limit of the measured figure.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    pub failing: FailureKind,
    /// The largest good figure.
    pub bound: f64,
}

impl Criterion {
    /// The criterion for builds that end without code.
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
                // A faulty pass makes memory differ, so matching memory is good even if the match proves little.
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

    /// The measured figure, if the criterion has one: registers, or the shortest time in ns, which other work on the
    /// machine disturbs least.
    pub fn figure(&self, result: &ReplayResult) -> Option<f64> {
        match self.failing {
            FailureKind::Slow => result.measured().iter().min().map(|time| *time as f64),
            FailureKind::Regs => (result.reg_usage >= 0).then_some(result.reg_usage as f64),
            FailureKind::Wrong | FailureKind::Crash => None,
        }
    }

    /// Whether the criterion measures a figure.
    pub fn measures(&self) -> bool {
        matches!(self.failing, FailureKind::Slow | FailureKind::Regs)
    }
}

//! Winners of tuning in a form for application processes.
//!
//! A winner is compiled code, with all conditions on its launches. `mneme apply` writes winners to a file that
//! `MNEME_TUNED` names, and the recorder library reads it.

// These macros panic if the reader is gone; use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod error;
mod mailbox;
mod rule;
mod specialised;
mod trial;
mod winner;

pub use error::WinnerError;
pub use rule::{DimensionRule, LaunchDimensions, NoArithmetic, ReadRule, RuleInputs};
pub use specialised::{
    FoldedKinds, SPECIALISATION_VARIABLE, SpecialisationAnswer, SpecialisationError, SpecialisationRequest,
    SpecialisedLaunch,
};
pub use trial::{TRIALS_VARIABLE, TrialVerdict, WinnerTrial};
pub use winner::{Folded, TIMES_VARIABLE, VARIABLE, VERSION, VerifiedLaunch, Winner, WinnerIdentity, Winners};

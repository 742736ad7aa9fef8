//! Winners of tuning as an application's process can use them.
//!
//! They are compiled, with all that decides which launches they are for. `mneme apply` writes them to a file that
//! `MNEME_TUNED` names, and the recorder library reads it.

// They panic if nobody reads; `mneme_system::console` has functions that do not.
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

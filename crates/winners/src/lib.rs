//! Winners of tuning as an application's process can use them.
//!
//! They are compiled, with all that decides which launches they are for. `mneme apply` writes them to a file that
//! `MNEME_TUNED` names, and the recorder library reads it.

// They panic if nobody reads; `mneme_system::console` has functions that do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod mailbox;
mod rule;
mod specialised;
mod trial;
mod winner;

pub use rule::{DimensionRule, LaunchDimensions, ReadRule, RuleInputs};
pub use specialised::{
    FoldedKinds, SPECIALISATION_VARIABLE, SpecialisationAnswer, SpecialisationRequest, SpecialisedLaunch,
};
pub use trial::{TRIALS_VARIABLE, TrialVerdict, WinnerTrial};
pub use winner::{Folded, TIMES_VARIABLE, VARIABLE, VERSION, VerifiedLaunch, Winner, WinnerIdentity, Winners};

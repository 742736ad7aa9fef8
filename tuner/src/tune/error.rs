//! Errors that keep a session from starting, or from going on.

use mneme_core::exit;
use mneme_core::recording::RecordingError;

use crate::bridge::BridgeError;
use crate::document::DocumentError;
use crate::objective::ObjectiveError;
use crate::options::{Contradiction, MergeError};
use crate::results::ResultsError;
use crate::sampler::SettingsError;
use crate::session::SessionError;
use crate::simulate::SimulationError;
use crate::space::FileError;
use crate::status;
use mneme_core::console::is_full;

/// Why nothing, or nothing more, is tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    #[error(transparent)]
    Usage(#[from] Contradiction),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// One sentence about a setting that cannot be.
    #[error("{0}")]
    Setting(String),
    #[error(transparent)]
    Space(#[from] FileError),
    #[error(transparent)]
    Sampler(#[from] SettingsError),
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A folder that does not say which kernel is meant.
    #[error("{0}")]
    Kernel(String),
    #[error("mneme-replay is not beside mneme-tune; install all of Mneme, or set MNEME_HOME")]
    Incomplete,
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl TuneError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Usage(_) => exit::BAD_USAGE,
            Self::Document(DocumentError::Write { source, .. }) if is_full(source) => exit::INTERNAL,
            Self::Merge(_)
            | Self::Document(_)
            | Self::Setting(_)
            | Self::Space(_)
            | Self::Sampler(_)
            | Self::Objective(_)
            | Self::Simulation(_) => status::INVALID_CONFIGURATION,
            Self::Recording(_) | Self::Kernel(_) => status::BAD_RECORD,
            Self::Incomplete => status::INTERNAL,
            Self::Session(error) => error.exit_status(),
        }
    }
}

impl From<BridgeError> for TuneError {
    fn from(error: BridgeError) -> Self {
        Self::Session(error.into())
    }
}

impl From<ResultsError> for TuneError {
    fn from(error: ResultsError) -> Self {
        Self::Session(error.into())
    }
}

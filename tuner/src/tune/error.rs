//! Errors that stop a session, or keep it from starting.

use std::path::PathBuf;

use mneme_recording::RecordingError;
use mneme_system::exit;
use mneme_system::files::trust;

use crate::archive::ArchiveError;
use crate::bridge::BridgeError;
use crate::document::DocumentError;
use crate::objective::ObjectiveError;
use crate::options::{Contradiction, MergeError};
use crate::results::ResultsError;
use crate::sampler::SettingsError;
use crate::server::ServerError;
use crate::session::SessionError;
use crate::simulate::SimulationError;
use crate::space::{FileError, SpaceFault};

/// Why tuning failed.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    #[error(transparent)]
    Usage(#[from] Contradiction),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("{folder} holds no session to resume; name the --results-dir of one, or leave out --resume to start a new one", folder = .0.display())]
    NoSession(PathBuf),
    #[error("--start-from {path}: {source}", path = path.display())]
    Start { path: PathBuf, source: std::io::Error },
    #[error("--learn-from: {0}")]
    Learn(ArchiveError),
    /// A setting that is impossible, in one sentence.
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
    /// A folder that leaves open which kernel to tune.
    #[error("{0}")]
    Kernel(String),
    #[error("mneme-replay is not installed beside mneme-tune; install all of Mneme, or set MNEME_HOME")]
    Incomplete,
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl TuneError {
    /// Whether the reason is in the session's log, so that its folder has to stay.
    pub fn is_in_log(&self) -> bool {
        let Self::Session(error) = self else { return false };
        matches!(error, SessionError::Bridge(BridgeError::Died { .. }) | SessionError::Server(ServerError::Died { .. }))
    }

    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Document(error) | Self::Merge(MergeError::Document(error)) => error.exit_status(),
            Self::Simulation(SimulationError::Read { source, .. }) => trust::exit_status(source),
            Self::Space(error) if matches!(*error.what, SpaceFault::Unread(_)) => exit::NO_INPUT,
            Self::NoSession(_) | Self::Start { .. } => exit::NO_INPUT,
            Self::Learn(error) => error.exit_status(),
            Self::Usage(_)
            | Self::Merge(_)
            | Self::Setting(_)
            | Self::Kernel(_)
            | Self::Space(_)
            | Self::Sampler(_)
            | Self::Objective(_)
            | Self::Simulation(_) => exit::BAD_USAGE,
            Self::Recording(error) => error.exit_status(),
            Self::Incomplete => exit::INTERNAL,
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

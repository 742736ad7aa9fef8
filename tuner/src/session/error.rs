//! Errors that end a session early, and their exit statuses.

use mneme_system::exit;
use mneme_system::files::trust;

use crate::bridge::BridgeError;
use crate::cache::CacheError;
use crate::interrupt::Interrupted;
use crate::objective::ObjectiveError;
use crate::results::ResultsError;
use crate::server::ServerError;

/// Why a session ended early.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Server(ServerError),
    /// The results folder has everything that was measured.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("the baseline failed, so candidates cannot be compared with it: {0}")]
    Baseline(String),
    /// Memory did not change enough in the recorded launch to judge candidates.
    #[error("{0}; to tune it anyway, pass --accept-unproven")]
    Unproven(String),
    /// A part of Mneme is missing or broken.
    #[error("the baseline could not be tried, so candidates cannot be compared with it: {0}")]
    BaselineUntried(String),
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// The session itself is complete.
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
}

impl From<ServerError> for SessionError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Interrupted(interrupted) => Self::Interrupted(interrupted),
            error => Self::Server(error),
        }
    }
}

impl SessionError {
    /// Whether results could not be written, for example on a full disk. Earlier results stay, and the session can be
    /// resumed.
    pub fn is_unwritten(&self) -> bool {
        matches!(self, Self::Results(ResultsError::Write { .. }) | Self::Server(ServerError::Log { .. }))
    }

    pub fn exit_status(&self) -> i32 {
        match self {
            error if error.is_unwritten() => exit::INTERNAL,
            Self::Cache(error) if error.is_full() => exit::INTERNAL,
            Self::Results(ResultsError::InUse { .. }) => exit::IN_USE,
            Self::Results(ResultsError::Io { source, .. }) => trust::exit_status(source),
            Self::Results(_) | Self::Cache(_) | Self::Objective(_) => exit::BAD_USAGE,
            Self::Bridge(BridgeError::Unread { .. }) => exit::NO_INPUT,
            Self::Bridge(BridgeError::Died { .. }) => exit::INTERNAL,
            Self::Bridge(_) => exit::BAD_USAGE,
            Self::Baseline(_) => exit::BASELINE_FAILED,
            Self::Unproven(_) => exit::UNPROVEN,
            Self::Output(_) => exit::INTERNAL,
            Self::Interrupted(interrupted) => interrupted.exit_status(),
            Self::Server(ServerError::Fatal { status, .. }) => *status,
            Self::Server(_) | Self::BaselineUntried(_) => exit::INTERNAL,
        }
    }
}

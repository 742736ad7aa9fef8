//! Errors that end an evaluation.
//!
//! A candidate that fails is a verdict, not an error.

use std::path::PathBuf;

use mneme_builds::source::SourceError;
use mneme_recording::RecordingError;
use mneme_system::exit;
use mneme_system::files::trust;

use crate::interrupt::Interrupted;
use crate::results::ResultsError;
use crate::server::ServerError;
use crate::session::SessionError;

#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("mneme-replay is not installed beside mneme-tune; install all of Mneme, or set MNEME_HOME")]
    Incomplete,
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unread { path: PathBuf, source: std::io::Error },
    #[error("{path} cannot be written: {source}", path = path.display())]
    Unwritten { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Usage(String),
    #[error("{folder} already holds verdicts; pass --resume to go on with it, or name another --results-dir", folder = .0.display())]
    Taken(PathBuf),
    #[error("{folder} holds verdicts for another recording: {what} differs; name another --results-dir", folder = folder.display())]
    Foreign { folder: PathBuf, what: &'static str },
    #[error(
        "{folder} holds verdicts that were made otherwise: {what} was {before}, and is {now}; pass the same, or name another --results-dir",
        folder = folder.display()
    )]
    Otherwise { folder: PathBuf, what: String, before: String, now: String },
    #[error("--counters {names}: {reason}", names = .names.join(","))]
    Uncounted { names: Vec<String>, reason: String },
    /// No candidate can be compiled.
    #[error(transparent)]
    Compiler(SourceError),
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl EvaluateError {
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Recording(error) => error.exit_status(),
            Self::Unread { source, .. } => trust::exit_status(source),
            Self::Usage(_)
            | Self::Taken(_)
            | Self::Foreign { .. }
            | Self::Otherwise { .. }
            | Self::Uncounted { .. } => exit::BAD_USAGE,
            Self::Incomplete | Self::Compiler(_) | Self::Unwritten { .. } => exit::INTERNAL,
            Self::Session(error) => error.exit_status(),
        }
    }
}

impl From<ServerError> for EvaluateError {
    fn from(error: ServerError) -> Self {
        Self::Session(error.into())
    }
}

impl From<ResultsError> for EvaluateError {
    fn from(error: ResultsError) -> Self {
        Self::Session(error.into())
    }
}

impl From<Interrupted> for EvaluateError {
    fn from(error: Interrupted) -> Self {
        Self::Session(error.into())
    }
}

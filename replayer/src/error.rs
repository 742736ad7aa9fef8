//! Errors that end a program of this crate before its work is done.

use std::fmt::Display;
use std::path::Path;

use mneme_builds::builder::ProgramError;
use mneme_recording::RecordingError;
use mneme_system::exit;
use mneme_system::files::trust;

/// The error that ends a program: one sentence, and the matching exit status.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Fatal {
    pub status: i32,
    pub error: String,
    /// Another process, with another address space, may succeed.
    pub clash: bool,
}

impl Fatal {
    /// The error for an unreadable file that the command line names.
    pub fn unread(path: &Path, error: &std::io::Error) -> Self {
        Self::new(trust::exit_status(error), format!("{} cannot be read: {error}", path.display()))
    }

    pub fn new(status: i32, error: impl Display) -> Self {
        Self { status, error: error.to_string(), clash: false }
    }
}

impl From<std::io::Error> for Fatal {
    fn from(error: std::io::Error) -> Self {
        match error.downcast::<ProgramError>() {
            Ok(error) => error.into(),
            Err(error) => Self::new(exit::INTERNAL, format!("a process or a pipe of the replayer failed: {error}")),
        }
    }
}

impl From<ProgramError> for Fatal {
    fn from(error: ProgramError) -> Self {
        Self::new(error.status().exit_status(), error)
    }
}

impl From<RecordingError> for Fatal {
    fn from(error: RecordingError) -> Self {
        Self::new(error.exit_status(), error)
    }
}

//! Errors that end a command of `mneme`, each with its exit status.

use std::path::{Path, PathBuf};

use mneme_recording::RecordingError;
use mneme_system::exit;

/// An error in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("{0}")]
    Usage(String),
    /// A file or folder that the command line names cannot be read.
    #[error("{0}")]
    NoInput(String),
    #[error("{0}")]
    NoDevice(String),
    /// Another process uses the resource.
    #[error("{0}")]
    InUse(String),
    #[error(
        "{name} is missing from this installation; install all of Mneme, or set MNEME_HOME to a complete installation"
    )]
    Incomplete { name: &'static str },
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A replay did not verify.
    #[error("{what} does not verify: {why}")]
    Unverified { what: String, why: String },
    /// A replay failed because a part of Mneme is missing or broke.
    #[error("{0}")]
    Unreplayed(String),
    #[error("standard output cannot be written: {0}")]
    Output(std::io::Error),
    /// A program that cannot be started, with the shell's exit status.
    #[error("{path}: {source}", path = path.display())]
    Start { path: PathBuf, source: std::io::Error },
}

impl CommandError {
    /// A file or folder that the command line names cannot be read.
    pub fn unread(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::NoInput(format!("{} cannot be read: {error}", path.display()))
    }

    /// Fails if a path of the command line does not exist.
    ///
    /// # Errors [`Self::NoInput`].
    pub fn unless_there(path: &Path) -> Result<(), Self> {
        path.metadata().map(drop).map_err(Self::unread(path))
    }

    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Recording(error) => error.exit_status(),
            Self::Usage(_) => exit::BAD_USAGE,
            Self::NoInput(_) => exit::NO_INPUT,
            Self::NoDevice(_) => exit::NO_DEVICE,
            Self::InUse(_) => exit::IN_USE,
            Self::Unverified { .. } => exit::NOT_VERIFIED,
            Self::Incomplete { .. } | Self::Unreplayed(_) | Self::Io { .. } | Self::Output(_) => exit::INTERNAL,
            Self::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
        }
    }
}

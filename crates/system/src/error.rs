//! Errors in folders named by options and variables.

use std::io;
use std::path::PathBuf;

/// The error for an unusable folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("--trust '{}' cannot be used: {source}", folder.display())]
    Trust { folder: PathBuf, source: io::Error },
    /// A name with a colon, which separates folders in the variable.
    #[error("--trust: {0}")]
    TrustList(#[from] std::env::JoinPathsError),
    #[error("MNEME_HOME is '{}', and there is no such folder; name an installation or unset it", .0.display())]
    NoHome(PathBuf),
    /// Strangers can change it.
    #[error("MNEME_HOME: {0}")]
    StrangersHome(io::Error),
}

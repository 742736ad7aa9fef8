//! Exports a session's trials in the formats of other programs.

pub mod optuna;
pub mod t4;
pub mod table;

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {source}", path.display())]
pub struct ExportError {
    path: PathBuf,
    source: io::Error,
}

impl ExportError {
    fn of(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.into(), source }
    }
}

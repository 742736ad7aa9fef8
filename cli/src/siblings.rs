//! The programs of this installation that `mneme` hands over to.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use mneme_core::install;

use crate::error::CommandError;

/// A program or library of this installation.
pub fn find(name: &'static str) -> Result<PathBuf, CommandError> {
    install::locate(name).ok_or(CommandError::Incomplete { name })
}

/// Becomes `name` with these arguments; returns only if that fails.
pub fn become_program(name: &'static str, arguments: &[OsString]) -> CommandError {
    // mneme-bisect is mneme-replay by another name, and not every installation can have it as a link.
    let file = if name == install::BISECTOR { install::REPLAYER } else { name };
    match find(file) {
        Err(error) => error,
        Ok(path) => {
            let source = Command::new(&path).arg0(name).args(arguments).exec();
            CommandError::Start { path, source }
        }
    }
}

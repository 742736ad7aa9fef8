//! The other programs of this installation, to which `mneme` hands over.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use mneme_system::install;

use crate::error::CommandError;

/// The path of a program or library of this installation.
pub fn find(name: &'static str) -> Result<PathBuf, CommandError> {
    install::locate(name).ok_or(CommandError::Incomplete { name })
}

/// Replaces this process with `name` and these arguments. Returns only if that fails.
pub fn become_program(name: &'static str, arguments: &[OsString]) -> CommandError {
    // mneme-bisect is mneme-replay under another name, and some installations cannot have it as a link.
    let file = if name == install::BISECTOR { install::REPLAYER } else { name };
    match find(file) {
        Err(error) => error,
        Ok(path) => {
            let source = Command::new(&path).arg0(name).args(arguments).exec();
            CommandError::Start { path, source }
        }
    }
}

//! The standard output of commands.

use mneme_system::console;

use crate::error::CommandError;

/// Prints a command's output.
pub fn print(text: &str) -> Result<(), CommandError> {
    console::write(text).map_err(CommandError::Output)
}

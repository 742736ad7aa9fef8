//! Vendors' libraries that variables of the environment name.

use std::path::{Path, PathBuf};

use mneme_system::files::trust;

/// The library that a variable names.
pub fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|named| !named.is_empty()).map(Into::into)
}

/// Refuses a stranger's file where a variable names a library.
pub fn check(variable: &str, library: &Path) -> Result<(), String> {
    trust::check_program(library).map_err(|error| format!("{variable}: {error}"))
}

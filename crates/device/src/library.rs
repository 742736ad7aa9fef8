//! Vendors' libraries that variables of the environment name.

use std::path::{Path, PathBuf};

use mneme_system::files::trust;

use crate::error::DeviceError;

/// The library that a variable names.
pub fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|named| !named.is_empty()).map(Into::into)
}

/// Refuses a stranger's file where a variable names a library.
pub fn check(variable: &str, library: &Path) -> Result<(), DeviceError> {
    trust::check_program(library).map_err(|error| DeviceError::Library {
        library: library.display().to_string(),
        message: format!("{variable}: {error}"),
    })
}

//! Finds the file of a program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file of a program's name, as `execvp` finds it; otherwise the name itself.
pub fn resolve(name: &OsStr) -> PathBuf {
    let path = Path::new(name);
    if path.components().count() > 1 || path.is_absolute() || name.as_bytes().contains(&b'/') {
        return path.into();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_and_paths_are_kept() {
        assert!(resolve("sh".as_ref()).is_absolute());
        assert_eq!(resolve("./sh".as_ref()), Path::new("./sh"));
        assert_eq!(resolve("no-such-program-at-all".as_ref()), Path::new("no-such-program-at-all"));
    }
}

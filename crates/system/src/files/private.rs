//! Folders and files that only their owner may read and write, regardless of the process's umask.
//!
//! Recordings, results, caches and logs contain code or affect the choice of code, so anyone who can write to them can
//! run code as their owner. This module creates all of them. Existing folders and files keep their modes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::trust;
use crate::console::remark;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates a folder and its missing parents. Prints a remark if the folder exists and others can write to it.
///
/// # Errors
/// The folder cannot be created.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        if let Some(writers) = trust::other_writers(folder) {
            remark(format_args!(
                "mneme: {writers}; what they put there is run as you (chmod go-w '{}')",
                folder.display()
            ));
        }
        return Ok(());
    }
    create_folder_quietly(folder)
}

/// The same without a remark, for libraries that other people's processes load.
///
/// # Errors
/// The folder cannot be created.
pub fn create_folder_quietly(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(folder).map_err(|error| explained(folder, error))
}

/// The system's error, which says "File exists" of a file that is where a folder has to be.
fn explained(folder: &Path, error: io::Error) -> io::Error {
    let is_in_the_way = |path: &&Path| path.symlink_metadata().is_ok() && !path.is_dir();
    match folder.ancestors().find(is_in_the_way) {
        Some(file) => {
            let sentence =
                format!("'{}' is a file, not a folder; name another folder, or move the file", file.display());
            io::Error::new(error.kind(), sentence)
        }
        None => error,
    }
}

/// Creates a folder that must not exist yet.
///
/// # Errors
/// The folder exists, or cannot be created.
pub fn create_new_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER).create(folder)
}

/// Options that create a file with the mode of private files.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(FILE);
    options
}

/// Creates a file, or truncates an existing one.
///
/// # Errors
/// The file cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Opens a file to read it and to append to it, and creates it if it does not exist.
///
/// # Errors
/// The file cannot be opened or created.
pub fn append(path: &Path) -> io::Result<File> {
    options().read(true).append(true).create(true).open(path)
}

/// Writes a file in place, for contents that need not be replaced atomically; see [`super::replace`].
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(bytes.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn modes_do_not_depend_on_the_mask_and_what_exists_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let at = |name: &str| folder.path().join(name);
        // SAFETY: takes a number; tests of this crate that make files do not depend on the mask.
        let before = unsafe { libc::umask(0) };
        create_folder(&at("one/two")).unwrap();
        write(&at("one/file"), "x").unwrap();
        append(&at("one/log")).unwrap();
        // SAFETY: as above.
        unsafe { libc::umask(before) };
        assert_eq!([mode(&at("one")), mode(&at("one/two"))], [0o700; 2]);
        assert_eq!([mode(&at("one/file")), mode(&at("one/log"))], [0o600; 2]);
        for inside in ["one/file", "one/file/two"] {
            let refused = create_folder(&at(inside)).unwrap_err().to_string();
            assert!(refused.contains("one/file' is a file"), "{refused}");
        }
        std::fs::set_permissions(at("one"), std::fs::Permissions::from_mode(0o755)).unwrap();
        create_folder(&at("one")).unwrap();
        assert_eq!(mode(&at("one")), 0o755);
    }
}

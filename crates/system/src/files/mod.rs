//! Files: replaced atomically, private ([`private`]), and used only if trusted ([`trust`]).
//!
//! Other processes see either a replaced file's new contents or its old ones.

mod held;
mod lock;
mod owned;
pub mod private;
pub mod progress;
pub mod regular;
pub mod size_limit;
mod sync;
pub mod trust;

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{Builder, NamedTempFile};

pub use held::HeldFile;
pub use lock::{FolderLock, LOCK};
pub use owned::OwnedFile;
pub use sync::sync_all;

/// Suffix of files that are incomplete, or not yet part of their folder.
const TEMPORARY: &str = ".tmp";
/// A younger file may be one that its writer has created but not locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// The permissions of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Only its owner can read it.
    Private,
    /// The process's umask determines the permissions.
    Usual,
    /// The permissions of the replaced file.
    Kept,
}

/// Writes, syncs and renames, so a reader sees the old file or the new one, even after a crash.
///
/// # Errors
/// The folder cannot be written to, or is full; the old file is unchanged, and no other file is left behind.
pub fn replace(path: &Path, bytes: &[u8], access: FileAccess) -> io::Result<()> {
    use std::io::Write;
    let (file, ()) = Temporary::write(path, access, |error| error, |file| file.write_all(bytes))?;
    file.take_name()
}

/// A file being written under a temporary name beside its final one; dropping it removes the file.
///
/// A lock distinguishes it from the leftover of a killed writer.
pub struct Temporary {
    path: PathBuf,
    file: NamedTempFile<OwnedFile>,
}

impl Temporary {
    /// Writes and syncs the future `path`: `write` receives the new file, and `failed` converts system errors.
    pub fn write<T, E>(
        path: &Path,
        access: FileAccess,
        failed: impl Fn(io::Error) -> E,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        let (this, written) = Self::write_unsynced(path, access, &failed, write)?;
        // Some file systems only now report that they are full.
        this.sync().map_err(failed)?;
        Ok((this, written))
    }

    /// The same without syncing; [`sync_all`] syncs several files at a time.
    pub fn write_unsynced<T, E>(
        path: &Path,
        access: FileAccess,
        failed: impl Fn(io::Error) -> E,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mode = if access == FileAccess::Private { 0o600 } else { 0o666 };
        size_limit::as_errors(|| {
            let (prefix, permissions) = (format!(".{name}."), Permissions::from_mode(mode));
            let file = Builder::new()
                .prefix(&prefix)
                .suffix(TEMPORARY)
                .permissions(permissions)
                .tempfile_in(folder)
                .map_err(&failed)?;
            let (file, place) = file.into_parts();
            let owned = OwnedFile::new(file).map_err(&failed)?;
            let mut file = NamedTempFile::from_parts(owned, place);
            let open = file.as_file_mut().get_mut().map_err(&failed)?;
            if access == FileAccess::Kept {
                std::fs::metadata(path)
                    .and_then(|before| open.set_permissions(before.permissions()))
                    .map_err(&failed)?;
            }
            // Without locks in the file system, leftover files are not removed.
            let _ = open.try_lock();
            let written = write(open)?;
            Ok((Self { path: path.into(), file }, written))
        })
    }

    /// Makes its contents durable.
    ///
    /// # Errors
    /// Writing failed, for example because the disk is full.
    pub fn sync(&self) -> io::Result<()> {
        let file = self.file.as_file().get()?;
        progress::syncing(|| file.sync_all())
    }

    /// Its final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the leftovers of killed writers in a folder; returns the bytes freed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn remove_abandoned(folder: &Path) -> io::Result<u64> {
        let mut freed = 0;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), entry.path());
            if !name.to_string_lossy().starts_with('.') || !name.to_string_lossy().ends_with(TEMPORARY) {
                continue;
            }
            // A file that has disappeared by now has been renamed.
            let Ok(file) = regular::open(&path) else { continue };
            let Ok(metadata) = file.metadata() else { continue };
            let is_young = metadata.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age < YOUNG));
            let is_free = || file.try_lock().is_ok();
            if metadata.is_file() && !is_young && is_free() && std::fs::remove_file(&path).is_ok() {
                freed += metadata.len();
            }
        }
        Ok(freed)
    }

    /// Renames the file to its final name, replacing an existing file.
    ///
    /// # Errors
    /// A folder has the name, or the parent folder cannot be written to.
    pub fn take_name(self) -> io::Result<()> {
        self.file.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_written_by_many_threads_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("RecordedIR_42.bc");
        let bytes = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| replace(&path, &bytes, FileAccess::Private).unwrap());
            }
        });
        assert!(std::fs::read(&path).unwrap() == bytes);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary is left");
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&path, b"before", FileAccess::Usual).unwrap();
        assert!(path.metadata().unwrap().permissions().mode() & 0o400 != 0);
        std::fs::set_permissions(&path, Permissions::from_mode(0o757)).unwrap();
        replace(&path, b"before", FileAccess::Kept).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o757);
        let failed: io::Result<(Temporary, ())> =
            Temporary::write(&path, FileAccess::Usual, |error| error, |_| Err(io::ErrorKind::StorageFull.into()));
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&folder.path().join("none/a"), b"", FileAccess::Usual).is_err());
    }
}

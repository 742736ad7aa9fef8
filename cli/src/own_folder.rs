//! A folder of one process, beside those of others.
//!
//! An [`OwnFolder`] has a random name, and contains a file that is locked while its process lives. [`remove_abandoned`]
//! uses the lock to find folders of killed processes: process ids are reused, and are equal in containers that share a
//! file system.
//! that share a file system.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_system::files::private;
use mneme_system::random;

/// File in the folder, locked while its process lives.
const LOCK: &str = "run.lock";
/// A younger folder may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// The folder. Dropping it removes it with its content.
pub struct OwnFolder {
    path: PathBuf,
    _lock: Option<File>,
}

impl OwnFolder {
    /// Makes a folder in `parent`, with a name that begins with `prefix`.
    ///
    /// # Errors The folder cannot be made.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        let path = parent.join(format!("{prefix}{}", random::name()?));
        private::create_new_folder(&path)?;
        // If the file system has no locks, other processes leave the folder alone.
        let lock = private::create(&path.join(LOCK)).ok().filter(|file| file.try_lock().is_ok());
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // `remove_abandoned` retries if this fails.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders in `parent` whose processes were killed.
pub fn remove_abandoned(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_meant = entry.file_name().to_string_lossy().starts_with(prefix);
        // Links are not folders of this kind.
        if !is_meant || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        let age = path.metadata().and_then(|it| it.modified()).ok().and_then(|time| time.elapsed().ok());
        // The lock is held until the folder is gone, so two processes cannot both remove it, and then a new one of the
        // same name.
        let lock = File::open(path.join(LOCK)).ok();
        let is_free = lock.as_ref().is_none_or(|lock| lock.try_lock().is_ok());
        if is_free && age.is_some_and(|age| age > YOUNG) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let old = |path: &Path| {
            let time = std::time::SystemTime::now() - Duration::from_secs(1000);
            File::open(path).unwrap().set_modified(time).unwrap();
        };
        let [running, killed, young, other] =
            ["run-", "run-", "run-", "other-"].map(|prefix| OwnFolder::create(place.path(), prefix).unwrap());
        // The state after a process has ended. A child of another test may hold the lock a moment longer, so the files
        // are replaced by unlocked ones.
        for lock in [&killed, &other].map(|folder| folder.path().join(LOCK)) {
            std::fs::remove_file(&lock).unwrap();
            File::create(lock).unwrap();
        }
        [&running, &killed, &other].into_iter().for_each(|folder| old(folder.path()));
        let foreign = tempfile::tempdir().unwrap();
        old(foreign.path());
        std::os::unix::fs::symlink(foreign.path(), place.path().join("run-link")).unwrap();
        remove_abandoned(place.path(), "run-");
        assert!(!killed.path().exists() && foreign.path().exists());
        assert!([&running, &young, &other].into_iter().all(|folder| folder.path().exists()));
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists());
    }
}

//! A folder of one process, beside those of others.
//!
//! An [`OwnFolder`] has a random name, and a file in it is locked as long as its process lives: by that, and not by a
//! process id, [`remove_abandoned`] tells whose process was killed. Ids are used again, and are equal in containers
//! that share a file system.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_core::files::private;
use mneme_core::random;

/// In the folder; locked as long as its process lives.
const LOCK: &str = "run.lock";
/// A folder that is younger may be one that is not locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// The folder. Dropping it removes it with all that is in it.
pub struct OwnFolder {
    path: PathBuf,
    _lock: Option<File>,
}

impl OwnFolder {
    /// Makes one in `parent`, whose name begins with `prefix`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        let path = parent.join(format!("{prefix}{}", random::name()?));
        private::create_new_folder(&path)?;
        // If the file system has no locks, others do not remove the folder.
        let lock = private::create(&path.join(LOCK)).ok().filter(|file| file.try_lock().is_ok());
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // `remove_abandoned` has what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders in `parent` whose processes were killed.
pub fn remove_abandoned(parent: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_meant = entry.file_name().to_string_lossy().starts_with(prefix);
        // A link is nobody's folder.
        if !is_meant || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        let age = path.metadata().and_then(|it| it.modified()).ok().and_then(|time| time.elapsed().ok());
        // Kept until the folder is gone: two that find it do not both remove it, and then what has its name.
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
        // As the end of a process leaves it. A child of another test may have the lock for a moment longer, so the
        // files are ones that nobody has locked.
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

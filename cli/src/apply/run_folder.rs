//! The folder of a run: recordings of trial launches, requests for code, and the answers.
//!
//! It lies beside the cache, which need not lie in memory as /tmp may. It goes with the run; that of one that was
//! killed goes with a later one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::cache::CodeCache;
use crate::error::CommandError;

const PREFIX: &str = "run-";
/// In the folder; locked as long as the run lasts.
const LOCK: &str = "run.lock";
/// A folder that is younger may be one that is not locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// The folder of this run. Dropping it removes it.
pub struct RunFolder {
    answers: Answers,
    folder: Option<TempDir>,
    _lock: Option<File>,
}

/// The answers to what the application asks; there are none any more when the folder goes.
#[derive(Clone)]
pub struct Answers {
    folder: PathBuf,
    is_over: Arc<Mutex<bool>>,
}

impl RunFolder {
    pub fn create(cache: &CodeCache) -> Result<Self, CommandError> {
        let beside = tempfile::Builder::new().prefix(PREFIX).tempdir_in(cache.folder());
        let folder = beside
            .or_else(|_| tempfile::tempdir())
            .map_err(|source| CommandError::Io { path: cache.folder().into(), source })?;
        // Where the file system has no locks, such folders are not removed by others.
        let lock = File::create(folder.path().join(LOCK)).ok().filter(|file| file.try_lock().is_ok());
        let answers = Answers { folder: folder.path().into(), is_over: Arc::default() };
        Ok(Self { answers, folder: Some(folder), _lock: lock })
    }

    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // Nothing is written into it while it is removed.
        let mut is_over = self.answers.lock();
        *is_over = true;
        drop(self.folder.take());
    }
}

impl Answers {
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an answer, unless the run is over: `None` then.
    pub fn give<T>(&self, answer: impl FnOnce(&Path) -> T) -> Option<T> {
        let is_over = self.lock();
        (!*is_over).then(|| answer(&self.folder))
    }
}

/// Removes the folders of runs that were killed.
pub fn remove_abandoned(cache: &Path) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        // Releases before had no lock in them.
        let is_meant = |prefix: &str| name.to_string_lossy().starts_with(prefix);
        if !path.is_dir() || !(is_meant(PREFIX) || is_meant(".tmp")) {
            continue;
        }
        let is_free = match File::open(path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => true,
        };
        let age = path.metadata().and_then(|it| it.modified()).ok().and_then(|time| time.elapsed().ok());
        let limit = if is_meant(PREFIX) { YOUNG } else { 60 * 24 * YOUNG };
        if is_free && age.is_some_and(|age| age > limit) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_answered_into_a_folder_that_goes() {
        let place = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(Some(place.path()));
        let run = RunFolder::create(&cache).unwrap();
        let answers = run.answers();
        let write = |folder: &Path| std::fs::write(folder.join("answer"), "").is_ok();
        assert_eq!(answers.give(write), Some(true));
        let busy = answers.clone();
        let judge = std::thread::spawn(move || {
            let numbers = 0..;
            numbers
                .take_while(|number| busy.give(|folder| std::fs::write(folder.join(number.to_string()), "")).is_some())
                .count()
        });
        std::thread::sleep(Duration::from_millis(20));
        drop(run);
        assert!(judge.join().unwrap() > 0 && answers.give(write).is_none());
        assert_eq!(std::fs::read_dir(cache.folder()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_has_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(Some(place.path()));
        let old = |path: &Path| {
            let time = std::time::SystemTime::now() - Duration::from_secs(1000);
            File::open(path).unwrap().set_modified(time).unwrap();
        };
        let [running, killed, young] = [(); 3].map(|()| RunFolder::create(&cache).unwrap());
        let path = |run: &RunFolder| run.answers.folder.clone();
        let kept = [path(&running), path(&young)];
        let left = path(&killed);
        // As the end of a process does it.
        std::mem::forget({
            let mut killed = killed;
            drop(killed._lock.take());
            killed
        });
        [&left, &kept[0]].into_iter().for_each(|path| old(path));
        remove_abandoned(cache.folder());
        assert!(!left.exists() && kept.iter().all(|path| path.exists()));
    }
}

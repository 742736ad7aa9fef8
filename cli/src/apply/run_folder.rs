//! The folder of a run: recordings of trial launches, requests for code, and answers.
//!
//! It lies beside the cache, because /tmp may be in memory. It is removed at the end of the run; a later run removes
//! the folder of one that was killed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::CodeCache;
use crate::error::CommandError;
use crate::own_folder::{self, OwnFolder};

const PREFIX: &str = "run-";

/// The folder of this run. Dropping it removes it.
pub struct RunFolder {
    answers: Answers,
    folder: Option<OwnFolder>,
}

/// Access to the folder for giving answers, which ends when the folder is removed.
#[derive(Clone)]
pub struct Answers {
    folder: PathBuf,
    is_over: Arc<Mutex<bool>>,
}

impl RunFolder {
    pub fn create(cache: &CodeCache) -> Result<Self, CommandError> {
        let folder =
            create(cache.folder()).map_err(|source| CommandError::Io { path: cache.folder().into(), source })?;
        let answers = Answers { folder: folder.path().into(), is_over: Arc::default() };
        Ok(Self { answers, folder: Some(folder) })
    }

    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }
}

/// A folder of this process in the cache, or otherwise in the system's temporary folder.
pub fn create(cache: &Path) -> std::io::Result<OwnFolder> {
    OwnFolder::create(cache, PREFIX).or_else(|_| OwnFolder::create(&std::env::temp_dir(), "mneme-run-"))
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // Locked, so no answer is written while the folder is removed.
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

    /// Gives an answer; `None` if the run is over.
    pub fn give<T>(&self, answer: impl FnOnce(&Path) -> T) -> Option<T> {
        let is_over = self.lock();
        (!*is_over).then(|| answer(&self.folder))
    }
}

/// Removes the folders of runs that were killed.
pub fn remove_abandoned(cache: &Path) {
    own_folder::remove_abandoned(cache, PREFIX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
}

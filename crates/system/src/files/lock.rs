//! The lock of a folder that several processes write to.

use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{OwnedFile, private, progress, regular};

/// Name of the locked file.
pub const LOCK: &str = ".lock";

/// How long to wait for the lock. Holders keep it for milliseconds, and thousands of ranks may want it at once; only a
/// stopped process keeps it for longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The limit after one unsuccessful wait.
const NO_PATIENCE: Duration = Duration::from_secs(1);
/// The pause between attempts, at first and after a while.
const TRIES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// The advisory lock of a folder, held while files get or lose their names.
pub struct FolderLock(#[expect(dead_code, reason = "closing it gives the lock back")] OwnedFile);

impl FolderLock {
    /// # Errors
    /// The folder cannot be written to; [`TimedOut`](io::ErrorKind::TimedOut) if another process has held the lock for
    /// a minute.
    pub fn take(folder: &Path) -> io::Result<Self> {
        static IN_VAIN: AtomicBool = AtomicBool::new(false);
        let patience = if IN_VAIN.load(Ordering::Relaxed) { NO_PATIENCE } else { PATIENCE };
        let taken = Self::within(folder, patience);
        if taken.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            IN_VAIN.store(true, Ordering::Relaxed);
        }
        taken
    }

    fn within(folder: &Path, patience: Duration) -> io::Result<Self> {
        let path = folder.join(LOCK);
        let end = Instant::now() + patience;
        let [mut pause, longest] = TRIES;
        loop {
            let file = regular::open_by(private::options().write(true).create(true).truncate(false), &path)?;
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(TryLockError::Error(error)) => return Err(error),
                }
                if Instant::now() >= end {
                    let error = "another process has held the folder's lock too long; it may be stopped (kill -CONT lets it go on)";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, error));
                }
                // This wait has a deadline, so it counts as progress.
                progress::note_step();
                std::thread::sleep(pause);
                pause = (2 * pause).min(longest);
            }
            // The previous holder may have removed the file with the last recording; then its lock is meaningless.
            let own = file.metadata()?.ino();
            match std::fs::metadata(&path) {
                Ok(there) if there.ino() == own => return Ok(Self(OwnedFile::new(file)?)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_nobody_waits_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let held = FolderLock::within(folder.path(), PATIENCE).unwrap();
        let error = FolderLock::within(folder.path(), Duration::from_millis(50)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let (held, path) = (std::sync::Mutex::new(Some(held)), folder.path());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                held.lock().unwrap().take();
            });
            FolderLock::within(path, PATIENCE).unwrap();
        });
    }

    #[test]
    fn a_lock_file_that_was_removed_means_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let held = FolderLock::within(folder.path(), PATIENCE).unwrap();
        std::fs::remove_file(folder.path().join(LOCK)).unwrap();
        FolderLock::within(folder.path(), Duration::from_millis(50)).unwrap();
        drop(held);
    }
}

//! A file that stays open in a process that is not ours.
//!
//! Applications close descriptors that they have not opened (as daemons do, and `closefrom`), and get the numbers again
//! for files of their own. What is written to a number then would go into their file.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file that is written to, opened again where the application has closed it.
pub struct HeldFile {
    path: PathBuf,
    /// Closed only while the number is this file's.
    file: ManuallyDrop<File>,
    identity: Identity,
}

impl HeldFile {
    /// Creates a file that only its owner may read and write.
    ///
    /// # Errors
    /// The file is there already, or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { path: path.into(), identity: identity(&file)?, file: ManuallyDrop::new(file) })
    }

    /// The open file.
    ///
    /// # Errors
    /// The application has closed it, and it cannot be opened again or another has its name.
    pub fn get(&mut self) -> io::Result<&File> {
        if !self.is_open() {
            let file = File::options().write(true).open(&self.path)?;
            if identity(&file)? != self.identity {
                return Err(io::Error::other("the application has closed it, and another file has its name"));
            }
            // The one before is not closed: its number may be another file's.
            self.file = ManuallyDrop::new(file);
        }
        Ok(&self.file)
    }

    fn is_open(&self) -> bool {
        identity(&self.file).is_ok_and(|identity| identity == self.identity)
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        if self.is_open() {
            // SAFETY: nothing uses the file after this.
            unsafe { ManuallyDrop::drop(&mut self.file) }
        }
    }
}

/// Device, inode, and when it was made, as numbers of inodes are used again.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(file: &File) -> io::Result<Identity> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino(), metadata.created().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_number_that_is_another_files_is_neither_written_to_nor_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("ours"), folder.path().join("other"));
        let mut held = HeldFile::create(&path).unwrap();
        held.get().unwrap().write_all(b"one ").unwrap();
        let number = held.get().unwrap().as_raw_fd();
        let theirs = File::create(&other).unwrap();
        // SAFETY: both are open; what the application does.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        let mut again = held.get().unwrap();
        assert_ne!(again.as_raw_fd(), number);
        io::Seek::seek(&mut again, io::SeekFrom::End(0)).unwrap();
        again.write_all(b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one two");
        assert_eq!(std::fs::metadata(&other).unwrap().len(), 0);

        let number = held.get().unwrap().as_raw_fd();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        drop(held);
        // SAFETY: only asks.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "the application's descriptor is open");
    }

    #[test]
    fn one_whose_name_another_file_has_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let mut held = HeldFile::create(&path).unwrap();
        let number = held.get().unwrap().as_raw_fd();
        let theirs = File::create(folder.path().join("other")).unwrap();
        // SAFETY: both are open.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(held.get().unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, b"new").unwrap();
        assert!(held.get().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}

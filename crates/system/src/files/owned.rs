//! An open file of Mneme's in another program's process.
//!
//! Applications close descriptors that they have not opened (`closefrom`, daemons), and later get the same numbers for
//! their own files. Using such a number would then write to, unlock or close the application's file.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The lowest number for these descriptors, if the process's limit allows it: an application gets the lowest free
/// number.
const FIRST: libc::c_int = 200;

/// A file that is used and closed only while its descriptor still refers to it.
pub struct OwnedFile {
    file: ManuallyDrop<File>,
    identity: Identity,
    /// The descriptor was found to be closed or to refer to another file. A later file may get the same number.
    is_lost: AtomicBool,
}

/// Device, inode and creation time, because inode numbers are reused.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(file: &File) -> io::Result<Identity> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino(), metadata.created().ok()))
}

impl OwnedFile {
    /// # Errors
    /// The application has closed the file meanwhile.
    pub fn new(file: File) -> io::Result<Self> {
        // SAFETY: the descriptor is open; a new one does not have another owner.
        let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST) };
        // SAFETY: as above.
        let file = if moved < 0 { file } else { unsafe { File::from_raw_fd(moved) } };
        Ok(Self { identity: identity(&file)?, file: ManuallyDrop::new(file), is_lost: AtomicBool::new(false) })
    }

    /// The open file.
    ///
    /// # Errors
    /// The application has closed it.
    pub fn get(&self) -> io::Result<&File> {
        if self.is_open() { Ok(&self.file) } else { Err(io::Error::other("the application has closed its descriptor")) }
    }

    /// The open file for writing.
    ///
    /// # Errors
    /// The application has closed it.
    pub fn get_mut(&mut self) -> io::Result<&mut File> {
        self.get()?;
        Ok(&mut self.file)
    }

    /// Whether the descriptor still refers to the file. Once it does not, the answer stays false.
    pub fn is_open(&self) -> bool {
        let is_open = !self.is_lost.load(Ordering::Relaxed)
            && identity(&self.file).is_ok_and(|identity| identity == self.identity);
        if !is_open {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        is_open
    }

    /// Closes the file early, if the descriptor still refers to it.
    pub fn close(&self) {
        if self.is_open() {
            self.is_lost.store(true, Ordering::Relaxed);
            // SAFETY: from now on the number is not this file's, and not used.
            unsafe { libc::close(self.file.as_raw_fd()) };
        }
    }

    /// Whether both refer, or referred, to the same file.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_out_of_the_way_and_left_alone_once_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let owned = OwnedFile::new(File::create(&path).unwrap()).unwrap();
        let again = OwnedFile::new(File::open(&path).unwrap()).unwrap();
        assert!(owned.is_same_as(&again));
        let number = owned.get().unwrap().as_raw_fd();
        assert!(number >= FIRST);
        let theirs = File::create(folder.path().join("theirs")).unwrap();
        // SAFETY: both are open; what an application does.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        assert!(owned.get().is_err() && again.get().is_ok());
        drop(owned);
        // SAFETY: only asks, and then closes what this test has opened.
        unsafe {
            assert!(libc::fcntl(number, libc::F_GETFD) >= 0, "the application's descriptor is open");
            libc::close(number);
        }
    }
}

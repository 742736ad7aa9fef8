//! A file that stays open in another program's process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{OwnedFile, private, regular};

/// A file for writing that is reopened if the application has closed it.
pub struct HeldFile {
    path: PathBuf,
    file: OwnedFile,
}

impl HeldFile {
    /// Creates a file that only its owner may read and write.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = private::options().write(true).create_new(true).open(path)?;
        Ok(Self { path: path.into(), file: OwnedFile::new(file)? })
    }

    /// The open file.
    ///
    /// # Errors
    /// The application has closed it, and it cannot be reopened or its name belongs to another file.
    pub fn get(&mut self) -> io::Result<&File> {
        if !self.file.is_open() {
            let again = OwnedFile::new(regular::open_by(File::options().write(true), &self.path)?)?;
            if !again.is_same_as(&self.file) {
                return Err(io::Error::other("the application has closed it, and another file has its name"));
            }
            self.file = again;
        }
        self.file.get()
    }
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
    fn one_that_gets_its_number_again_stays_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let mut held = HeldFile::create(&path).unwrap();
        for _ in 0..3 {
            // SAFETY: the descriptor is open; what the application does. Its number is the next that is free, unless
            // another test is quicker.
            unsafe { libc::close(held.get().unwrap().as_raw_fd()) };
            held.get().unwrap().write_all(b"a").unwrap();
            assert!(held.file.is_open());
        }
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

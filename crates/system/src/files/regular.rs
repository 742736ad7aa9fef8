//! Opens regular files only.
//!
//! Anyone with write access to a folder can put a FIFO, a terminal or a socket in a file's place. Opening a FIFO waits
//! for its other end, and reading a terminal waits for its user, both without a limit, in the middle of an application.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for reading.
///
/// # Errors
/// The file cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_by(File::options().read(true), path)
}

/// Opens a file with the caller's options.
///
/// # Errors
/// See [`open`].
pub fn open_by(options: &OpenOptions, path: &Path) -> io::Result<File> {
    // Regular files ignore these flags, which stay set.
    let file = options.clone().custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

/// The contents of a file.
///
/// # Errors
/// See [`open`]; also fails if the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The error for another kind of file.
pub(super) fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_waited_for_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!([read(&at("file")).unwrap(), read(&at("link")).unwrap()], ["x", "x"].map(|text| text.as_bytes()));
        for name in ["pipe", "socket", ".", "none"] {
            assert!(open(&at(name)).is_err() && read(&at(name)).is_err(), "{name}");
        }
        assert_eq!(open(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        // With a reader, opening would succeed.
        let _reader = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(at("pipe")).unwrap();
        for name in ["pipe", "socket"] {
            assert!(open_by(File::options().write(true).create(true), &at(name)).is_err(), "{name}");
        }
    }
}

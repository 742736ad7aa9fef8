//! Files that executors write.
//!
//! The supervisor opens them, because an executor of the CPU device may not open files.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use mneme_system::files::private;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Creates a file for all recorded memory in its current state.
pub fn create(path: &Path) -> io::Result<File> {
    private::options().write(true).create(true).truncate(false).open(path)
}

/// Sends the result of [`create`].
pub fn send(to: &UnixDatagram, file: &io::Result<File>) -> io::Result<()> {
    let (text, descriptors) = match file {
        // A datagram needs at least one byte.
        Ok(file) => (" ".to_owned(), vec![file.as_raw_fd()]),
        Err(error) => (error.to_string(), Vec::new()),
    };
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let rights = if descriptors.is_empty() { &[][..] } else { &rights[..] };
    sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(text.as_bytes())], rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives the result that [`send`] sends.
pub fn receive(from: &UnixDatagram) -> io::Result<File> {
    let (mut text, mut space) = ([0; 1024], nix::cmsg_space!(RawFd));
    let (length, descriptor) = {
        let mut parts = [IoSliceMut::new(&mut text)];
        let message = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        let rights = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
            _ => None,
        });
        (message.bytes, rights)
    };
    match descriptor {
        // SAFETY: the kernel created the descriptor for this message, and this is the only read of it.
        Some(descriptor) => Ok(unsafe { File::from_raw_fd(descriptor) }),
        None => Err(io::Error::other(String::from_utf8_lossy(&text[..length]))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_and_reasons_arrive() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        send(&ours, &create(&path)).unwrap();
        send(&ours, &create(&folder.path().join("none/memory"))).unwrap();
        receive(&theirs).unwrap().write_all(b"seven").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"seven");
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::Other);
    }
}

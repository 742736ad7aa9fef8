//! Identifies the memory that file descriptors name.
//!
//! A memory file is identified by its device and inode. All descriptors of a GPU belong to one device file, each opened
//! separately, so an epoll instance tells whether a descriptor is still the open file that was noted: it forgets a file
//! that is closed. It does not keep files open, so memory ends when the application releases it.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent};

/// Device and inode of a memory file.
type FileId = (u64, u64);

/// The memory that descriptors name, by the caller's numbers.
#[derive(Default)]
pub struct Descriptors {
    files: BTreeMap<FileId, u64>,
    /// Memory of device files, by descriptor.
    opened: BTreeMap<c_int, u64>,
    /// Contains each of `opened` that is still open. Made with the first.
    open: Option<Epoll>,
}

impl Descriptors {
    pub const fn new() -> Self {
        Self { files: BTreeMap::new(), opened: BTreeMap::new(), open: None }
    }

    /// The memory that a descriptor names, if known. Duplicates of a GPU's descriptor are unknown.
    pub fn memory(&self, descriptor: c_int) -> Option<u64> {
        match file_of(descriptor)? {
            Some(file) => self.files.get(&file).copied(),
            None => {
                let memory = *self.opened.get(&descriptor)?;
                // SAFETY: `file_of` found it open.
                let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
                let is_the_one = self.open.as_ref()?.modify(borrowed, &mut EpollEvent::empty()).is_ok();
                is_the_one.then_some(memory)
            }
        }
    }

    /// Notes the memory that an open descriptor names.
    pub fn note(&mut self, descriptor: c_int, memory: u64) {
        match file_of(descriptor) {
            Some(Some(file)) => _ = self.files.insert(file, memory),
            Some(None) => {
                if self.open.is_none() {
                    self.open = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok();
                }
                let Some(open) = &self.open else { return };
                // SAFETY: `file_of` found it open.
                let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
                if open.add(borrowed, EpollEvent::empty()).is_ok() {
                    self.opened.insert(descriptor, memory);
                }
            }
            None => {}
        }
    }
}

/// The file of a descriptor: `Some(None)` unless the file is the memory's own, `None` if the descriptor is closed.
fn file_of(descriptor: c_int) -> Option<Option<FileId>> {
    if descriptor < 0 {
        return None;
    }
    // SAFETY: not closed here. The caller has it open if it names memory; the kernel refuses any other number.
    let file = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(descriptor) });
    let metadata = file.metadata().ok()?;
    Some(metadata.is_file().then(|| (metadata.dev(), metadata.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_device_file_is_known_until_it_is_closed() {
        let mut descriptors = Descriptors::new();
        // Epoll accepts it, and it is not a memory file.
        let open = || std::fs::File::open("/dev/random").unwrap();
        let (first, second) = (open(), open());
        descriptors.note(first.as_raw_fd(), 1);
        descriptors.note(second.as_raw_fd(), 2);
        assert_eq!([&first, &second].map(|file| descriptors.memory(file.as_raw_fd())), [Some(1), Some(2)]);
        // As if it had been closed and its number reused.
        let mut first = std::os::fd::OwnedFd::from(first);
        nix::unistd::dup2(&second, &mut first).unwrap();
        assert_eq!(descriptors.memory(first.as_raw_fd()), None);
        descriptors.note(first.as_raw_fd(), 3);
        assert_eq!(descriptors.memory(first.as_raw_fd()), Some(3));
    }

    #[test]
    fn a_file_of_memory_is_known_by_any_descriptor() {
        let mut descriptors = Descriptors::new();
        let file = tempfile::tempfile().unwrap();
        descriptors.note(file.as_raw_fd(), 5);
        let copy = file.try_clone().unwrap();
        assert_eq!((descriptors.memory(copy.as_raw_fd()), descriptors.memory(-1)), (Some(5), None));
    }
}

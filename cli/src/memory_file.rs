//! Files in memory that other processes of this machine find by a path.
//!
//! There is no disk that could be full, and no file that could stay behind.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;

/// There as long as it is open here; closed in programs that we start, which open it by its path.
pub struct MemoryFile(File);

impl MemoryFile {
    /// # Errors
    /// The system has no room for it.
    pub fn create(name: &CStr) -> std::io::Result<Self> {
        // SAFETY: a NUL-terminated name.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: just created, and nobody else's.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    pub fn file(&self) -> &File {
        &self.0
    }

    /// Where processes of this machine find it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

//! Files in memory that other processes of this machine can open by path.
//!
//! They need no disk space, and leave nothing behind.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use mneme_system::random;

/// The random name of this run, which is given to the processes that it starts.
///
/// # Errors The system has no random numbers.
pub fn run() -> std::io::Result<&'static str> {
    static RUN: OnceLock<String> = OnceLock::new();
    if let Some(known) = RUN.get() {
        return Ok(known);
    }
    let name = random::name()?;
    Ok(RUN.get_or_init(|| name))
}

/// A file in memory that exists as long as it is open here. Programs that we start do not inherit it, but can open its
/// path.
pub struct MemoryFile(File);

impl MemoryFile {
    /// Creates a file whose name begins with `name` and ends with that of the [run].
    ///
    /// # Errors The system has no room for it.
    pub fn create(name: &str) -> std::io::Result<Self> {
        let name = CString::new(format!("{name}-{}", run()?))?;
        // SAFETY: a NUL-terminated name.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created, and is not used elsewhere.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    pub fn file(&self) -> &File {
        &self.0
    }

    /// The path for other processes of this machine.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

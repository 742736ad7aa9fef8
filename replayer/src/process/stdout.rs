//! Standard output, which is reserved for results.
//!
//! Kernels, drivers and compilers print to descriptor 1 of their process. If that is this process, results use a
//! separate descriptor, and other output goes to standard error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use mneme_system::{console, exit};

use crate::error::Fatal;

static OWN: OnceLock<File> = OnceLock::new();

/// Redirects all other output of this process to standard error.
///
/// # Errors
/// No descriptor is left.
pub fn keep_apart() -> io::Result<()> {
    if OWN.get().is_some() {
        return Ok(());
    }
    let own = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // SAFETY: takes no pointers; both descriptors are this process's own.
    if unsafe { libc::dup2(io::stderr().as_raw_fd(), libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    OWN.get_or_init(|| own);
    Ok(())
}

/// The descriptor of the results. Polling it shows whether the reader is gone.
pub fn descriptor() -> BorrowedFd<'static> {
    static STDOUT: OnceLock<io::Stdout> = OnceLock::new();
    OWN.get().map_or_else(|| STDOUT.get_or_init(io::stdout).as_fd(), AsFd::as_fd)
}

/// Writes results.
///
/// # Errors
/// The reader is gone, or the device is full.
pub fn write(bytes: &[u8]) -> Result<(), Fatal> {
    // Results are JSON, in which an escape stands for the character.
    let text = String::from_utf8_lossy(bytes);
    let plain = console::plain(&text);
    let bytes = plain.as_bytes();
    let written = match OWN.get() {
        Some(mut own) => own.write_all(bytes),
        None => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => reader_gone(),
        _ => Fatal::new(exit::INTERNAL, format!("cannot write the result to standard output: {error}")),
    })
}

/// The error if the reader of the results is gone.
pub fn reader_gone() -> Fatal {
    Fatal::new(exit::INTERNAL, "the reader of the results has closed standard output")
}

//! Standard output, which is kept for results alone.
//!
//! Kernels, drivers and compilers print to whatever their process has as descriptor 1. Where that process is this one,
//! the results keep a descriptor of their own, and what is printed goes to standard error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use mneme_core::{console, exit};

use crate::error::Fatal;

static OWN: OnceLock<File> = OnceLock::new();

/// From now on whatever else is printed by this process goes to standard error.
///
/// # Errors
/// There is no descriptor left.
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

/// What becomes of it shows whether anybody reads the results.
pub fn descriptor() -> BorrowedFd<'static> {
    static STDOUT: OnceLock<io::Stdout> = OnceLock::new();
    OWN.get().map_or_else(|| STDOUT.get_or_init(io::stdout).as_fd(), AsFd::as_fd)
}

/// Writes to where results go.
///
/// # Errors
/// Nobody reads them, or there is no room for them.
pub fn write(bytes: &[u8]) -> Result<(), Fatal> {
    // The results are JSON, in which an escape is the character itself.
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
        _ => Fatal::new(exit::INTERNAL, format!("the result cannot be written to standard output: {error}")),
    })
}

/// The end of a program whose results nobody reads.
pub fn reader_gone() -> Fatal {
    Fatal::new(exit::INTERNAL, "nobody reads the results any more")
}

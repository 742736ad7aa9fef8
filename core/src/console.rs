//! Writing to standard output and error without a panic.
//!
//! They may be full or have no reader any more, where `println!` and `eprintln!` would panic.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use nix::unistd::AccessFlags;

/// Writes text as it is. A reader that went away has seen enough, which is no error.
pub fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Whether nothing more can be written there: the disk, a quota, or the limit of the process.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// A write beyond the process's limit on the size of files (`ulimit -f`) is an error from here on, which can be told,
/// and no signal that ends the process.
pub fn size_limit_as_error() {
    // SAFETY: ignoring a signal runs no handler and touches no memory.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Fails where a file cannot be written: better known before the work whose result it is to have. What it has is left
/// alone.
pub fn check_place(path: &Path) -> io::Result<()> {
    let access = |path: &Path, rights| nix::unistd::access(path, rights).map_err(io::Error::from);
    if path.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if path.exists() {
        return access(path, AccessFlags::W_OK);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
}

/// A line on standard error, for people. That nobody can read it any more is no reason to end.
pub fn remark(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// [`remark`](crate::console::remark) as `eprintln!` is written.
#[macro_export]
macro_rules! remark {
    ($($text:tt)*) => { $crate::console::remark(format_args!($($text)*)) };
}

/// Lines of a program whose work goes on where they cannot be written, and that says so at its end.
#[derive(Debug, Default)]
pub struct OutputLines(RefCell<Option<io::Error>>);

impl OutputLines {
    pub fn say(&self, line: &str) {
        if let Err(error) = write(&format!("{line}\n")) {
            self.0.borrow_mut().get_or_insert(error);
        }
    }

    /// The first error, if there was one.
    pub fn complete(&self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }
}

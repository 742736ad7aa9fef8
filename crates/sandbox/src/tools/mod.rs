//! Runs clang, opt and ptxas for a build, with files in memory.
//!
//! The programs end with the build and leave no files behind. A build may be killed at any time, before it can remove
//! files. The files it shares with programs are therefore memory of this process, which other processes open by its
//! name in /proc.

mod group_guard;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use self::group_guard::GroupGuard;

/// A file that disappears with this process.
pub struct TransientFile {
    file: File,
    path: PathBuf,
}

impl TransientFile {
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn new(contents: &[u8]) -> io::Result<Self> {
        // SAFETY: the name is NUL-terminated.
        let descriptor = unsafe { libc::memfd_create(c"mneme-build".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor without another owner.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(contents)?;
        let path = format!("/proc/{}/fd/{descriptor}", std::process::id()).into();
        Ok(Self { file, path })
    }

    /// The path for programs that run while this process does.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor, only for this process.
    pub fn descriptor(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }

    /// The file for a program's standard output or error.
    pub fn for_writing(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The current contents.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut contents)?;
        Ok(contents)
    }
}

/// Runs the program to its end and returns its output. However this process ends, all processes that the program has
/// started end with it.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let guard = GroupGuard::start()?;
    guard.guard(command).output()
}

/// Runs the program to its end; `None` if it exceeded `limit`, or had to stop, and was killed, with all processes that it
/// started.
pub fn run(command: &mut Command, limit: Duration, has_to_stop: fn() -> bool) -> io::Result<Option<ExitStatus>> {
    let guard = GroupGuard::start()?;
    let mut child = guard.guard(command).spawn()?;
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit || has_to_stop() {
            drop(guard);
            return child.wait().map(|_| None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_read_and_write_what_is_passed() {
        let (from, mut to) = (TransientFile::new(b"words").unwrap(), TransientFile::new(b"").unwrap());
        assert!(output(Command::new("cp").arg(from.path()).arg(to.path())).unwrap().status.success());
        assert_eq!(to.read().unwrap(), b"words");
    }

    #[test]
    fn what_takes_too_long_is_killed_with_its_children() {
        let (mut said, folder) = (TransientFile::new(b"").unwrap(), tempfile::tempdir().unwrap());
        // The shell's child writes as soon as this file exists, at which point the child should be dead.
        let shell = |end: &str, go: &Path| {
            let child = format!("(until [ -e \"$1\" ]; do sleep 0.05; done; echo late >$0) & {end}");
            let mut command = Command::new("sh");
            command.args(["-c", &child]).arg(said.path()).arg(go);
            command
        };
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let long = Duration::from_secs(20);
        assert!(run(&mut shell("wait", &first), Duration::from_millis(100), || false).unwrap().is_none());
        assert!(run(&mut shell("wait", &first), long, || true).unwrap().is_none());
        // Leftover processes of a program also end with it.
        assert!(run(&mut shell("", &second), long, || false).unwrap().is_some());
        [first, second].iter().for_each(|go| std::fs::write(go, "").unwrap());
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(said.read().unwrap(), b"");
        assert!(run(&mut Command::new("true"), long, || false).unwrap().unwrap().success());
    }
}

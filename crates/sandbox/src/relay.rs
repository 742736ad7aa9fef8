//! A process between a child and the terminal, for the output of kernels, drivers and compilers.
//!
//! The output may contain anything, and a terminal obeys its control characters. If standard error is a terminal, a
//! child writes to a pipe, and the relay copies the pipe as [`plain`](mneme_system::console::plain) text. It is a
//! separate process because a supervisor is single-threaded and forks.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mneme_system::console::PlainBytes;
use nix::fcntl::OFlag;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};

use super::confinement::close_all_but;

/// The time limit for the child's last output.
const PATIENCE: Duration = Duration::from_secs(1);

/// The relay of one child. It ends when all writers have closed its input.
pub struct Relay {
    pid: Pid,
    /// The child's end of the pipe; this process closes its copy once the child has it.
    input: Option<OwnedFd>,
}

impl Relay {
    /// Starts a relay; `None` if standard error is not a terminal. The caller must be single-threaded.
    pub fn to_terminal() -> io::Result<Option<Self>> {
        if !io::stderr().is_terminal() {
            return Ok(None);
        }
        let (output, input) = pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: this process has one thread (the supervisor's rule), so no lock is held in the child's copy of it.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Some(Self { pid: child, input: Some(input) })),
            ForkResult::Child => {
                close_all_but(&[output.as_raw_fd()]);
                for interruption in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP] {
                    // SAFETY: ignoring a signal runs no handler. The child's last words come after it.
                    let _ = unsafe { signal(interruption, SigHandler::SigIgn) };
                }
                copy(&mut File::from(output), &mut io::stderr());
                // SAFETY: takes no pointers; nothing of the parent's is to be run.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// The child's end of the pipe.
    pub fn input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(AsFd::as_fd)
    }

    /// Closes this process's copy after the child has its end.
    pub fn hand_over(&mut self) {
        self.input = None;
    }
}

impl Drop for Relay {
    /// Waits until the child's last output is written.
    fn drop(&mut self) {
        self.input = None;
        let start = Instant::now();
        while matches!(waitpid(self.pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
            && start.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Copies bytes as plain text until the input ends or the reader is gone.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let (mut block, mut plain) = ([0; 4096], PlainBytes::default());
    loop {
        match from.read(&mut block) {
            Ok(0) => return,
            Ok(count) if to.write_all(plain.next(&block[..count]).as_bytes()).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_steers_nothing() {
        let mut text = Vec::new();
        copy(&mut &b"k = 7\n\x1b]0;title\x07\xff\n"[..], &mut text);
        assert_eq!(text, "k = 7\n\\u001b]0;title\\u0007\u{fffd}\n".as_bytes());
    }
}

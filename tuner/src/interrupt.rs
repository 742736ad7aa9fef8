//! Handles SIGINT, SIGTERM and SIGHUP.
//!
//! The first signal asks for an orderly end: the session writes its results. A second one ends the process at once,
//! unless it comes within a second of the first, because `timeout` signals its child and then the group that contains
//! the child.

use std::cell::Cell;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{pipe, signal_name};

/// A signal asked the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by {}", signal_name(self.signal).unwrap_or("a signal"))]
pub struct Interrupted {
    signal: i32,
}

impl Interrupted {
    /// The shell's exit status: 130 for Ctrl-C, 143 for SIGTERM, 129 for a closed terminal.
    pub fn exit_status(self) -> i32 {
        128 + self.signal
    }
}

/// Further signals within this time of the first count as the same one.
const MOMENT: Duration = Duration::from_secs(1);

struct Listener {
    /// The signal, or 0.
    noted: Arc<AtomicUsize>,
    /// Readable once a signal came.
    wake: UnixStream,
}

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Notes signals instead of ending the process, except those that the process inherited as ignored (`nohup`).
///
/// # Errors The process has no file descriptors left.
pub fn listen() -> std::io::Result<()> {
    let (noted, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (wake, writer) = UnixStream::pair()?;
    let (mut first, to_first) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if is_ignored(signal) {
            continue;
        }
        flag::register_conditional_shutdown(signal, Interrupted { signal }.exit_status(), Arc::clone(&again))?;
        flag::register_usize(signal, Arc::clone(&noted), signal as usize)?;
        pipe::register(signal, writer.try_clone()?)?;
        pipe::register(signal, to_first.try_clone()?)?;
    }
    std::thread::spawn(move || {
        // Also fails at the end of file, when no handler can write any more.
        if first.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(MOMENT);
            again.store(true, Ordering::SeqCst);
        }
    });
    LISTENER.get_or_init(|| Listener { noted, wake });
    Ok(())
}

/// Sends this process SIGTERM when the reader of standard output, a pipe, has ended.
pub fn end_with_reader() {
    std::thread::spawn(|| {
        let output = std::io::stdout();
        // Errors are reported without being asked for.
        let mut waiting = [PollFd::new(output.as_fd(), PollFlags::empty())];
        while poll(&mut waiting, PollTimeout::NONE) == Err(Errno::EINTR) {}
        let _ = kill(getpid(), Signal::SIGTERM);
    });
}

/// # Errors
/// A signal came.
pub fn check() -> Result<(), Interrupted> {
    match LISTENER.get().map_or(0, |listener| listener.noted.load(Ordering::SeqCst)) {
        0 => Ok(()),
        signal => Err(Interrupted { signal: signal as i32 }),
    }
}

thread_local! {
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Sets the end of this thread's session.
pub fn end_at(end: Option<Instant>) {
    END.set(end);
}

/// The time at which half of the session's remaining time is over.
pub fn halfway() -> Option<Instant> {
    let now = Instant::now();
    END.get().map(|end| now + end.saturating_duration_since(now) / 2)
}

/// Runs work that may search for long, with this end or the session's, whichever comes first.
pub fn until<T>(end: Option<Instant>, work: impl FnOnce() -> T) -> T {
    let session = END.get();
    END.set(session.into_iter().chain(end).min());
    let done = work();
    END.set(session);
    done
}

/// Whether this thread's session should end: a signal came, or its time is up. Long searches for a valid point call
/// this regularly, and give up.
pub fn is_due() -> bool {
    check().is_err() || END.get().is_some_and(|end| Instant::now() >= end)
}

/// Waits until `source` is readable or at its end.
///
/// # Errors A signal came first.
pub fn wait_for(source: BorrowedFd<'_>) -> Result<(), Interrupted> {
    wait_until(source, None).map(drop)
}

/// The same until this time. Returns whether the source is readable or at its end.
///
/// # Errors A signal came first.
pub fn wait_until(source: BorrowedFd<'_>, end: Option<Instant>) -> Result<bool, Interrupted> {
    let mut fds = vec![PollFd::new(source, PollFlags::POLLIN)];
    fds.extend(LISTENER.get().map(|listener| PollFd::new(listener.wake.as_fd(), PollFlags::POLLIN)));
    loop {
        check()?;
        // Rounded up, so that the last wait does not end too early.
        let left = end.map(|end| end.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000));
        let limit = left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        match poll(&mut fds, limit) {
            Err(Errno::EINTR) => {}
            // Reading the source will report its error.
            Err(_) => return Ok(true),
            Ok(_) if fds[0].any() != Some(false) => return check().map(|()| true),
            Ok(0) if left == Some(0) => return Ok(false),
            Ok(_) => {}
        }
    }
}

/// Whether the process inherited a signal as ignored, by the mask `SigIgn` in `/proc/self/status`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_session_ends_no_later_than_the_session() {
        let now = Instant::now();
        let (soon, late) = (now, now + Duration::from_secs(1000));
        end_at(Some(late));
        assert!(until(Some(soon), is_due) && !is_due());
        assert!(!until(None, is_due) && halfway() > Some(now) && halfway() < Some(late));
        end_at(Some(soon));
        assert!(until(Some(late), is_due));
        end_at(None);
        assert!(!is_due() && halfway().is_none());
    }
}

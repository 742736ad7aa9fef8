//! Handling of SIGINT, SIGTERM and SIGHUP.
//!
//! The first signal asks for an end in good order: the session writes down what it found. The second one ends the
//! process at once.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{pipe, signal_name};

/// Somebody wants the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted by {}", signal_name(self.signal).unwrap_or("a signal"))]
pub struct Interrupted {
    signal: i32,
}

impl Interrupted {
    /// As a shell reports it: 130 for Ctrl-C, 143 for SIGTERM, 129 for a terminal that was closed.
    pub fn exit_status(self) -> i32 {
        128 + self.signal
    }
}

struct Listener {
    /// The signal that came, or 0.
    noted: Arc<AtomicUsize>,
    /// Can be read once a signal came.
    wake: UnixStream,
}

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// From here on signals are noted in place of ending the process, but for those that it was started to ignore
/// (`nohup`).
///
/// # Errors
/// There are no descriptors left.
pub fn listen() -> std::io::Result<()> {
    let (noted, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (wake, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if is_ignored(signal) {
            continue;
        }
        // In the order of what a signal does: the first one does not find the flag set.
        flag::register_conditional_shutdown(signal, Interrupted { signal }.exit_status(), Arc::clone(&again))?;
        flag::register(signal, Arc::clone(&again))?;
        flag::register_usize(signal, Arc::clone(&noted), signal as usize)?;
        pipe::register(signal, writer.try_clone()?)?;
    }
    LISTENER.get_or_init(|| Listener { noted, wake });
    Ok(())
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

/// Says when the time of this thread's session is up.
pub fn end_at(end: Option<Instant>) {
    END.set(end);
}

/// Whether this thread's session is to end: a signal came, or its time is up. What may look for a valid point for long
/// asks now and then, and gives up.
pub fn is_due() -> bool {
    check().is_err() || END.get().is_some_and(|end| Instant::now() >= end)
}

/// Waits until something can be read, its end included.
///
/// # Errors
/// A signal came before.
pub fn wait_for(source: BorrowedFd<'_>) -> Result<(), Interrupted> {
    let mut fds = vec![PollFd::new(source, PollFlags::POLLIN)];
    fds.extend(LISTENER.get().map(|listener| PollFd::new(listener.wake.as_fd(), PollFlags::POLLIN)));
    loop {
        check()?;
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            // Whatever is wrong with the source shows when it is read.
            Err(_) => return Ok(()),
            Ok(_) if fds[0].any() != Some(false) => return check(),
            Ok(_) => {}
        }
    }
}

/// Whether the process was told to ignore a signal, as `/proc/self/status` says ("SigIgn", a mask in hexadecimal).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

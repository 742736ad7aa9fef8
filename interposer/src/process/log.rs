//! Writes messages to standard error, filtered by `MNEME_LOG_LEVEL`.
//!
//! Each message is one unbuffered `write`, so the application's own streams are not involved.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mneme_system::environment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
}

/// Parses the name of a level (`warning`) or upstream's number (0 = error … 3 = debug).
pub fn parse(text: &str) -> Option<LogLevel> {
    match text.trim().to_ascii_lowercase().as_str() {
        "0" | "error" | "critical" | "off" => Some(LogLevel::Error),
        "1" | "warning" | "warn" => Some(LogLevel::Warning),
        "2" | "info" => Some(LogLevel::Info),
        "3" | "debug" | "trace" => Some(LogLevel::Debug),
        _ => None,
    }
}

fn threshold() -> LogLevel {
    static LEVEL: OnceLock<LogLevel> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        environment::variable("MNEME_LOG_LEVEL").and_then(|text| parse(&text)).unwrap_or(LogLevel::Warning)
    })
}

/// Whether messages of a level are wanted.
pub fn enabled(level: LogLevel) -> bool {
    level <= threshold()
}

pub fn write(level: LogLevel, message: fmt::Arguments<'_>) {
    if enabled(level) {
        raw(&format!("mneme: {message}\n"));
    }
}

/// Device and inode of standard error when the program started.
static STANDARD_ERROR: OnceLock<Option<(u64, u64)>> = OnceLock::new();
/// Standard error was full for [`PATIENCE`], so later messages do not wait.
static IS_FULL: AtomicBool = AtomicBool::new(false);
/// How long to wait for a reader of standard error, ms.
const PATIENCE: i32 = 200;
/// Bytes that a pipe takes at once if `poll` reports room.
const PIECE: usize = libc::PIPE_BUF;

/// Remembers which file is standard error: the program may close it and open another under that number.
pub fn remember_standard_error() {
    STANDARD_ERROR.get_or_init(standard_error);
}

/// Device and inode of the file that is standard error now.
fn standard_error() -> Option<(u64, u64)> {
    // SAFETY: plain data, which `fstat` fills in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(libc::STDERR_FILENO, &mut status) == 0).then_some((status.st_dev, status.st_ino))
    }
}

/// Writes text to standard error at any level. The message is lost if standard error has become another file or its
/// reader does not read. The program never waits long and never gets a signal.
pub fn raw(text: &str) {
    let known = STANDARD_ERROR.get_or_init(standard_error);
    if known.is_none() || standard_error() != *known {
        return;
    }
    without_broken_pipes(|| {
        for piece in mneme_system::console::plain(text).as_bytes().chunks(PIECE) {
            let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
            let patience = if IS_FULL.load(Ordering::Relaxed) { 0 } else { PATIENCE };
            // SAFETY: one structure, and a buffer that is valid for its length. A failed or short write of a message
            // does no harm.
            unsafe {
                let count = libc::poll(&mut ready, 1, patience);
                IS_FULL.store(count == 0, Ordering::Relaxed);
                if count < 1 || libc::write(libc::STDERR_FILENO, piece.as_ptr().cast(), piece.len()) < 0 {
                    return;
                }
            }
        }
    });
}

/// Runs `work` without SIGPIPE from its writes to a pipe that has no reader.
fn without_broken_pipes(work: impl FnOnce()) {
    // SAFETY: sets of signals, which these functions fill in. A SIGPIPE that `work` caused is consumed before the mask
    // is restored; one that was pending before stays pending.
    unsafe {
        let (mut pipe, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
        if libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before) != 0 {
            return;
        }
        work();
        if !was_pending {
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&pipe, std::ptr::null_mut(), &none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

macro_rules! warning {
    ($($message:tt)*) => {
        $crate::process::log::write($crate::process::log::LogLevel::Warning, format_args!($($message)*))
    };
}
macro_rules! info {
    ($($message:tt)*) => {
        $crate::process::log::write($crate::process::log::LogLevel::Info, format_args!($($message)*))
    };
}
macro_rules! debug {
    ($($message:tt)*) => {
        $crate::process::log::write($crate::process::log::LogLevel::Debug, format_args!($($message)*))
    };
}
pub(crate) use {debug, info, warning};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_no_signal() {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which are this test's own; the test harness ignores the signal, which is
        // what programs do not do.
        let count = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::close(ends[0]);
            let before = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let mut count = 0;
            without_broken_pipes(|| count = libc::write(ends[1], c"a".as_ptr().cast(), 1));
            libc::signal(libc::SIGPIPE, before);
            libc::close(ends[1]);
            count
        };
        assert_eq!(count, -1);
    }

    #[test]
    fn levels_are_named_or_numbered() {
        assert_eq!(parse("warning"), Some(LogLevel::Warning));
        assert_eq!(parse(" DEBUG "), Some(LogLevel::Debug));
        assert_eq!(parse("2"), Some(LogLevel::Info));
        assert_eq!(parse("loud"), None);
    }
}

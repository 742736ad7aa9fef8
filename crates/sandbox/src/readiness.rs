//! Waits for descriptors and deadlines, for all event loops of these programs.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// One round of waiting.
#[derive(Default)]
pub struct Waiting<'fd> {
    fds: Vec<PollFd<'fd>>,
    deadline: Option<Instant>,
}

/// A descriptor of a round, possibly absent.
#[derive(Clone, Copy)]
pub struct WatchedSource(Option<usize>);

/// The result of a round.
pub struct Ready(Vec<bool>);

impl<'fd> Waiting<'fd> {
    /// Waits for a descriptor, if present. Errors and hang-ups always count as readiness.
    pub fn on(&mut self, fd: Option<BorrowedFd<'fd>>, interest: PollFlags) -> WatchedSource {
        WatchedSource(fd.map(|fd| {
            self.fds.push(PollFd::new(fd, interest));
            self.fds.len() - 1
        }))
    }

    /// Limits the wait to the earliest deadline.
    pub fn until(&mut self, deadlines: impl IntoIterator<Item = Instant>) {
        self.deadline = self.deadline.into_iter().chain(deadlines).min();
    }

    /// Waits; a signal ends a round without readiness.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(mut self) -> io::Result<Ready> {
        let patience = self.deadline.map_or(PollTimeout::NONE, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            // Round up, or the loop would spin for a deadline less than a millisecond ahead.
            let left = if left.is_zero() { left } else { left + Duration::from_millis(1) };
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut self.fds, patience) {
            // Events unknown to nix also count.
            Ok(_) => Ok(Ready(self.fds.iter().map(|fd| fd.any().unwrap_or(true)).collect())),
            Err(Errno::EINTR) => Ok(Ready(vec![false; self.fds.len()])),
            Err(error) => Err(error.into()),
        }
    }
}

impl Ready {
    pub fn is(&self, source: WatchedSource) -> bool {
        source.0.is_some_and(|at| self.0[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_can_be_read_is_ready_and_nothing_else() {
        let ((mut near, far), (silent, _open)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        near.write_all(b"x").unwrap();
        let mut waiting = Waiting::default();
        let sources = [Some(silent.as_fd()), None, Some(far.as_fd())].map(|fd| waiting.on(fd, PollFlags::POLLIN));
        let ready = waiting.wait().unwrap();
        assert_eq!(sources.map(|source| ready.is(source)), [false, false, true]);
    }

    #[test]
    fn the_nearest_deadline_ends_a_round() {
        let (silent, _open) = UnixStream::pair().unwrap();
        let start = Instant::now();
        let mut waiting = Waiting::default();
        let source = waiting.on(Some(silent.as_fd()), PollFlags::POLLIN);
        waiting.until([start + Duration::from_secs(600), start + Duration::from_millis(20)]);
        waiting.until(None);
        assert!(!waiting.wait().unwrap().is(source));
        assert!((Duration::from_millis(20)..Duration::from_secs(60)).contains(&start.elapsed()));
    }

    #[test]
    fn a_closed_stream_is_ready_without_being_asked_for() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        let mut waiting = Waiting::default();
        let source = waiting.on(Some(near.as_fd()), PollFlags::empty());
        assert!(waiting.wait().unwrap().is(source));
    }
}

//! The fork server: a process of `mneme-build-NN` that forks and supervises builders.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_builds::builder::{BuildProcess, BuildProgram, Preparation, ProgramError};
use mneme_builds::protocol::{BuildOrder, BuildReply, CodeParts, Greeted, Opening};
use mneme_builds::{BuildOutcome, BuildPlan, BuildSpec, Replacement, Target};
use mneme_sandbox::child::Child;
use mneme_sandbox::frame::{Inbox, Outbox};
use nix::poll::PollFlags;

/// The answer to an order.
pub struct FinishedBuild {
    pub number: u64,
    /// `None` if the order must be repeated: it depended on another one, which has no outcome.
    pub outcome: Option<BuildOutcome>,
    /// Whether an assembler ran for it; otherwise its code is that of an earlier build.
    pub assembled: bool,
}

/// The plan for starting a fork server.
pub struct ForkServerPlan<'a> {
    pub program: &'a BuildProgram,
    pub builds: BuildPlan,
    /// The recorded bitcode, the kernel's own unit first.
    pub modules: &'a [Vec<u8>],
    /// Code in place of the recorded modules; a configuration may have yet other code.
    pub replacement: Option<&'a Replacement>,
}

/// The supervisor's side of a fork server.
pub struct ForkServer<'a> {
    program: &'a BuildProgram,
    child: Child,
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    /// Whether it has sent its greeting.
    greeted: bool,
    /// The number of the last order.
    last: u64,
    /// If its stream is closed: the time by which the process must have ended.
    closed: Option<Instant>,
}

/// How long a fork server may take to end after it has closed its stream.
const GOING: Duration = Duration::from_secs(5);

impl<'a> ForkServer<'a> {
    /// Turns a process into the fork server; with [`Preparation::Full`], the one that was started with the program.
    /// Never waits for it.
    ///
    /// # Errors
    /// The system cannot start a process.
    pub fn start(plan: &ForkServerPlan<'a>, preparation: Preparation) -> Result<Self, ProgramError> {
        let process = plan.program.process(preparation)?;
        let server = Self::of(plan.program, process, false).and_then(|server| server.with(plan));
        server.map_err(|error| plan.program.failed(error))
    }

    fn of(program: &'a BuildProgram, process: BuildProcess, greeted: bool) -> std::io::Result<Self> {
        let BuildProcess { child, stream } = process;
        // A hanging server must not make its client hang.
        stream.set_nonblocking(true)?;
        let (inbox, outbox) = (Inbox::default(), Outbox::default());
        Ok(Self { program, child, stream, inbox, outbox, greeted, last: 0, closed: None })
    }

    fn with(mut self, plan: &ForkServerPlan<'a>) -> std::io::Result<Self> {
        let (parts, blob) = CodeParts::join(plan.modules, plan.replacement);
        self.outbox.push(&Opening::Plan(Box::new(plan.builds.clone()), parts), &blob)?;
        // The next read shows if it is gone.
        let _ = self.outbox.flush(&mut self.stream);
        Ok(self)
    }

    /// The version of its LLVM. Waits until a process of the program has reported it.
    ///
    /// # Errors
    /// It does not report it.
    pub fn llvm(&mut self) -> Result<&'a str, ProgramError> {
        if self.program.known_llvm().is_none() && !self.greeted {
            let blocking = |blocks: bool, stream: &UnixStream| {
                stream.set_nonblocking(!blocks).map_err(|error| self.program.failed(error))
            };
            blocking(true, &self.stream)?;
            self.program.wait_for_greeting(&mut self.child, &mut self.stream, &mut self.inbox)?;
            blocking(false, &self.stream)?;
            self.greeted = true;
        }
        Ok(self.program.known_llvm().unwrap_or_default())
    }

    /// The descriptor of its events, or `None` when it is ending.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.closed.is_none().then(|| self.stream.as_fd())
    }

    /// The events to wait for: answers, and room for unsent orders.
    pub fn interest(&self) -> PollFlags {
        self.outbox.interest()
    }

    /// Whether it is ending, so [`ForkServer::progress`] must be called without an event.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Orders a build. Returns the number under which its outcome comes. Never waits for the server.
    pub fn build(&mut self, spec: &BuildSpec, target: &Target, limit: Duration) -> std::io::Result<u64> {
        self.last += 1;
        let order = BuildOrder { number: self.last, target: target.clone(), spec: spec.clone(), limit };
        self.outbox.push(&order, &[])?;
        // The next read shows if it is gone.
        let _ = self.outbox.flush(&mut self.stream);
        Ok(self.last)
    }

    /// Reads answers, and writes unsent orders; never waits. An error means that the fork server is gone.
    pub fn progress(&mut self) -> std::io::Result<Vec<FinishedBuild>> {
        if let Some(latest) = self.closed {
            return match self.child.end() {
                None if Instant::now() < latest => Ok(Vec::new()),
                end => Err(self.lost(end.map_or_else(|| "does not answer".into(), |end| end.to_string()))),
            };
        }
        // A reset also ends the stream; it occurs if an order was in transit.
        let flushed = self.outbox.flush(&mut self.stream).is_ok();
        if !self.inbox.receive(&mut self.stream).unwrap_or(false) || !flushed {
            self.closed = Some(Instant::now() + GOING);
        }
        if !self.greeted {
            let Some((greeted, _)) = self.inbox.pop::<Greeted>()? else { return Ok(Vec::new()) };
            self.program.check(greeted).map_err(std::io::Error::other)?;
            self.greeted = true;
        }
        let mut answers = Vec::new();
        while let Some((reply, image)) = self.inbox.pop::<BuildReply>()? {
            let outcome = reply.outcome.map(|outcome| outcome.map(|built| (built, image)));
            answers.push(FinishedBuild { number: reply.number, outcome, assembled: reply.assembled });
        }
        Ok(answers)
    }

    /// The error for a fork server that is gone or hangs.
    pub fn lost(&self, how: String) -> std::io::Error {
        match self.program.known_llvm() {
            Some(llvm) => std::io::Error::other(format!("the fork server of LLVM {llvm} {how}")),
            // No process of the program has ever worked.
            None => std::io::Error::other(self.program.useless(how)),
        }
    }

    /// Kills it and returns its process, which must be waited for.
    pub fn dismiss(mut self) -> Child {
        self.child.terminate();
        self.child
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_builds::protocol::BuilderGreeting;
    use mneme_sandbox::child::{ChildStderr, ProcessEnd};
    use mneme_sandbox::frame;

    /// A fork server that does something else.
    fn planted(life: impl FnOnce(UnixStream) -> i32) -> ForkServer<'static> {
        let program = Box::leak(Box::new(BuildProgram::at("mneme-build-19".into())));
        let greeting = BuilderGreeting::of("19.1.7".into());
        program.check(Ok(greeting)).unwrap();
        let (stream, theirs) = UnixStream::pair().unwrap();
        let child = Child::start(ChildStderr::Shown, || life(theirs)).unwrap();
        ForkServer::of(program, BuildProcess { child, stream }, true).unwrap()
    }

    fn sleep() -> i32 {
        std::thread::sleep(Duration::from_secs(60));
        0
    }

    fn half(stream: &mut UnixStream) {
        let mut frame = Vec::new();
        frame::write(&mut frame, &BuildReply { number: 1, outcome: None, assembled: false }, &[]).unwrap();
        std::io::Write::write_all(stream, &frame[..frame.len() / 2]).unwrap();
    }

    /// Polls until something is `wanted`. Fails if a call waits for the child, which may live for a minute.
    fn ask<T>(
        server: &mut ForkServer<'_>,
        wanted: impl Fn(std::io::Result<Vec<FinishedBuild>>, &ForkServer<'_>) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        loop {
            let called = Instant::now();
            let answers = server.progress();
            assert!(called.elapsed() < Duration::from_secs(30) && start.elapsed() < Duration::from_secs(120));
            if let Some(found) = wanted(answers, server) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn half_an_answer_is_waited_for_by_nobody() {
        let mut server = planted(|mut stream| {
            half(&mut stream);
            sleep()
        });
        ask(&mut server, |answers, server| {
            assert!(answers.unwrap().is_empty());
            (!server.inbox.is_empty()).then_some(())
        });
        assert!(server.fd().is_some(), "it may go on");
    }

    #[test]
    fn one_that_closes_its_stream_is_watched_until_it_is_gone() {
        let mut server = planted(|mut stream| {
            half(&mut stream);
            drop(stream);
            std::thread::sleep(Duration::from_millis(300));
            17
        });
        ask(&mut server, |_, server| server.is_closed().then_some(()));
        assert!(server.fd().is_none());
        let error = ask(&mut server, |answers, _| answers.err());
        assert_eq!(error.to_string(), "the fork server of LLVM 19.1.7 exited with status 17");
    }

    #[test]
    fn one_that_does_not_listen_is_told_later() {
        let mut server = planted(|_| sleep());
        let start = Instant::now();
        // Much more than fits into a socket.
        server.outbox.push(&0, &vec![0; 16 << 20]).unwrap();
        server.progress().unwrap();
        assert!(start.elapsed() < Duration::from_secs(30) && !server.outbox.is_empty());
        assert!(server.interest().contains(PollFlags::POLLOUT));
        assert!(matches!(server.dismiss().wait(Duration::from_secs(20)), Some(ProcessEnd::Signalled(_))));
    }
}
